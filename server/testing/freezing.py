"""The lowest layer of the gate: a test freezes whole connections, for one or several reasons.

A frozen connection neither receives nor sends. Pauses, held handshakes, and faults that drop or delay a
reply freeze connections.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.records import ConnectRequest
from ..net.connection import Connection
from ..net.gate import Gate
from ..net.service import Service

EVERYBODY = 0
"""The reason with which a connection is frozen if all connections are paused. If one session is paused, the
reason is the id of the session. If an endpoint is paused, the reason is the name of the endpoint."""


class FreezingGate(Gate):
    """Freezes and thaws connections.

    :param now: the server's clock, in seconds.
    :param settle: sends the waiting output of all connections.
    :param go_on: sends the waiting output, and handles the waiting input of the connections that were frozen.
    :ivar paused: whether all connections are frozen, also new connections.
    :ivar cut_off: the ids of sessions with frozen connections; later connections of these sessions are frozen
        too.
    :ivar ghosts: the ids of live sessions that no client gets back.
    :ivar swapped: the ids of live sessions that no client gets back. A client that tries to resume such a
        session gets a new session.
    :ivar paused_endpoints: the names of endpoints with frozen connections; later connections of these
        endpoints are frozen too.
    :ivar cut_endpoints: the names of endpoints at which no session is served.
    """

    def __init__(
        self,
        service: Service,
        now: Callable[[], float],
        settle: Callable[[], None],
        go_on: Callable[[], None],
    ) -> None:
        self._service = service
        self._now = now
        self._settle = settle
        self._go_on = go_on
        self.paused = False
        self.cut_off: set[int] = set()
        self.ghosts: set[int] = set()
        self.swapped: set[int] = set()
        self.paused_endpoints: set[str] = set()
        self.cut_endpoints: set[str] = set()
        self._frozen: dict[Connection, list[object]] = {}  # why

    @property
    def needed(self) -> object:
        """A value that is true if messages must pass the gate now."""
        endpoints = self.paused_endpoints or self.cut_endpoints
        sessions = self.cut_off or self.ghosts or self.swapped
        return self._frozen or self.paused or sessions or endpoints

    def update(self) -> None:
        """Send messages through the gate if the gate is needed now, and past the gate otherwise."""
        self._service.gate = self if self.needed else None

    def opened(self, connection: Connection) -> None:
        if self.paused:
            self.freeze(connection, EVERYBODY)
        if connection.endpoint in self.paused_endpoints:
            self.freeze(connection, connection.endpoint)
        if connection.endpoint in self.cut_endpoints:
            connection.unwelcome = True

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        session = request.sessionId
        if session in self.cut_off and self._service.engine.sessions.get(session) is not None:
            self.freeze(connection, session)
            return False
        if session in self.ghosts:
            request.passwd = b""  # the server refuses it as it refuses a session that has expired
        if session in self.swapped:
            request.sessionId = 0
        return True

    def closed(self, connection: Connection, reason: str) -> None:
        self._frozen.pop(connection, None)
        self.update()

    def reset(self) -> None:
        """End every pause. All connections must be closed before."""
        self.paused = False
        self.cut_off.clear()
        self.ghosts.clear()
        self.swapped.clear()
        self.paused_endpoints.clear()
        self.cut_endpoints.clear()
        self.update()

    def freeze(self, connection: Connection, why: object) -> None:
        """Freeze a connection until :meth:`thaw` for the same reason."""
        reasons = self._frozen.setdefault(connection, [])
        if not reasons:
            connection.freeze()
        if why not in reasons:
            reasons.append(why)
        self.update()

    def thaw(self, connection: Connection, why: object, now: float) -> None:
        reasons = self._frozen.get(connection, [])
        if why in reasons:
            reasons.remove(why)
            if not reasons:
                del self._frozen[connection]
                connection.thaw(now)
        self.update()

    def pause(self, session: int = EVERYBODY) -> None:
        """Freeze all present and later connections, or the connections of one session."""
        if session:
            self.cut_off.add(session)
        else:
            self.paused = True
        self.update()
        for connection in list(self._service.connections):
            if session in (EVERYBODY, connection.session_id):
                if connection not in self._frozen:
                    self.settle(connection)
                if not connection.close_expected:  # it may turn out to be gone
                    self.freeze(connection, session)

    def resume(self, session: int = EVERYBODY) -> None:
        """End the pause of one session, or every pause except the pauses of endpoints."""
        if session:
            self.cut_off.discard(session)
        else:
            self.paused = False
            self.cut_off.clear()
        now = self._now()
        for connection, reasons in list(self._frozen.items()):
            for why in [why for why in reasons if isinstance(why, int)]:
                if why not in self.cut_off and not (why == EVERYBODY and self.paused):
                    self.thaw(connection, why, now)
        self.update()
        self._go_on()

    def pause_endpoint(self, name: str) -> None:
        """Freeze the present and later connections of an endpoint."""
        self.paused_endpoints.add(name)
        self.update()
        for connection in self._at_endpoint(name):
            if connection not in self._frozen:
                self.settle(connection)
            if not connection.close_expected:
                self.freeze(connection, name)

    def cut_endpoint(self, name: str, reason: str) -> None:
        """Close the present and later connections of an endpoint."""
        self.cut_endpoints.add(name)
        self.update()
        for connection in self._at_endpoint(name):
            connection.abort(reason)

    def resume_endpoint(self, name: str) -> None:
        """End :meth:`pause_endpoint` and :meth:`cut_endpoint`."""
        self.paused_endpoints.discard(name)
        self.cut_endpoints.discard(name)
        now = self._now()
        for connection in self._at_endpoint(name):
            connection.unwelcome = self._service.refusing
            self.thaw(connection, name, now)
        self.update()
        self._go_on()

    def _at_endpoint(self, name: str) -> list[Connection]:
        return [each for each in self._service.connections if each.endpoint == name]

    def is_paused(self, connection: Connection) -> bool:
        return any(isinstance(why, int | str) for why in self._frozen.get(connection, ()))

    def settle(self, connection: Connection) -> None:
        """Send the waiting output of a connection now, so that the client gets the output even if the
        connection is aborted."""
        connection.wake()
        self._settle()
