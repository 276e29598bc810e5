"""The server's side of a session machine, played by hand: no sockets, and only the test moves the clock."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from pyzk.client.auth import Credential
from pyzk.client.machine import SessionMachine
from pyzk.client.registry import Missed, WatchEvent, WatchKind, WatchRegistry
from pyzk.client.request import Request
from pyzk.client.session_data import SessionData
from pyzk.protocol.constants import WATCH_XID, EventType, WatcherType
from pyzk.protocol.framing import FrameBuffer, frame
from pyzk.protocol.jute import Record
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ConnectRequest, ConnectResponse, ReplyHeader, WatcherEvent

SESSION = 0x1234
PASSWORD = b"0123456789abcdef"
START = 1000.0


@attrs.frozen
class Sent:
    """A request as the server reads it."""

    xid: int
    op: int
    body: bytes


class Script:
    """A machine and its peer.

    :ivar now: the time in seconds; move it with :meth:`sleep`.
    """

    def __init__(self, *, timeout: float = 9.0, auth: tuple[Credential, ...] = (), **options: Any) -> None:
        self.now = START
        self.watches = WatchRegistry()
        self.machine = SessionMachine(SessionData(self.watches, timeout, 3.0, auth, **options))
        self._buffer = FrameBuffer(2**24)
        self.zxid = 0

    # --- the server's side -------------------------------------------------------------------------------

    def open(self) -> ConnectRequest:
        """Open a connection; returns what the client introduces itself with."""
        self._buffer = FrameBuffer(2**24)
        self.machine.connection_made(self.now)
        return ConnectRequest.decode(self.frames()[0])

    def welcome(self, timeout: float = 9.0, session: int = SESSION) -> None:
        """Accept the session."""
        self.send(ConnectResponse(0, round(timeout * 1000), session, PASSWORD).encode() + b"\0")

    def expire(self) -> None:
        """Answer the handshake: no such session."""
        self.send(ConnectResponse(0, 0, 0, bytes(16)).encode() + b"\0")

    def connect(self, timeout: float = 9.0) -> None:
        self.open()
        self.welcome(timeout)

    def frames(self) -> list[bytes]:
        """What the client has written since the last time."""
        while data := self.machine.data_to_send(self.now):
            self._buffer.feed(data)
        return self._buffer.take(100_000)

    def requests(self) -> list[Sent]:
        return [Sent(*struct.unpack_from(">ii", payload), payload[8:]) for payload in self.frames()]

    def send(self, *payloads: bytes) -> None:
        before = self.machine.next_deadline()
        nearer = self.machine.receive_data(b"".join(frame(payload) for payload in payloads), self.now)
        assert nearer or self.machine.next_deadline() >= before, "the timer would be late"

    def reply(self, request: Sent | int, body: bytes | Record = b"", *, err: int = 0, zxid: int = 0) -> None:
        xid = request if isinstance(request, int) else request.xid
        payload = body if isinstance(body, bytes) else body.encode()
        self.send(ReplyHeader(xid, zxid, err).encode() + payload)

    def event(self, type: EventType, path: str, zxid: int = -1) -> None:
        self.send(ReplyHeader(WATCH_XID, zxid, 0).encode() + WatcherEvent(type, 3, path).encode())

    def lose(self) -> None:
        self.machine.connection_lost(self.now)

    # --- the client's side -------------------------------------------------------------------------------

    def submit(
        self, opcode: int, *, retry: bool = False, path: str = "/a", body: bytes = b""
    ) -> Request[Any]:
        request: Request[Any] = Request(opcode, body, path, lambda reply: reply[16:], retry=retry)
        self.machine.submit(request, self.now)
        return request

    def write(self) -> Request[Any]:
        return self.submit(OpCode.SET_DATA)

    def read(self) -> Request[Any]:
        return self.submit(OpCode.GET_DATA, retry=True)

    def sleep(self, seconds: float) -> None:
        """Let time pass, waking the machine whenever it wants to be woken."""
        end = self.now + seconds
        while (deadline := self.machine.next_deadline()) <= end:
            assert deadline >= self.now, "a deadline in the past would spin"
            self.now = max(self.now, deadline)
            self.machine.handle_timer(self.now)
            if self.machine.next_deadline() <= self.now:
                break  # only writing, or closing the connection, can move it
        self.now = end


class Recorder:
    """A watcher that remembers."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.events: list[WatchEvent | Missed] = []
        self.error: Exception | None = None

    def __repr__(self) -> str:
        return self.name or "<Recorder>"

    def deliver(self, event: WatchEvent | Missed) -> None:
        self.events.append(event)

    def end(self, error: Exception) -> None:
        self.error = error


def armed(script: Script, path: str, kind: WatchKind) -> Recorder:
    """A watch whose request was answered."""
    watcher = Recorder()
    script.watches.reserve(path, kind)
    script.watches.settle(path, kind, kind, watcher)
    return watcher


def answer_all(script: Script) -> list[int]:
    """Answer everything; returns the op codes."""
    requests = script.requests()
    for request in requests:
        script.reply(request)
    return [request.op for request in requests]


def why(script: Script) -> str:
    """Lose a connection that is over; returns its reason."""
    assert script.machine.should_close
    script.lose()
    return script.machine.why


class Registry(WatchRegistry):
    """Remembers what it asked the server to remove."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[tuple[str, WatcherType]] = []
        self.remove = lambda path, type: self.removed.append((path, type))

    def arm(self, path: str, kind: WatchKind) -> Recorder:
        """A watch whose request was answered."""
        watcher = Recorder(f"{kind.name} {path}")
        self.reserve(path, kind)
        self.settle(path, kind, kind, watcher)
        return watcher
