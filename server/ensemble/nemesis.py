"""Trouble by chance: what a test does to an ensemble, chosen by a seed, and so the same in each run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from .member import Member

if TYPE_CHECKING:
    from .ensemble import Ensemble


class Nemesis:
    """Does something to one of the servers from time to time.

    The same seed does the same, if the servers are asked the same at the same times of a clock that stands
    still.

    :param rate: how often, per second of the servers' clock, on average.
    :ivar next_act: when it does the next thing, in ms.
    :ivar done: what it has done.
    """

    def __init__(self, ensemble: Ensemble, seed: int, rate: float = 1.0) -> None:
        if not rate > 0:
            raise ValueError(f"a nemesis needs a rate above 0 per second, not {rate}")
        self._ensemble = ensemble
        self._random = random.Random(seed)
        self._rate = rate
        self.done: list[str] = []
        self._plan()

    def _plan(self) -> None:
        self.next_act = self._ensemble.now + 1 + int(1000 * self._random.expovariate(self._rate))

    def act(self) -> None:
        """Do the next thing."""
        self._plan()
        ensemble, chance = self._ensemble, self._random
        member = chance.choice(list(ensemble.members.values()))
        what, act = chance.choice(self._possible(member))
        self.done.append(f"{what} {member.number}")
        ensemble.tell(member, f"nemesis: {what}")
        act()

    def _possible(self, member: Member) -> list[tuple[str, Callable[[], object]]]:
        """List what can be done to a server now; what ends a trouble counts twice."""
        ensemble = self._ensemble
        acts: list[tuple[str, Callable[[], object]]] = []
        if not member.up:
            return [("start", lambda: ensemble.start(member))]
        if member.frozen:
            return [("thaw", lambda: ensemble.thaw(member))]
        if member.stands_at is not None:
            acts += [("release", lambda: ensemble.release([member]))] * 2
        else:
            acts.append(("lag", lambda: ensemble.lag(member)))
        if ensemble.links.is_apart(member):
            acts += [("heal", lambda: ensemble.heal([member]))] * 2
        else:
            silent = self._random.random() < 0.5
            acts.append((f"isolate{' silently' * silent}", lambda: ensemble.partition([[member]], silent)))
        acts.append(("kill", lambda: ensemble.kill(member)))
        acts.append(("freeze", lambda: ensemble.freeze(member)))
        if ensemble.holding is not None:
            acts += [("release acks of", ensemble.release_acks)] * 2
        elif member.leader is not None and member.leads and member.leader.number == ensemble.epoch:
            what = self._random.choice(("proposals", "acks"))
            acts.append((f"hold {what} of", lambda: ensemble.hold("acks" if what == "acks" else "proposals")))
            acts.append(("elect instead of", lambda: ensemble.elect() if ensemble.can_elect() else None))
        return acts


def calm(ensemble: Ensemble) -> None:
    """End all trouble: all servers run, reach each other and follow."""
    for member in ensemble.members.values():
        if not member.up:
            ensemble.start(member)
        if member.frozen:
            ensemble.thaw(member)
    ensemble.heal(ensemble.members.values())
    ensemble.release(ensemble.members.values())
    ensemble.release_acks()
