"""The middle layer of the gate: a test holds, releases, loses and reorders single messages.

Four kinds of messages can be held: a *handshake* (a ConnectRequest has arrived), a *request*, a *reply*, and
a watch *event*. The rules:

1. A held handshake or request has not arrived yet: it does not keep the session alive, and the engine has not
   received it. A held reply or event has not been sent yet: the engine has done its work. A slow network has
   the same effect.
2. Clients rely on replies in the order of their requests. Therefore later requests of the same connection
   wait behind a held request, and later replies wait behind a held reply. The waiting messages pass together
   with the message that they wait for. Pings and events do not wait, so the session stays alive, and an event
   can overtake a reply.
3. Each held message has a number, with which a test can release or lose the message at any time. A test
   reorders messages if it releases a later message first.
4. When a connection ends, its held messages are lost. At most 64 MiB are held. A connection whose message
   would exceed this limit is closed.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Literal, TypeAlias, get_args

import attrs

from ...protocol.operations import PING
from ...protocol.records import ConnectRequest
from ...protocol.text import session_text
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.gate import Withheld
from ..net.service import Service
from .describe import describe_event, describe_reply, describe_request
from .freezing import FreezingGate
from .history import Kept, Recorder, Result
from .operations import Selection, name_of
from .origin import mark, origin

MessageKind: TypeAlias = Literal["handshake", "request", "reply", "event"]
MESSAGE_KINDS: tuple[MessageKind, ...] = get_args(MessageKind)

_MOST_HELD = 64 * 1024 * 1024
"""The largest number of held bytes of all connections together. Tests hold far fewer bytes."""
_OVERHEAD = 512
"""The approximate number of bytes of memory that a held message takes in addition to its own bytes."""
HEADER = struct.Struct(">ii").unpack_from  # records.RequestHeader


@attrs.frozen(kw_only=True)
class HeldMessage:
    """One held message.

    :ivar number: the number for ``release`` and ``lose``.
    :ivar kind: ``handshake``, ``request``, ``reply`` or ``event``.
    :ivar hold: the number of the hold that holds the message; 0 if the message only waits behind another
        message.
    :ivar session: the id of the session. For a handshake, this is the session that the client requests, or 0
        for a new session.
    :ivar time: the time at which the hold began, in seconds on the server's clock since its start.
    :ivar op: the operation of a request or reply, in the form for ``fault(op=...)``.
    :ivar path: the path of the znode, if the message is about exactly one znode.
    :ivar text: the message in words.
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

    :ivar seconds: the number of seconds for which each message is held. None: until the message is released.
    :ivar left: the number of messages that the hold still accepts; None means no limit.
    :ivar origin: the origin of the control (:mod:`.origin`).
    """

    number: int
    kind: MessageKind
    selection: Selection
    seconds: float | None
    left: int | None
    origin: str

    def describe(self) -> str:
        what = self.selection.describe(self.kind)
        return f"{self.kind} of {what}" if self.selection.named else what


@attrs.frozen(eq=False)
class _Held:
    """A message that is held.

    :ivar size: the size in bytes that counts for the limit.
    :ivar deliver: a function that releases the message. Its argument is the time of the server's clock, in
        seconds.
    :ivar frame: the header and the record of a request, or of the request that a reply answers.
    """

    message: HeldMessage
    connection: Connection
    size: int
    deliver: Callable[[float], None]
    frame: bytes = b""


@attrs.frozen(eq=False)
class _Released:
    """A request that continues after a hold or a delay.

    :ivar frame: the request. A reference to the request is kept, so that no other request can get the same
        id().
    :ivar affected: whether the faults have already been applied to the message.
    """

    frame: bytes
    connection: Connection
    affected: bool


class HoldingGate(FreezingGate):
    """Holds messages, by the rules above.

    :param started: the server's clock at its start, in seconds.
    :param schedule: calls a function at a time of that clock.
    :ivar recorder: the recorder of messages, if there is one. Call :meth:`update` after a change.
    """

    def __init__(
        self,
        service: Service,
        now: Callable[[], float],
        started: float,
        schedule: Callable[[float, Callable[[], object]], None],
        settle: Callable[[], None],
        go_on: Callable[[], None],
    ) -> None:
        super().__init__(service, now, settle, go_on)
        self.recorder: Recorder | None = None
        self._started = started
        self._schedule = schedule
        self._holds: dict[int, _Hold] = {}
        self._held: dict[int, _Held] = {}
        self._held_bytes = 0
        self._queues: Counter[tuple[Connection, MessageKind]] = Counter()  # how many are held
        self._released: dict[int, _Released] = {}  # by id() of the request's frame
        self._admitted: set[Connection] = set()  # their handshakes were released
        self._numbers = count(1)

    @property
    def needed(self) -> object:
        return super().needed or self._holds or self._held or self._released or self._admitted

    def happened(self) -> None:
        """Take note that a message is held."""

    # --- what passes -------------------------------------------------------------------------------------

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        if not super().handshake(connection, request):
            return False
        if connection in self._admitted:
            self._admitted.remove(connection)
            return True
        session = request.sessionId
        hold = self._hold_of("handshake", lambda hold: hold.selection.has_paths(session, lambda: ()))
        if hold is None:
            return True
        text = f"for session {session_text(session)}" if session else "for a new session"

        def deliver(now: float) -> None:
            self._admitted.add(connection)
            self.thaw(connection, hold, now)

        self.freeze(connection, hold)
        self._keep(connection, hold, "handshake", session, deliver, text=text)
        return False

    def requests(self, connection: Connection, frames: list[bytes]) -> list[bytes]:
        if not self._holds and not self._held:
            return frames
        return [frame for frame in frames if self._request_passes(connection, frame)]

    def _request_passes(self, connection: Connection, frame: bytes) -> bool:
        if connection.close_expected or len(frame) < 8:
            return True
        if id(frame) in self._released:
            return True
        op: int = HEADER(frame)[1]
        session = connection.session_id
        hold = self._hold_of("request", lambda hold: hold.selection.has_request(session, op, frame))
        if hold is None and (op == PING or not self._queues[connection, "request"]):
            return True
        what = describe_request(op, frame)
        deliver = partial(self._put_back, connection, frame)
        size, path = len(frame), what.path
        self._keep(connection, hold, "request", session, deliver, size, op, path, what.text, frame)
        return False

    def _put_back(self, connection: Connection, frame: bytes, now: float, *, affected: bool = False) -> None:
        """Return a request to its connection.

        :param affected: whether a fault has seen the request already.
        """
        ahead = sum(id(waiting) in self._released for waiting in connection.frames)
        self._released[id(frame)] = _Released(frame, connection, affected)
        connection.put_back(frame, ahead, now)

    def _hold_reply(self, connection: Connection, op: int, frame: bytes, kept: Kept, result: Result) -> None:
        """Hold a reply if a hold matches the reply, or if it comes after a held reply.

        :raises Withheld: if the reply is held.
        """
        session = connection.session_id
        hold = self._hold_of("reply", lambda hold: hold.selection.has_request(session, op, frame))
        if hold is None and (op == PING or not self._queues[connection, "reply"]):
            return

        def deliver(now: float) -> None:
            if self.recorder is not None:
                self.recorder.reply(connection, op, kept, now, result)
            connection.reply(op, frame, result)

        path = describe_request(op, frame).path
        text = f"{name_of(op)} {path or ''}".rstrip() + f" -> {describe_reply(op, path, *result[1:])}"
        self._keep(connection, hold, "reply", session, deliver, len(result[2]), op, path, text, frame)
        raise Withheld

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        if self._holds:
            events = [event for event in events if self._event_passes_now(connection, event)]
        return events

    def _event_passes_now(self, connection: Connection, event: Notification) -> bool:
        session = connection.session_id
        hold = self._hold_of("event", lambda hold: hold.selection.has_paths(session, lambda: [event.path]))
        if hold is None:
            return True

        def deliver(now: float) -> None:
            if self.recorder is not None:
                self.recorder.event(connection, event)
            connection.send(event.frame)
            connection.wake()

        text = f"{describe_event(event.type)} {event.path}"
        size = len(event.frame)
        self._keep(connection, hold, "event", session, deliver, size, path=event.path, text=text)
        return False

    def closed(self, connection: Connection, reason: str) -> None:
        self._released = {i: each for i, each in self._released.items() if each.connection is not connection}
        self._admitted.discard(connection)
        for held in [held for held in self._held.values() if held.connection is connection]:
            self._take(held.message.number)
        super().closed(connection, reason)

    # --- holding -----------------------------------------------------------------------------------------

    def hold(self, kind: MessageKind, selection: Selection, times: int | None, seconds: float | None) -> int:
        """Hold the selected messages from now on, and return the number of the hold."""
        number = next(self._numbers)
        self._holds[number] = _Hold(number, kind, selection, seconds, times, origin())
        self.update()
        return number

    def stop_holding(self, number: int) -> None:
        """End a hold, and release its messages.

        :raises ValueError: for a number that is no hold's.
        """
        if number not in self._holds:
            raise ValueError(f"there is no hold {number}; there are: {sorted(self._holds) or 'none'}")
        del self._holds[number]
        self.release([held.number for held in self.held() if held.hold == number])

    def holds(self) -> list[int]:
        return list(self._holds)

    def holds_in_words(self) -> dict[int, tuple[str, str]]:
        """Return the selection and the origin of each hold, by number."""
        return {number: (hold.describe(), hold.origin) for number, hold in self._holds.items()}

    def held(self) -> list[HeldMessage]:
        """List all messages that are held, the oldest first."""
        return [held.message for held in self._held.values()]

    def connection_held(self, number: int) -> Connection:
        """Return the connection of a held message.

        :raises KeyError: for a number that is not held.
        """
        return self._held[number].connection

    def request_held(self, number: int) -> tuple[int, bytes]:
        """Return the op code and the frame of a held request, or of the request that a held reply answers.

        :raises KeyError: for a number that is not held.
        """
        frame = self._held[number].frame
        return HEADER(frame)[1], frame

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
        """Drop messages.

        :raises ValueError: for a number that is not among :meth:`held`; then none is lost.
        """
        self._check(numbers)
        for number in numbers:
            if number in self._held:
                held = self._take(number)
                if self.recorder is not None:
                    what = f"{held.message.kind} {held.message.text}"
                    self.recorder.held(held.connection, f"LOST {number}: {what}{mark()}")
                self._follow(held)
        self._go_on()
        self.update()

    def _check(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self._held:
                raise ValueError(f"no message {number} is held; there are: {sorted(self._held) or 'none'}")

    def _hold_of(self, kind: MessageKind, wanted: Callable[[_Hold], bool]) -> _Hold | None:
        """Find the first hold that matches a message."""
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
        frame: bytes = b"",
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
        self._held[number] = _Held(message, connection, size + _OVERHEAD, deliver, frame)
        self._held_bytes += size + _OVERHEAD
        self._queues[connection, kind] += 1
        if self.recorder is not None:
            by = "" if hold is None else mark(hold.origin)
            self.recorder.held(connection, f"HELD as {number}: {kind} {text}{by}")
        self.happened()
        if hold is not None and hold.seconds is not None:
            self._schedule(now + hold.seconds, lambda: self.release([number] if number in self._held else []))
        if self._held_bytes > _MOST_HELD:
            connection.abort(f"more than {_MOST_HELD:,} bytes are held; release or lose some first")

    def _take(self, number: int) -> _Held:
        held = self._held.pop(number)
        self._held_bytes -= held.size
        queue = held.connection, held.message.kind
        self._queues[queue] -= 1
        if not self._queues[queue]:
            del self._queues[queue]
        return held

    def _follow(self, gone: _Held) -> None:
        """Release the messages that waited only because another message was held. This other message is
        released or lost now."""
        kind = gone.message.kind
        if kind not in ("request", "reply"):
            return
        for held in list(self._held.values()):
            if held.connection is gone.connection and held.message.kind == kind:
                if held.message.hold:
                    return
                if held.message.number in self._held:
                    self._take(held.message.number).deliver(self._now())

    def reset(self) -> None:
        """End every hold and pause. All connections must be closed before."""
        self._started = self._now()
        self._holds.clear()
        super().reset()
