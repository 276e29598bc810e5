"""A small synchronous client for tests: every byte under control, arrivals in their exact order.

Nothing here interprets what the server answers more than decoding needs.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import attrs

from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, SET_WATCHES_XID, WATCH_XID
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiOp, MultiResult, decode_results
from pyzk.protocol.operations import OpCode

from ..support.requests import RESPONSES as RESPONSES
from ..support.requests import Requests
from ..support.requests import check_op as check_op
from ..support.requests import children_op as children_op
from ..support.requests import create_op as create_op
from ..support.requests import delete_op as delete_op
from ..support.requests import get_op as get_op
from ..support.requests import set_op as set_op

TIMEOUT = 10.0
"""Seconds to wait for bytes that must come."""


class ClosedError(Exception):
    """The server closed the connection (or reset it)."""


@attrs.frozen
class Reply:
    """An ordinary reply; ``op`` is the op code of the request it answers."""

    xid: int
    zxid: int
    err: int
    body: bytes
    op: int = attrs.field(eq=False)

    @property
    def record(self) -> Any:
        """The decoded body; asking an empty body for one fails."""
        return RESPONSES[self.op].decode(self.body)

    @property
    def results(self) -> list[MultiResult]:
        return decode_results(self.body)


@attrs.frozen
class Event:
    """A watch notification."""

    zxid: int
    type: int
    state: int
    path: str | None


@attrs.frozen
class Handshake:
    """The server's answer to a ConnectRequest.

    :ivar extra: the bytes behind the four fields: the read-only byte, if it was sent.
    """

    protocol_version: int
    timeout: int
    session_id: int
    password: bytes
    extra: bytes


class WireConnection:
    """A TCP connection that knows frames and nothing else."""

    def __init__(self, address: tuple[str, int], timeout: float = TIMEOUT) -> None:
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Lose the connection without a word."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def receive_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                raise ClosedError(f"closed after {bytes(data)!r}")
            data += part
        return bytes(data)

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self.receive_bytes(4))
        return self.receive_bytes(length)

    def receive_rest(self) -> bytes:
        """Everything up to the server's close; fails with a timeout if it does not close."""
        data = bytearray()
        while True:
            try:
                part = self.socket.recv(65536)
            except ConnectionError:
                return bytes(data)
            if not part:
                return bytes(data)
            data += part

    def is_closed(self) -> bool:
        """Whether the server closes without sending anything more. Waits for it."""
        return self.receive_rest() == b""


