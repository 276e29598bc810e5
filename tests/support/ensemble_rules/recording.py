"""Writing down what happens in an ensemble, without a change of it: methods of its parts are wrapped, and
what passes through connections is read as frames.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyzk.protocol import records as r
from pyzk.protocol.constants import WATCH_XID
from pyzk.protocol.framing import FrameBuffer, FrameLengthError
from pyzk.protocol.jute import JuteError
from pyzk.protocol.operations import OpCode
from pyzk.server.core.sessions import Session
from pyzk.server.core.txn import CloseSession
from pyzk.server.ensemble.ensemble import Ensemble
from pyzk.server.ensemble.leader import Leader
from pyzk.server.ensemble.log import Proposal
from pyzk.server.ensemble.member import Member
from pyzk.server.ensemble.serving import MemberConnection
from pyzk.server.testing.freezing import FreezingGate

from . import facts as f
from .checker import Checker

_LONGEST = 1 << 22
"""Bytes of a frame; four-letter words and HTTP look like longer ones."""
_REQUEST = struct.Struct(">ii").unpack_from
_REPLY = struct.Struct(">iqi").unpack_from
_begin = Ensemble.begin


class Recording:
    """
    :ivar facts: what has happened and was not checked yet.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.facts: list[f.Fact] = []
        self._ensemble = ensemble
        self._connections = 0
        self._forced = False
        self._links: dict[int, int | None] = {}
        tick = next(iter(ensemble.members.values())).settings.tick_time
        self._checker = Checker(tick)
        ensemble.log.on_commit = lambda txn: self.facts.append(f.Committed(txn))
        _behind(ensemble, "settle", self._settled)
        _behind(ensemble, "tell", lambda member, _: self._follows(member))
        _before(ensemble, "bring_in", self._watch_member)
        self._wrap_expire(ensemble)
        for member in ensemble.members.values():
            self._watch_member(member)

    def check(self) -> None:
        """Hold what has happened since the last check against the rules.

        :raises AssertionError: a rule is broken.
        """
        count = len(self.facts)
        for fact in self.facts[:count]:
            self._checker.take(fact)
        del self.facts[:count]

    # --- servers -----------------------------------------------------------------------------------------

    def _watch_member(self, member: Member) -> None:
        note = self.facts.append

        def applied(proposal: Proposal) -> None:
            txn = proposal.txn
            left = ()
            if isinstance(txn.effect, CloseSession):
                left = tuple(member.engine.tree.ephemerals.get(txn.session, ()))
            note(f.Applied(member.number, txn, left))

        def leads(leader: Leader) -> None:
            timeouts = {session.id: session.timeout for session in leader.sessions}
            note(f.Began(leader.number, member.number, timeouts, leader.began))
            self._watch_leader(leader)

        _behind(member, "apply", applied)
        _behind(member, "copy", lambda other: note(f.Copied(member.number, other.engine.zxid)))
        _before(member, "lead", leads)
        _before(member, "leave", lambda *_, **__: self._unlinked(member))
        recording = self

        class Recorded(_RecordedConnection):
            def __init__(self, *arguments: Any) -> None:
                recording._connections += 1
                self.tape = _Tape(recording, member, recording._connections)
                super().__init__(*arguments)

        member.service.connection_type = Recorded  # type: ignore[misc]

    def _watch_leader(self, leader: Leader) -> None:
        def heard(session: int, timeout: int = 0) -> None:
            self.facts.append(f.Heard(leader.number, session, timeout, self._ensemble.now))

        def ends(session: Session, expired: bool, request: bytes = b"") -> None:
            now = self._ensemble.now
            self.facts.append(f.Ending(leader.number, session.id, expired, self._forced, now))

        _before(leader, "heard_of", lambda session, now: heard(session))
        _before(leader, "open_session", lambda session, timeout, asker: heard(session, timeout))
        _before(leader, "resume_session", lambda session, timeout, *_: heard(session, timeout))
        _before(leader, "end_session", ends)

    def _wrap_expire(self, ensemble: Ensemble) -> None:
        expire = ensemble.expire

        def forced(session_id: int, now: int) -> None:
            self._forced = True
            try:
                expire(session_id, now)
            finally:
                self._forced = False

        ensemble.expire = forced  # type: ignore[method-assign]

    def _follows(self, member: Member) -> None:
        epoch = None if member.leader is None else member.leader.number
        self.facts.append(f.Follows(member.number, epoch))

    def _unlinked(self, member: Member) -> None:
        self._links[member.number] = None
        self.facts.append(f.Linked(member.number, None, self._ensemble.now))

    def _settled(self) -> None:
        for number, member in self._ensemble.members.items():
            is_open = member.link_is_open and member.leader is not None
            epoch = member.leader.number if is_open and member.leader is not None else None
            if self._links.get(number, -1) != epoch:
                self._links[number] = epoch
                self.facts.append(f.Linked(number, epoch, self._ensemble.now))

    def least_behind_sync(self, member: Member) -> int:
        """The zxid that a sync must reach which a server takes now; 0 if it has not the current leader."""
        leader, committed = member.leader, self._ensemble.log.last_zxid
        if leader is None or leader.number != self._ensemble.epoch or leader.member.leader is not leader:
            return 0
        if leader.member is member:  # it waits for nothing that is only proposed
            return 0 if member.lags else committed
        return leader.outstanding[-1].zxid if leader.outstanding else committed


