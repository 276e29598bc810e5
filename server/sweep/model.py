"""The parts of a sweep: steps, cells, and the outcome of one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import attrs

from .footprints import NOTHING, Footprint

Verdict: TypeAlias = Literal["ok", "wrong", "error", "hang", "leak"]
LETTERS: Final[Mapping[Verdict, str]] = {"ok": ".", "wrong": "W", "error": "E", "hang": "H", "leak": "L"}

_NUMBERS: Final = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|\d+")

EVENT: Final = "^"
REPLY: Final = "="
POINT: Final = "."


class NotControlled(Exception):
    """Something other than the sweep decides what happens, so the sweep cannot say whether the scenario is
    correct."""


class Endless(Exception):
    """A run makes more and more steps, and does not end."""


@attrs.frozen
class Step:
    """One thing that happens to one client: a request, a reply, a watch event, or a point of the scenario.

    :ivar actor: the client's name, for a step that is the next request of the client. A suffix gives the kind
        of the step: ``^`` is a watch event for the client, ``=`` is a reply that is a step of its own, and
        ``.`` is a point of the scenario.
    :ivar text: the step in words, with the reply.
    :ivar footprint: the things that the step reads and writes.
    :ivar cause: the index of the step after which this step became possible; -1 if it was possible from the
        start.
    """

    actor: str
    text: str
    footprint: Footprint = attrs.field(eq=False, default=NOTHING)
    cause: int = attrs.field(eq=False, default=-1)

    @property
    def client(self) -> str:
        return client_of(self.actor)

    @property
    def process(self) -> str:
        """The name of the sequence to which this step belongs.

        The requests and points of a client are one sequence. The watch events for the client are another,
        and the replies to the client are a third.
        """
        return self.actor.rstrip(POINT)


@attrs.frozen
class Request:
    """A request at which a fault can happen.

    :ivar number: the number of the request among the requests of its client, from 1.
    :ivar words: the operation, and the path without numbers.
    """

    client: str
    number: int
    text: str
    words: tuple[str, str]
    writes: bool


@attrs.frozen
class Cell:
    """One fault at one request."""

    client: str
    number: int
    fault: str

    def __str__(self) -> str:
        return f"{self.client}{self.number}-{self.fault}"


@attrs.define
class Outcome:
    """The outcome of one run.

    :ivar detail: the first line of the error.
    :ivar steps: the steps that were made, in order.
    :ivar enabled: for each step, all the steps that were possible at that time.
    :ivar requests: all requests, numbered.
    :ivar fired: whether the fault of the cell has happened.
    :ivar waiting: where each client waited at the end, if the run hangs.
    :ivar written: the end of the output of a program that failed.
    :ivar left: the persistent znodes at the end.
    """

    verdict: Verdict = "ok"
    detail: str = ""
    steps: list[Step] = attrs.Factory(list)
    enabled: list[Sequence[Step]] = attrs.Factory(list)
    requests: list[Request] = attrs.Factory(list)
    fired: bool = False
    waiting: dict[str, str] = attrs.Factory(dict)
    written: str = ""
    left: Sequence[str] = ()

    @property
    def is_bad(self) -> bool:
        return self.verdict != "ok"

    @property
    def actors(self) -> list[str]:
        return [step.actor for step in self.steps]

    def fails_like(self, other: Outcome) -> bool:
        """Return whether two runs have the same verdict and details. Numbers in the details may differ."""
        mine, its = without_numbers(self.detail), without_numbers(other.detail)
        return (self.verdict, mine) == (other.verdict, its)

    def judge(self, verdict: Verdict, detail: str) -> None:
        """Note a failure. The first failure counts."""
        if self.verdict == "ok":
            self.verdict, self.detail = verdict, detail


def client_of(actor: str) -> str:
    """Return the name of the client to which the steps of an actor belong."""
    return actor.rstrip(EVENT + REPLY + POINT)


def switches(actors: Sequence[str]) -> int:
    """Count how often a step belongs to another client than the step before."""
    clients = [client_of(actor) for actor in actors]
    return sum(one != other for one, other in pairwise(clients))


def without_numbers(text: str) -> str:
    """Replace text that may differ between two runs that fail in the same way: numbers, ids and UUIDs."""
    return _NUMBERS.sub("#", text)