class WireClient(WireConnection, Requests[Reply]):
    """A session over one connection. A method named after an operation sends it and waits for its reply."""

    def __init__(self, address: tuple[str, int], timeout: float = TIMEOUT) -> None:
        super().__init__(address, timeout)
        self.handshake: Handshake | None = None
        self.events: list[Event] = []
        self._next_xid = 1
        self._pending: deque[tuple[int, int]] = deque()  # (xid, op) of requests without a reply

    @property
    def session_id(self) -> int:
        assert self.handshake is not None
        return self.handshake.session_id

    @property
    def password(self) -> bytes:
        assert self.handshake is not None
        return self.handshake.password

    # --- handshake and the stream of replies ---------------------------------------------------------------

    def connect(
        self,
        *,
        timeout: int = 30_000,
        session_id: int = 0,
        password: bytes | None = bytes(16),
        last_zxid: int = 0,
        protocol_version: int = 0,
        read_only: bool | None = False,
    ) -> Handshake:
        """Open or resume a session. ``read_only=None`` leaves the optional byte out."""
        self.send_connect(
            timeout=timeout,
            session_id=session_id,
            password=password,
            last_zxid=last_zxid,
            protocol_version=protocol_version,
            read_only=read_only,
        )
        return self.receive_handshake()

    def send_connect(
        self,
        *,
        timeout: int = 30_000,
        session_id: int = 0,
        password: bytes | None = bytes(16),
        last_zxid: int = 0,
        protocol_version: int = 0,
        read_only: bool | None = False,
    ) -> None:
        request = r.ConnectRequest(protocol_version, last_zxid, timeout, session_id, password).encode()
        if read_only is not None:
            request += r.ReadOnlyFlag(read_only).encode()
        self.send_frame(request)

    def receive_handshake(self) -> Handshake:
        return self.note_handshake(self.receive_frame())

    def note_handshake(self, payload: bytes) -> Handshake:
        answer, end = r.ConnectResponse.read(payload)
        self.handshake = Handshake(
            answer.protocolVersion, answer.timeOut, answer.sessionId, answer.passwd or b"", payload[end:]
        )
        return self.handshake

    def send(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> int:
        """Send a request without waiting; returns its xid."""
        if xid is None:
            xid, self._next_xid = self._next_xid, self._next_xid + 1
        self.send_together((op, request, xid))
        return xid

    def send_together(self, *requests: tuple[int, Record | bytes, int]) -> None:
        """Send requests, each an op code, a body and an xid, in one piece."""
        data = b""
        for op, request, xid in requests:
            body = request if isinstance(request, bytes) else request.encode()
            payload = r.RequestHeader(xid, op).encode() + body
            data += struct.pack(">i", len(payload)) + payload
            self._pending.append((xid, op))
        self.send_bytes(data)

    def expect(self, xid: int, op: int) -> None:
        """Tell of a request that was sent as raw bytes: its reply will come."""
        self._pending.append((xid, op))

    def receive(self) -> Reply | Event:
        """The next thing that arrives."""
        payload = self.receive_frame()
        header, end = r.ReplyHeader.read(payload)
        body = payload[end:]
        if header.xid == WATCH_XID and not (self._pending and self._pending[0][0] == WATCH_XID):
            assert header.err == 0
            event = r.WatcherEvent.decode(body)
            return Event(header.zxid, event.type, event.state, event.path)
        _, op = self._pending.popleft()
        return Reply(header.xid, header.zxid, header.err, body, op)

    def receive_reply(self) -> Reply:
        """The next reply; events on the way to it are kept in ``events``."""
        while isinstance(arrival := self.receive(), Event):
            self.events.append(arrival)
        return arrival

    def request(self, op: int, request: Record | bytes = b"", xid: int | None = None) -> Reply:
        self.send(op, request, xid)
        return self.receive_reply()

    def take_events(self) -> list[Event]:
        """All events so far, taken. A ping's reply comes behind whatever was queued before it."""
        self.ping()
        events, self.events = self.events, []
        return events

    def wait_event(self) -> Event:
        """The next event, which must come without any request."""
        if self.events:
            return self.events.pop(0)
        arrival = self.receive()
        assert isinstance(arrival, Event), arrival
        return arrival

    # --- the operations ------------------------------------------------------------------------------------

    def multi_read(self, *ops: MultiOp) -> Reply:
        return self.multi(*ops, op=OpCode.MULTI_READ)

    def auth(self, scheme: str | None, auth: bytes | str | None) -> Reply:
        data = auth.encode() if isinstance(auth, str) else auth
        return self.request(OpCode.AUTH, r.AuthPacket(0, scheme, data), xid=AUTH_XID)

    def who_am_i(self) -> set[tuple[str | None, str | None]]:
        reply = self.request(OpCode.WHO_AM_I)
        return {(info.authScheme, info.user) for info in reply.record.clientInfo}

    def set_watches(
        self,
        zxid: int,
        data: Sequence[str] | None = (),
        exist: Sequence[str] | None = (),
        child: Sequence[str] | None = (),
        persistent: Sequence[str] | None = None,
        recursive: Sequence[str] | None = None,
    ) -> Reply:
        """Op 101; op 105 where a list of persistent watches is given."""
        if persistent is None and recursive is None:
            return self.request(
                OpCode.SET_WATCHES, r.SetWatches(zxid, data, exist, child), xid=SET_WATCHES_XID
            )
        request = r.SetWatches2(zxid, data, exist, child, persistent or (), recursive or ())
        return self.request(OpCode.SET_WATCHES2, request, xid=SET_WATCHES_XID)


# --- parts of a multi, and ACLs ----------------------------------------------------------------------------


def acl(perms: int, scheme: str | None, identity: str | None) -> r.ACL:
    return r.ACL(perms, r.Id(scheme, identity))


def digest_id(credentials: str) -> str:
    """The identity that ``user:password`` gets by digest authentication (semantics.md 8.4)."""
    digest = hashlib.sha1(credentials.encode()).digest()
    return f"{credentials.partition(':')[0]}:{base64.b64encode(digest).decode()}"
