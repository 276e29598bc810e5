"""Advice about a history. At each call the advisor reads only the entries since the last call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from .history import History

if TYPE_CHECKING:
    from .advisor.engine import Advisor
    from .advisor.finding import Finding

_STEP: Final = 50
"""The number of entries that the advisor reads in one step. A step takes about 2 ms."""


class Advised(ABC):
    """The history of one server or of an ensemble, with its advisor. The advisor is imported at its first
    use."""

    def __init__(self) -> None:
        self._advisor: Advisor | None = None
        self._advised = 0  # entries that it has read

    @property
    @abstractmethod
    def told(self) -> History | None:
        """The history; None if no history is recorded."""

    @property
    @abstractmethod
    def max_buffer(self) -> int:
        """``jute.maxbuffer``, in bytes."""

    def advice(self) -> list[Finding]:
        """List what clients do wrong. :meth:`.HistoryControls.advice` has the details."""
        for _ in self.advising():
            pass
        return self.findings()

    def advising(self) -> Iterator[None]:
        """Let the advisor read the new entries in steps."""
        history = self.told
        if history is None:
            return
        if self._advisor is None:
            from .advisor.engine import Advisor

            self._advisor = Advisor(self.max_buffer)
        advisor, end = self._advisor, history.count
        at = max(self._advised, history.dropped)
        waiting = history.entries(at)  # listed once, at the first step
        while at < end and self._advisor is advisor:  # unless it is cleared meanwhile
            entries = list(islice(waiting, min(_STEP, end - at)))
            if at + len(entries) > self._advised:  # unless another question has had them read
                advisor.read(entries[max(0, self._advised - at) :])
                self._advised = at + len(entries)
            at += len(entries)
            yield

    def findings(self) -> list[Finding]:
        """List what the advisor has found so far."""
        return [] if self._advisor is None else self._advisor.findings()

    def renumber(self, gone: int) -> None:
        """Adjust the advisor's position after the numbers of the history's entries have changed.

        :param gone: the number of entries that are not counted any longer.
        """
        self._advised = max(0, self._advised - gone)

    def forget_advice(self) -> None:
        """Begin again with an empty history."""
        self._advisor, self._advised = None, 0
