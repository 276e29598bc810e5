"""The strategies that choose the next step from the possible steps.

Each strategy is deterministic: with the same seed it chooses the same steps.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping

from .footprints import dependent
from .model import Step


class Order(ABC):
    """A strategy that chooses the next step. One object serves one run."""

    @abstractmethod
    def pick(self, steps: Mapping[str, Step]) -> str:
        """Return the actor whose step comes next.

        :param steps: the possible steps, by actor, in the order of the actors' names.
        """

    @property
    def wanted(self) -> str | None:
        """The actor that must act next; None if every actor is allowed to act. The run can wait a short time
        for this actor."""
        return None


class Rounds(Order):
    """Chooses each actor in turn, in the order of the names."""

    def __init__(self) -> None:
        self._last = ""

    def pick(self, steps: Mapping[str, Step]) -> str:
        self._last = next((actor for actor in steps if actor > self._last), next(iter(steps)))
        return self._last


class Random(Order):
    """Chooses a random actor for each step."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, steps: Mapping[str, Step]) -> str:
        return self._random.choice(list(steps))


class PCT(Order):
    """Chooses the actor with the highest priority (Burckhardt et al., ASPLOS 2010).

    At a few random steps, the actor with the highest priority gets the lowest priority.

    :param length: roughly how many steps a run has.
    :param depth: the number of times that a priority becomes the lowest, plus 1.
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
    """Chooses the step with the highest random priority (Yuan et al., CAV 2018).

    A possible step gets a new priority when it races with the step that was just chosen.
    """

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
    """Chooses the given actors, and skips a given actor that cannot act. After the given actors, chooses each
    actor in turn.

    :param strict: whether the run waits for each given actor.
    :ivar missed: how many of the given actors could not act when their turn came.
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
