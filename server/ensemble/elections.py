"""The next leader (ensemble.md section 6). There is no consensus: one object sees all servers and decides.

The rules:

* A candidate votes, with a weight above 0, and reaches a quorum of voting servers that look for a leader and
  have no longer logs. Among the candidates the longest log wins, then the highest number. So the leader has
  everything that was ever committed, because one server of every quorum has it.
* A proposed change of the members in the log of a server counts too: the server needs a quorum of the old
  and of the new members.
* The time of the election (:class:`.Timing`) begins when there is such a candidate.
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
        """Compute when the next leader begins. Call it after any change."""
        if self.candidate() is None:
            self.due = None
        elif self.due is None:
            self.due = self._ensemble.now + self._ensemble.timing.election_ms

    def lookers(self) -> list[Member]:
        """List the servers that look for a leader."""
        return [m for m in self._ensemble.members.values() if m.up and m.leader is None and not m.frozen]

    def candidate(self, unlike: Member | None = None) -> Member | None:
        """Return the next leader: the candidate with the longest log.

        :param unlike: a server that leads only if no other server has as long a log.
        """

        def rank(member: Member) -> tuple[tuple[int, ...], bool, int]:
            return self._end_of_log(member), member is not unlike, member.number

        return max(self.able(self.lookers()), key=rank, default=None)

    def able(self, servers: Iterable[Member]) -> list[Member]:
        """List the servers among these that can lead the others."""
        ends = {member: self._end_of_log(member) for member in servers}
        may_lead = self._ensemble.config.may_lead
        return [one for one in ends if may_lead(one.number) and self._has_quorum(one, ends)]

    def proposed(self, member: Member) -> list[Proposal]:
        """Return the uncommitted entries of a server's log. It holds none of an epoch before its last: it
        dropped them when it joined the last epoch."""
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
        """Return the key of the election: the last epoch of a server, and the length of its log
        in entries: the committed ones and the proposed ones."""
        return member.epoch, member.logged, len(self.proposed(member))
