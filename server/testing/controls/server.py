"""The controls of one server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...core.sessions import Session
from ...net.clock import Clock
from ...net.connection import Connection
from ..origin import mark
from .base import control
from .endpoints import EndpointControls
from .faults import FaultControls
from .messages import MessageControls
from .sessions import SessionControls
from .tree import TreeControls
from .waits import WaitControls

if TYPE_CHECKING:
    from .ensemble import EnsembleControls


class Controls(SessionControls, EndpointControls, FaultControls, MessageControls, TreeControls, WaitControls):
    """The controls of a running server.

    :ivar clock: the server's clock.
    """

    @property
    def ensemble(self) -> EnsembleControls | None:
        """The controls of the ensemble to which this server belongs; None for a single server."""
        return None

    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Advance the server's clock, as ``clock.advance`` does.

        When the call returns, everything that was due by then has happened.

        :param keep_alive: whether to treat connected clients as if they had sent their pings on time.
        :raises ValueError: ``seconds`` is negative or longer than 30 years.
        """
        self.clock.advance(seconds, keep_alive=keep_alive)

    # --- where it is -------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address for clients on this machine."""
        return self.running.server.host

    @property
    def port(self) -> int:
        """The configured port, or the port that the kernel has chosen."""
        return self.running.server.address[1]

    @property
    def hosts(self) -> str:
        """The connect string."""
        return self.running.server.hosts

    @property
    def url(self) -> str | None:
        """The URL at which the server answers HTTP: ``http://127.0.0.1:PORT/``.

        It is None with ``http_on_client_port=False``.
        """
        return self.running.server.url

    @property
    def secure_port(self) -> int | None:
        """The port for TLS clients; None unless ``secure_port`` and ``ssl_context`` were given."""
        address = self.running.server.secure_address
        return None if address is None else address[1]

    # --- time --------------------------------------------------------------------------------------------

    @property
    def _time(self) -> tuple[Clock, float]:
        return self.running.clock, self.running.started

    def _next_stop(self, until: float, keep_alive: bool) -> float:
        """Return the time of the next step.

        With ``keep_alive``, a step ends where a timer or the end of another session may change which clients
        are connected. The pings in between need no steps, because only the last ping of a client counts.
        """
        running = self.running
        sessions, service, now = running.engine.sessions, running.service, running.clock.now()
        if not keep_alive:
            return min(max(service.next_deadline(), now), until)
        kept = [session for session in sessions if self._is_heard(session)]
        for session in kept:
            sessions.touch(session, service.at(until))
        stop = min(max(min(service.next_timer(), sessions.next_deadline() / 1000), now), until)
        for session in kept:  # a client that is gone by then sends no later ping
            sessions.touch(session, service.at(stop))
        return stop

    def _do_what_is_due(self, within: float) -> bool:
        running = self.running
        now = running.clock.now()
        running.server.advance(now, within)
        return within == math.inf or running.service.next_deadline() > now

    def _is_heard(self, session: Session) -> bool:
        """Return whether a session has a client that is not paused."""
        client = self.running.engine.client_of(session)
        return isinstance(client, Connection) and not self.running.gate.is_paused(client)

    # --- restart -----------------------------------------------------------------------------------------

    @control
    def restart(self, *, keep_data: bool) -> None:
        """Simulate a restart of the server: close every connection, then accept new connections.

        The restart ends pauses and refusals. Faults and the history stay.

        :param keep_data: True: the tree and the sessions survive, as with a real server that has its data on
            disk, and each session has its whole timeout again. False: the server is empty, and answers
            clients that their sessions have expired.
        """
        self._enter(f"restart, data {'kept' if keep_data else 'lost'}")
        self._abort_all("the server restarts")
        running = self.running
        running.service.refusing = False
        running.gate.resume()
        now = running.clock.now()
        if keep_data:
            for session in running.engine.sessions:
                running.engine.sessions.touch(session, running.service.at(now))
            running.engine.stats.reset()
        else:
            running.replace_engine(now)
        running.clock.wake()

    @control
    def reset(self) -> None:
        """Reset the server to the state of a fresh server on the same port.

        The server then has no znodes, sessions, connections, faults, holds, pauses, names of sessions or
        history. Its time counts from 0 again. Endpoints stay open, but their cuts, pauses and delays end.
        """
        self._abort_all(f"a control resets the server{mark()}")
        self.running.reset()
        self.running.clock.wake()
