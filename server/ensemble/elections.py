"""Who leads next (ensemble.md section 6). It is no consensus: one object sees all servers, and decides.

The rules:

* A server leads that votes, with a weight above 0, and reaches a quorum of servers that look for a leader,
  vote, and have no longer logs. Of those it is one with the longest log, then the one with the highest
  number. So it has all that was ever committed: one server of every quorum has.
* A change of the members that is only proposed counts too in the log of a server: it needs a quorum of each.
* The election takes its time (:class:`.Timing`) from the moment at which there is such a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .log import Proposal

if TYPE_CHECKING:
    from .member import EnsembleView, Member


class Elections:
    """
    :ivar due: when the next leader begins, in ms; None if no server can lead, or one does.
    """

    def __init__(self, ensemble: EnsembleView) -> None:
        self._ensemble = ensemble
        self.due: int | None = None

    def plan(self) -> None:
        """Note when the next leader begins, after any change."""
        if self.candidate() is None:
            self.due = None
        elif self.due is None:
            self.due = self._ensemble.now + self._ensemble.timing.election_ms

    def lookers(self) -> list[Member]:
        """List the servers that look for a leader."""
        return [m for m in self._ensemble.members.values() if m.up and m.leader is None and not m.frozen]

    def candidate(self, unlike: Member | None = None) -> Member | None:
        """Return the server that leads next: of all that can, one with the longest log.

        :param unlike: leads only if no other has as long a log.
        """

        def rank(member: Member) -> tuple[tuple[int, ...], bool, int]:
            return self._end_of_log(member), member is not unlike, member.number

        return max(self.able(self.lookers()), key=rank, default=None)

    def able(self, servers: Iterable[Member]) -> list[Member]:
        """List those of these servers that can lead the others."""
        ends = {member: self._end_of_log(member) for member in servers}
        may_lead = self._ensemble.config.may_lead
        return [one for one in ends if may_lead(one.number) and self._has_quorum(one, ends)]

    def proposed(self, member: Member) -> list[Proposal]:
        """Return what a server's log holds that is not committed. Of an epoch before its last it holds
        nothing: it has dropped that when it joined the last one."""
        return [
            proposal
            for proposal in self._ensemble.log.proposed
            if member.number in proposal.holders and proposal.zxid >> 32 == member.epoch
        ]

    def _has_quorum(self, one: Member, ends: Mapping[Member, tuple[int, ...]]) -> bool:
        ensemble = self._ensemble
        behind = [
            other.number
            for other, end in ends.items()
            if end <= ends[one] and (other is one or self.hear_each_other(one, other))
        ]
        configs = (proposal.config for proposal in self.proposed(one))
        return all(config.has_quorum(behind) for config in (ensemble.config, *configs) if config is not None)

    def hear_each_other(self, one: Member, other: Member) -> bool:
        """Return whether what either server sends arrives at the other."""
        return not (one.is_held_up or other.is_held_up or self._ensemble.links.is_cut(one, other))

    def _end_of_log(self, member: Member) -> tuple[int, ...]:
        """Return what decides who leads: the last epoch of a server, and how long its log is, in entries that
        are committed and entries that are only proposed."""
        return member.epoch, member.logged, len(self.proposed(member))
