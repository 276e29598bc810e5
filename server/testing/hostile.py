"""The hostile server: it always does what ZooKeeper may do but rarely does.

The table has the behaviour of the server, and the rules of the protocol that allow the behaviour.
:mod:`.chaos` affects connections, requests and replies by its own rules. One random generator decides all
other behaviour, in the order of the messages:

=====================================  ==================================================================
children, ephemerals and identities    no order is promised (wire.md section 9.3; semantics.md section 5)
come in any order
zxids have gaps                        a zxid only rises (semantics.md section 2): any client's refused
                                       write takes one
an event comes as late as it may       it must come before a reply whose zxid is not lower (wire.md
                                       section 7, rule 3), and no other message tells of the change
events have the zxid -1 (half the      servers before 3.9 send that (wire.md section 11)
seeds)
the ephemerals of a session go in      one transaction, whose order is unspecified (semantics.md section 7)
any order
requests and replies are delayed,      networks do that; the order of requests is promised for each
connections end, before a request is   connection alone (wire.md section 7, rules 1 and 2)
applied or before its reply is sent;
handshakes are refused now and then
=====================================  ==================================================================

Its limits:

* The server affects no ``close_session``: a session that a client has closed is over. Therefore checks for
  leaks stay correct.
* The server begins no delay while its clock is frozen, because the delay would not end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from ...protocol.jute import Record
from ...protocol.multi import MultiResult, decode_results, encode_results
from ...protocol.operations import CLOSE_SESSION, OpCode
from ...protocol.records import GetChildrenResponse
from ..core.watches import Notification
from ..net.connection import Connection
from .chaos import Chaos
from .faults import Injection
from .gate import MessageGate
from .history import Result
from .observers import SessionNames
from .operations import ALL_BUT_PING, Selection
from .origin import BY_SERVER

_RATES: Final = {
    "disconnect": 0.004,
    "lose_reply": 0.004,
    "delay_request": 0.02,
    "delay_reply": 0.02,
    "refuse": 0.02,
}
"""The probabilities for each request or handshake. A suite of 100 requests usually loses a connection and
continues."""
_LONGEST: Final = 0.05
"""The longest delay of a request or a reply, in seconds. During the delay, messages of other clients pass."""
_LATEST: Final = 0.25
"""The longest delay of an event, in seconds. The event is sent earlier if a reply must come after it. Clients
that wait for a delayed event lose little time."""
_MOST_LATE: Final = 64 * 1024
"""The largest number of bytes of late events of one connection. If there are more bytes, all late events are
sent."""
_GAPS: Final = (0, 0, 0, 1, 2, 5, 100)
"""The sizes of gaps. One of them is chosen at random each time. The gaps are small because a server that
starts later must begin with a higher zxid. It begins 2**18 higher for each ms between the two starts."""

_LISTS: Final = {
    OpCode.GET_CHILDREN.value: "children",
    OpCode.GET_CHILDREN2.value: "children",
    OpCode.GET_EPHEMERALS.value: "ephemerals",
    OpCode.WHO_AM_I.value: "clientInfo",
}
"""The lists without an order, by op code."""


@attrs.define(eq=False)
class _Late:
    """The late events of one connection.

    :ivar size: the size in bytes.
    """

    events: list[Notification] = attrs.field(factory=list)
    size: int = 0


class Misfortune(Chaos):
    """The faults of connections. A delay that would never end is left out."""

    def __init__(self, seed: int, *, frozen: Callable[[], bool], **more: Any) -> None:
        super().__init__(seed, _RATES, longest=_LONGEST, cause="hostile", origin=BY_SERVER, **more)
        self._frozen = frozen

    def request(self, session: int, op: int, frame: bytes) -> Injection | None:
        injection = super().request(session, op, frame)
        return None if injection is not None and injection.action == "delay" and self._frozen() else injection


class HostileGate(MessageGate):
    """The gate of a hostile server.

    :param seed: the seed of all random numbers.
    :param frozen: returns whether the server's clock is frozen.
    :param names: the names of sessions.
    """

    def __init__(
        self, *parts: Any, seed: int, frozen: Callable[[], bool], names: SessionNames, **more: Any
    ) -> None:
        self._seed = seed
        self._clock_is_frozen = frozen
        self._names = names
        self._late: dict[Connection, _Late] = {}
        self._served: Connection | None = None
        super().__init__(*parts, **more)
        self._start([session.id for session in self._service.engine.sessions])

    def _start(self, sessions: Sequence[int] = ()) -> None:
        self._random = random.Random(self._seed)
        self._as_before_3_9 = self._random.random() < 0.5
        misfortune = Misfortune(
            self._seed,
            frozen=self._clock_is_frozen,
            selection=Selection(ALL_BUT_PING - {CLOSE_SESSION}, None, None),
            names=self._names,
            sessions=sessions,
            gate=self,
            run=lambda function, *arguments: function(*arguments),
        )
        self.add_injector(misfortune)

    @property
    def needed(self) -> object:
        return True

    def reset(self) -> None:
        super().reset()
        self._start()

    # --- what passes -------------------------------------------------------------------------------------

    def requests(self, connection: Connection, frames: list[bytes]) -> list[bytes]:
        self._tell(connection)  # before any reply of this turn
        # Here and not between requests: the figures take the zxids of a turn for its writes
        self._service.engine.zxid += self._random.choice(_GAPS)
        return super().requests(connection, frames)

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        self._served = connection
        try:
            zxid, err, body = super().handle(connection, op, frame, now)
        finally:
            self._served = None
        self._stir_ephemerals(connection.session_id)
        return zxid, err, self._stirred(op, body) if not err else body

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        if self._as_before_3_9:
            events = [Notification(-1, event.type, event.path) for event in events]
        if connection is self._served or self._clock_is_frozen():
            return super().events(connection, [*self._take_late(connection), *events])
        late = self._late.get(connection)
        if late is None:
            late = self._late[connection] = _Late()
            seconds = self._random.uniform(0, _LATEST)
            self._schedule(self._now() + seconds, lambda: self._in_time(connection, late))
        late.events += events
        late.size += sum(len(event.frame) for event in events)
        return super().events(connection, self._take_late(connection)) if late.size > _MOST_LATE else ()

    def closed(self, connection: Connection, reason: str) -> None:
        self._late.pop(connection, None)
        super().closed(connection, reason)

    # --- late events -------------------------------------------------------------------------------------

    def _take_late(self, connection: Connection) -> list[Notification]:
        late = self._late.pop(connection, None)
        return [] if late is None else late.events

    def _in_time(self, connection: Connection, late: _Late) -> None:
        """Send the late events that no reply has forced out so far."""
        if self._late.get(connection) is late:
            self._tell(connection)
            self._settle()

    def _tell(self, connection: Connection) -> None:
        """Send the late events of a connection."""
        if connection not in self._late:
            return
        events = super().events(connection, self._take_late(connection))
        if events and not connection.close_expected:
            connection.send(b"".join([event.frame for event in events]))
            connection.wake()

    # --- what has no order -------------------------------------------------------------------------------

    def _stirred(self, op: int, body: bytes) -> bytes:
        """Shuffle the lists of a reply."""
        if op in _LISTS:
            response = OpCode(op).response
            assert response is not None
            record = response.read(body)[0]
            self._stir(record, _LISTS[op])
            return record.encode()
        if op == OpCode.MULTI_READ:
            results: list[MultiResult] = decode_results(body)
            for result in results:
                if isinstance(result.response, GetChildrenResponse):
                    self._stir(result.response, "children")
            return encode_results(results)
        return body

    def _stir(self, record: Record, name: str) -> None:
        items = list(getattr(record, name) or ())
        self._random.shuffle(items)
        setattr(record, name, items)

    def _stir_ephemerals(self, session: int) -> None:
        """Move a random ephemeral of a session to the end of the session's list of ephemerals. Therefore the
        end of the session deletes the ephemerals in a random order."""
        owned = self._service.engine.tree.ephemerals.get(session)
        if owned is not None and self._random.random() < 0.5:
            first = next(iter(owned))
            owned[first] = owned.pop(first)
