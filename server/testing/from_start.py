"""The history of the command from its start to the first request. To record this part, little code is loaded.

A command that starts must not wait for the test kit, and a server without clients does not need the test kit.
Therefore this gate only notes what the first clients do. At the first request it imports :mod:`.recent`,
which records from then on. The import takes 20 to 40 ms, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...protocol.framing import FrameBuffer
from ...protocol.operations import CLOSE_SESSION, PING
from ...protocol.records import ConnectRequest
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.gate import Gate
from ..net.server import Server

if TYPE_CHECKING:
    from ..ensemble.host import EnsembleHost
    from .running import Running

MOST_NOTES: Final = 200
"""The largest number of notes. Only the last notes are kept, because health checks may connect for days
before the first client connects."""


class FromStart(Gate):
    """Replaces a server's ``controls`` until the parts of the test kit are needed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._zxid = server.service.engine.zxid
        self._noted: deque[tuple[float, str, tuple[Any, ...]]] = deque(maxlen=MOST_NOTES)
        self._running: Running | None = None
        server.controls = server.service.gate = self
        server.service.engine.on_txn = partial(self._note, "transaction")

    def _note(self, what: str, *arguments: Any) -> None:
        """Note a call of a method of :class:`.history.Recorder`, for a later recorder."""
        self._noted.append((self._server.clock.now(), what, arguments))

    def opened(self, connection: Connection) -> None:
        self._note("opened", connection)

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        self._note("spoke", connection)
        return True

    def attached(self, connection: Connection, resumed: bool) -> None:
        self._note("attached", connection, resumed)

    def refused(self, connection: Connection, session_id: int, seen: int = 0) -> None:
        self._note("refused", connection, session_id, seen)

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        self._note("events", connection, events)
        return events

    def closed(self, connection: Connection, reason: str) -> None:
        self._note("closed", connection, reason)
        if not connection.is_foreign:
            connection.input = FrameBuffer(0)  # a note must not keep what the client has sent

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> tuple[int, int, bytes]:
        if self._running is None and op in (PING, CLOSE_SESSION):
            return super().handle(connection, op, frame, now)
        return self.running().gate.handle(connection, op, frame, now)

    def running(self) -> Running:
        """Return the parts of the server. From then on the server records its history, which begins with the
        notes."""
        if self._running is None:
            from .recent import Recent
            from .running import HISTORY_LIMIT, Running

            server = self._server
            server.service.engine.on_txn = None
            self._running = Running(server, server.clock, record=None, history_limit=HISTORY_LIMIT)
            Recent(self._running).replay(self._zxid, self._noted)
            self._noted.clear()
        return self._running


class FromFirstConnection(Gate):
    """The gate of each server of a pretend ensemble until the first connection. Then all servers record the
    latest requests.

    :param begin: a function that begins the recording. The function replaces this gate at each server.
    """

    def __init__(self, host: EnsembleHost, begin: Callable[[], object]) -> None:
        self._begin = begin
        for server in host.servers.values():
            server.service.gate = self

    def opened(self, connection: Connection) -> None:
        self._begin()
        gate = connection.service.gate
        assert gate is not None
        gate.opened(connection)
