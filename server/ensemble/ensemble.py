"""What a test does to an ensemble, whose :mod:`.course` is the rest.

The rule: what a test does has its effect when the call returns. The time that servers need to notice passes
on the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from ..config.members import ServerAddress, check_numbers
from .course import Course
from .errors import EnsembleError
from .member import Member

__all__ = ["Ensemble", "EnsembleError", "Pending"]

Pending: TypeAlias = Literal["lost", "applied"]
"""What becomes of writes that are proposed and not committed when their leader dies."""


class Ensemble(Course):
    """Several servers on one log, in a test's hands. The arguments are those of :class:`.course.Course`."""

    def lag(self, member: Member, upto: int | None = None, delay: int = 0) -> None:
        """Let a server stand at a zxid, or apply late what is sent to it, until :meth:`release`.

        :param upto: the zxid; by default the one that it has applied, unless there is a delay.
        :param delay: in ms.
        """
        member.lag(member.engine.zxid if upto is None and not delay else upto, delay)
        member.go_on()
        self.settle()

    def release(self, members: Iterable[Member]) -> None:
        """Let servers that lag apply what waits."""
        for member in members:
            member.lag()
            member.go_on()
        self.settle()

    def partition(self, groups: Sequence[Iterable[Member]], silent: bool) -> None:
        """Cut all links between servers of different groups; those that are named nowhere are one more group.

        :raises ValueError: if a server is in two groups.
        """
        self.links.part(self.members, groups, silent)
        self.settle()

    def heal(self, members: Iterable[Member]) -> None:
        """Join again what was cut between any of these servers and others."""
        self.links.join(members)
        self.settle()

    def hold_up(self, member: Member) -> None:
        """Hold up all that a server sends to others; what they send arrives.

        :raises EnsembleError: if it leads.
        """
        if member.leads:
            raise EnsembleError(
                f"server {member.number} leads, so there is no leader to which it sends: isolate or freeze it"
            )
        member.is_held_up = True
        self.settle()

    def release_up(self, members: Iterable[Member]) -> None:
        """End :meth:`hold_up`: what these servers have sent arrives."""
        for member in members:
            member.is_held_up = False
            member.go_on()
        self.settle()

    def freeze(self, member: Member) -> None:
        """Stop a process: it reads and writes nothing, and its clocks stand.

        :raises EnsembleError: if it does not run.
        """
        if not member.up:
            raise EnsembleError(f"server {member.number} is down: start it first")
        member.freeze()
        self.settle()

    def thaw(self, member: Member) -> None:
        """Let a process go on. An old leader goes on leading until its next check, a tick later."""
        member.thaw()
        if member.leads and member.leader is not None:
            member.leader.next_check = None
            member.leader.started = self.now  # its checks go on from here
            for follower in list(member.leader.followers.values()):
                follower.go_on()  # signs of life that have arrived come before what is due
            member.leader.advance(self.now)
        self.settle()

    def kill(self, member: Member, pending: Pending | None = None) -> None:
        """End a process: its connections are closed, and its port refuses new ones. Does nothing if it has
        ended.

        :param pending: for a leader, what becomes of the writes that are not committed: by default what the
            servers have that go on.
        :raises ValueError: if ``pending`` is given for a server that does not lead.
        """
        leader = member.leader if member.leads else None
        if pending is not None and leader is None:
            raise ValueError(f"server {member.number} does not lead: leave pending= out")
        if not member.up:
            return
        if leader is not None and pending is not None:
            holders = {member.number} if pending == "lost" else set(leader.followers)
            for proposal in leader.outstanding:
                proposal.holders = set(holders)
        member.up = member.frozen = False
        if member.port is not None:
            member.port.close_port()
        if leader is not None:
            self._resign(leader, "it was killed")
        else:
            member.leave("it was killed")
            self.settle()
        self.tell(member, "is down")

    def start(self, member: Member) -> None:
        """Start a process that was killed; it has its log, and no connections.

        :raises EnsembleError: if it runs.
        """
        if member.up:
            raise EnsembleError(f"server {member.number} runs already")
        member.up = True
        member.lag()
        member.look()
        if member.port is not None:
            member.port.open_port()
        self.tell(member, "is up")
        self.settle()

    def add(self, address: ServerAddress) -> Member:
        """Make another process, which does not run yet.

        :raises MemberError: its number cannot be beside those of the others.
        """
        check_numbers([*self.members, address.number])
        member = self.members[address.number] = Member(self, address, self._settings)
        member.up = False
        return member

    def bring_in(self, member: Member) -> None:
        """Let a new process have the data of the others, once it has its service."""
        member.copy(max(self.members.values(), key=lambda other: other.position))
        member.observes = not member.address.votes  # what it says of itself, until it is told otherwise
        self.copied.add(member.number)
        self._adopt(self.config)

    def elect(self, member: Member | None = None) -> None:
        """Let the leader resign, if there is one, and another epoch begin at once.

        :param member: who leads it; by default another server than before, if one has the whole log.
        :raises EnsembleError: if there is no quorum, or the server cannot lead one.
        """
        before = self.leaders()[0].member if self.leaders() else None
        for each in self.members.values():
            if each.up and not each.frozen and each.leader is not None:
                each.leave("the leader has resigned")
        candidate = member or self.elections.candidate(unlike=before)
        if candidate not in self.elections.able(self.elections.lookers()):
            self.settle()
            who = "no server can" if member is None else f"server {member.number} cannot"
            raise EnsembleError(
                f"{who} lead: a leader votes, and reaches a quorum whose logs are no longer than its own "
                "(start, thaw, heal or releaseup servers first)"
            )
        self._lead(candidate)

    def move(self, session_id: int, member: Member) -> None:
        """Have the client of a session go on at another server: its connection is closed, and all servers but
        that one refuse it until it has come there.

        :raises EnsembleError: if that server serves nobody.
        """
        if not member.serves:
            raise EnsembleError(
                f"server {member.number} serves nobody: start or thaw it, or let it find a leader, first"
            )
        if member.engine.serves(session_id):
            return
        self.moves.begin(session_id, member)
        self.disconnect(session_id, f"its session moves to server {member.number}")

    def disconnect(self, session_id: int, reason: str) -> None:
        """Close every connection of a session without a word; the session lives on."""
        for member in self.members.values():
            member.close_connections(reason, session_id)
        self.flush()

    def hold(self, what: Literal["proposals", "acks"]) -> None:
        """Let writes stay proposals: no other server has them, or others have them and do not acknowledge."""
        self.leader()
        self.holding = what

    def release_acks(self) -> None:
        """End :meth:`hold`: what was proposed is committed."""
        self.holding = None
        self.settle()
