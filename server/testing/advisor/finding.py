"""The base class of rules, and their findings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from .table import Table

if TYPE_CHECKING:
    from ..history import Entry
    from .world import Client, Exchange, World

_MOST_FINDINGS: Final = 100
"""The largest number of findings of one rule. More findings of one kind help nobody."""
_MOST_NAMED: Final = 10
"""The largest number of sessions that a finding names, and the largest number of paths."""


@attrs.frozen(kw_only=True)
class Finding:
    """What a rule has found.

    :ivar rule: the name of the rule.
    :ivar explanation: what is wrong, in plain words.
    :ivar evidence: what was seen, in words.
    :ivar remedy: what to do instead.
    :ivar sessions: the ids of the sessions concerned, at most 10.
    :ivar paths: the paths of the znodes concerned, at most 10.
    :ivar count: how often the fault was seen; ``evidence`` says what is counted.
    :ivar first: the time at which the fault was first seen, in seconds on the server's clock since its start.
    :ivar last: the time at which the fault was last seen, in seconds on the server's clock since its start.
    """

    rule: str
    explanation: str
    evidence: str
    remedy: str
    sessions: Sequence[int]
    paths: Sequence[str]
    count: int
    first: float
    last: float

    def __str__(self) -> str:
        return f"{self.rule}: {self.evidence}. {self.explanation} {self.remedy}"


@attrs.define
class _Case:
    """A finding that is not complete yet."""

    first: float = 0.0
    last: float = 0.0
    count: int = 0
    evidence: str = ""
    sessions: dict[int, None] = attrs.field(factory=dict)
    paths: dict[str, None] = attrs.field(factory=dict)


class Rule:
    """One rule. A subclass overrides the methods that it needs.

    A rule gets each exchange, each event and each end of a session before the world does.

    :cvar name: the name of the rule in findings and in the documentation.
    :cvar threshold: how often a fault must be seen before the rule reports the fault.
    :cvar explanation: what is wrong, in words for a reader who has never heard of the fault.
    :cvar remedy: what to do instead.
    """

    name: ClassVar[str]
    threshold: ClassVar[str]
    explanation: ClassVar[str]
    remedy: ClassVar[str]

    def __init__(self, world: World) -> None:
        self.world = world
        self._cases: Table[Hashable, _Case] = Table(_Case, _MOST_FINDINGS)

    def exchange(self, client: Client, exchange: Exchange) -> None:
        """Take note that a request was answered, or that its connection has ended before the reply."""

    def event(self, client: Client, entry: Entry) -> None:
        """Take note that a watch event was sent."""

    def ended(self, client: Client, entry: Entry, expired: bool) -> None:
        """Take note that a session is over."""

    def report(
        self,
        subject: Hashable,
        evidence: str,
        *,
        time: float,
        sessions: Iterable[int] = (),
        paths: Iterable[str] = (),
        count: int | None = None,
    ) -> None:
        """Add to the finding about this subject, or begin one if there is none.

        :param evidence: the evidence in words; ``{count}`` stands for the number of times.
        :param count: the number of times in all; None adds 1 to the number.
        """
        case = self._cases[subject]
        if not case.count:
            case.first = time
        case.last, case.evidence = time, evidence
        case.count = case.count + 1 if count is None else max(count, case.count)
        for named, more in ((case.sessions, sessions), (case.paths, paths)):
            for each in more:
                if len(named) < _MOST_NAMED:
                    named[each] = None  # type: ignore[index]

    def findings(self) -> Iterator[Finding]:
        """Yield the findings so far, the oldest first."""
        for case in self._cases.values():
            yield Finding(
                rule=self.name,
                explanation=self.explanation,
                evidence=case.evidence.replace("{count}", f"{case.count:,}"),
                remedy=self.remedy,
                sessions=tuple(case.sessions),
                paths=tuple(case.paths),
                count=case.count,
                first=case.first,
                last=case.last,
            )
