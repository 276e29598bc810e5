"""The place of a server in the ensemble: its role, its link to the leader, and its reports.

The link is a pair of queues, like a TCP connection. While the link is open, messages arrive immediately. A
link is silent because of a partition that no server has noticed yet, or because of a frozen server. As long
as it is silent, both ends keep their messages. They arrive when the link is open again. A test may delay only
the messages from the server to the leader. Then these messages wait, but the messages of the leader still
arrive. If one end closes the link, both queues are lost (ensemble.md 3.18, 6.1).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from ...protocol.records import ConnectRequest
from ..config.members import Configuration, ServerAddress
from ..config.settings import Settings
from ..core.sessions import NEVER, Session
from .engine import MemberEngine
from .leader import Leader
from .links import Links
from .log import Log, Proposal
from .redirects import Redirects
from .serving import MemberService
from .timing import Timing

_READ_ONLY = 2000
"""The least time in ms without a leader after which a server is read-only."""


class Port(Protocol):
    """The sockets of a server."""

    def flush(self) -> object:
        """Send the waiting output of all connections."""

    def open_port(self) -> object:
        """Let clients connect."""

    def close_port(self) -> object:
        """Refuse all connections from now on."""

    def move(self, port: int) -> object:
        """Accept clients at another port. Connected clients stay."""


class EnsembleView(Protocol):
    """The part of the ensemble that a server, a leader and an election use.

    :class:`.ensemble.Ensemble` describes the attributes and the methods.
    """

    now: int
    is_controlled: bool

    @property
    def epoch(self) -> int:
        """The number of the last epoch."""

    @property
    def timing(self) -> Timing:
        """The times of the ensemble."""

    @property
    def config(self) -> Configuration:
        """The members after the last committed change."""

    @property
    def members(self) -> Mapping[int, Member]:
        """The servers, by number."""

    @property
    def log(self) -> Log:
        """The committed and the proposed entries."""

    @property
    def links(self) -> Links:
        """The links between the servers."""

    @property
    def redirects(self) -> Redirects:
        """The sessions that a test moves."""

    @property
    def holding(self) -> Literal["proposals", "acks"] | None:
        """The messages that a test holds."""

    @property
    def most_outstanding(self) -> int:
        """The number of requests that may wait at a server."""

    def password_of(self, session_id: int) -> bytes:
        """Return the password of a session."""

    def knows(self, session_id: int, password: bytes | None) -> bool:
        """Return whether a password belongs to a session id."""

    def enter(self, proposal: Proposal) -> None:
        """Add a committed entry to the log."""

    def bring_up(self, member: Member, upto: int) -> None:
        """Let a server without clients apply the entries that it has missed."""

    def expire(self, session_id: int, now: int) -> None:
        """End a session at ``now``, in ms."""

    def tell(self, member: Member, text: str) -> None:
        """Report a change of a server's role."""

    def flush(self) -> None:
        """Let all servers send their waiting output."""

    def settle(self) -> None:
        """Make the changes that follow a change of the links or of the servers."""


