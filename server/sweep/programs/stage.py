"""The stage of a run whose clients are programs, with clocks that run in real time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import trio

from ...testing.controls import Controls
from ..servers import Held, Servers
from ..stage import Stage
from .asking import Desk
from .quiet import ByProc, ByTime

_POLL: Final = 0.002  # seconds
_TIMERS: Final = 1.2
"""The seconds in which a client must act after its turn has come. Before a client connects again, it waits up
to 0.14 s (kazoo) or 1 s (Java)."""


class ProgramClients:
    """The clients of a stage whose clients are programs; see :class:`..stage.Clients`."""

    def __init__(self, servers: Servers, desk: Desk, quiet: ByProc | ByTime) -> None:
        self.servers = servers
        self._began = math.inf
        self._desk = desk
        self._quiet = quiet

    async def settle(self) -> None:
        self._began = trio.current_time()
        await self._quiet.settle(self._arrived)
        self._began = math.inf

    @property
    def busy(self) -> float:
        """The seconds for which at least one program has been running without a pause."""
        return max(0.0, trio.current_time() - self._began)

    @property
    def deadline(self) -> float:
        return trio.current_time() + _POLL

    def _arrived(self) -> tuple[int, ...]:
        found = [self._desk.asked]
        for server in self.servers.each:
            stats = server.running.engine.stats
            found += [stats.bytes_received, stats.bytes_sent, len(server.running.service.connections)]
        return tuple(found)


class ProgramStage(Stage):
    """A stage for programs.

    :ivar hurried: whether a client that is cut off loses its session at once. If this is false, the client is
        cut off until its session expires.
    """

    hurried = True
    lag = 0.5
    _waits_since: float | None = None
    _gone = 0

    @property
    def _server(self) -> Controls:
        return self.servers.whole

    def close(self) -> None:
        self._resume()
        super().close()

    def _choices(self) -> dict[str, Any]:
        if self._gone and self._server.running.engine.sessions.get(self._gone) is None:
            self._resume(self._gone)  # the client can connect from now on
            self._gone = 0
        return super()._choices()

    def _resume(self, *session: int) -> None:
        for server in self.servers.each:
            server.running.gate.resume(*session)

    def _make(self, choices: dict[str, Any]) -> None:
        """Make a step when the next client has connected. The next client may sleep before it connects."""
        wanted, now = self._order.wanted, trio.current_time()
        if wanted is not None and wanted not in choices:
            self._waits_since = self._waits_since or now
            if now - self._waits_since < _TIMERS:
                return
        self._waits_since = None
        super()._make(choices)

    def cut_off(self, request: Held) -> None:
        session = request.connection.session
        if not self.hurried or session is None or session.closed:
            self._gone = request.connection.session_id
            super().cut_off(request)
            return
        self._server.running.gate.settle(request.connection)
        self._server.expire(session.id)


def places(servers: Servers, clients: Sequence[str]) -> dict[str, str]:
    """Return where each client waits, in words, as far as the servers know."""
    found = dict.fromkeys(clients, "has no session")
    for server in servers.each:
        for session in server.sessions():
            name = server.running.names[session.id]
            if name in found and session.connected:
                watched = ", ".join(session.watches[:3])
                found[name] = f"watches {watched}" if watched else "has a session, and watches nothing"
    return found
