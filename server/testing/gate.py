"""The gate between the clients and the engine: what a test holds, loses, delays, reorders, spoils or records.

Four kinds of messages pass it: a *handshake* (a ConnectRequest has arrived), a *request*, a *reply*, and a
watch *event*. The rules of holding:

1. A held handshake or request has not arrived yet: it is no sign of life, and the engine knows nothing of
   it. A held reply or event has not been sent yet: the engine has done its work. It is as if the network were
   slow.
2. Clients count on replies in the order of their requests. So what comes behind a held request of the same
   connection is held too, and so is each reply behind a held reply. It goes on together with the one it waits
   for. Pings and events pass: the session lives on, and an event may overtake a reply.
3. Each held message has a number, and can be released or lost by it at any time. To release a later message
   first is how a test reorders.
4. When a connection ends, what is held of it is gone. Messages of more than 64 MiB together are not held: the
   connection whose message is one too many is closed.

Next to single messages a connection can be frozen as a whole, for one or several reasons: while there is one,
it hears and says nothing. Pauses, held handshakes, and faults that drop or delay a reply do that.

The gate stands in the way only while something needs it, see :meth:`MessageGate.update`.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Literal, TypeAlias, get_args

import attrs

from ...protocol.operations import CLOSE_SESSION, PING, WRITES
from ...protocol.records import ConnectRequest
from ..core.operations import UnknownOperation
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.gate import Gate, Withheld
from ..net.requests import reply_frame
from ..net.service import Service
from .describe import describe_event, describe_reply, describe_request
from .faults import Fault
from .history import FAULT, Kept, Recorder, Result
from .observers import Observer
from .operations import Selection, name_of, paths_in

MessageKind: TypeAlias = Literal["handshake", "request", "reply", "event"]
MESSAGE_KINDS: tuple[MessageKind, ...] = get_args(MessageKind)

_MOST_HELD = 64 * 1024 * 1024
"""Bytes that may be held, of all connections together: far more than a test holds by intent."""
_OVERHEAD = 512
"""Bytes that a held message takes beside its own, roughly."""
_EVERYBODY = 0
"""Why a connection is frozen if all are paused. If its session is paused, the reason is the session's id."""
_HEADER = struct.Struct(">ii").unpack_from  # records.RequestHeader


@attrs.frozen(kw_only=True)
class HeldMessage:
    """One message that waits.

    :ivar number: what ``release`` and ``lose`` know it by.
    :ivar kind: ``handshake``, ``request``, ``reply`` or ``event``.
    :ivar hold: the number of the hold that it met; 0 if it only waits behind another message.
    :ivar session: the id of the session; for a handshake the one that is asked for, 0 being a new one.
    :ivar time: since when it is held, in seconds on the server's clock since its start.
    :ivar op: the operation of a request or reply, as ``fault(op=...)`` takes it.
    :ivar path: the znode concerned, if it is one.
    :ivar text: all of it in words.
    """

    number: int
    kind: MessageKind
    hold: int
    session: int
    time: float
    op: str | None = None
    path: str | None = None
    text: str = ""


@attrs.define(eq=False)
class _Hold:
    """One call of ``hold``.

    :ivar seconds: for how long each message is held; None for until it is released.
    :ivar left: how many more messages are held; None for no limit.
    """

    number: int
    kind: MessageKind
    selection: Selection
    seconds: float | None
    left: int | None


@attrs.frozen(eq=False)
class _Held:
    """A message that is held.

    :ivar size: in bytes, as it counts for the limit.
    :ivar deliver: lets it go on, at a time of the server's clock in seconds.
    """

    message: HeldMessage
    connection: Connection
    size: int
    deliver: Callable[[float], None]


@attrs.frozen(eq=False)
class _Released:
    """A request that goes on after it was held or delayed.

    :ivar frame: kept, so that no other request has its id() meanwhile.
    :ivar spoiled: whether a fault has seen it already.
    """

    frame: bytes
    connection: Connection
    spoiled: bool


