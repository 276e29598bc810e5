"""An ensemble: its followers, its leader, its timers, and the controls of a test.

The rules (ensemble.md sections 6 and 11). Times are whole ms of one clock for all servers. Most times are
settings of :class:`Timing`.

* If the leader of a server dies, or if the link to the leader is reset, the server closes its clients
  immediately. If the link is silent, the server and the leader notice it after ``sync_limit`` ticks.
* In each tick a leader checks that a quorum follows it. If no quorum follows, the leader closes its clients
  and looks for a leader.
* A server without a leader immediately joins a leader that it reaches. If there is no leader, one of the
  servers leads after the time of an election (:mod:`.elections`).
* A new leader commits the proposed entries of its own log, with their old zxids. All other proposed entries
  are lost. Then the epoch of the new leader begins.
* A server that joins a leader gets all entries that this leader has committed.
* A change of the members counts when it is committed. A leader that has no vote any more resigns, and its
  followers have no leader. A server whose role changes closes its clients and starts again.
* A control of a test has its effect before the call returns. But the time in which servers notice the change
  must pass on the clock.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, Protocol, TypeAlias

import attrs

from ...protocol.text import session_text
from ..config.members import Configuration, ServerAddress, check_numbers
from ..config.settings import Settings, SettingsError
from ..core.sessions import NEVER
from ..core.tree import DataTree
from .elections import Elections
from .errors import EnsembleError
from .leader import Leader
from .links import Links
from .log import Log, Proposal
from .member import Member
from .redirects import Redirects
from .serving import most_outstanding
from .timing import Timing

Pending: TypeAlias = Literal["lost", "applied"]
"""The result for proposed, uncommitted writes if their leader dies."""


class Periodic(Protocol):
    """An object that acts from time to time, like a nemesis.

    :ivar next_act: the time of the next action, in ms.
    """

    next_act: int

    def act(self) -> None:
        """Do the next action."""


class Ensemble:
    """The servers of an ensemble, and all that happens between them.

    :param members: the lines of the servers in the configuration.
    :param epoch: the wall-clock time in ms since the epoch. The number of the first epoch is made from it, so
        that a later process has higher zxids.
    :param secret: the secret from which all servers make the passwords of sessions; random by default.
    :raises SettingsError: a setting is only for a single server.
    :ivar now: the latest time from any caller, in ms.
    :ivar epoch: the number of the last epoch of zxids.
    :ivar log: the committed and the proposed entries.
    :ivar links: the links between the servers.
    :ivar redirects: the sessions that a test moves to another server.
    :ivar holding: the messages that a test holds: ``proposals``, ``acks`` or None.
    :ivar config: the members after the last committed change.
    :ivar elections: the object that finds the next leader.
    :ivar is_controlled: whether a test controls any of the servers over HTTP.
    :ivar nemesis: the source of random faults; None without such faults.
    :ivar copied: the numbers of the servers that got a copy of a tree in place of the entries that they had
        missed.
    :ivar on_change: called when the role of a server changes, with the server and a text.
    """

    def __init__(
        self,
        settings: Settings,
        members: Sequence[ServerAddress],
        *,
        now: int,
        epoch: int,
        timing: Timing | None = None,
        secret: bytes | None = None,
    ) -> None:
        if not settings.release.is_default:
            raise SettingsError("emulate is for a single server; leave it out with an ensemble", "emulate")
        self.timing = timing or Timing()
        self.now = now
        first = epoch << 18 if settings.initial_zxid is None else settings.initial_zxid
        self.epoch = first >> 32
        self.log = Log()
        self.links = Links()
        self.redirects = Redirects()
        self.holding: Literal["proposals", "acks"] | None = None
        self.is_controlled = False
        self.copied: set[int] = set()
        self.on_change: Callable[[Member, str], object] = lambda member, text: None
        self.elections = Elections(self)
        self.config = Configuration.of(members)
        self.members = {address.number: Member(self, address, settings) for address in members}
        self._adopt(self.config)
        self._settings = settings
        self._tick = settings.tick_time
        self._secret = secret or os.urandom(32)
        self.nemesis: Periodic | None = None

    # --- questions ---------------------------------------------------------------------------------------

    def member(self, number: int) -> Member:
        """Return the server with a number.

        :raises ValueError: there is no such server.
        """
        try:
            return self.members[number]
        except KeyError:
            raise ValueError(
                f"there is no server {number}; there are {', '.join(map(str, self.members))}"
            ) from None

    def leaders(self) -> list[Leader]:
        """Return the leaders, the latest first. An old leader may not yet know that it was replaced."""
        parts = [member.leader for member in self.members.values() if member.leads]
        return sorted((part for part in parts if part is not None), key=lambda part: -part.number)

    def current_leader(self) -> Leader | None:
        """Return the leader of the latest epoch; None if there is none."""
        return next((leader for leader in self.leaders() if leader.number == self.epoch), None)

    def leader(self) -> Leader:
        """Return the leader of the latest epoch.

        :raises EnsembleError: no server leads.
        """
        if (leader := self.current_leader()) is not None:
            return leader
        roles = ", ".join(f"{number} is {member.role}" for number, member in self.members.items())
        raise EnsembleError(
            f"no server leads ({roles}): let the time of an election pass, or call elect(); "
            "heal, thaw or start servers first if they are no quorum"
        )

    def can_elect(self) -> bool:
        """Return whether :meth:`elect` can find a leader."""
        return bool(self.elections.able([m for m in self.members.values() if m.up and not m.frozen]))

    def password_of(self, session_id: int) -> bytes:
        """Return the password of a session, which has 16 bytes. Each server can compute it."""
        return hmac.digest(self._secret, session_id.to_bytes(8, signed=True), hashlib.sha256)[:16]

    def knows(self, session_id: int, password: bytes | None) -> bool:
        """Return whether a password belongs to a session id. The session may be over."""
        if password is None:
            return False
        return hmac.compare_digest(self.password_of(session_id), password)

    # --- the log -----------------------------------------------------------------------------------------

    def enter(self, proposal: Proposal) -> None:
        """Add a committed entry to the log."""
        self.log.commit(proposal, (member.position for member in self.members.values()))
        if proposal.config is not None:
            self._adopt(proposal.config)

    def _adopt(self, config: Configuration) -> None:
        """Use another configuration."""
        self.config = config
        self.most_outstanding = most_outstanding(len(config.voters))
        for member in self.members.values():
            member.votes = member.number in config.voters
        for leader in self.leaders():
            leader.is_kept &= config.keeps(leader.member.address)

    def bring_up(self, member: Member, upto: int) -> None:
        """Let a server that has no clients apply the entries that it has missed.

        :param upto: the least number of entries that the server must have afterwards.
        """
        if member.position < self.log.first_kept:
            self.copied.add(member.number)
            member.copy(max(self.members.values(), key=lambda other: other.position))
        for proposal in self.log.since(member.position)[: max(0, upto - member.position)]:
            member.apply(proposal)
        member.logged = member.position

    def newest_tree(self) -> DataTree:
        """Return the tree of the server that has applied the most entries."""
        return max(self.members.values(), key=lambda member: member.position).engine.tree

    def flush(self) -> None:
        """Let all servers send the waiting output of their connections."""
        for member in self.members.values():
            member.flush()

    def tell(self, member: Member, text: str) -> None:
        """Report a change of a server's role."""
        self.on_change(member, text)

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> int:
        """Return the time in ms at which :meth:`advance` must be called; :data:`NEVER` if no work is
        planned."""
        return min((when for when, _ in self._due()), default=NEVER)

    @property
    def least_delay(self) -> int:
        """The shortest delay of messages to a server, in ms; :data:`NEVER` if there is no delay."""
        return min((member.delay for member in self.members.values() if member.delay), default=NEVER)

    def advance(self, now: int) -> None:
        """Do everything that is due at ``now``, in order."""
        while True:
            when, act = min(self._due(), key=lambda due: due[0], default=(NEVER, None))
            if when > now or act is None:
                break
            self.now = max(self.now, when)
            act()
        self.now = max(self.now, now)
        self.flush()

    def _due(self) -> Iterator[tuple[int, Callable[[], object]]]:
        """Yield all planned work with its times. Work that is due at the same time is done in this order."""
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
        if self.elections.due is not None:
            yield self.elections.due, self._elect_when_due
        for member in self.members.values():
            if member.delay:
                yield member.takes_at, partial(self._take_late, member)
            if (when := member.read_only_at) is not None:
                yield when, member.become_read_only
        if self.nemesis is not None:
            yield self.nemesis.next_act, self.nemesis.act

    def _advance_leader(self, leader: Leader) -> None:
        leader.advance(self.now)

    def _report(self, member: Member) -> None:
        member.report(self.now)

    def _take_late(self, member: Member) -> None:
        leader = member.leader
        member.go_on()
        if (
            member.leader is not leader
        ):  # an applied entry has changed the members, and the role of the server
            self.settle()

    def _check(self, leader: Leader) -> None:
        if leader.is_kept:
            self._resign(leader, f"no quorum follows it, which is {self.config.quorum}")
        else:
            self._resign(leader, "the members have changed, and it cannot lead them")

    def _watch_quorum(self, leader: Leader) -> None:
        """Plan the time at which a leader finds that it has no quorum: in each tick of its own time."""
        if leader.is_kept and self.config.has_quorum(leader.followers):
            leader.next_check = None
        elif leader.next_check is None:
            leader.next_check = self.now + self._tick - (self.now - leader.started) % self._tick

    def _give_up(self, member: Member) -> None:
        """Close both ends of a link if it was silent for too long."""
        leader = member.leader
        if leader is not None:
            leader.followers.pop(member.number, None)
        if member.frozen:
            member.is_given_up = True
        else:
            who = "its leader has heard nothing of it" if member.is_held_up else "its leader was silent"
            member.leave(f"{who} for {self.timing.sync_limit} ticks")
        self.settle()

    # --- roles -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start, after all servers have got their services. All servers run, and the last voting server
        leads."""
        first = self.epoch + 1 << 32
        self._begin_with(Configuration(self.config.members, first if self._settings.reconfig_enabled else 0))
        self._lead(self.members[max(filter(self.config.may_lead, self.config.voters))])
        for member in self.members.values():  # as if each server had got the tree of the leader
            member.engine.zxid = first

    def _begin_with(self, config: Configuration) -> None:
        """Write the first configuration at all servers, without a transaction."""
        self._adopt(config)
        for member in self.members.values():
            member.configure(config)
            member.engine.tree.configure(config.text.encode(), config.version, member.engine.time)

    def name_clients(self) -> None:
        """Add the address for clients to each line of a server that has no such address."""
        named = {
            number: attrs.evolve(line, client=line.client or self.members[number].client_address)
            for number, line in self.config.members.items()
        }
        self._begin_with(Configuration(named, self.config.version))

    def settle(self) -> None:
        """Make the immediate changes after a change of the links or of the servers."""
        for member in self.members.values():
            leader = member.leader
            if leader is None or leader.member is member:
                continue
            if member.is_given_up and not member.frozen:
                member.leave("its leader has closed the link")
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
        self.elections.plan()
        self.flush()

    def _is_reset(self, member: Member, leader: Leader) -> bool:
        """Return whether the link was reset, or the leader has closed it. A server notices this directly."""
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
        """Let each server without a leader follow a leader that it reaches."""
        for member in self.elections.lookers():
            for leader in self.leaders():
                is_reached = not leader.member.frozen and self.elections.hear_each_other(
                    member, leader.member
                )
                if is_reached and leader.is_kept and leader.number >= member.epoch:
                    member.follow(leader)
                    self._watch_quorum(leader)
                    break

    def _elect_when_due(self) -> None:
        self.elections.due = None
        if (candidate := self.elections.candidate()) is not None:
            self._lead(candidate)

    def _lead(self, member: Member) -> None:
        """Begin an epoch."""
        self.elections.due = None
        self.holding = None
        self.bring_up(member, self.log.committed)
        for proposal in self.elections.proposed(member):
            proposal.asker = None  # the connection of the asker is closed
            self.enter(proposal)
            member.apply(proposal)
        member.logged = member.position
        self.log.proposed.clear()
        self.epoch += 1
        if member.votes:  # false if a proposed entry has removed the vote
            member.lead(Leader(self, member, self.epoch, self.now))
        self.settle()

    def _resign(self, leader: Leader, reason: str) -> None:
        """End the leadership of a server. Followers that notice it stop serving too. The others stop
        later."""
        leader.member.leave(reason)
        self.settle()

    def expire(self, session_id: int, now: int) -> None:
        """End a session as if its timeout had passed. A local session ends at its server. Any other session
        ends at the leader.

        :raises EnsembleError: no server leads.
        :raises LookupError: the leader knows no such session.
        """
        self.now = max(self.now, now)
        for member in self.members.values():
            if session_id in member.engine.tracker.local:
                member.engine.expire_local(session_id)
                self.flush()
                return
        leader = self.leader()
        session = leader.sessions.get(session_id)
        if session is None:
            raise LookupError(f"there is no session {session_text(session_id)}")
        leader.expire(session, self.now)

    # --- the controls of a test --------------------------------------------------------------------------

    def lag(self, member: Member, upto: int | None = None, delay: int = 0) -> None:
        """Let a server stop at a zxid, or apply its messages late, until :meth:`catch_up`.

        :param upto: the last zxid to apply. By default it is the last applied zxid if there is no delay.
        :param delay: the delay in ms.
        """
        member.lag(member.engine.zxid if upto is None and not delay else upto, delay)
        member.go_on()
        self.settle()

    def catch_up(self, members: Iterable[Member]) -> None:
        """Let servers that lag apply their waiting entries."""
        for member in members:
            member.lag()
            member.go_on()
        self.settle()

    def partition(self, groups: Sequence[Iterable[Member]], silent: bool) -> None:
        """Cut all links between servers of different groups. Servers that no group names are one more group.

        :raises ValueError: a server is in two groups.
        """
        self.links.part(self.members, groups, silent)
        self.settle()

    def heal(self, members: Iterable[Member]) -> None:
        """Restore all cut links of these servers."""
        self.links.join(members)
        self.settle()

    def hold_up(self, member: Member) -> None:
        """Delay all messages from a server to other servers. Messages of the other servers to this server
        arrive.

        :raises EnsembleError: the server leads.
        """
        if member.leads:
            raise EnsembleError(
                f"server {member.number} leads, so there is no leader to which it sends: isolate or freeze it"
            )
        member.is_held_up = True
        self.settle()

    def release_up(self, members: Iterable[Member]) -> None:
        """End :meth:`hold_up`. The delayed messages of these servers arrive."""
        for member in members:
            member.is_held_up = False
            member.go_on()
        self.settle()

    def freeze(self, member: Member) -> None:
        """Freeze a process. A frozen server reads and writes nothing, and its clocks stop.

        :raises EnsembleError: the process does not run.
        """
        if not member.up:
            raise EnsembleError(f"server {member.number} is down: start it first")
        member.freeze()
        self.settle()

    def thaw(self, member: Member) -> None:
        """Let a process continue. A leader that was replaced still leads until its next check."""
        member.thaw()
        if member.leads and member.leader is not None:
            member.leader.next_check = None
            member.leader.started = self.now  # its checks continue from this time
            for follower in list(member.leader.followers.values()):
                follower.go_on()  # signs of life that have arrived come before due work
            member.leader.advance(self.now)
        self.settle()

    def kill(self, member: Member, pending: Pending | None = None) -> None:
        """Kill a process. Its connections are closed, and its port refuses new clients. If the process does
        not run, do nothing.

        :param pending: for a leader, the fate of uncommitted writes. By default the logs of the other
            servers decide.
        :raises ValueError: ``pending`` is given for a server that does not lead.
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
        """Start a process that was killed. It has its log, but no connections.

        :raises EnsembleError: the process runs already.
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
        """Make a further process, which does not yet run.

        :raises MemberError: its number does not fit the numbers of the others.
        """
        check_numbers([*self.members, address.number])
        member = self.members[address.number] = Member(self, address, self._settings)
        member.up = False
        return member

    def bring_in(self, member: Member) -> None:
        """Give a new process the data of the other servers, after it has got its service."""
        member.copy(max(self.members.values(), key=lambda other: other.position))
        member.observes = not member.address.votes  # its own line counts until the log has another one
        self.copied.add(member.number)
        self._adopt(self.config)

    def elect(self, member: Member | None = None) -> None:
        """Let the leader resign, and begin another epoch immediately.

        :param member: the new leader. By default another server than before leads, if one has the whole log.
        :raises EnsembleError: there is no quorum, or the server cannot lead it.
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
        """Move the client of a session to another server. Its connection is closed, and all other servers
        refuse the client until it has connected to that server.

        :raises EnsembleError: that server serves no clients.
        """
        if not member.serves:
            raise EnsembleError(
                f"server {member.number} serves nobody: start or thaw it, or let it find a leader, first"
            )
        if member.engine.serves(session_id):
            return
        self.redirects.begin(session_id, member)
        self.disconnect(session_id, f"its session moves to server {member.number}")

    def disconnect(self, session_id: int, reason: str) -> None:
        """Close every connection of a session without a reply. The session stays."""
        for member in self.members.values():
            member.close_connections(reason, session_id)
        self.flush()

    def hold(self, what: Literal["proposals", "acks"]) -> None:
        """Commit no writes. If ``what`` is ``proposals``, no other server gets the proposed writes; if it is
        ``acks``, the other servers get them but do not acknowledge them."""
        self.leader()
        self.holding = what

    def release_acks(self) -> None:
        """End :meth:`hold`. The proposed entries are committed."""
        self.holding = None
        self.settle()
