"""The client of the tests: every byte under control, arrivals in their exact order.

:class:`Wire` knows what a client says and what the server's bytes mean, and does no I/O. The bytes go:

* :class:`WireClient`: by a blocking socket
* :class:`StreamClient`: by a trio stream, in memory or over TCP
* :class:`~tests.support.world.Peer`: by calls of the server's end of the connection

A request is encoded by :mod:`benchmarks.wire`, whose own client counts replies and does not decode them.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Iterable
from typing import Any, Self, TypeVar

import attrs
import trio

from benchmarks.wire import hello, request
from pyzk.protocol import records as r
from pyzk.protocol.constants import WATCH_XID, KeeperState
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.jute import Record
from pyzk.protocol.multi import MultiResult, decode_results

from .requests import RESPONSES, Requests
from .waiting import PATIENCE

Answer = TypeVar("Answer")


class ClosedError(Exception):
    """The server closed the connection (or reset it)."""


@attrs.frozen
class Handshake:
    """The server's answer to a ConnectRequest.

    :ivar timeout: of the session, in ms.
    :ivar extra: the bytes behind the four fields: the read-only byte, if it was sent.
    """

    protocol_version: int
    timeout: int
    session_id: int
    password: bytes
    extra: bytes


@attrs.frozen
class Reply:
    """An ordinary reply.

    :ivar op: the op code of the request it answers.
    """

    xid: int
    zxid: int
    err: int
    body: bytes
    op: int = attrs.field(eq=False)

    @property
    def record(self) -> Any:
        """The decoded body, which must be nothing but the record of the operation."""
        record, end = RESPONSES[self.op].read(self.body)
        assert end == len(self.body)
        return record

    @property
    def results(self) -> list[MultiResult]:
        """What a multi or a multiRead came to."""
        return decode_results(self.body)

    @property
    def identities(self) -> list[tuple[str | None, str | None]]:
        """What a whoAmI came to: scheme and user."""
        return [(info.authScheme, info.user) for info in self.record.clientInfo]


@attrs.frozen
class Event:
    """A watch event."""

    zxid: int
    type: int
    path: str | None
    state: int = KeeperState.SYNC_CONNECTED


def kinds(events: Iterable[Event]) -> list[tuple[int, str | None]]:
    """The types and paths of events."""
    return [(event.type, event.path) for event in events]


class Wire(Requests[Answer]):
    """The client's end of one connection, without I/O.

    :ivar handshake: the server's answer to the ConnectRequest.
    """

    def __init__(self) -> None:
        self.handshake: Handshake | None = None
        self._incoming = FrameBuffer(2**31 - 1)
        self._pending: deque[tuple[int, int]] = deque()  # (xid, op) of requests without a reply
        self._xids = itertools.count(1)

    @property
    def session_id(self) -> int:
        assert self.handshake is not None
        return self.handshake.session_id

    @property
    def password(self) -> bytes:
        assert self.handshake is not None
        return self.handshake.password

    # --- bytes to send -------------------------------------------------------------------------------------

    def encode(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> bytes:
        """The frame of a request whose reply will be expected."""
        xid = next(self._xids) if xid is None else xid
        self.expect(xid, op)
        return request(op, body, xid)

    def expect(self, xid: int, op: int) -> None:
        """Tell of a request that is sent in another way: its reply will come."""
        self._pending.append((xid, op))

    # --- bytes that came -----------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        self._incoming.feed(data)

    def take_frame(self) -> bytes | None:
        """The payload of the next frame; None if it has not come yet."""
        payloads = self._incoming.take(1)
        return payloads[0] if payloads else None

    def decode(self, payload: bytes) -> Handshake | Reply | Event:
        """What a frame means. The first is the handshake."""
        if self.handshake is None:
            return self.note_handshake(payload)
        header, end = r.ReplyHeader.read(payload)
        if header.xid == WATCH_XID and not (self._pending and self._pending[0][0] == WATCH_XID):
            assert header.err == 0
            event = r.WatcherEvent.decode(payload, end)
            return Event(header.zxid, event.type, event.path, event.state)
        _, op = self._pending.popleft()
        return Reply(header.xid, header.zxid, header.err, payload[end:], op)

    def note_handshake(self, payload: bytes) -> Handshake:
        answer, end = r.ConnectResponse.read(payload)
        self.handshake = Handshake(
            answer.protocolVersion, answer.timeOut, answer.sessionId, answer.passwd or b"", payload[end:]
        )
        return self.handshake


class WireClient(Wire[Reply]):
    """A session over a blocking socket. A method named after an operation sends it and waits for its reply.

    :ivar events: the events that came before a reply, until :meth:`take_events`.
    """

    def __init__(self, address: tuple[str, int], timeout: float = PATIENCE) -> None:
        super().__init__()
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Lose the connection without a word."""
        self.socket.close()

    # --- bytes ---------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(frame(payload))

    def receive_bytes(self, size: int) -> bytes:
        """Exactly so many bytes: what comes behind them is left in the socket."""
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

    # --- handshake, requests, replies, events --------------------------------------------------------------

    def connect(self, **handshake: Any) -> Handshake:
        """Open or resume a session; the keywords of :meth:`send_connect`."""
        self.send_connect(**handshake)
        return self.receive_handshake()

    def send_connect(self, *, timeout: int = 30_000, **handshake: Any) -> None:
        """Ask for a session; the keywords of :func:`benchmarks.wire.hello`."""
        self.send_bytes(hello(timeout, **handshake))

    def receive_handshake(self) -> Handshake:
        return self.note_handshake(self.receive_frame())

    def send(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> int:
        """Send a request without waiting; gives back its xid."""
        self.send_bytes(self.encode(op, body, xid))
        return self._pending[-1][0]

    def send_together(self, *requests: tuple[int, Record | bytes, int]) -> None:
        """Send requests, each an op code, a body and an xid, in one piece."""
        self.send_bytes(b"".join(self.encode(*request) for request in requests))

    def receive(self) -> Reply | Event:
        """The next thing that arrives."""
        arrival = self.decode(self.receive_frame())
        assert not isinstance(arrival, Handshake)
        return arrival

    def receive_reply(self) -> Reply:
        """The next reply; events on the way to it are kept in ``events``."""
        while isinstance(arrival := self.receive(), Event):
            self.events.append(arrival)
        return arrival

    def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> Reply:
        self.send(op, body, xid)
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


class StreamClient(Wire[Awaitable[Reply]]):
    """A session over a trio stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__()
        self.stream = stream

    async def connect(self, *, timeout: int = 10_000, **handshake: Any) -> Self:
        """Open or resume a session; the keywords of :func:`benchmarks.wire.hello`."""
        await self.stream.send_all(hello(timeout, **handshake))
        await self.next()
        return self

    async def send(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> None:
        """Send a request without waiting."""
        await self.stream.send_all(self.encode(op, body, xid))

    async def next_frame(self) -> bytes:
        """
        :raises ClosedError: the server has closed the connection.
        """
        while (payload := self.take_frame()) is None:
            data = await self.stream.receive_some()
            if not data:
                raise ClosedError
            self.receive_data(bytes(data))
        return payload

    async def next(self) -> Any:
        """The next thing that arrives: a :class:`Handshake`, :class:`Reply` or :class:`Event`."""
        return self.decode(await self.next_frame())

    async def request(self, op: int, body: Record | bytes = b"", xid: int | None = None) -> Reply:
        """Send one request and wait for its reply. Events that come before it are lost."""
        await self.send(op, body, xid)
        while not isinstance(reply := await self.next(), Reply):
            pass
        return reply

    async def is_silent(self) -> bool:
        """Whether nothing comes until all tasks wait: as far as the server can say without being moved.

        :raises ClosedError: the server has closed the connection.
        """
        came: list[ClosedError | None] = []

        async def receive() -> None:
            try:
                await self.next_frame()
            except ClosedError as error:
                came.append(error)
            else:
                came.append(None)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked(0.001)
            nursery.cancel_scope.cancel()
        for error in came:
            if error is not None:
                raise error
        return not came
