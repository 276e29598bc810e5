"""Ensembles of three, pretended and real, and the trouble that they make."""

from __future__ import annotations

import time
from typing import Literal, Protocol

import attrs

from pyzk.server.testing import EmbeddedEnsemble

from ...support.real import Ensemble
from ...support.waiting import wait_until
from .workload import PATIENCE

Pending = Literal["applied", "lost"]

BLOWS: tuple[tuple[bool, Pending], ...] = (
    (False, "lost"),
    (True, "applied"),
    (False, "applied"),
    (True, "lost"),
    (False, "applied"),
)
"""Whether a follower lags behind before a leader dies; and what becomes of the writes that are proposed."""
LAG = 0.01
"""Seconds in which the other servers go on, and then their next leader, while one lags."""
KILLS = 3
"""How many leaders of a real ensemble die."""


class Clients(Protocol):
    """Those who are at work."""

    def come_further(self) -> None:
        """Wait until each has made a step, or they are to stop."""

    @property
    def are_over(self) -> bool:
        """Whether they are to stop: something has failed."""


class Service(Protocol):
    """An ensemble that can be brought into trouble."""

    @property
    def hosts(self) -> str:
        """The connect string."""

    def trouble(self, clients: Clients) -> None:
        """Kill some leaders. All clients come further before and after each."""


@attrs.define
class Pretended:
    """A leader dies with writes under way, which are lost or applied, and the next one leads at once. Time
    stands still: no session ends by it, however slow the machine is."""

    _ensemble: EmbeddedEnsemble

    @property
    def hosts(self) -> str:
        return self._ensemble.hosts

    def trouble(self, clients: Clients) -> None:
        for lags, pending in BLOWS:
            clients.come_further()
            self._blow(clients, lags, pending)
        clients.come_further()

    def _blow(self, clients: Clients, lags: bool, pending: Pending) -> None:
        ensemble = self._ensemble
        leader = ensemble.leader()
        assert leader is not None
        followers = [number for number in ensemble.numbers if number != leader]
        slow = max(followers, key=lambda number: sum(each.connected for each in ensemble.sessions(number)))

        def writes() -> bool:
            return any(map(ensemble.outstanding, ensemble.numbers))

        if lags:
            ensemble.lag(slow)
            time.sleep(LAG)
        ensemble.hold_proposals() if pending == "lost" else ensemble.hold_acks()
        if lags and not writes():  # all wait for a client of the slow server, which does not know
            ensemble.catch_up(slow)
        wait_until(lambda: writes() or clients.are_over, PATIENCE)
        ensemble.run(lambda: (ensemble.kill(leader, pending), ensemble.elect()))  # no client looks in between
        if lags:
            time.sleep(LAG)
            ensemble.catch_up(slow)
        ensemble.start(leader)


@attrs.define
class Real:
    """Servers as Debian's package installs them."""

    _ensemble: Ensemble

    @property
    def hosts(self) -> str:
        return self._ensemble.hosts

    def trouble(self, clients: Clients) -> None:
        for _ in range(KILLS):
            clients.come_further()
            leader = self._ensemble.leader()
            leader.kill()
            clients.come_further()
            leader.start()
            self._ensemble.wait_until_whole()
        clients.come_further()
