"""The state of one server's control API, and the search for the sessions that requests name. :mod:`.api` has
the routes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ..testing.chaos import Chaos
from ..testing.controls import Controls
from ..testing.controls.sessions import MOST_PATHS, info_of
from ..testing.faults import Fault
from ..testing.finding import find, live_sessions, unknown
from ..testing.sessions import SessionInfo, UnknownSessionError
from ..testing.snapshots import Snapshot
from . import forms
from .routes import ApiError
from .servers import Servers

if TYPE_CHECKING:
    from ..testing.controls.ensemble import EnsembleControls


class Control:
    """The state of one server's control API.

    :param controls: the controls of the server.
    :param servers: the servers that this server has started; None if this server cannot start servers.
    :ivar faults: the faults that requests have planned, by number.
    :ivar chaos: the chaos objects that requests have started, by number.
    :ivar snapshots: the snapshots of the tree, by number.
    :ivar copying: the estimated bytes of snapshots that are being taken, by number.
    :ivar waiting: the number of requests that wait now.
    :ivar followers: the number of clients that follow the trace now.
    :ivar watchers: the number of clients that follow the figures now.
    """

    def __init__(self, controls: Controls, servers: Servers | None = None) -> None:
        self.controls: Controls = controls
        self.servers = servers
        self.faults: dict[int, Fault] = {}
        self.chaos: dict[int, Chaos] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.copying: dict[int, int] = {}
        self.waiting = 0
        self.followers = 0
        self.watchers = 0
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """Return a new number. No other object of this control API has this number."""
        return next(self._numbers)

    def reset(self) -> None:
        """Reset the server to the state of a fresh one."""
        self.controls.reset()
        self.faults.clear()
        self.chaos.clear()
        self.snapshots.clear()

    def find(self, given: str) -> SessionInfo:
        """Find the live session that a request names, by the rules of :mod:`..testing.finding`.

        :raises UnknownSessionError: there is none.
        """
        running = self.controls.running
        running.receive()
        sessions = running.engine.sessions
        for number in live_sessions(running, given):
            if (session := sessions.get(number)) is not None:
                return info_of(running, session, MOST_PATHS)
        raise unknown(running, given)

    def scope(self, whole: bool) -> Controls | EnsembleControls:
        """Return the controls of the server, or of its whole ensemble.

        :raises ApiError: 409: it is a single server.
        """
        if not whole:
            return self.controls
        if self.controls.ensemble is None:
            raise ApiError(409, "this is a single server; use --ensemble, or POST /servers with ensemble")
        return self.controls.ensemble

    def find_any(self, given: str, whole: bool = False) -> int:
        """Return the id of a session. A session that is given by its name or its id may be over.

        :param whole: whether to search all servers of the ensemble.
        """
        try:
            return find(self.scope(whole).running.each(), given)
        except UnknownSessionError as error:
            raise ValueError(str(error)) from None

    def session_form(self, info: SessionInfo) -> Any:
        return forms.info_form(info, self.controls.running.names[info.id])
