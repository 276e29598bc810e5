"""The whole: who reaches whom, who leads, what falls due, and what a test does to it.

The rules (ensemble.md sections 6 and 11); times are whole ms of one clock for all servers, and each is a
setting of
:class:`Timing`:

* A server whose leader dies, or whose link to it is reset, closes its clients at once. Over a silent link it
  notices after ``sync_limit`` ticks, and so does the leader.
* Each tick a leader looks whether a quorum follows it. If not it closes its clients and looks for a leader.
* Servers without a leader join one that they reach, at once. Else one of them leads after the time of an
  election: of those that reach a quorum of them with no longer logs, the one with the longest log, then with
  the highest number.
* A new leader commits what was proposed and is in its own log, with its old zxid; whatever else was proposed
  is lost. Then its epoch begins.
* A server that joins is brought up to what its leader has committed.
* What a test does has its effect when the call returns. The time that servers need to notice passes on the
  clock.

It is no consensus: one object sees all servers, and decides.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeAlias

import attrs

from ..config.members import Member as Address
from ..config.members import config_text
from ..config.settings import Settings
from ..core.sessions import NEVER
from ..core.tree import DataTree
from .errors import EnsembleError
from .leader import Leader
from .links import Links
from .log import Log, Proposal
from .member import Member
from .nemesis import Nemesis
from .serving import most_outstanding

Pending: TypeAlias = Literal["lost", "applied"]
"""What becomes of writes that are proposed and not committed when their leader dies."""


@attrs.frozen(kw_only=True)
class Timing:
    """
    :ivar sync_limit: ticks of silence after which a link is given up.
    :ivar init_limit: ticks that a server has to catch up; shown only, since it takes no time here.
    :ivar election: ms from the moment at which a quorum looks for a leader until one serves.
    """

    sync_limit: int = attrs.field(default=5, validator=attrs.validators.ge(1))
    init_limit: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    election: int = attrs.field(default=200, validator=attrs.validators.ge(0))


class Ensemble:
    """
    :param members: the servers, by their lines in the configuration.
    :param epoch: the wall-clock time in ms since the epoch. The first epoch of zxids is made of it, so that
        no process starts below what an earlier one has reached.
    :param secret: what the passwords of sessions are made of, the same on all servers; random by default.
    :ivar now: the latest time that anybody has told, in ms.
    :ivar epoch: the number of the last epoch of zxids.
    :ivar log: what is committed or proposed.
    :ivar links: which servers reach each other.
    :ivar holding: what a test holds back: ``proposals``, ``acks`` or nothing.
    :ivar config_text: the data of ``/zookeeper/config``.
    :ivar nemesis: makes trouble by chance, if a test wants that.
    :ivar copied: the numbers of servers that have got a copy of a tree instead of all that they had missed.
    :ivar on_change: told when a server's role changes: the server, and what has changed.
    """

    def __init__(
        self,
        settings: Settings,
        members: Sequence[Address],
        *,
        now: int,
        epoch: int,
        timing: Timing | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.timing = timing or Timing()
        self.now = now
        first = epoch << 18 if settings.initial_zxid is None else settings.initial_zxid
        self.epoch = first >> 32
        self.log = Log()
        self.links = Links()
        self.holding: Literal["proposals", "acks"] | None = None
        self.copied: set[int] = set()
        self.on_change: Callable[[Member, str], object] = lambda member, text: None
        voters = sum(address.votes for address in members)
        self.quorum = voters // 2 + 1
        self.most_outstanding = most_outstanding(voters)
        self.members = {address.number: Member(self, address, settings) for address in members}
        self.config_text = config_text(members, 0)
        self._tick = settings.tick_time
        self._secret = secret or os.urandom(32)
        self._election_due: int | None = None
        self.nemesis: Nemesis | None = None

    # --- questions ---------------------------------------------------------------------------------------

    def member(self, number: int) -> Member:
        """
        :raises ValueError: if there is no such server.
        """
        try:
            return self.members[number]
        except KeyError:
            raise ValueError(
                f"there is no server {number}; there are {', '.join(map(str, self.members))}"
            ) from None

    def leaders(self) -> list[Leader]:
        """List those who lead, the latest first: an old leader may not know yet that it is one."""
        parts = [member.leader for member in self.members.values() if member.leads]
        return sorted((part for part in parts if part is not None), key=lambda part: -part.number)

    def leader(self) -> Leader:
        """Return the leader of the latest epoch.

        :raises EnsembleError: if nobody leads.
        """
        for leader in self.leaders():
            if leader.number == self.epoch:
                return leader
        roles = ", ".join(f"{number} is {member.role}" for number, member in self.members.items())
        raise EnsembleError(
            f"no server leads ({roles}): let the time of an election pass, or call elect(); "
            "heal, thaw or start servers first if they are no quorum"
        )

    def can_elect(self) -> bool:
        """Return whether :meth:`elect` would find a leader."""
        return bool(self._able([m for m in self.members.values() if m.up and not m.frozen]))

    def password_of(self, session_id: int) -> bytes:
        """Return the 16 bytes that prove who owns a session; each server can work them out."""
        return hmac.digest(self._secret, session_id.to_bytes(8), hashlib.sha256)[:16]

    def knows(self, session_id: int, password: bytes | None) -> bool:
        """Return whether a password is that of a session id, be the session alive or not."""
        if password is None or not 0 < session_id < 2**63:
            return False
        return hmac.compare_digest(self.password_of(session_id), password)

    # --- the log -----------------------------------------------------------------------------------------

    def enter(self, proposal: Proposal) -> None:
        """Enter what is committed."""
        self.log.commit(proposal, (member.position for member in self.members.values()))

    def bring_up(self, member: Member) -> None:
        """Bring a server that has no clients up to the end of the log."""
        if member.position < self.log.first_kept:
            self.copied.add(member.number)
            member.copy(max(self.members.values(), key=lambda other: other.position))
        for proposal in self.log.since(member.position):
            member.apply(proposal)
        member.logged = self.log.committed

    def newest_tree(self) -> DataTree:
        """Return the tree of the server that has applied most."""
        return max(self.members.values(), key=lambda member: member.position).engine.tree

    def flush(self) -> None:
        """Have all servers send what came to wait on their connections."""
        for member in self.members.values():
            member.flush()

    def tell(self, member: Member, text: str) -> None:
        self.on_change(member, text)

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return the time at which :meth:`advance` is to be called; :data:`NEVER` if nothing is due."""
        return min((when for when, _ in self._due()), default=NEVER)

    def advance(self, now: int) -> None:
        """Do all that is due at ``now``, in its order."""
        while True:
            when, act = min(self._due(), key=lambda due: due[0], default=(NEVER, None))
            if when > now or act is None:
                break
            self.now = max(self.now, when)
            act()
        self.now = max(self.now, now)
        self.flush()

    def _due(self) -> Iterator[tuple[int, Callable[[], object]]]:
        """Yield what is to be done, and when: of what comes at the same time the first goes first."""
        for member in self.members.values():
            if member.report_at < NEVER and not member.frozen:
                yield int(member.report_at), partial(self._report, member)
        for member in self.members.values():
            leader = member.leader
            if member.silent_since is not None and not member.is_given_up:
                yield (
                    member.silent_since + self.timing.sync_limit * self._tick,
                    partial(self._give_up, member),
                )
            if leader is not None and leader.member is member and not member.frozen:
                yield leader.next_deadline(), partial(self._advance_leader, leader)
                if leader.next_check is not None:
                    yield leader.next_check, partial(self._check, leader)
        if self._election_due is not None:
            yield self._election_due, self._elect_when_due
        for member in self.members.values():
            if (when := member.read_only_at) is not None:
                yield when, member.become_read_only
        if self.nemesis is not None:
            yield self.nemesis.next_act, self.nemesis.act

    def _advance_leader(self, leader: Leader) -> None:
        leader.advance(self.now)

    def _report(self, member: Member) -> None:
        member.report(self.now)

    def _check(self, leader: Leader) -> None:
        self._resign(leader, f"no quorum of {self.quorum} follows it")

    def _watch_quorum(self, leader: Leader) -> None:
        """Note when a leader finds out that it has no quorum: it looks each tick of its own time."""
        if sum(member.votes for member in leader.followers.values()) >= self.quorum:
            leader.next_check = None
        elif leader.next_check is None:
            leader.next_check = self.now + self._tick - (self.now - leader.started) % self._tick

    def _give_up(self, member: Member) -> None:
        """A link was silent for too long: both ends close it."""
        leader = member.leader
        if leader is not None:
            leader.followers.pop(member.number, None)
        if member.frozen:
            member.is_given_up = True
        else:
            member.leave(f"its leader was silent for {self.timing.sync_limit} ticks")
        self.settle()

    # --- roles -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start, once all servers have their services: all run, and the last one that votes leads."""
        for member in self.members.values():
            member.engine.tree.configure(self.config_text.encode(), member.engine.time)
        self._lead(max(self._voters(self.members.values()), key=lambda member: member.number))
        for member in self.members.values():  # as if each had got the tree of the leader
            member.engine.zxid = self.epoch << 32

    def settle(self) -> None:
        """Let all follow from a change of the links or the servers what follows at once."""
        for member in self.members.values():
            leader = member.leader
            if leader is None or leader.member is member:
                continue
            if member.is_given_up and not member.frozen:
                member.leave("its leader has given it up")
            elif self._is_reset(member, leader):
                self._lose(member, leader)
            elif not member.link_is_open:
                if member.silent_since is None:
                    member.silent_since = self.now
            else:
                member.silent_since = None
                member.go_on()
        for leader in self.leaders():
            if not leader.member.frozen:
                leader.go_on()
                leader.member.go_on()
                self._watch_quorum(leader)
        self._join()
        due = self._candidate() is not None
        if not due:
            self._election_due = None
        elif self._election_due is None:
            self._election_due = self.now + self.timing.election
        self.flush()

    def _is_reset(self, member: Member, leader: Leader) -> bool:
        """Return whether a server learns at once that it has no leader: its link was reset, or the leader's
        end of it is closed."""
        if self.links.is_cut(member, leader.member):
            return self.links.is_reset(member, leader.member)
        return leader.member.leader is not leader

    def _lose(self, member: Member, leader: Leader) -> None:
        leader.followers.pop(member.number, None)
        if member.frozen:
            member.is_given_up = True
        else:
            member.leave("it has lost its leader")

    def _join(self) -> None:
        """Let servers without a leader follow one that they reach."""
        for member in self._lookers():
            for leader in self.leaders():
                is_reached = not leader.member.frozen and not self.links.is_cut(member, leader.member)
                if is_reached and leader.number >= member.epoch:
                    member.follow(leader)
                    self._watch_quorum(leader)
                    break

    def _lookers(self) -> list[Member]:
        return [m for m in self.members.values() if m.up and m.leader is None and not m.frozen]

    @staticmethod
    def _voters(members: Iterable[Member]) -> list[Member]:
        return [member for member in members if member.votes]

    def _candidate(self, unlike: Member | None = None) -> Member | None:
        """Return the server that leads next: of all that can, one with the longest log.

        :param unlike: leads only if no other has as long a log.
        """

        def rank(member: Member) -> tuple[tuple[int, ...], bool, int]:
            return self._end_of_log(member), member is not unlike, member.number

        return max(self._able(self._lookers()), key=rank, default=None)

    def _able(self, servers: Iterable[Member]) -> list[Member]:
        """List the servers that can lead: each reaches a quorum that does not have a longer log. One of every
        quorum has all that was ever committed."""
        ends = {member: self._end_of_log(member) for member in self._voters(servers)}
        return [
            one
            for one, end in ends.items()
            if sum(ends[other] <= end and not self.links.is_cut(one, other) for other in ends) >= self.quorum
        ]

    def _end_of_log(self, member: Member) -> tuple[int, int, int]:
        """Return what decides who leads: the last epoch of a server, and how long its log is, in entries that
        are committed and entries that are only proposed."""
        return member.epoch, member.logged, len(self._proposed(member))

    def _proposed(self, member: Member) -> list[Proposal]:
        """Return what a server's log holds that is not committed. Of an epoch before its last it holds
        nothing: it has dropped that when it joined the last one."""
        return [p for p in self.log.proposed if member.number in p.holders and p.zxid >> 32 == member.epoch]

    def _elect_when_due(self) -> None:
        self._election_due = None
        if (candidate := self._candidate()) is not None:
            self._lead(candidate)

    def _lead(self, member: Member) -> None:
        """Begin an epoch."""
        self._election_due = None
        self.holding = None
        self.bring_up(member)
        for proposal in self._proposed(member):
            proposal.asker = None  # whose connection is gone
            self.enter(proposal)
            member.apply(proposal)
        self.log.proposed.clear()
        self.epoch += 1
        member.lead(Leader(self, member, self.epoch, self.now))
        self.settle()

    def _resign(self, leader: Leader, reason: str) -> None:
        """End the part of a leader: those who hear of it stop serving with it, the others later."""
        leader.member.leave(reason)
        self.settle()

    # --- what a test does --------------------------------------------------------------------------------

    def lag(self, member: Member, upto: int | None = None) -> None:
        """Let a server stand at a zxid: it applies nothing later until :meth:`release`."""
        member.stands_at = member.engine.zxid if upto is None else upto
        member.go_on()
        self.flush()

    def release(self, members: Iterable[Member]) -> None:
        """Let servers that lag apply what waits."""
        for member in members:
            member.stands_at = None
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

    def freeze(self, member: Member) -> None:
        """Stop a process: it reads and writes nothing, and its clocks stand."""
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
        """End a process: its connections are closed, and its port refuses new ones.

        :param pending: for a leader, what becomes of the writes that are not committed: by default what the
            servers have that go on.
        :raises ValueError: if ``pending`` is given for a server that does not lead.
        """
        leader = member.leader if member.leads else None
        if pending is not None and leader is None:
            raise ValueError(f"server {member.number} does not lead: leave pending= out")
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
        member.stands_at = None
        member.look()
        if member.port is not None:
            member.port.open_port()
        self.tell(member, "is up")
        self.settle()

    def elect(self, member: Member | None = None) -> None:
        """Let the leader resign, if there is one, and another epoch begin at once.

        :param member: who leads it; by default another server than before, if one has the whole log.
        :raises EnsembleError: if there is no quorum, or the server cannot lead one.
        """
        before = self.leaders()[0].member if self.leaders() else None
        for each in self.members.values():
            if each.up and not each.frozen and each.leader is not None:
                each.leave("the leader has resigned")
        candidate = member or self._candidate(unlike=before)
        if candidate not in self._able(self._lookers()):
            self.settle()
            who = "no server can" if member is None else f"server {member.number} cannot"
            raise EnsembleError(
                f"{who} lead: a leader votes, and reaches a quorum whose logs are no longer than its own "
                "(start, thaw or heal servers first)"
            )
        self._lead(candidate)

    def hold(self, what: Literal["proposals", "acks"]) -> None:
        """Let writes stay proposals: no other server has them, or others have them and do not acknowledge."""
        self.leader()
        self.holding = what

    def release_acks(self) -> None:
        """End :meth:`hold`: what was proposed is committed."""
        self.holding = None
        self.settle()

    def expire(self, session_id: int, now: int) -> None:
        """End a session at the leader, as if its timeout had passed.

        :raises EnsembleError: if nobody leads.
        :raises LookupError: if the leader knows no such session.
        """
        self.now = max(self.now, now)
        leader = self.leader()
        session = leader.sessions.get(session_id)
        if session is None:
            raise LookupError(f"there is no session 0x{session_id:x}")
        leader.expire(session, self.now)
        self.flush()
