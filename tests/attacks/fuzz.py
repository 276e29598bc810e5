"""Structured fuzz: conversations that make sense more or less, over many connections at once.

A :class:`Speaker` makes what one connection says; :func:`flood` keeps a number of connections going. They
send pieces of any size, and some of them read nothing.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import ssl
import struct
from collections.abc import Generator
from typing import Any, Protocol

from pyzk.protocol import records as r
from pyzk.protocol.framing import frame
from pyzk.protocol.jute import Record, fields_of
from pyzk.protocol.multi import READ_OPS, TRANSACTION_OPS, MultiOp, encode_multi
from pyzk.protocol.operations import OpCode

from ..support.vocabulary import BUFFERS, ENTRIES, INTS, LONGS, ODD_PATHS, PATHS, SCHEMES, SINGLE

_POOL = 3000  # payloads that are made once, and then sent as they are or with something wrong in them
_RECEIVE = 1 << 18  # bytes


class Speaker(Protocol):
    """Makes up what a connection says."""

    def conversation(self) -> bytes:
        """All of it, from the first byte."""


class Frames:
    """Handshakes and requests."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pool = [self._payload() for _ in range(_POOL)]

    def conversation(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.03:
            return chance.choice(
                (chance.randbytes(chance.randrange(200)), *(self._hello() for _ in range(3)))
            )
        said = [frame(self._hello())]
        for _ in range(chance.randrange(20, 600)):
            payload = chance.choice(self._pool)
            if chance.random() < 0.1:
                payload = self._spoilt(payload)
            said.append(frame(payload))
        if chance.random() < 0.3:
            said.append(chance.randbytes(chance.randrange(40)))
        return b"".join(said)

    def _hello(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.95:
            timeout, session, zxid = chance.choice((400, 2000)), 0, 0
        else:
            timeout, session, zxid = chance.choice(INTS), chance.choice(LONGS), chance.choice(LONGS)
        password = chance.choice((bytes(16), bytes(16), b"", None))
        return r.ConnectRequest(0, zxid, timeout, session, password).encode() + chance.choice(
            (b"\0", b"", b"xx")
        )

    def _payload(self) -> bytes:
        chance = self._chance
        xid = chance.choice(INTS)
        kind = chance.choice([*SINGLE, OpCode.MULTI, OpCode.MULTI, OpCode.MULTI_READ])
        if kind in (OpCode.AUTH, OpCode.SASL) and chance.random() < 0.95:
            kind = OpCode.CREATE  # most of those end the conversation
        if kind in (OpCode.MULTI, OpCode.MULTI_READ):
            usual = TRANSACTION_OPS if kind == OpCode.MULTI else READ_OPS
            table = usual if chance.random() < 0.9 else TRANSACTION_OPS | READ_OPS
            ops = chance.choices(sorted(table), k=chance.randrange(8))
            body = encode_multi(MultiOp(op, self._record(table[op])) for op in ops)
        else:
            cls = SINGLE[kind]
            body = self._record(cls).encode() if cls else b""
        return struct.pack(">ii", xid, kind) + body

    def _record(self, cls: Any) -> Record:
        found: Record = cls(*(self._value(cls, name, kind) for name, kind, _ in fields_of(cls)))
        return found

    def _value(self, cls: Any, name: str, kind: str) -> Any:
        chance = self._chance
        odd = chance.random() < 0.1
        if name == "acl":
            lists = [r.OPEN_ACL, r.OPEN_ACL, chance.choices(ENTRIES, k=chance.randrange(4))]
            return chance.choice([*lists, None] if odd else lists)
        if name == "flags":
            return chance.choice(
                INTS if odd else [4, 5, 6] if cls is r.CreateTTLRequest else [0, 0, 0, 1, 2, 3]
            )
        if name == "version":
            return chance.choice(INTS) if odd else -1
        if name == "ttl":
            return chance.choice(LONGS) if odd else chance.randrange(1, 5000)
        if kind == "vector":
            return None if odd else [self._path() for _ in range(chance.randrange(4))]
        if kind == "ustring":
            return self._path() if "ath" in name else chance.choice(SCHEMES)
        if kind == "buffer" and chance.random() < 0.003:
            return bytes(chance.randrange(20_000))
        choices = {"int": INTS, "long": LONGS, "boolean": [False, True], "buffer": BUFFERS}
        return chance.choice(choices[kind])

    def _path(self) -> str | None:
        return self._chance.choice(PATHS if self._chance.random() < 0.9 else ODD_PATHS)

    def _spoilt(self, data: bytes) -> bytes:
        chance = self._chance
        # a header with something wrong in it ends most conversations: that should be rare
        at = chance.randrange(0 if chance.random() < 0.005 else 8, len(data) + 1)
        how = chance.randrange(4)
        if how == 0:
            return data[:at]
        if how == 1:
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
        if how == 2:
            return data[:at] + chance.randbytes(chance.randrange(1, 6)) + data[at:]
        return data[:at] + struct.pack(">i", chance.choice(INTS)) + data[at + 4 :]


class Requests:
    """HTTP for the admin server."""

    _COMMANDS = (
        *("ruok", "monitor", "mntr", "dump", "connections", "stats", "watches", "watch_summary", "hash"),
        *("watches_by_path", "server_stats", "environment", "configuration", "initial_configuration"),
        *("system_properties", "set_trace_mask?traceMask=7", "set_trace_mask", "is_read_only", "leader"),
        *("shed_connections", "snapshot", "restore", "stat_reset", "connection_stat_reset", "nothing"),
        *("%00", "?x=%ff", ""),
    )
    _METHODS = ("GET", "GET", "GET", "GET", "POST", "HEAD", "TRACE", "PUT", "get", "")
    _HEADERS = (
        *("Authorization: digest nobody:x", "Authorization: digest", "Authorization:", "Accept: */*"),
        *("Expect: 100-continue", "Connection: close", "Content-Type: application/json", "Upgrade: h2c"),
        *("X-Long: " + "x" * 3000, "Cookie: \xff", "Range: bytes=0-", "Content-Length: -1"),
        *("Content-Length: 99999999999999999999", "Transfer-Encoding: chunked", "Host: ", "Origin: null"),
        *(": x", "X: \0"),
    )

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pool = [self._request() for _ in range(_POOL)]

    def conversation(self) -> bytes:
        chance = self._chance
        said = []
        for _ in range(chance.randrange(1, 60)):
            request = chance.choice(self._pool)
            if chance.random() < 0.02:
                at = chance.randrange(len(request))
                request = request[:at] + chance.randbytes(chance.randrange(4)) + request[at + 2 :]
            said.append(request)
        return b"".join(said)

    def _request(self) -> bytes:
        chance = self._chance
        version = (
            "HTTP/1.1" if chance.random() < 0.98 else chance.choice(("HTTP/1.0", "HTTP/2", "", "HTTP/9.9"))
        )
        method = chance.choice(self._METHODS) if chance.random() < 0.2 else chance.choice(("GET", "POST"))
        lines = [f"{method} /commands/{chance.choice(self._COMMANDS)} {version}", "Host: localhost"]
        if chance.random() < 0.05:
            lines += chance.choices(self._HEADERS, k=chance.randrange(1, 4))
        body = b""
        if chance.random() < 0.4:
            body = chance.choice(
                (
                    b'{"percent": 5}',
                    b"{" * 2000,
                    chance.randbytes(chance.randrange(chance.choice((300, 3000, 60_000))) // 3),
                )
            )
            if chance.random() < 0.3:
                lines.append("Transfer-Encoding: chunked")
                pieces = [body[n : n + 1000] for n in range(0, len(body), 1000)]
                body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
            else:
                lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


# --- connections -----------------------------------------------------------------------------------------


class _Plain:
    """What is said goes out as it is."""

    ready = True

    def encode(self, data: bytes) -> bytes:
        return data

    def receive(self, data: bytes) -> bytes:
        """What must be sent in answer to what came."""
        return b""


class _Secured:
    """What is said goes out through TLS; what comes is looked at during the handshake only."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self.ready = False

    def receive(self, data: bytes) -> bytes:
        if not self.ready:
            self._incoming.write(data)
            with contextlib.suppress(ssl.SSLError):
                self._tls.do_handshake()
                self.ready = True
        return self._outgoing.read()

    def encode(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


class _Talk:
    """One connection on its way through its conversation."""

    def __init__(self, address: tuple[str, int], said: bytes, wrap: _Plain | _Secured, reads: bool) -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.setblocking(False)
        self.sent = 0
        self._reads = reads
        self._said = memoryview(said)
        self._wrap = wrap
        self._pending = wrap.receive(b"")
        self._ended = False

    def step(self, chance: random.Random) -> bool:
        """Send a piece and read what came; False once it is over."""
        try:
            if not self._pending and self._wrap.ready and not self._ended:
                self._next_piece(chance)
            if self._pending:
                with contextlib.suppress(BlockingIOError):
                    self._pending = self._pending[self.sock.send(self._pending) :]
                    if self._pending and not self._reads:
                        return False
            if self._reads or self._ended or not self._wrap.ready:
                with contextlib.suppress(BlockingIOError):
                    data = self.sock.recv(_RECEIVE)
                    self._pending += self._wrap.receive(data)
                    return bool(data)
        except OSError:
            return False
        return True

    def _next_piece(self, chance: random.Random) -> None:
        size = chance.choice((1, 7, 100, 1000, 10_000, 60_000))
        piece, self._said = bytes(self._said[:size]), self._said[size:]
        if piece:
            self.sent += len(piece)
            self._pending = self._wrap.encode(piece)
            if chance.random() < 0.0002:  # on TLS: no record any more
                self._pending = self._pending[:-1] + b"\0"
        else:  # the server closes when it has dealt with all that was said
            self._ended = True
            self.sock.shutdown(socket.SHUT_WR)


def flood(
    address: tuple[str, int],
    speaker: Speaker,
    chance: random.Random,
    context: ssl.SSLContext | None = None,
    connections: int = 8,
) -> Generator[int, None, None]:
    """Keep connections going; after each step tells how many bytes have been said in all."""
    said = 0
    talks: list[_Talk] = []
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(talks) < connections:
                    wrap = _Plain() if context is None else _Secured(context)
                    talk = _Talk(address, speaker.conversation(), wrap, chance.random() < 0.95)
                    selector.register(talk.sock, selectors.EVENT_READ)
                    talks.append(talk)
                before = said
                for talk in list(talks):
                    said -= talk.sent
                    goes_on = talk.step(chance) and chance.random() > 0.0003
                    said += talk.sent
                    if not goes_on:
                        talks.remove(talk)
                        selector.unregister(talk.sock)
                        if chance.random() < 0.5:  # with RST, or after all that was sent
                            talk.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        talk.sock.close()
                if said == before:
                    selector.select(0.002)
                yield said
        finally:
            for talk in talks:
                talk.sock.close()
