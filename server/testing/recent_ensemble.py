"""The latest requests of the clients of a pretend ensemble, by the rules of :mod:`.recent`.

* The allowance counts the entries of all servers together.
* The history of the ensemble and the histories of its servers share the limit of bytes of one server.
* The recording begins with the first connection of a client. Until then no code of the test kit is loaded.
"""

from __future__ import annotations

from typing import Any

from .ensemble_history import EnsembleHistory, MemberRecorder
from .history import Recorder
from .recent import ENTRIES, Allowance, Latest, WithoutPings
from .running_ensemble import RunningEnsemble


class _RecentMember(WithoutPings, MemberRecorder):
    """The latest entries of one server of an ensemble."""

    def __init__(self, history: _RecentHistory, number: int, *arguments: Any) -> None:
        self.allowance = history.allowance
        super().__init__(history, number, *arguments)
        self.sharing = history.sharing

    def keep(self, limit: int) -> None:
        self.sharing = 1
        super().keep(limit)


class _RecentHistory(EnsembleHistory):
    """The latest entries of all servers of an ensemble.

    :param sharing: the number of histories that share the limit of bytes.
    """

    def __init__(self, zxid_base: int, allowance: Allowance, sharing: int) -> None:
        super().__init__(zxid_base)
        super().keep(ENTRIES)
        self.allowance = allowance
        self.sharing = sharing
        self._members: list[_RecentMember] = []

    def recorder(self, number: int, *arguments: Any) -> Recorder:
        self._members.append(member := _RecentMember(self, number, *arguments))
        return member

    def keep(self, limit: int) -> None:
        self.sharing, self.allowance.is_whole = 1, True
        super().keep(limit)

    def append(self, entry: tuple[Any, ...], size: int = 0) -> None:
        super().append(entry, size)
        self.allowance.spend()

    def begin_again(self, entry: tuple[Any, ...]) -> None:
        for member in self._members:
            member.begin_again(entry)
        super().begin_again((self._members[0], 0, entry))


class RecentEnsemble(Latest[RunningEnsemble]):
    """Makes an ensemble record the latest entries as long as their rate is low."""

    def _begin(self) -> EnsembleHistory:
        running = self._running
        history = _RecentHistory(running.history.zxid_base, self._allowance, 1 + len(running.parts))
        running.record_latest(history)
        return history

    def _end(self) -> None:
        self._running.record_nothing()
