"""The rules of what each connection is told."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import attrs

from pyzk.protocol import records as r
from pyzk.protocol.constants import CONFIG_PATH, PING_XID, CreateMode, EventType
from pyzk.protocol.errors import MarshallingError, NoNodeError, NotReadOnlyError, UnimplementedError
from pyzk.protocol.jute import JuteError
from pyzk.protocol.operations import CLOSE_SESSION, PING, WRITES, OpCode
from pyzk.server.core.txn import CloseSession, CreateSession, Refused

from .facts import Asked, Attached, Committed, Event, Reply, Request
from .log import LogRules, Watched

_WITHOUT_TXN = {MarshallingError.code, UnimplementedError.code, NotReadOnlyError.code}
"""Refusals that take no zxid."""
_READS: dict[int, type[Any]] = {
    OpCode.GET_DATA: r.GetDataRequest,
    OpCode.EXISTS: r.ExistsRequest,
    OpCode.GET_CHILDREN: r.GetChildrenRequest,
    OpCode.GET_CHILDREN2: r.GetChildren2Request,
}
_CREATES = {OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_TTL}
_SEQUENTIAL = {mode.value for mode in CreateMode if "SEQUENTIAL" in mode.name}
_WATCHING = {OpCode.ADD_WATCH, OpCode.SET_WATCHES, OpCode.SET_WATCHES2, OpCode.REMOVE_WATCHES}
_FIRES: dict[EventType, list[Literal["data", "child"]]] = {
    EventType.CREATED: ["data"],
    EventType.CHANGED: ["data"],
    EventType.DELETED: ["data", "child"],
    EventType.CHILD: ["child"],
}
_NOT_OURS = "/zookeeper"
"""Znodes below it are there without the log."""


@attrs.define
class _Connection:
    """
    :ivar asked: requests without a reply.
    :ivar seen: the last zxid that its client had seen.
    :ivar header: the zxid of the last reply.
    :ivar written: the zxid of the last write that was answered.
    :ivar watches: one-shot watches, and the zxid that each has seen; None if it has, or had, others too.
    """

    session: int
    seen: int
    asked: deque[Request] = attrs.Factory(deque)
    header: int = 0
    written: int = 0
    watches: dict[Watched, int] | None = attrs.Factory(dict)


class ClientRules:
    def __init__(self, log: LogRules) -> None:
        self._log = log
        self._connections: dict[int, _Connection] = {}
        self._asked: Counter[int] = Counter()  # writes that have arrived, by session
        self._written: Counter[int] = Counter()  # those in the log
        self._acknowledged: set[int] = set()

    def takers(self) -> dict[type, Callable[[Any], None]]:
        return {
            Asked: self.asks,
            Attached: self.attached,
            Request: self.request,
            Reply: self.reply,
            Event: self.event,
            Committed: self.committed,
        }

    def asks(self, fact: Asked) -> None:
        self._connections[fact.connection] = _Connection(fact.session, fact.seen)

    def attached(self, fact: Attached) -> None:
        connection = self._connections[fact.connection]
        if not connection.session:  # what came before was not known to be of this session
            self._asked[fact.session] += sum(request.op in WRITES for request in connection.asked)
        connection.session = fact.session

    def request(self, fact: Request) -> None:
        connection = self._connections[fact.connection]
        connection.asked.append(fact)
        if fact.op in WRITES:
            self._asked[connection.session] += 1
        if fact.op in _CREATES:
            with suppress(JuteError):
                create, _ = r.CreateRequest.read(fact.body)
                if create.flags in _SEQUENTIAL:
                    self._log.sequential.add(create.path)
        if fact.op in _WATCHING:
            connection.watches = None

    def committed(self, fact: Committed) -> None:
        txn = fact.txn
        is_of_nobody = isinstance(txn.effect, CloseSession) and txn.effect.expired
        if txn.session and not is_of_nobody and not isinstance(txn.effect, CreateSession):
            self._written[txn.session] += 1
            has_asked = self._written[txn.session] <= self._asked[txn.session]
            assert has_asked, "rule 8: a write is applied twice, or was never asked for"

    def event(self, fact: Event) -> None:
        connection = self._connections[fact.connection]
        if fact.zxid > 0:
            assert fact.zxid > connection.header, "rule 10: an event behind a reply that shows its change"
            assert fact.zxid in self._log.by_zxid, "rule 10: an event of a change that is not committed"
            self._check_event(connection, fact)

    def _check_event(self, connection: _Connection, event: Event) -> None:
        """Each one-shot watch fires once, for the first change behind what it has seen."""
        watches = connection.watches
        if watches is None:
            return
        log, fired = self._log, list[Watched]()
        for kind in _FIRES[EventType(event.type)]:
            watched: Watched = kind, event.path
            if watched in watches and log.first_change(watched, watches[watched]) == event.zxid:
                fired.append(watched)
        assert fired, "rule 10: an event that nobody waits for"
        for each in fired:
            del watches[each]

    def _check_watches(self, connection: _Connection, reply: Reply) -> None:
        for watched, seen in (connection.watches or {}).items():
            first = self._log.first_change(watched, seen)
            assert not 0 < first <= reply.zxid, f"rule 10: no event tells of the change of {watched}"

    def _watch(self, connection: _Connection, request: Request, reply: Reply) -> None:
        read = _READS[request.op].decode(request.body)
        if not read.watch or connection.watches is None:
            return
        if read.path.startswith(_NOT_OURS) and read.path != CONFIG_PATH:
            return
        if reply.err == 0 or (reply.err == NoNodeError.code and request.op == OpCode.EXISTS):
            is_data = request.op in (OpCode.GET_DATA, OpCode.EXISTS)
            connection.watches.setdefault(("data" if is_data else "child", read.path), reply.zxid)

    # --- replies -----------------------------------------------------------------------------------------

    def reply(self, fact: Reply) -> None:
        connection = self._connections[fact.connection]
        assert connection.asked, "rule 5: a reply that nobody has asked for"
        request = connection.asked.popleft()
        expected = PING_XID if request.op == PING else request.xid
        assert fact.xid == expected, "rule 5: replies come in the order of requests, and none is left out"
        if fact.zxid <= 0:  # auth, or an unknown operation
            return
        if request.op in _READS:
            assert fact.zxid >= connection.written, "rule 6: a read behind a write shows what was before it"
            self._check_read(request, fact)
        self._check_watches(connection, fact)
        if request.op in _READS and fact.err in (0, NoNodeError.code):
            self._watch(connection, request, fact)
        assert fact.zxid >= connection.header, "rule 4: the zxid of replies falls"
        if request.op != PING:
            assert fact.zxid >= connection.seen, "rule 4: the zxid falls from one connection to the next"
        assert fact.zxid >= request.least, "rule 9: a sync has missed what it must wait for"
        connection.header = fact.zxid
        if request.op in WRITES:
            connection.written = fact.zxid
            self._check_write(connection, request, fact)

    def _check_write(self, connection: _Connection, request: Request, reply: Reply) -> None:
        if reply.err in _WITHOUT_TXN:
            return
        if request.op == CLOSE_SESSION and connection.session not in self._log.opened:
            return  # a local session
        txn = self._log.by_zxid.get(reply.zxid)
        is_there = txn is not None and txn.session == connection.session
        assert is_there, "rule 7: a write is acknowledged that is not in the log"
        assert reply.zxid not in self._acknowledged, "rule 8: a write is acknowledged twice"
        self._acknowledged.add(reply.zxid)
        if request.op != OpCode.MULTI and txn is not None:
            is_refused = isinstance(txn.effect, Refused)
            assert is_refused == (reply.err != 0), "rule 7: a write is acknowledged that the log refuses"

    def _check_read(self, request: Request, reply: Reply) -> None:
        """A read shows the state that the log makes right behind the zxid of its header."""
        if reply.err not in (0, NoNodeError.code):
            return
        path = _READS[request.op].decode(request.body).path
        if not path or path == "/" or path.startswith(_NOT_OURS):
            return
        state = self._log.at(path, reply.zxid)
        problem = f"rule 6: {path} is not what it was at 0x{reply.zxid:x}"
        assert (state is None) == (reply.err != 0), problem
        if state is None:
            return
        match request.op:
            case OpCode.GET_DATA:
                found = r.GetDataResponse.decode(reply.body)
                assert (found.data, found.stat.mzxid) == (state.data, state.mzxid), problem
            case OpCode.EXISTS:
                assert r.ExistsResponse.decode(reply.body).stat.mzxid == state.mzxid, problem
            case _:
                names = r.GetChildrenResponse.read(reply.body)[0].children
                assert set(names) == self._log.children_at(path, reply.zxid), problem
