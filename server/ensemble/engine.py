"""The engine of one server. The engine applies the log to its own tree. It answers reads immediately. It
answers all other requests when their entries are applied.

The rules (ensemble.md section 0, 3.2 and 2.13):

* A read is answered from the tree of this server, also if other servers know later changes.
* A write or sync is forwarded to the leader immediately. The request is answered when this server has applied
  the entry of the request.
* Requests of one session are answered in their order: a read or a ping waits for the answer to an earlier
  write. Other sessions do not wait. If a client re-attaches to this server with a new connection, the waiting
  requests of its session still wait.
* A transaction is applied, then its watches fire, then its request is answered.
* The server of the leader checks for each request that the session belongs to this server. For all other
  servers the leader checks only writes. A write that fails this check still takes a zxid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import attrs

from ...protocol.errors import NotReadOnlyError
from ...protocol.operations import CLOSE_SESSION, WRITES, OpCode
from ...protocol.text import session_text
from ..config.settings import Settings
from ..core.client import Client
from ..core.engine import Engine
from ..core.operations import Unfinished
from ..core.sessions import NEVER, Session
from ..core.transactions import NO_REQUEST
from ..core.txn import CloseSession, CreateSession
from ..net.connection import Connection
from ..net.gate import Withheld
from .errors import EnsembleError
from .log import Proposal, Result
from .sessions import MemberSessions, place_of_ephemeral

MOVED = "its session moved to another server"
SYNC = OpCode.SYNC.value
_FORWARDED = WRITES | {SYNC}


class EnsembleTime(Protocol):
    """The part of :class:`.ensemble.Ensemble` that the engine uses.

    :ivar now: the present time in ms.
    """

    now: int

    @property
    def epoch(self) -> int:
        """The number of the last epoch."""

    def password_of(self, session_id: int) -> bytes:
        """Return the password of a session."""

    def expire(self, session_id: int, now: int) -> None:
        """End a session at ``now``, in ms."""


class MemberView(Protocol):
    """The part of :class:`.member.Member` that the engine uses.

    A request for the leader refers to the whole :class:`.member.Member`, because the leader uses further
    methods of the member.
    """

    @property
    def ensemble(self) -> EnsembleTime:
        """The ensemble of the server."""

    @property
    def engine(self) -> MemberEngine:
        """The engine of the server."""

    @property
    def leader(self) -> object | None:
        """The leader that the server follows; None while it looks for one."""

    @property
    def leads(self) -> bool:
        """Whether the server leads."""

    def owns(self, session_id: int) -> bool:
        """Return whether a session belongs to the server."""

    def heard_of(self, session: Session, now: int) -> None:
        """Note a sign of life of a session at ``now``, in ms."""

    def forward(self, message: Callable[[Any], object]) -> None:
        """Send a message to the leader: a function that is called with the :class:`.leader.Leader`."""


@attrs.define(eq=False)
class Waiting:
    """A request that waits for the log, or for an earlier request that waits for the log.

    :ivar member: the :class:`.member.Member` that serves the client.
    :ivar may_be_answered: whether the request needs to wait only for earlier requests.
    :ivar result: the reply; None if the reply is made when it is sent, as for a read or a sync.
    :ivar is_from_elsewhere: whether the session of the request has moved to another server.
    :ivar is_local: whether only this server knows the session of the request.
    :ivar owns_at: the index of the create of an ephemeral znode that a local session may not own; None if
        there is no such create.
    """

    member: Any
    connection: Connection
    op: int
    frame: bytes
    may_be_answered: bool = False
    result: Result | None = None
    is_from_elsewhere: bool = False
    is_local: bool = False
    owns_at: int | None = None

    @property
    def is_forwarded(self) -> bool:
        """Whether the leader gets the request."""
        return self.op in _FORWARDED and not (self.is_local and self.op == CLOSE_SESSION)

    def applied(self, proposal: Proposal) -> None:
        """Answer the request, because its server has applied the entry."""
        if proposal.is_swallowed:
            self.connection.abort(MOVED)
        self.answer(proposal.result)

    def drop(self) -> None:
        """Drop the request without an answer, because its session is over."""
        self.connection.abort("its session is over")
        self.answer((0, 0, b""))

    def answer(self, result: Result | None = None) -> None:
        """Note the reply, and send it if no earlier request waits."""
        self.result = result
        self.may_be_answered = True
        self.member.engine.answered(self)


class Nobody:
    """The asker of a transaction that needs no answer."""

    def __init__(self, member: Any) -> None:
        self.member = member

    def applied(self, proposal: Proposal) -> None:
        """Do nothing."""


class MemberEngine(Engine):
    """The engine of one server of an ensemble.

    :ivar waiting: the requests that are not yet answered, by session.
    :ivar outstanding: the number of the waiting requests.
    :ivar waiting_bytes: the number of bytes of the frames of the waiting requests.
    """

    def __init__(
        self,
        member: MemberView,
        settings: Settings,
        *,
        now: int,
        epoch: int,
        random_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        super().__init__(settings, now=now, epoch=epoch, random_bytes=random_bytes)
        self.member = member
        self.zxid = member.ensemble.epoch << 32
        self.tracker = MemberSessions(member, settings.tick_time)
        self.sessions = self.tracker
        self.waiting: dict[int, deque[Waiting]] = {}
        self.outstanding = self.waiting_bytes = 0
        self._forwarding: Waiting | None = None  # the request whose turn at its connection is not over
        self.reaper.next_check = NEVER  # only the leader deletes containers

    def _next_due(self) -> int:
        return self.tracker.next_deadline()  # for local sessions, because the leader expires all others

    # --- requests ----------------------------------------------------------------------------------------

    def handle(self, client: Client, op: int, frame: bytes, now: int) -> Result:
        """Process a request, or forward it to the leader.

        :raises Withheld: the request is answered later, or the connection is over.
        """
        connection = cast(Connection, client)
        member, session_id = self.member, connection.session_id
        member.ensemble.now = now
        if member.leads and op not in WRITES and not member.owns(session_id):
            connection.abort(MOVED)
            raise Withheld
        queue = self.waiting.get(session_id)
        if op not in _FORWARDED and queue is None:
            return super().handle(client, op, frame, now)
        if member.leader is None and op != CLOSE_SESSION:
            return self.zxid, NotReadOnlyError.code, b""
        request = Waiting(member, connection, op, frame)
        if session_id in self.tracker.local:
            if op == CLOSE_SESSION and queue is None:
                return self._close_local(connection)
            if queue is not None and queue[-1].op == CLOSE_SESSION:
                raise Withheld  # the session ends when the requests before this one are answered
            request.is_local = True
            if (place := place_of_ephemeral(op, frame)) is not None:
                self._be_global(request, place)
        if queue is None:
            queue = self.waiting[session_id] = deque()
        queue.append(request)
        self.outstanding += 1
        self.waiting_bytes += len(frame)
        if request.is_forwarded:
            self._forwarding = request
            try:
                member.forward(lambda leader: leader.request(request))
            finally:
                self._forwarding = None
            if request.may_be_answered and queue and queue[0] is request:  # the usual case: applied already
                self._take(session_id, queue)
                return request.result or self._read(request)
        raise Withheld

    @property
    def has_turn(self) -> bool:
        """Whether a client of this server has its turn now. The end of this turn sends the output."""
        return self._forwarding is not None

    def answered(self, request: Waiting) -> None:
        """Send the reply to a request that may be answered. If the request is being forwarded now, or waits
        for an earlier request, the reply is sent later."""
        if request is not self._forwarding:
            self.drain(request.connection.session_id)

    def drain_all(self) -> None:
        """Send all replies that need not wait any more, also the replies to the client that has its turn
        now."""
        for session_id in list(self.waiting):
            self.drain(session_id)

    def drain(self, session_id: int) -> None:
        """Send the replies of a session that need not wait any more."""
        queue = self.waiting.get(session_id)
        while queue and (queue[0].may_be_answered or not queue[0].is_forwarded):
            request = self._take(session_id, queue)
            connection = request.connection
            if connection.close_expected:
                continue
            result = request.result or self._read(request)
            now = self.member.ensemble.now / 1000
            if connection.service.gate is not None:
                connection.service.gate.answered(connection, request.op, request.frame, result, now)
            else:
                connection.reply(request.op, request.frame, result)

    def _take(self, session_id: int, queue: deque[Waiting]) -> Waiting:
        self.outstanding -= 1
        request = queue.popleft()
        self.waiting_bytes -= len(request.frame)
        if not queue:
            self.waiting.pop(session_id, None)
        return request

    def _read(self, request: Waiting) -> Result:
        """Answer a request that need not wait any more. It is a read, a sync, or a write that cannot be
        decoded."""
        connection, op = request.connection, request.op
        if op == CLOSE_SESSION:
            return self._close_local(connection)
        try:
            return super().handle(connection, op, request.frame, self.member.ensemble.now)
        except Unfinished as unfinished:
            steps = unfinished.steps
        while True:
            try:
                return self.resume(connection, op, steps)
            except Unfinished as unfinished:
                steps = unfinished.steps

    def drop_requests(self) -> None:
        """Forget all waiting requests, because their clients have no connection any more."""
        for queue in self.waiting.values():
            queue.clear()
        self.waiting.clear()
        self.outstanding = self.waiting_bytes = 0

    # --- the log -----------------------------------------------------------------------------------------

    def apply(self, proposal: Proposal) -> None:
        """Apply an entry of the log. Notify the watchers at this server, and answer the request if its client
        is here."""
        txn, effect = proposal.txn, proposal.txn.effect
        self.zxid, self.time = txn.zxid, txn.time
        changes, proposal.changes = proposal.changes, None
        self.fire(self.tree.replay(txn) if changes is None else changes)
        if isinstance(effect, CreateSession):
            self.tracker.learn(txn.session, effect.timeout)
        if self.on_txn is not None:
            self.on_txn(txn)
        asker = proposal.asker
        if isinstance(effect, CloseSession):
            self._close_session(txn.session, asker, effect.expired)
        if asker is not None and asker.member is self.member:
            proposal.asker = None
            asker.applied(proposal)

    def _close_session(self, session_id: int, asker: object, expired: bool) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            self.sessions.remove(session)
        client = self._served.pop(session_id, None)
        if client is None or (isinstance(asker, Waiting) and asker.connection is client):
            return
        how = "has expired" if expired else "was closed elsewhere"
        client.abort(f"its session {session_text(session_id)} {how}")
        self.disconnected(client)

    # --- sessions ----------------------------------------------------------------------------------------

    def bind(self, connection: Connection, session: Session) -> None:
        """Let a connection serve a session from now on. The earlier connection of the session is closed."""
        before = self._served.get(session.id)
        if before is not None:
            before.abort("its session moved to another connection")
            self.disconnected(before)
        self._served[session.id] = connection
        connection.session_id = session.id

    def serves(self, session_id: object) -> bool:
        """Return whether a connection of this server serves a session."""
        return session_id in self._served

    def expire(self, session: Session, now: int) -> None:
        """End a session at the leader. If there is no leader, or if the session is already over, do
        nothing."""
        with suppress(EnsembleError, LookupError):
            self.member.ensemble.expire(session.id, now)

    def expire_local(self, session_id: int) -> None:
        """End a local session."""
        self.stats.sessions_expired += 1
        self._close_session(session_id, None, expired=True)

    def _close_local(self, connection: Connection) -> Result:
        """Close a local session for its client, without a transaction."""
        session = self.tracker.get(connection.session_id)
        if session is not None:
            self.tracker.remove(session)
            client = self._served.pop(session.id, connection)
            if client is not connection:
                client.abort(f"its session {session_text(session.id)} was closed elsewhere")
                self.disconnected(client)
        return self.zxid, 0, b""

    def _be_global(self, request: Waiting, place: int) -> None:
        """Make the local session of a request global if the settings allow it, so that it can own an
        ephemeral znode.

        :param place: the place of the create of the ephemeral znode in the request.
        """
        if not self.settings.local_sessions_upgrading:
            request.owns_at = place
            return
        session = self.tracker.move(request.connection.session_id)
        request.is_local = False
        self.member.forward(
            lambda leader: leader.open_session(session.id, session.timeout, Nobody(self.member))
        )

    def refuse(self, code: int, session_id: int, request: bytes = NO_REQUEST) -> int:
        """Let the leader refuse a write."""
        self.member.forward(lambda leader: leader.refuse(code, session_id))
        return self.zxid
