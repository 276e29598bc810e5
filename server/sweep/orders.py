"""Which of the steps that are possible comes next: the strategies.

All of them are deterministic: the same seed chooses the same.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping

from .footprints import dependent
from .model import Step


class Order(ABC):
    """Chooses. One object serves one run."""

    @abstractmethod
    def pick(self, steps: Mapping[str, Step]) -> str:
        """Return the actor whose step comes next.

        :param steps: the possible steps, by actor, in the order of the actors' names.
        """

    @property
    def wanted(self) -> str | None:
        """The actor that must come next, for whom a run may wait a little; None if any may."""
        return None


class Rounds(Order):
    """Each in turn, by name."""

    def __init__(self) -> None:
        self._last = ""

    def pick(self, steps: Mapping[str, Step]) -> str:
        self._last = next((actor for actor in steps if actor > self._last), next(iter(steps)))
        return self._last


class Random(Order):
    """Any, each time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, steps: Mapping[str, Step]) -> str:
        return self._random.choice(list(steps))


class PCT(Order):
    """The actor with the highest priority, which falls at a few steps chosen by chance (Burckhardt et al.,
    ASPLOS 2010).

    :param length: how many steps a run has, roughly.
    :param depth: one more than the times that a priority falls.
    """

    def __init__(self, seed: int, length: int, depth: int = 3) -> None:
        self._random = random.Random(seed)
        self._priorities: dict[str, float] = {}
        self._falls = {self._random.randrange(max(length, 1)) for _ in range(depth - 1)}
        self._count = 0

    def pick(self, steps: Mapping[str, Step]) -> str:
        for actor in steps:
            self._priorities.setdefault(actor, 1 + self._random.random())
        best = max(steps, key=self._priorities.__getitem__)
        if self._count in self._falls:
            self._priorities[best] = -self._count
            best = max(steps, key=self._priorities.__getitem__)
        self._count += 1
        return best


class POS(Order):
    """Each step has a random priority, and gets another one when it races with the step that was taken
    (Yuan et al., CAV 2018)."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._priorities: dict[str, float] = {}

    def pick(self, steps: Mapping[str, Step]) -> str:
        for actor in steps:
            self._priorities.setdefault(actor, self._random.random())
        best = max(steps, key=self._priorities.__getitem__)
        for actor, step in steps.items():
            if actor == best or dependent(step.footprint, steps[best].footprint):
                self._priorities.pop(actor, None)
        return best


class Replay(Order):
    """Given actors, as far as they are possible; then each in turn.

    :param strict: whether each is waited for.
    :ivar missed: how many of them were not possible when their turn came.
    """

    def __init__(self, actors: Iterable[str], *, strict: bool = False) -> None:
        self._strict = strict
        self._left = deque(actors)
        self._then = Rounds()
        self.missed = 0

    @property
    def wanted(self) -> str | None:
        return self._left[0] if self._strict and self._left else None

    def pick(self, steps: Mapping[str, Step]) -> str:
        while self._left:
            actor = self._left.popleft()
            if actor in steps:
                return actor
            self.missed += 1
        return self._then.pick(steps)
