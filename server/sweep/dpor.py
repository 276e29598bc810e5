"""Finds all orders that differ, by dynamic partial order reduction with sleep sets.

The paper is by Flanagan and Godefroid (POPL 2005).

Two neighbouring steps can change places if their footprints do not touch. Two orders are the same if such
changes turn one order into the other. After each run the explorer searches the run for pairs of steps that
race. A later run tries the later step of a pair before the earlier step. A step that was already tried at a
place sleeps: it is not tried again until a step is made that depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .footprints import dependent
from .model import Step
from .orders import Order


@attrs.define(eq=False)
class _Place:
    """One place in a run where a step was chosen.

    :ivar chosen: the actor that acts here in the present run.
    :ivar wanted: the actors that must be tried here.
    :ivar asleep: the actors that were tried here or at an earlier place, with their steps.
    """

    steps: dict[str, Step]
    chosen: str
    wanted: set[str]
    asleep: dict[str, Step]

    @property
    def step(self) -> Step:
        return self.steps[self.chosen]


class Diverged(Exception):
    """A run differs from an earlier run with the same order, so something other than the order decides."""


class Explorer:
    """Plans the runs, one after the other::

        explorer = Explorer()
        while explorer.more:
            ...  # a run with explorer.order()
            explorer.learn()

    :ivar runs: the number of runs, without the runs that repeated an earlier run.
    :ivar more: whether more runs are planned.
    """

    def __init__(self) -> None:
        self.runs = 0
        self.more = True
        self._places: list[_Place] = []

    def order(self) -> Order:
        self._order = _Planned(self._places)
        return self._order

    def learn(self) -> None:
        """Find the races of the last run, and plan the next run."""
        self.runs += not self._order.redundant
        places = self._places
        del places[self._order.at :]
        self._find_races()
        while places:
            place = places[-1]
            place.asleep[place.chosen] = place.step
            left = sorted(place.wanted - place.asleep.keys())
            if left:
                place.chosen = left[0]
                return
            places.pop()
        self.more = False

    def _find_races(self) -> None:
        steps = [place.step for place in self._places]
        before: list[set[int]] = []  # for each step, the earlier steps that it must come after
        for late, step in enumerate(steps):
            own: set[int] = set()
            before.append(own)
            for early in range(late - 1, -1, -1):
                if early in own:
                    continue
                other = steps[early]
                same = other.process == step.process
                if not same and not dependent(other.footprint, step.footprint):
                    continue
                if not same and early != step.cause:  # it cannot come before its cause
                    self._want(early, late, own, steps)
                own |= before[early]
                own.add(early)

    def _want(self, early: int, late: int, own: set[int], steps: list[Step]) -> None:
        """Plan to try ``late`` before ``early``, or else a step that must come before ``late``."""
        place, actor = self._places[early], steps[late].actor
        if actor in place.steps:
            place.wanted.add(actor)
            return
        leading = [
            steps[k].actor for k in range(early + 1, late) if k in own and steps[k].actor in place.steps
        ]
        place.wanted.update(leading[:1] or place.steps)


class _Planned(Order):
    """The order of one run: first the planned places, then always the first step that does not sleep."""

    def __init__(self, places: list[_Place]) -> None:
        self._places = places
        self.at = 0
        self.redundant = False

    @property
    def wanted(self) -> str | None:
        return self._places[self.at].chosen if self.at < len(self._places) else None

    def pick(self, steps: Mapping[str, Step]) -> str:
        if self.at < len(self._places):
            place = self._places[self.at]
            if place.chosen not in steps:
                raise Diverged(
                    f"{place.chosen} could act here in an earlier run, but now only {', '.join(steps)} can"
                )
        else:
            asleep: dict[str, Step] = {}
            if self._places:
                last = self._places[-1]
                asleep = {
                    actor: step
                    for actor, step in last.asleep.items()
                    if actor != last.chosen
                    and step.process != last.step.process
                    and not dependent(step.footprint, last.step.footprint)
                }
            awake = [actor for actor in steps if actor not in asleep]
            self.redundant = self.redundant or not awake
            chosen = (awake or list(steps))[0]
            place = _Place(dict(steps), chosen, {chosen}, asleep)
            self._places.append(place)
        self.at += 1
        return place.chosen