class Member:
    """One server in its ensemble.

    :ivar number: the number of the server.
    :ivar address: the line of the server in its last known configuration. If this configuration has no such
        line, the line with which the server was made.
    :ivar config: the configuration that the server knows from its log.
    :ivar observes: whether the server is an observer. A server that is not a member, or no longer a member,
        is a follower without a vote.
    :ivar votes: whether the server votes, by the last committed change of the members. A vote with the weight
        0 does not count.
    :ivar up: whether the process runs.
    :ivar frozen: whether the process is frozen: it reads and writes nothing, and its clocks stop.
    :ivar leader: the leader that the server follows, or its own leader object if it leads; None while it
        looks for a leader.
    :ivar stream: the leader's messages that the server has not yet taken, in order. Each has the time in ms
        at which it was sent.
    :ivar outbox: the server's messages that the leader has not yet taken.
    :ivar lags: whether a test makes the server apply the log late.
    :ivar paused_at_zxid: the last zxid that a test lets the server apply; None without such a limit.
    :ivar delay: the delay in ms before the server takes a message, which a test has set.
    :ivar position: the number of entries of the log that the server has applied.
    :ivar logged: the number of entries of the log that the server has.
    :ivar epoch: the last epoch in which the server has served.
    :ivar silent_since: the time in ms since which no message has come over the link; None if messages come.
    :ivar is_held_up: whether the messages from this server to other servers wait, although messages to this
        server arrive.
    :ivar is_given_up: whether the leader has closed the link to this server, but the server is frozen and has
        not noticed this yet.
    :ivar looks_since: the time in ms at which the server began to look for a leader.
    :ivar is_read_only: whether the server has no leader and serves clients that accept a read-only server.
    :ivar report_at: the time in ms of the next report of live sessions to the leader; infinity if no report
        is needed.
    :ivar has_output: whether a connection has waiting output, or must be closed.
    """

    service: MemberService
    engine: MemberEngine

    def __init__(self, ensemble: EnsembleView, address: ServerAddress, settings: Settings) -> None:
        self.ensemble = ensemble
        self.number = address.number
        self.votes = False
        self.observes = not address.votes
        self.settings = settings
        self.address = address
        self.config = ensemble.config
        self.port: Port | None = None
        self.up = True
        self.frozen = False
        self.leader: Leader | None = None
        self.stream: deque[tuple[int, Proposal | Callable[[], object]]] = deque()
        self.outbox: deque[Callable[[Leader], object]] = deque()
        self.lag()
        self.position = self.logged = 0
        self.epoch = 0
        self.silent_since: int | None = None
        self.is_held_up = False
        self.is_given_up = False
        self.looks_since = 0
        self.is_read_only = False
        self.report_at: float = math.inf
        self.has_output = False
        self._heard: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<Member {self.number}: {self.role}>"

    def make_service(self, kind: type[MemberService], settings: Settings, **arguments: Any) -> MemberService:
        """Make the service of this server.

        :param arguments: the arguments of :class:`.service.Service`.
        """
        self.service = kind(self, settings, **arguments)
        self.engine = self.service.engine
        first = self.engine.time & (2**40 - 1)
        top = self.number % 256
        self._next_session_id = (top if top < 128 else top - 256) << 56 | first << 16
        return self.service

    # --- its role ----------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether the server leads."""
        return self.leader is not None and self.leader.member is self

    @property
    def role(self) -> str:
        """The role of the server: ``leader``, ``follower`` or ``observer``; without a leader ``looking`` or
        ``read-only``; ``down`` if the server does not run."""
        if not self.up:
            return "down"
        if self.leader is None:
            return "read-only" if self.is_read_only else "looking"
        return "leader" if self.leads else "observer" if self.observes else "follower"

    @property
    def serves(self) -> bool:
        """Whether clients can have a session at this server now."""
        return self.up and not self.frozen and self.leader is not None

    def lag(self, paused_at_zxid: int | None = None, delay: int = 0) -> None:
        """Apply the log late from now on. Without arguments apply the log immediately again.

        :param paused_at_zxid: the last zxid to apply; None: there is no such limit.
        :param delay: the delay of messages in ms.
        """
        self.paused_at_zxid, self.delay = paused_at_zxid, delay
        self.lags = paused_at_zxid is not None or delay > 0

    @property
    def own_leader(self) -> Leader | None:
        """The leader object of this server; None if it does not lead."""
        return self.leader if self.leads else None

    @property
    def client_address(self) -> str:
        """The host and the port for clients."""
        host, port = self.service.address or (self.settings.host, self.settings.port)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def owns(self, session_id: int) -> bool:
        """Return whether a session belongs to this server: in the view of the leader, the session was last
        attached here."""
        return self.leader is not None and self.leader.is_owner(self, session_id)

    def timeout_for(self, request: ConnectRequest) -> int:
        """Return the session timeout in ms that a client gets at this server."""
        least, most = self.settings.session_timeout_range
        return min(max(request.timeOut, least), most)

    def new_session_id(self) -> int:
        """Return a new session id whose top byte is the number of this server."""
        self._next_session_id += 1
        return self._next_session_id - 1

    # --- its link to the leader --------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        """Whether the leader's messages do not reach the machine of this server."""
        leader, links = self.leader, self.ensemble.links
        return leader is None or (not links.are_whole and links.is_cut(self, leader.member))

    @property
    def answers(self) -> bool:
        """Whether the server runs and its answers reach the leader."""
        return self.takes and (self.leads or not self.is_held_up)

    @property
    def takes(self) -> bool:
        """Whether the server runs and the leader's messages arrive."""
        return self.up and not self.frozen and not self.is_cut_off

    @property
    def link_is_open(self) -> bool:
        """Whether messages pass in both directions now."""
        leader = self.leader
        return self.answers and leader is not None and not (leader.member.frozen or self.is_given_up)

    def forward(self, message: Callable[[Leader], object]) -> None:
        """Send a message to the leader: a function that is called with the :class:`.leader.Leader`."""
        if self.link_is_open and self.leader is not None and not self.outbox:
            message(self.leader)
        elif self.leader is not None:
            self.outbox.append(message)

    def receive(self, message: Proposal | Callable[[], object]) -> None:
        """Take a message of the leader: an entry of the log, or an answer, in the order of both."""
        if self.leader is not None:
            self.stream.append((self.ensemble.now, message))
            self._take()

    def go_on(self) -> None:
        """Send and take the waiting messages of the link that are not delayed."""
        while self.outbox and self.link_is_open and self.leader is not None:
            self.outbox.popleft()(self.leader)
        self._take()

    @property
    def takes_at(self) -> int:
        """The time in ms at which the server takes the next message of the leader. The time is :data:`NEVER`
        if there is no message, or if the server must wait for another event too."""
        if not (self.stream and self.takes):
            return NEVER
        sent, message = self.stream[0]
        if self.paused_at_zxid is not None:
            zxid = message.zxid if isinstance(message, Proposal) else self.engine.zxid + 1
            if zxid > self.paused_at_zxid:
                return NEVER
        return sent + self.delay

    def _take(self) -> None:
        while self.stream and self.takes:
            if self.lags and self.takes_at > self.ensemble.now:
                return
            _, message = self.stream.popleft()
            if isinstance(message, Proposal):
                self.apply(message)
            else:
                message()

    def apply(self, proposal: Proposal) -> None:
        """Apply an entry of the log. If the entry changes the role of the server, it closes its clients."""
        self.position += 1
        config, leader = proposal.config, self.leader
        if config is None:
            self.engine.apply(proposal)
            return
        begins_anew = leader is not None and not (
            config.keeps(leader.member.address) and self._is_observer_in(config) is self.observes
        )
        if begins_anew and not self.leads and proposal.asker is not None and proposal.asker.member is self:
            proposal.asker = None  # only the leader's server answers before it closes its clients
        self.engine.apply(proposal)
        self.configure(config)
        if begins_anew and self.leader is leader:
            self.leave("the members have changed, and so has its role or its leader", are_told=True)

    def _is_observer_in(self, config: Configuration) -> bool:
        return self.number in config.members and self.number not in config.voters

    def configure(self, config: Configuration) -> None:
        """Take the role that a configuration gives to this server."""
        self.config = config
        self.observes = self._is_observer_in(config)
        if (line := config.members.get(self.number)) is not None:
            before, self.address = self.address.client_port, line
            if self.port is not None and line.client_port and line.client_port != before:
                self.port.move(line.client_port)

    def copy(self, other: Member) -> None:
        """Copy the state of another server."""
        tracker = self.engine.tracker
        self.engine.tree = other.engine.tree.copy()
        for session in list(tracker):
            tracker.remove(session)
        for session in other.engine.tracker.known_to_all():
            tracker.learn(session.id, session.timeout)
        self.engine.zxid, self.position = other.engine.zxid, other.position
        self.configure(other.config)

    # --- signs of life -----------------------------------------------------------------------------------

    def heard_of(self, session: Session, now: int) -> None:
        """Note a sign of life of a session. The leader gets a report within half a tick (ensemble.md 2.6)."""
        half = max(1, self.settings.tick_time // 2)
        due = (now // half + 1) * half
        session.fresh_until = due
        if self.leads and self.leader is not None:
            self.leader.heard_of(session.id, now)
        else:
            self._heard[session.id] = None
            self.report_at = min(self.report_at, due)

    def report(self, now: int) -> None:
        """Report the live sessions to the leader."""
        half = max(1, self.settings.tick_time // 2)
        if not self.link_is_open or self.leader is None:
            self.report_at = (now // half + 1) * half if self._heard else math.inf
            return
        self.report_at = math.inf
        heard, self._heard = self._heard, {}
        for session_id in heard:
            self.leader.heard_of(session_id, now)

    # --- the begin and the end of a role -----------------------------------------------------------------

    def follow(self, leader: Leader) -> None:
        """Follow a leader. The server gets all entries that this leader has committed."""
        self._end_read_only()
        self.ensemble.bring_up(self, leader.committed)
        self.leader, self.epoch = leader, leader.number
        leader.followers[self.number] = self
        leader.go_on()
        self.ensemble.tell(self, f"is {self.role} of server {leader.member.number}")

    def lead(self, leader: Leader) -> None:
        """Begin to lead."""
        self._end_read_only()
        self.leader, self.epoch = leader, leader.number
        self.engine.zxid = leader.number << 32
        self.ensemble.tell(self, f"is LEADER of epoch 0x{leader.number:x}")

    def leave(self, reason: str, *, are_told: bool = False) -> None:
        """Stop serving. Every connection of a client is closed, and unfinished requests are lost.

        :param are_told: whether clients still get the output that waits on their connections.
        """
        leader, self.leader = self.leader, None
        if leader is not None:
            leader.followers.pop(self.number, None)
            self.ensemble.tell(self, f"serves nobody: {reason}")
        self.stream.clear()
        self.outbox.clear()
        self._heard.clear()
        self.report_at = math.inf
        self.silent_since = None
        self.is_given_up = False
        self.look()
        if are_told:
            self.engine.drain_all()
        self.close_connections(reason, are_told=are_told)
        self.engine.drop_requests()
        self.engine.tracker.forget_own()

    def look(self) -> None:
        """Begin to look for a leader."""
        self.looks_since = self.ensemble.now
        self.is_read_only = False

    @property
    def read_only_at(self) -> int | None:
        """The time in ms at which the server becomes read-only; None if it does not (ensemble.md 7.1)."""
        is_looking = self.up and not self.frozen and self.leader is None and not self.is_read_only
        if not is_looking or not self.settings.read_only_mode:
            return None
        return self.looks_since + max(_READ_ONLY, self.settings.tick_time)

    def become_read_only(self) -> None:
        """Serve clients that accept a read-only server."""
        self.is_read_only = True
        self.ensemble.tell(self, "is READ-ONLY")

    def _end_read_only(self) -> None:
        """Close every connection that was made without a leader, because there is a leader now."""
        if self.is_read_only:
            self.is_read_only = False
            self.close_connections("the read-only server has found a leader")
            self.engine.tracker.forget_own()

    def close_connections(
        self, reason: str, session_id: int | None = None, *, are_told: bool = False
    ) -> None:
        """Close all connections, or the connections of one session, without a reply.

        :param are_told: whether clients still get the output that waits on their connections.
        """
        for connection in list(self.service.connections):
            if are_told:
                connection.finish(reason)
            elif session_id in (None, connection.session_id):
                connection.abort(reason)

    def freeze(self) -> None:
        """Read and write nothing until :meth:`thaw`."""
        self.frozen = True
        for connection in self.service.connections:
            connection.fast_session = None

    def thaw(self) -> None:
        """Continue after :meth:`freeze`, and handle the messages that have arrived meanwhile."""
        self.frozen = False
        for connection in list(self.service.connections):
            connection.thaw_with_server(self.ensemble.now / 1000)

    def flush(self) -> None:
        """Send the waiting output of the connections, unless the end of the present turn sends it."""
        if self.has_output and not self.engine.has_turn:
            self.has_output = False
            if self.port is not None:
                self.port.flush()
