"""The choice of the next leader (ensemble.md section 6). There is no consensus: one object sees all servers
and decides.

The rules:

* A candidate is a server that votes with a weight above 0 and reaches a quorum. The servers of this quorum
  vote, and look for a leader. None of them has a longer log than the candidate. The candidate with the
  longest log wins. If several logs have this length, the candidate with the highest number wins. So the
  leader has all committed entries, because every quorum has a server with each committed entry.
* If the log of a server has a proposed change of the members, this server needs a quorum of the old members
  and a quorum of the new members.
* The time of the election (:class:`.Timing`) begins when there is such a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .log import Proposal

if TYPE_CHECKING:
    from .member import EnsembleView, Member


class Elections:
    """The election of an ensemble.

    :ivar due: the time in ms at which the next leader begins; None if no server can lead, or if a server
        leads already.
    """

    def __init__(self, ensemble: EnsembleView) -> None:
        self._ensemble = ensemble
        self.due: int | None = None

    def plan(self) -> None:
        """Compute the time at which the next leader begins. The ensemble calls this method after each
        change."""
        if self.candidate() is None:
            self.due = None
        elif self.due is None:
            self.due = self._ensemble.now + self._ensemble.timing.election_ms

    def lookers(self) -> list[Member]:
        """Return the servers that look for a leader."""
        return [m for m in self._ensemble.members.values() if m.up and m.leader is None and not m.frozen]

    def candidate(self, unlike: Member | None = None) -> Member | None:
        """Return the next leader: the candidate with the longest log.

        :param unlike: a server that is chosen only if all other candidates have shorter logs.
        """

        def rank(member: Member) -> tuple[tuple[int, ...], bool, int]:
            return self._end_of_log(member), member is not unlike, member.number

        return max(self.able(self.lookers()), key=rank, default=None)

    def able(self, servers: Iterable[Member]) -> list[Member]:
        """Return the servers among ``servers`` that can be the leader."""
        ends = {member: self._end_of_log(member) for member in servers}
        may_lead = self._ensemble.config.may_lead
        return [one for one in ends if may_lead(one.number) and self._has_quorum(one, ends)]

    def proposed(self, member: Member) -> list[Proposal]:
        """Return the uncommitted entries of a server's log. All these entries are of the last epoch of the
        server, because the server dropped older entries when it joined this epoch."""
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
        """Return whether the messages of both servers arrive at each other."""
        return not (one.is_held_up or other.is_held_up or self._ensemble.links.is_cut(one, other))

    def _end_of_log(self, member: Member) -> tuple[int, ...]:
        """Return the key for the election: the last epoch of a server, and the number of committed and
        proposed entries in its log."""
        return member.epoch, member.logged, len(self.proposed(member))
