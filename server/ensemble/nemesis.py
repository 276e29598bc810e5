"""Random faults of an ensemble. A seed chooses the faults, so each run has the same faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from .member import Member

if TYPE_CHECKING:
    from .ensemble import Ensemble

_KEPT = 10_000
"""The number of last actions that are kept."""


class Nemesis:
    """A source of random faults. From time to time it begins or ends a fault at one of the servers.

    The same seed gives the same faults, if the clock is frozen and the servers get the same requests at the
    same times.

    :param rate: the average number of actions per second of the servers' clock.
    :param mark: the text after the name of each action in the history.
    :ivar next_act: the time of the next action, in ms.
    :ivar done: the last 10,000 to 20,000 actions.
    """

    def __init__(self, ensemble: Ensemble, seed: int, rate: float = 1.0, mark: str = "") -> None:
        if not rate > 0:
            raise ValueError(f"a nemesis needs a rate above 0 per second, not {rate}")
        self._ensemble = ensemble
        self._random = random.Random(seed)
        self._rate = rate
        self._mark = mark
        self.done: list[str] = []
        self._plan()

    def _plan(self) -> None:
        self.next_act = self._ensemble.now + 1 + int(1000 * self._random.expovariate(self._rate))

    def act(self) -> None:
        """Do the next action."""
        self._plan()
        ensemble, chance = self._ensemble, self._random
        member = chance.choice(list(ensemble.members.values()))
        what, act = chance.choice(self._possible(member))
        self.done.append(what)
        if len(self.done) >= 2 * _KEPT:  # a jump of the clock over years makes millions of actions
            del self.done[:_KEPT]
        ensemble.tell(member, f"nemesis: {what}{self._mark}")
        act()

    def _possible(self, member: Member) -> list[tuple[str, Callable[[], object]]]:
        """List the actions that are possible at a server now. An action that ends a fault is in the list
        twice, so it is chosen twice as often."""
        ensemble, number = self._ensemble, member.number
        acts: list[tuple[str, Callable[[], object]]] = []
        if not member.up:
            return [(f"start {number}", lambda: ensemble.start(member))]
        if member.frozen:
            return [(f"thaw {number}", lambda: ensemble.thaw(member))]
        if member.lags:
            acts += [(f"catch up {number}", lambda: ensemble.catch_up([member]))] * 2
        else:
            upto = self._random.choice((None, None, member.engine.zxid + self._random.randint(1, 9)))
            acts.append((f"lag {number}", lambda: ensemble.lag(member, upto)))
            delay = self._random.randint(1, 3000)
            acts.append((f"lag {number} by {delay} ms", lambda: ensemble.lag(member, delay=delay)))
        if ensemble.links.is_apart(member):
            acts += [(f"heal {number}", lambda: ensemble.heal([member]))] * 2
        else:
            acts += [self._isolation([member]), self._isolation([member, self._other_than(member)])]
        acts.append((f"kill {number}", lambda: ensemble.kill(member)))
        acts.append((f"freeze {number}", lambda: ensemble.freeze(member)))
        if member.is_held_up:
            acts += [(f"release up {number}", lambda: ensemble.release_up([member]))] * 2
        elif not member.leads:
            acts.append((f"hold up {number}", lambda: ensemble.hold_up(member)))
        if ensemble.holding is not None:
            acts += [("release acks", ensemble.release_acks)] * 2
        elif member.leads and member.leader is not None and member.leader.number == ensemble.epoch:
            acts.append(("hold proposals", lambda: ensemble.hold("proposals")))
            acts.append(("hold acks", lambda: ensemble.hold("acks")))
            acts.append((f"kill {number}, pending lost", lambda: ensemble.kill(member, "lost")))
            acts.append((f"kill {number}, pending applied", lambda: ensemble.kill(member, "applied")))
            acts.append(("elect", lambda: ensemble.elect() if ensemble.can_elect() else None))
        return acts

    def _other_than(self, member: Member) -> Member:
        others = [each for each in self._ensemble.members.values() if each is not member]
        return self._random.choice(others or [member])

    def _isolation(self, group: list[Member]) -> tuple[str, Callable[[], object]]:
        silent = self._random.random() < 0.5
        numbers = " ".join(str(member.number) for member in group)
        what = f"isolate {numbers}, {'silently' if silent else 'by resets'}"
        return what, lambda: self._ensemble.partition([group], silent)


def heal_all(ensemble: Ensemble) -> None:
    """End all faults. Then all servers run, reach each other and follow a leader. If an election is needed,
    it takes no time."""
    for member in ensemble.members.values():
        if not member.up:
            ensemble.start(member)
        if member.frozen:
            ensemble.thaw(member)
    ensemble.heal(ensemble.members.values())
    ensemble.catch_up(ensemble.members.values())
    ensemble.release_up(ensemble.members.values())
    ensemble.release_acks()
    for leader in ensemble.leaders():
        if leader.number < ensemble.epoch:  # it would notice within a tick
            leader.member.leave("there is a later leader")
    ensemble.settle()
    if ensemble.current_leader() is None and ensemble.can_elect():
        ensemble.elect()
