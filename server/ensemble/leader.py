"""The leader of an ensemble: it makes an entry of the log from each write, and keeps the clocks of all
sessions.

A new leader is a new object. It has a higher epoch, and its clocks start again. Its first check for
containers comes after a whole interval (ensemble.md 2.10, 3.12, 5.4). The rules:

* Writes are prepared one after the other. Each write is checked against the state after all earlier writes.
  These include the writes that are not yet committed. Refused writes take a zxid too.
* An entry is committed when a quorum has it. Entries are committed in the order of the log. Then they are
  sent to every follower.
* Normally each entry is committed and applied immediately. Then the entry is prepared in the tree of the
  leader's own server. Otherwise (after ``hold_acks``, or if a server lags) entries are prepared in a copy of
  this tree, so that no client sees proposed entries.
* The leader's messages to a server (entries, and answers to a sync or a re-attach) arrive in their order.
* A sync is answered when all entries that were proposed at its arrival are committed. A sync of a client of
  the leader's own server is answered immediately (3.8).
* If a write comes from a server that does not own the session any more, the write is dropped. A closeSession
  from such a server is carried out (2.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from ...protocol.constants import CONFIG_PATH, Perms
from ...protocol.errors import (
    EphemeralOnLocalSessionError,
    NewConfigNoQuorumError,
    ReconfigInProgressError,
    SessionExpiredError,
    SessionMovedError,
)
from ...protocol.multi import MultiOp, decode_multi, decode_results, encode_multi
from ...protocol.operations import CLOSE_SESSION, WRITES, OpCode
from ...protocol.records import CheckVersionRequest, GetDataResponse, ReconfigFields
from ..config.members import Configuration
from ..core.client import Client
from ..core.engine import Engine
from ..core.operations.multi import failure
from ..core.sessions import Session
from ..core.transactions import NO_REQUEST
from ..core.tree import DataTree
from ..core.txn import Change, CreateSession, Refused, Replace, SetData, Txn
from .engine import SYNC, Waiting
from .log import Asker, Proposal, Result

if TYPE_CHECKING:
    from .member import EnsembleView, Member

T = TypeVar("T")
_MULTI, _RECONFIG = OpCode.MULTI.value, OpCode.RECONFIG.value


class Newcomer(Asker, Protocol):
    """A client that asks for a session at a server."""

    @property
    def member(self) -> Member:
        """The server of the client."""


class _Served(dict[int, Client]):
    """The sessions that have a connection at any server. Only ``in`` works."""

    def __init__(self, ensemble: EnsembleView) -> None:
        super().__init__()
        self._ensemble = ensemble

    def __contains__(self, session_id: object) -> bool:
        return any(member.engine.serves(session_id) for member in self._ensemble.members.values())


class Leader(Engine):
    """The leader of one epoch.

    :param number: the number of the epoch.
    :ivar member: the server that leads.
    :ivar followers: the followers and the leader's own server, by number.
    :ivar owners: the last server of each session that has re-attached.
    :ivar outstanding: the proposed, uncommitted entries, the oldest first.
    :ivar committed: the number of committed entries that the leader knows. An old leader does not know the
        entries that the next leader commits.
    :ivar began: the time in ms at which the leader began to lead.
    :ivar proposal_sizes: the sizes in bytes of the last, the smallest and the largest proposed request; -1
        before the first request.
    :ivar next_check: the time in ms at which the leader finds that no quorum follows any more; None while a
        quorum follows.
    :ivar is_kept: whether the committed members allow the leader to lead. If the members do not allow this,
        the leader commits nothing more. It ends when its server applies the change of the members, or at its
        next check (ensemble.md 10.3).
    """

    def __init__(self, ensemble: EnsembleView, member: Member, number: int, now: int) -> None:
        engine = member.engine
        super().__init__(engine.settings, now=now, epoch=engine.wall_clock(now))
        self.ensemble = ensemble
        self.member = member
        self.number = number
        self.zxid = number << 32
        self.stats, self.access = engine.stats, engine.access
        self._prepare_in(engine.tree)
        self._served = _Served(ensemble)
        self.followers: dict[int, Member] = {member.number: member}
        self.owners: dict[int, Member] = {}
        self.outstanding: deque[Proposal] = deque()
        self.committed = ensemble.log.committed
        self.next_check: int | None = None
        self.is_kept = True
        self.began = now
        self.proposal_sizes = (-1, -1, -1)
        self.on_txn = self._take_txn
        self._txn: Txn | None = None  # the transaction that was just made
        self._changes: list[Iterable[Change]] = []  # the changes of this transaction
        self._config: Configuration | None = None  # the configuration after this transaction
        for session in engine.tracker.known_to_all():
            self.sessions.add(Session(session.id, session.timeout, session.password), now)

    def __repr__(self) -> str:
        return f"<Leader {self.member.number} of epoch {self.number}>"

    # --- preparing ---------------------------------------------------------------------------------------

    def _prepare_in(self, tree: object) -> None:
        self.tree = self.reaper.tree = tree  # type: ignore[assignment]

    def _arrange_tree(self, may_be_own: bool) -> bool:
        """Choose the tree in which the next write is prepared.

        :returns: True for the tree of the leader's own server.
        """
        member, own = self.member, self.member.engine.tree
        if not self.outstanding and not member.stream:
            self._prepare_in(own)
            if may_be_own and self.ensemble.holding is None and not member.lags and self._has_quorum():
                return True
        if self.tree is own:
            self._prepare_in(own.copy())
        return False

    def _prepare(self, act: Callable[[], T], asker: Asker | None = None, op: int | None = None) -> T:
        """Make one transaction, and propose it.

        :param act: the function that makes the transaction and returns its result.
        :param op: the operation. A change of the members may need more servers than follow now.
        """
        in_place = self._arrange_tree(op != _RECONFIG)
        self.epoch_offset = self.member.engine.epoch_offset
        self._set_time(self.ensemble.now)
        result = act()
        txn, self._txn = self._txn, None
        changes, self._changes = self._changes, []
        config, self._config = self._config, None
        if txn is not None:
            reply = result if isinstance(result, tuple) else (txn.zxid, 0, b"")
            proposal = Proposal(txn, reply, asker, config=config)
            if isinstance(asker, Waiting):
                proposal.is_swallowed = asker.is_from_elsewhere
                self._count(len(asker.frame))
            if in_place:
                proposal.changes = chain.from_iterable(changes)
                self._commit(proposal)
            else:
                self._propose(proposal)
        return result

    def _count(self, size: int) -> None:
        _, least, most = self.proposal_sizes
        self.proposal_sizes = (size, size if least < 0 else min(least, size), max(most, size))

    def _take_txn(self, txn: Txn) -> None:
        self._txn = txn

    def fire(self, changes: Iterable[Change]) -> None:
        """Keep the changes of a transaction. Watches fire when the servers apply the transaction."""
        self._changes.append(changes)

    # --- messages from the servers -----------------------------------------------------------------------

    def request(self, request: Waiting) -> None:
        """Process a write or a sync of a client."""
        member, connection, op = request.member, request.connection, request.op
        session_id = connection.session_id
        if op == SYNC:
            self._sync(request)
            return
        if self.sessions.get(session_id) is None and not request.is_local:  # the session is over
            self._send_behind(member, request.drop)
            return
        request.is_from_elsewhere = op != CLOSE_SESSION and not self.is_owner(member, session_id)
        self.on_refusal = member.engine.on_refusal
        before = self.zxid
        if request.is_from_elsewhere:
            self._prepare(lambda: super(Leader, self).refuse(SessionMovedError.code, session_id), request)
            return
        if request.owns_at is not None:
            self._prepare(lambda: self._refuse_ephemeral(request, request.owns_at or 0), request)
            return
        now = self.ensemble.now
        self._prepare(lambda: super(Leader, self).handle(connection, op, request.frame, now), request, op)
        if self.zxid == before:  # the request cannot be decoded: it is refused without a transaction
            self._send(member, request.answer)

    def _refuse_ephemeral(self, request: Waiting, place: int) -> Result:
        """Refuse an operation that would make a local session own a znode (ensemble.md 8.2).

        :param place: the place of the operation in a multi. An earlier part may fail first.
        """
        session_id, code = request.connection.session_id, EphemeralOnLocalSessionError.code
        if request.op != _MULTI:
            return super().refuse(code, session_id), code, b""
        if request.member is not self.member:
            code = SessionExpiredError.code
        parts = decode_multi(request.frame, 8)
        never = MultiOp(OpCode.CHECK, CheckVersionRequest("", -1))
        frame = bytes(8) + encode_multi([*parts[:place], never])
        zxid, _, body = super().handle(request.connection, _MULTI, frame, self.ensemble.now)
        failed, found = next((i, r.err) for i, r in enumerate(decode_results(body)) if r.err)
        code = code if failed == place else found
        self._txn = attrs.evolve(self._txn, effect=Refused(code)) if self._txn is not None else None
        return zxid, 0, failure(len(parts), failed, code)

    def reconfigure(self, client: Client, request: ReconfigFields) -> bytes:
        """Change the members (ensemble.md section 10).

        :raises ZooKeeperError: the change is impossible, or the client may not make it.
        """
        from .reconfig import changed

        if any(proposal.config is not None for proposal in self.outstanding):
            raise ReconfigInProgressError(CONFIG_PATH)
        least = 2 if self.settings.standalone_enabled else 1
        config = changed(self.ensemble.config, request, self.zxid, least)
        if not config.has_quorum(self.followers):
            raise NewConfigNoQuorumError(
                CONFIG_PATH,
                f"{config.quorum} must follow the leader first; {sorted(config.voters)} vote",
            )
        node = self.tree.nodes[CONFIG_PATH]
        self.access.check(node.acl, Perms.WRITE, client.identities, CONFIG_PATH)
        effect = SetData(CONFIG_PATH, config.text.encode(), -1)
        self.tree.change(SetData, effect, node, self.zxid, self.time)
        self.record(effect, client.session_id)
        self._config = config
        return GetDataResponse(effect.data, node.stat()).encode()

    def handle(self, client: Client, op: int, frame: bytes, now: int) -> Result:
        """Process a request that has no connection, for a test that loads a tree."""
        self.ensemble.now = now
        if op not in WRITES:
            return super().handle(client, op, frame, now)
        return self._prepare(lambda: super(Leader, self).handle(client, op, frame, now), op=op)

    def _sync(self, request: Waiting) -> None:
        member = request.member

        if member is self.member:
            request.answer()
        else:
            self._send_behind(member, request.answer)

    def open_session(self, session_id: int, timeout: int, asker: Newcomer) -> None:
        """Open a session with a timeout in ms."""

        def open_it() -> None:
            self.zxid += 1
            password = self.ensemble.password_of(session_id)
            self.sessions.add(Session(session_id, timeout, password), self.ensemble.now)
            self.record(CreateSession(timeout), session_id)

        self._prepare(open_it, asker)

    def resume_session(
        self, session_id: int, timeout: int, member: Member, answer: Callable[[bool], object]
    ) -> None:
        """Attach a session at another server, or again at the same server.

        :param answer: a function that is called with True if the session still exists. The call is a message
            to that server, and arrives in order with its other messages.
        """
        session = self.sessions.get(session_id)
        if session is not None:
            session.timeout = timeout
            self.sessions.touch(session, self.ensemble.now)
            self.owners[session_id] = member
        if member is self.member:
            answer(session is not None)
        else:
            self._send(member, lambda: answer(session is not None))

    def is_owner(self, member: Member, session_id: int) -> bool:
        """Return whether a session belongs to a server."""
        return self.owners.get(session_id, member) is member

    def heard_of(self, session_id: int, now: int) -> None:
        """Note a sign of life that a server reports."""
        session = self.sessions.get(session_id)
        if session is not None:
            self.sessions.touch(session, now)

    def _send_behind(self, member: Member, message: Callable[[], object]) -> None:
        """Send a message to a server when all present proposals are committed."""
        if self.outstanding:
            self.outstanding[-1].then.append(lambda: self._send(member, message))
        else:
            self._send(member, message)

    def _send(self, member: Member, message: Callable[[], object]) -> None:
        member.receive(message)
        self.ensemble.flush()

    # --- transactions without a request ------------------------------------------------------------------

    def expire(self, session: Session, now: int) -> None:
        """End a session with a transaction, as if its timeout were over."""
        self._prepare(lambda: super(Leader, self).expire(session, now))

    def end_session(self, session: Session, expired: bool, request: bytes = NO_REQUEST) -> None:
        """End a session, and forget its server."""
        super().end_session(session, expired, request)
        self.owners.pop(session.id, None)
        self.ensemble.redirects.end(session.id)

    def _reap(self, path: str) -> None:
        self._prepare(lambda: super(Leader, self)._reap(path))

    def refuse(self, code: int, session_id: int, request: bytes = NO_REQUEST) -> int:
        """Refuse a write with a transaction."""
        return self._prepare(lambda: super(Leader, self).refuse(code, session_id, request))

    def replace_tree(
        self, effect: Replace, zxid: int, prepared: tuple[DataTree, list[Change]] | None = None
    ) -> None:
        """Replace the tree of all servers, in one transaction."""
        self._prepare(lambda: super(Leader, self).replace_tree(effect, zxid, prepared))

    # --- proposing and committing ------------------------------------------------------------------------

    def _propose(self, proposal: Proposal) -> None:
        self.outstanding.append(proposal)
        self.ensemble.log.proposed.append(proposal)
        self.go_on()

    def go_on(self) -> None:
        """Send proposals to the servers that can be reached now, and commit the entries that a quorum has."""
        reached = [member for member in self.followers.values() if not member.is_cut_off]
        for member in reached:
            member.logged = self.committed
        if self.ensemble.holding == "proposals":
            reached = [self.member]
        for proposal in self.outstanding:
            proposal.holders.update(member.number for member in reached)
        while self.outstanding and self.ensemble.holding is None and self._has_quorum(self.outstanding[0]):
            self._commit(self.outstanding.popleft())

    def _has_quorum(self, proposal: Proposal | None = None) -> bool:
        """Return whether enough servers acknowledge a proposal now; without a proposal, whether enough
        servers would acknowledge one."""
        if self.member.frozen or not self.is_kept:
            return False
        acks = {number for number, member in self.followers.items() if member.answers}
        if proposal is not None:
            acks &= proposal.holders
            if proposal.config is not None and not proposal.config.has_quorum(acks):  # old and new quorum
                return False
        return self.ensemble.config.has_quorum(acks)

    def _commit(self, proposal: Proposal) -> None:
        self.ensemble.enter(proposal)
        self.committed = self.ensemble.log.committed
        for member in list(self.followers.values()):
            if not member.is_cut_off:
                member.logged = self.committed
            member.receive(proposal)
        for act in proposal.then:
            act()
        if proposal.config is not None:
            self.ensemble.settle()
        self.ensemble.flush()
