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
from typing import Protocol

_POOL = 3000  # requests that are made once
_RECEIVE = 1 << 18  # bytes


class Speaker(Protocol):
    """Makes up what a connection says."""

    def conversation(self) -> bytes:
        """All of it, from the first byte."""


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
