"""The history of a pretend ensemble: the entries of all servers, in one order.

Each server has its own recorder, like a single server. This history also keeps the entries of all recorders,
in the order in which they happened. Each entry has the number of its server. An event that happens at all
servers at the same moment is recorded once. An entry about a control of all servers has no number. The
beginning of a session is recorded at the server that first has the session.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from .history import Entry, History, Recorder

_AT_ALL = ("session", "reaper")
"""The kinds of entries that each server makes when it applies the same transaction."""
_MOMENT = 0.02
"""All servers record the same event within this number of seconds, on a running clock."""
_MOST_TOLD = 1000
"""The number of transactions whose time is remembered. Far fewer transactions happen in :data:`_MOMENT`."""


class EnsembleHistory(History):
    """:param zxid_base: where it begins."""

    def __init__(self, zxid_base: int) -> None:
        super().__init__(0)
        self.zxid_base = zxid_base
        self._told: dict[tuple[str, int], float] = {}  # when, by kind and zxid
        self._is_at_all = self._is_done = False

    def recorder(self, number: int, *arguments: Any) -> Recorder:
        """Make the recorder of a server, with the arguments of :class:`.history.Recorder`."""
        return MemberRecorder(self, number, *arguments)

    @contextmanager
    def once(self) -> Iterator[None]:
        """Inside the ``with``, an entry that several servers make is recorded once, for all servers."""
        self._is_at_all, self._is_done = True, False
        try:
            yield
        finally:
            self._is_at_all = False

    def take(self, recorder: MemberRecorder, entry: tuple[Any, ...], size: int) -> None:
        """Keep an entry of a server and pass the entry to listeners, unless the event was already
        recorded."""
        if self._is_at_all:
            if not self._is_done:
                self._is_done = True
                self.append((recorder, 0, entry), size)
        elif entry[0] not in _AT_ALL or not self._is_told(entry):
            self.append((recorder, recorder.number, entry), size)

    def _is_told(self, entry: tuple[Any, ...]) -> bool:
        kind, now, _, _, fields = entry
        key, told = (kind, fields["zxid"]), self._told
        if now - told.get(key, -math.inf) < _MOMENT:
            return True
        told[key] = now
        if len(told) > _MOST_TOLD:
            del told[next(iter(told))]
        return False

    def in_words(self, entry: tuple[Any, ...]) -> Entry:
        recorder: Recorder = entry[0]
        server, recorded = entry[1:]
        return attrs.evolve(recorder.in_words(recorded), server=server)


class MemberRecorder(Recorder):
    """The history of one server of an ensemble."""

    def __init__(self, history: EnsembleHistory, number: int, *arguments: Any) -> None:
        self._history = history
        self.number = number
        super().__init__(*arguments)

    @property
    def is_heard(self) -> bool:
        return super().is_heard or self._history.is_heard

    def append(self, entry: tuple[Any, ...], size: int = 0) -> None:
        self._history.take(self, entry, size)
        super().append(entry, size)
