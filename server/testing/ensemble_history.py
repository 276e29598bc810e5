"""The history of a pretend ensemble: what its servers have recorded, in one order.

Each server has a recorder of its own, as a single server has. What is recorded there is also kept here, in
the order in which it happened. What happens at all servers in the same moment (a session begins, the test
does something) is shown once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from .history import Entry, Recorder

if TYPE_CHECKING:
    from .advisor.finding import Finding

_AT_ALL = ("session", "reaper")
"""What each server enters when it applies the same transaction."""
_MOMENT = 0.02
"""Seconds in which all servers have entered what happens at once, on a clock that runs."""


class EnsembleHistory:
    """
    :param limit: how many entries are kept; the oldest go first.
    :ivar zxid_base: where it began.
    """

    def __init__(self, limit: int, zxid_base: int) -> None:
        self._entries: deque[tuple[_MemberRecorder, tuple[Any, ...]]] = deque(maxlen=limit)
        self.zxid_base = zxid_base

    def recorder(self, number: int, *arguments: Any) -> Recorder:
        """Make the recorder of a server; the arguments are those of a :class:`.history.Recorder`."""
        return _MemberRecorder(self, number, *arguments)

    def keep(self, recorder: _MemberRecorder, entry: tuple[Any, ...]) -> None:
        self._entries.append((recorder, entry))

    def entries(self) -> Iterator[Entry]:
        """Yield everything that is kept, the oldest first."""
        seen: dict[tuple[str, int], float] = {}
        last, tellers = "", set[_MemberRecorder]()
        for recorder, kept in self._entries:
            entry = recorder.in_words(*kept)
            if entry.kind in _AT_ALL:
                key = entry.kind, entry.zxid
                if entry.time - seen.get(key, -math.inf) < _MOMENT:
                    continue
                seen[key] = entry.time
            if entry.kind == "control":
                if entry.text == last and recorder not in tellers:
                    tellers.add(recorder)
                    continue
                last, tellers = entry.text, {recorder}
            else:
                entry = attrs.evolve(entry, server=recorder.number)
                last = ""
            yield entry

    def advice(self, max_buffer: int) -> list[Finding]:
        """List what clients do wrong, as far as what is kept shows it.

        :param max_buffer: ``jute.maxbuffer`` of the servers, in bytes.
        """
        from .advisor.engine import Advisor

        advisor = Advisor(max_buffer)
        advisor.read(self.entries())
        return advisor.findings()


class _MemberRecorder(Recorder):
    def __init__(self, history: EnsembleHistory, number: int, *arguments: Any) -> None:
        self._history = history
        self.number = number
        super().__init__(*arguments)

    def append(self, entry: tuple[Any, ...]) -> None:
        self._history.keep(self, entry)
        super().append(entry)
