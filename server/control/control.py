"""The state of one server's control API, and the look-up of names in requests. :mod:`.api` has the routes."""

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
    """The state of one server's control API, beside the server.

    :param controls: the controls of the server.
    :param servers: the servers that were started from here, if it may start some.
    :ivar faults: planned by requests, by number.
    :ivar faults: the faults from requests, by number.
    :ivar snapshots: the snapshots of the tree, by number.
    :ivar copying: the estimated bytes of snapshots that are being taken, by number.
    :ivar waiting: how many requests wait now.
    :ivar followers: how many clients follow the trace now.
    :ivar watchers: how many clients follow the figures now.
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
        """A number that no other thing of this server has."""
        return next(self._numbers)

    def reset(self) -> None:
        """Make the server like a fresh one."""
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
        """Return the controls of the server's ensemble.

        :raises ApiError: 409: it is a single server.
        """
        if not whole:
            return self.controls
        if self.controls.ensemble is None:
            raise ApiError(409, "this is a single server; use --ensemble, or POST /servers with ensemble")
        return self.controls.ensemble

    def find_any(self, given: str, whole: bool = False) -> int:
        """Return the id of a session, which may be over if it is given by its name or id.

        :param whole: whether it may be known to another server of the ensemble alone.
        :param whole: whether a session that only another server of the ensemble knows counts.
        """
        try:
            return find(self.scope(whole).running.each(), given)
        except UnknownSessionError as error:
            raise ValueError(str(error)) from None

    def session_form(self, info: SessionInfo) -> Any:
        return forms.info_form(info, self.controls.running.names[info.id])