class MessageGate(Gate):
    """The gate of one server, by the rules above.

    :param now: the server's clock, in seconds.
    :param started: that clock at the start of the server.
    :param schedule: calls something at a time of that clock.
    :param settle: sends what waits on all connections.
    :param go_on: does that, and handles what waits at those that were frozen.
    :ivar paused: whether all connections are frozen, new ones included.
    :ivar cut_off: the ids of sessions whose connections are frozen, later ones included.
    :ivar observers: what hears of messages; :meth:`update` follows a change of it.
    """

    def __init__(
        self,
        service: Service,
        recorder: Recorder | None,
        now: Callable[[], float],
        started: float,
        schedule: Callable[[float, Callable[[], object]], None],
        settle: Callable[[], None],
        go_on: Callable[[], None],
    ) -> None:
        self._service = service
        self._recorder = recorder
        self._now = now
        self._started = started
        self._schedule = schedule
        self._settle = settle
        self._go_on = go_on
        self.paused = False
        self.cut_off: set[int] = set()
        self.observers: list[Observer] = []
        self._frozen: dict[Connection, list[object]] = {}  # why
        self._faults: list[Fault] = []
        self._holds: dict[int, _Hold] = {}
        self._held: dict[int, _Held] = {}
        self._held_bytes = 0
        self._queues: Counter[tuple[Connection, MessageKind]] = Counter()  # how many are held
        self._released: dict[int, _Released] = {}  # by id() of the request's frame
        self._admitted: set[Connection] = set()  # their handshakes were released
        self._numbers = count(1)
        self.update()

    def update(self) -> None:
        """Stand in the way if that is needed now."""
        needed = (
            self._recorder or self._faults or self._holds or self._held or self._frozen or self._released
        ) or (self._admitted or self.paused or self.cut_off or self.observers)
        self._service.gate = self if needed else None

    # --- what passes -------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        if self._recorder is not None:
            self._recorder.opened(connection)
        if self.paused:
            self.freeze(connection, _EVERYBODY)

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        session = request.sessionId
        if session in self.cut_off and self._service.engine.sessions.get(session) is not None:
            self.freeze(connection, session)
            return False
        if connection in self._admitted:
            self._admitted.remove(connection)
            return True
        hold = self._hold_of("handshake", lambda hold: hold.selection.has_paths(session, lambda: ()))
        if hold is None:
            return True
        text = f"for session 0x{session:x}" if session else "for a new session"

        def deliver(now: float) -> None:
            self._admitted.add(connection)
            self.thaw(connection, hold, now)

        self.freeze(connection, hold)
        self._keep(connection, hold, "handshake", session, deliver, text=text)
        return False

    def attached(self, connection: Connection, resumed: bool) -> None:
        if self._recorder is not None:
            self._recorder.attached(connection, resumed)
        for observer in self.observers:
            observer.attached(connection, resumed)
        self.happened()

    def happened(self) -> None:
        """Tell the observers that something has happened."""
        for observer in self.observers:
            observer.happened()

    def refused(self, connection: Connection, session_id: int) -> None:
        if self._recorder is not None:
            self._recorder.refused(connection, session_id)

    def requests(self, connection: Connection, frames: list[bytes]) -> list[bytes]:
        if not self._holds and not self._held:
            return frames
        return [frame for frame in frames if self._request_passes(connection, frame)]

    def _request_passes(self, connection: Connection, frame: bytes) -> bool:
        if connection.close_expected or len(frame) < 8:
            return True
        if id(frame) in self._released:
            return True
        op: int = _HEADER(frame)[1]
        session = connection.session_id
        hold = self._hold_of("request", lambda hold: hold.selection.has_request(session, op, frame))
        if hold is None and (op == PING or not self._queues[connection, "request"]):
            return True
        what = describe_request(op, frame)
        deliver = partial(self._put_back, connection, frame)
        self._keep(connection, hold, "request", session, deliver, len(frame), op, what.path, what.text)
        return False

    def _put_back(self, connection: Connection, frame: bytes, now: float, *, spoiled: bool = False) -> None:
        """Give a request back to its connection.

        :param spoiled: whether a fault has seen the request already.
        """
        ahead = sum(id(waiting) in self._released for waiting in connection.frames)
        self._released[id(frame)] = _Released(frame, connection, spoiled)
        connection.put_back(frame, ahead, now)

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        released = self._released.pop(id(frame), None) if self._released else None
        if self.observers and (released is None or not released.spoiled):
            for observer in self.observers:
                observer.request(connection, op, frame)
        if self._faults and (released is None or not released.spoiled):
            # Each fault counts the request; the first that is due spoils it
            due = [fault for fault in self._faults if fault.count(connection.session_id, op, frame)]
            if due:
                self.settle(connection)
                try:
                    return self._spoil(due[0], connection, op, frame, now)
                finally:
                    due[0].has_fired()
        recorder = self._recorder
        kept = recorder.request(connection, op, frame, now) if recorder is not None else b""
        try:
            result = connection.engine.handle(connection, op, frame, self._service.at(now))
        except UnknownOperation:
            if recorder is not None:
                recorder.reply(connection, op, kept, now, (-1, -6, b""))
            raise
        self._may_reply(connection, op, frame, kept, now, result)
        return result

    def answered(self, connection: Connection, op: int, frame: bytes, result: Result, now: float) -> None:
        kept = self._recorder.kept(op, frame) if self._recorder is not None else b""
        with suppress(Withheld):
            self._may_reply(connection, op, frame, kept, now, result)
            connection.reply(op, frame, result)

    def _may_reply(
        self, connection: Connection, op: int, frame: bytes, kept: Kept, now: float, result: Result
    ) -> None:
        """Record a reply that is sent now.

        :raises Withheld: if it is held instead.
        """
        if self._holds or self._held:
            self._hold_reply(connection, op, frame, kept, result)
        if self._recorder is not None:
            self._recorder.reply(connection, op, kept, now, result)

    def _hold_reply(self, connection: Connection, op: int, frame: bytes, kept: Kept, result: Result) -> None:
        """Hold a reply, if it meets a hold or comes behind another one.

        :raises Withheld: if the reply is held.
        """
        session = connection.session_id
        hold = self._hold_of("reply", lambda hold: hold.selection.has_request(session, op, frame))
        if hold is None and (op == PING or not self._queues[connection, "reply"]):
            return

        def deliver(now: float) -> None:
            if self._recorder is not None:
                self._recorder.reply(connection, op, kept, now, result)
            connection.reply(op, frame, result)

        path = describe_request(op, frame).path
        text = f"{name_of(op)} {path or ''}".rstrip() + f" -> {describe_reply(op, path, *result[1:])}"
        self._keep(connection, hold, "reply", session, deliver, len(result[2]), op, path, text)
        raise Withheld

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        if self._holds:
            events = [event for event in events if self._event_passes_now(connection, event)]
        if self._recorder is not None:
            for event in events:
                self._recorder.event(connection, event)
        return events

    def _event_passes_now(self, connection: Connection, event: Notification) -> bool:
        session = connection.session_id
        hold = self._hold_of("event", lambda hold: hold.selection.has_paths(session, lambda: [event.path]))
        if hold is None:
            return True

        def deliver(now: float) -> None:
            if self._recorder is not None:
                self._recorder.event(connection, event)
            connection.send(event.frame)
            connection.wake()

        text = f"{describe_event(event.type)} {event.path}"
        size = len(event.frame)
        self._keep(connection, hold, "event", session, deliver, size, path=event.path, text=text)
        return False

    def closed(self, connection: Connection, reason: str) -> None:
        self._frozen.pop(connection, None)
        self._released = {i: each for i, each in self._released.items() if each.connection is not connection}
        self._admitted.discard(connection)
        for held in [held for held in self._held.values() if held.connection is connection]:
            self._take(held.message.number)
        if self._recorder is not None:
            self._recorder.closed(connection, reason)
        self.update()

    # --- holding -----------------------------------------------------------------------------------------

    def hold(self, kind: MessageKind, selection: Selection, times: int | None, seconds: float | None) -> int:
        """Hold what is selected from now on; returns the number of the hold."""
        number = next(self._numbers)
        self._holds[number] = _Hold(number, kind, selection, seconds, times)
        self.update()
        return number

    def stop_holding(self, number: int) -> None:
        """End a hold, and release what it holds.

        :raises ValueError: for a number that is no hold's.
        """
        if number not in self._holds:
            raise ValueError(f"there is no hold {number}; there are: {sorted(self._holds) or 'none'}")
        del self._holds[number]
        self.release([held.number for held in self.held() if held.hold == number])

    def holds(self) -> list[int]:
        return list(self._holds)

    def held(self) -> list[HeldMessage]:
        """List all messages that are held, the oldest first."""
        return [held.message for held in self._held.values()]

    def release(self, numbers: Sequence[int]) -> None:
        """Let messages pass, in this order.

        :raises ValueError: for a number that is not among :meth:`held`; then none is released.
        """
        self._check(numbers)
        for number in numbers:
            if number in self._held:  # it may have gone on with one before it, or with its connection
                held = self._take(number)
                held.deliver(self._now())
                self._follow(held)
        self._go_on()
        self.update()

    def lose(self, numbers: Sequence[int]) -> None:
        """Throw messages away.

        :raises ValueError: for a number that is not among :meth:`held`; then none is lost.
        """
        self._check(numbers)
        for number in numbers:
            if number in self._held:
                held = self._take(number)
                if self._recorder is not None:
                    self._recorder.held(
                        held.connection, f"LOST {number}: {held.message.kind} {held.message.text}"
                    )
                self._follow(held)
        self._go_on()
        self.update()

    def _check(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self._held:
                raise ValueError(f"no message {number} is held; there are: {sorted(self._held) or 'none'}")

    def _hold_of(self, kind: MessageKind, wanted: Callable[[_Hold], bool]) -> _Hold | None:
        """Find the first hold that a message meets."""
        for hold in self._holds.values():
            if hold.kind == kind and hold.left != 0 and wanted(hold):
                if hold.left is not None:
                    hold.left -= 1
                return hold
        return None

    def _keep(
        self,
        connection: Connection,
        hold: _Hold | None,
        kind: MessageKind,
        session: int,
        deliver: Callable[[float], None],
        size: int = 0,
        op: int | None = None,
        path: str | None = None,
        text: str = "",
    ) -> None:
        number, now = next(self._numbers), self._now()
        message = HeldMessage(
            number=number,
            kind=kind,
            hold=0 if hold is None else hold.number,
            session=session,
            time=now - self._started,
            op=None if op is None else name_of(op),
            path=path,
            text=text,
        )
        self._held[number] = _Held(message, connection, size + _OVERHEAD, deliver)
        self._held_bytes += size + _OVERHEAD
        self._queues[connection, kind] += 1
        if self._recorder is not None:
            self._recorder.held(connection, f"HELD as {number}: {kind} {text}")
        self.happened()
        if hold is not None and hold.seconds is not None:
            self._schedule(now + hold.seconds, lambda: self.release([number] if number in self._held else []))
        if self._held_bytes > _MOST_HELD:
            connection.abort(f"the test holds more than {_MOST_HELD:,} bytes; release() or lose() some first")

    def _take(self, number: int) -> _Held:
        held = self._held.pop(number)
        self._held_bytes -= held.size
        queue = held.connection, held.message.kind
        self._queues[queue] -= 1
        if not self._queues[queue]:
            del self._queues[queue]
        return held

    def _follow(self, gone: _Held) -> None:
        """Release what has only waited behind a message that is gone now."""
        kind = gone.message.kind
        if kind not in ("request", "reply"):
            return
        for held in list(self._held.values()):
            if held.connection is gone.connection and held.message.kind == kind:
                if held.message.hold:
                    return
                if held.message.number in self._held:
                    self._take(held.message.number).deliver(self._now())

    # --- faults ------------------------------------------------------------------------------------------

    def add_fault(self, fault: Fault) -> None:
        self._faults.append(fault)
        self.update()

    def remove_fault(self, fault: Fault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)
        self.update()

    def _spoil(self, fault: Fault, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        """Do to a request what a fault says; returns its reply.

        :raises Withheld: if there is none, or not yet.
        """
        if fault.when == "before" and fault.action == "delay":
            self._note(fault, connection, op, frame)
            self._wait(fault, connection, now, partial(self._put_back, connection, frame, spoiled=True))
            raise Withheld
        if fault.when == "after" and fault.action in ("drop_reply", "delay"):
            self.freeze(connection, fault)  # now, so that the request's own events are held back too
        recorder = self._recorder
        kept = recorder.request(connection, op, frame, now) if recorder is not None else b""
        engine = connection.engine
        if fault.when == "after":
            result = engine.handle(connection, op, frame, self._service.at(now))
            self._note(fault, connection, op, frame, result)
            if fault.action == "delay":
                self._reply_late(fault, connection, op, frame, kept, now, result)
        else:
            self._note(fault, connection, op, frame)
        if fault.action == "disconnect":
            connection.abort(FAULT)
            raise Withheld
        if fault.action == "drop_reply":
            self.freeze(connection, fault)
            raise Withheld
        # A write that is refused takes a zxid too (semantics.md section 2)
        if fault.when == "before" and op in WRITES:
            engine.refuse(fault.code, connection.session_id)
        result = engine.zxid, fault.code, b""
        if recorder is not None:
            recorder.reply(connection, op, kept, now, result)
        return result

    def _reply_late(
        self,
        fault: Fault,
        connection: Connection,
        op: int,
        frame: bytes,
        kept: Kept,
        now: float,
        result: Result,
    ) -> None:
        """Send a reply after the seconds of a fault.

        :raises Withheld: always.
        """
        connection.send(reply_frame(_HEADER(frame)[0], *result))  # at once: later events come behind it

        def tell(until: float) -> None:
            if self._recorder is not None:
                self._recorder.reply(connection, op, kept, until, result)
            if op == CLOSE_SESSION:
                self.thaw(connection, fault, until)
                connection.end_session()

        self._wait(fault, connection, now, tell)
        raise Withheld

    def _wait(self, fault: Fault, connection: Connection, now: float, then: Callable[[float], None]) -> None:
        """Freeze a connection for the seconds of a fault."""
        until = now + fault.seconds

        def go_on() -> None:
            if not connection.close_expected:
                then(until)
                self.thaw(connection, fault, until)
                self._go_on()

        self.freeze(connection, fault)
        self._schedule(until, go_on)

    def _note(
        self, fault: Fault, connection: Connection, op: int, frame: bytes, result: Result | None = None
    ) -> None:
        if self._recorder is not None:
            path = next(iter(paths_in(op, frame)), None)
            said = "" if result is None else describe_reply(op, path, *result[1:])
            zxid = 0 if result is None else result[0]
            self._recorder.fault(connection, op, frame, fault.describe(said), zxid)

    # --- the end of everything ---------------------------------------------------------------------------

    def reset(self) -> None:
        """End every fault, hold and pause, once all connections are closed."""
        self._started = self._now()
        self._faults.clear()
        self._holds.clear()
        self.paused = False
        self.cut_off.clear()
        self.update()

    # --- freezing ----------------------------------------------------------------------------------------

    def freeze(self, connection: Connection, why: object) -> None:
        """Let a connection hear and say nothing until :meth:`thaw` for the same reason."""
        reasons = self._frozen.setdefault(connection, [])
        if not reasons:
            connection.freeze()
        if why not in reasons:
            reasons.append(why)
        self.update()

    def thaw(self, connection: Connection, why: object, now: float) -> None:
        reasons = self._frozen.get(connection, [])
        if why in reasons:
            reasons.remove(why)
            if not reasons:
                del self._frozen[connection]
                connection.thaw(now)
        self.update()

    def pause(self, session: int = _EVERYBODY) -> None:
        """Freeze the connections that there are, and those that come; or those of one session."""
        if session:
            self.cut_off.add(session)
        else:
            self.paused = True
        self.update()
        for connection in list(self._service.connections):
            if session in (_EVERYBODY, connection.session_id):
                if connection not in self._frozen:
                    self.settle(connection)
                if not connection.close_expected:  # it may turn out to be gone
                    self.freeze(connection, session)

    def resume(self, session: int = _EVERYBODY) -> None:
        """End the pause of one session, or every pause."""
        if session:
            self.cut_off.discard(session)
        else:
            self.paused = False
            self.cut_off.clear()
        now = self._now()
        for connection, reasons in list(self._frozen.items()):
            for why in [why for why in reasons if isinstance(why, int)]:
                if why not in self.cut_off and not (why == _EVERYBODY and self.paused):
                    self.thaw(connection, why, now)
        self.update()
        self._go_on()

    def is_paused(self, connection: Connection) -> bool:
        return any(isinstance(why, int) for why in self._frozen.get(connection, ()))

    def settle(self, connection: Connection) -> None:
        """Send the output of a connection so far, so that the client gets it even if it is aborted."""
        connection.wake()
        self._settle()
