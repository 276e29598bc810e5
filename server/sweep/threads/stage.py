"""A stage that knows clients by their sessions, and whose server's clock moves only when nobody can act."""

from __future__ import annotations

from collections.abc import Callable

from ...net.connection import Connection
from ...testing.host import LocalServer
from ...testing.observers import Observer
from ..model import Cell, Outcome
from ..orders import Order
from ..stage import Stage
from .virtual import VirtualTime


class ThreadStage(Stage):
    """
    :param time: that of the clients. A session that a fault ends does so at its timeout in this time, when
        its client knows that it is cut off.
    :param call: calls a function in the server's thread.
    """

    def __init__(
        self,
        server: LocalServer,
        order: Order,
        cell: Cell | None,
        outcome: Outcome,
        time: VirtualTime,
        call: Callable[[Callable[[], bool]], bool],
    ) -> None:
        self._names_seen = _Names()
        super().__init__(server, self._names_seen.connections, order, cell, outcome)
        self._time = time
        self._call = call
        server.running.observe(self._names_seen)

    def expect(self, name: str) -> None:
        """Give a name to the next new session."""
        self._names_seen.expected.append(name)

    def cut_off(self, connection: Connection) -> None:
        session = connection.session
        self.cut(connection, "the client is cut off")
        if session is not None and not session.closed:
            self.server.pause(session.id)
            self._doom(session.id, session.timeout)

    def ghost(self, connection: Connection) -> None:
        super().ghost(connection)
        session = connection.session
        if session is not None and not session.closed:
            self._names_seen.lost(session.id)
            self._doom(session.id, session.timeout)

    def _doom(self, session: int, timeout: int) -> None:
        """Have a session expire at its timeout, in ms."""

        def expire() -> bool:
            if self.server.running.engine.sessions.get(session) is None:
                return False
            self._names_seen.lost(session)
            self.server.expire(session)
            self.server.running.gate.resume(session)
            return True

        self._time.call_at(self._time.now + timeout / 1000, lambda: self._call(expire))


class _Names(Observer):
    """The names of clients, by connection and by session. A client's new session has the name of its old one.

    :ivar expected: of clients that are about to connect.
    """

    def __init__(self) -> None:
        self.connections: dict[Connection, str] = {}
        self.expected: list[str] = []
        self._sessions: dict[int, str] = {}
        self._without: list[str] = []

    def lost(self, session: int) -> None:
        """Note that a client must have a new session."""
        name = self._sessions.get(session)
        if name is not None and name not in self._without:
            self._without.append(name)

    def attached(self, connection: Connection, resumed: bool) -> None:
        session = connection.session_id
        if session not in self._sessions:
            waiting = self.expected or self._without
            self._sessions[session] = waiting.pop(0) if waiting else f"other{len(self._sessions)}"
        self.connections[connection] = self._sessions[session]