class _Tape:
    """What passes through one connection. It is read once the connection has asked for a session."""

    def __init__(self, recording: Recording, member: Member, number: int) -> None:
        self._recording = recording
        self._member = member
        self.number = number
        self._in, self._out = FrameBuffer(_LONGEST), FrameBuffer(_LONGEST)
        self._has_asked = self._is_welcome = self._is_torn = False

    def arrived(self, data: bytes, now: int) -> None:
        for payload in self._take(self._in, data):
            if not self._has_asked:
                self._asked(payload, now)
            elif len(payload) >= 8:
                xid, op = _REQUEST(payload)
                least = self._recording.least_behind_sync(self._member) if op == OpCode.SYNC else 0
                self._note(f.Request(self.number, xid, op, payload[8:], now, least))

    def sent(self, data: bytes) -> None:
        if not self._has_asked:
            return
        now = self._member.ensemble.now
        for payload in self._take(self._out, data):
            if not self._is_welcome:
                self._is_welcome = True
                continue
            xid, zxid, err = _REPLY(payload)
            if xid == WATCH_XID:
                event = r.WatcherEvent.decode(payload, 16)
                self._note(f.Event(self.number, zxid, event.type, event.path or ""))
            else:
                self._note(f.Reply(self.number, xid, zxid, err, payload[16:], now))

    def attached(self, session: Session | None) -> None:
        known = (session.id, session.password) if session else (0, b"")
        self._note(f.Attached(self.number, *known))

    def _asked(self, payload: bytes, now: int) -> None:
        try:
            request, _ = r.ConnectRequest.read(payload)
        except JuteError:
            self._is_torn = True
            return
        self._has_asked = True
        session, password, seen = request.sessionId, request.passwd or b"", request.lastZxidSeen
        gate = self._member.service.gate
        if isinstance(gate, FreezingGate):  # a test may have the server see something else
            password = b"" if session in gate.ghosts else password
            session = 0 if session in gate.swapped else session
        self._note(f.Asked(self.number, self._member.number, session, password, seen, now))

    def _take(self, buffer: FrameBuffer, data: bytes) -> Iterator[bytes]:
        buffer.feed(data)
        while not self._is_torn:
            try:
                payloads = buffer.take(32)
            except FrameLengthError:
                self._is_torn = True
                return
            yield from payloads
            if not payloads:
                return

    def _note(self, fact: f.Fact) -> None:
        self._recording.facts.append(fact)


class _RecordedConnection(MemberConnection):
    tape: _Tape
    _is_noted = False

    def receive_data(self, data: bytes, now: float) -> None:
        if not self._is_noted:
            self.tape.arrived(data, self.service.at(now))
        super().receive_data(data, now)

    def exchange(self, data: bytes, now: float) -> bytes:
        self.tape.arrived(data, self.service.at(now))
        self._is_noted = True
        try:
            answer = super().exchange(data, now)
        finally:
            self._is_noted = False
        self.tape.sent(answer)
        return answer

    def data_to_send(self) -> bytes:
        data = super().data_to_send()
        if data:
            self.tape.sent(data)
        return data

    def attached(self, session: Session | None, request: r.ConnectRequest, flag: bytes) -> None:
        if not self.close_expected:
            self.tape.attached(session)
        super().attached(session, request, flag)


def _before(owner: Any, name: str, tell: Callable[..., object]) -> None:
    """Call something before each call of a method, with the same arguments."""
    method = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        tell(*arguments, **more)
        return method(*arguments, **more)

    setattr(owner, name, call)


def _behind(owner: Any, name: str, tell: Callable[..., object]) -> None:
    """Call something behind each call of a method, with the same arguments."""
    method = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        result = method(*arguments, **more)
        tell(*arguments, **more)
        return result

    setattr(owner, name, call)


@contextmanager
def recorded() -> Iterator[list[Recording]]:
    """Record every ensemble that begins inside the block; of several blocks the innermost has it."""
    found: list[Recording] = []
    outer = Ensemble.begin

    def begin_recorded(self: Ensemble) -> None:
        found.append(Recording(self))
        _begin(self)

    Ensemble.begin = begin_recorded  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Ensemble.begin = outer  # type: ignore[method-assign]


@contextmanager
def checked() -> Iterator[None]:
    """Hold all that happens in ensembles that begin inside the block against the rules, at its end.

    :raises AssertionError: a rule is broken.
    """
    with recorded() as recordings:
        yield
    for recording in recordings:
        recording.check()
