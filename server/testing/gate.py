"""The gate between the clients and the engine. Here a test holds, loses, delays, reorders, changes and
records messages.

The gate has three layers. Each layer uses the layers below it. :mod:`.freezing` stops whole connections.
:mod:`.holding` keeps single messages back. :class:`MessageGate` injects faults, writes the history and
notifies observers.
Messages pass the gate only as long as something needs the gate (see ``needed``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import attrs

from ...protocol.operations import CLOSE_SESSION, WRITES
from ...protocol.records import ConnectRequest
from ..core.operations import UnknownOperation
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.gate import Withheld
from ..net.requests import reply_frame
from ..net.service import Service
from .describe import describe_event, describe_reply, some
from .faults import Injection, Injector
from .history import MOST_EVENTS, Kept, Result
from .holding import HEADER, HoldingGate
from .observers import Observer
from .operations import paths_in


@attrs.define
class Unsent:
    """The events that wait until a connection is thawed. The history needs them.

    :ivar first: the first events. The number is limited to the number that the history shows.
    :ivar count: the number of all events.
    """

    first: list[Notification] = attrs.field(factory=list)
    count: int = 0

    def add(self, events: Sequence[Notification]) -> None:
        self.first += events[: MOST_EVENTS - len(self.first)]
        self.count += len(events)

    def __str__(self) -> str:
        return some([f"{describe_event(event.type)} {event.path}" for event in self.first], self.count)


class MessageGate(HoldingGate):
    """The gate of one server, with all of its layers.

    :param now: the server's clock, in seconds.
    :param started: the time of that clock at the start of the server, in seconds.
    :param schedule: calls a function at a time of that clock.
    :param settle: sends the waiting output of all connections.
    :param go_on: sends the waiting output, and handles the waiting input of the connections that were frozen.
    :ivar unsent: the events of frozen connections, while the history is recorded.
    :ivar observers: the observers of messages. Call :meth:`update` after a change.
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
        super().__init__(service, now, started, schedule, settle, go_on)
        self.observers: list[Observer] = []
        self._injectors: list[Injector] = []
        self.unsent: dict[Connection, Unsent] = {}
        self.update()

    @property
    def needed(self) -> object:
        return self.recorder or self._injectors or self.observers or super().needed

    @property
    def wants_whole(self) -> bool:
        """Whether a fault can be injected now: before or after a request, but not in the middle of a
        request."""
        return bool(self._injectors)

    # --- what passes -------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        if self.recorder is not None:
            self.recorder.opened(connection)
        super().opened(connection)

    def handshake(self, connection: Connection, request: ConnectRequest) -> bool:
        if self.recorder is not None:
            self.recorder.spoke(connection)
        if not super().handshake(connection, request):
            return False
        for injector in self._injectors:
            injection = injector.handshake(request.sessionId)
            if injection is not None:
                self._cut(injection, connection, "a handshake is lost, the connection cut")
        return not connection.close_expected

    def attached(self, connection: Connection, resumed: bool) -> None:
        if self.recorder is not None:
            self.recorder.attached(connection, resumed)
        for observer in self.observers:
            observer.attached(connection, resumed)
        for injector in self._injectors:
            injection = injector.attached(connection.session_id, resumed)
            if injection is not None:
                self._cut(
                    injection, connection, "the session is granted, the answer lost: the connection is cut"
                )
        self.happened()

    def happened(self) -> None:
        """Tell the observers that something has happened."""
        for observer in self.observers:
            observer.happened()

    def refused(self, connection: Connection, session_id: int, seen: int = 0) -> None:
        if self.recorder is not None:
            self.recorder.refused(connection, session_id, seen)

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        released = self._released.pop(id(frame), None) if self._released else None
        if self.observers and (released is None or not released.affected):
            for observer in self.observers:
                observer.request(connection, op, frame)
        if self._injectors and (released is None or not released.affected):
            # Each injector counts the request; the first that is due injects its fault
            session = connection.session_id
            due = [
                (each, injection)
                for each in self._injectors
                if (injection := each.request(session, op, frame))
            ]
            if due:
                injector, injection = due[0]
                self.settle(connection)
                try:
                    return self._inject(injection, connection, op, frame, now)
                finally:
                    injector.has_fired()
        recorder = self.recorder
        kept = recorder.request(connection, op, frame, now) if recorder is not None else b""
        try:
            result = connection.engine.handle(connection, op, frame, self._service.at(now))
        except UnknownOperation:
            if recorder is not None:
                recorder.reply(connection, op, kept, now, (-1, -6, b""))
            raise
        except Withheld:  # it waits for the log of an ensemble
            self.happened()
            raise
        self._may_reply(connection, op, frame, kept, now, result)
        return result

    def finished(self, connection: Connection, op: int, frame: bytes, result: Result, now: float) -> None:
        kept = self.recorder.kept(op, frame) if self.recorder is not None else b""
        self._may_reply(connection, op, frame, kept, now, result)

    def answered(self, connection: Connection, op: int, frame: bytes, result: Result, now: float) -> None:
        kept = self.recorder.kept(op, frame) if self.recorder is not None else b""
        with suppress(Withheld):
            self._may_reply(connection, op, frame, kept, now, result)
            connection.reply(op, frame, result)

    def _may_reply(
        self, connection: Connection, op: int, frame: bytes, kept: Kept, now: float, result: Result
    ) -> None:
        """Record a reply that is sent now.

        :raises Withheld: the reply is held.
        """
        if self._holds or self._held:
            self._hold_reply(connection, op, frame, kept, result)
        if self.recorder is not None:
            self.recorder.reply(connection, op, kept, now, result)

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        events = super().events(connection, events)
        for injector in self._injectors:
            for event in events:
                injection = injector.event(connection.session_id, event.path)
                if injection is not None:
                    what = f"{describe_event(event.type)} {event.path}"
                    self._record(injection, connection, f"the event comes in {injection.seconds:g} s: {what}")
                    self._wait(injection, connection, self._now(), lambda until: None)
        if self.recorder is not None:
            if connection.frozen:
                self.unsent.setdefault(connection, Unsent()).add(events)
            else:
                self.recorder.events(connection, events)
        return events

    def thaw(self, connection: Connection, why: object, now: float) -> None:
        if self._frozen.get(connection) == [why]:
            unsent = self.unsent.pop(connection, None)
            if self.recorder is not None and unsent is not None:
                self.recorder.events(connection, unsent.first, unsent.count)
        super().thaw(connection, why, now)

    def closed(self, connection: Connection, reason: str) -> None:
        unsent = self.unsent.pop(connection, None)
        if self.recorder is not None:
            if unsent is not None:
                self.recorder.held(connection, f"NEVER SENT, as the connection was stopped: {unsent}")
            self.recorder.closed(connection, reason)
        super().closed(connection, reason)

    # --- faults ------------------------------------------------------------------------------------------

    @property
    def injectors(self) -> Sequence[Injector]:
        """All injectors in force."""
        return self._injectors

    def add_injector(self, injector: Injector) -> None:
        self._injectors = [*self._injectors, injector]  # not while it is gone through
        self.update()

    def remove_injector(self, injector: Injector) -> None:
        self._injectors = [each for each in self._injectors if each is not injector]
        self.update()

    def _cut(self, injection: Injection, connection: Connection, words: str) -> None:
        """Cut a connection during its handshake."""
        if not connection.close_expected:
            self._record(injection, connection, words)
            connection.abort(injection.reason)

    def _record(self, injection: Injection, connection: Connection, words: str) -> None:
        """Record the fault of a message that is not a request."""
        if self.recorder is not None:
            self.recorder.held(connection, injection.say(words), kind="fault")

    def _inject(
        self, injection: Injection, connection: Connection, op: int, frame: bytes, now: float
    ) -> Result:
        """Inject a fault into a request, and return the reply to the request.

        :raises Withheld: there is no reply, or not yet.
        """
        if injection.when == "before" and injection.action == "delay":
            self._note(injection, connection, op, frame)
            self._wait(injection, connection, now, partial(self._put_back, connection, frame, affected=True))
            raise Withheld
        if injection.when == "after" and injection.action in ("drop_reply", "delay"):
            self.freeze(connection, injection)  # now, so that the request's own events are held back too
        recorder = self.recorder
        kept = recorder.request(connection, op, frame, now) if recorder is not None else b""
        engine = connection.engine
        if injection.when == "after":
            try:
                result = engine.handle(connection, op, frame, self._service.at(now))
            except Withheld:
                self._inject_waiting(injection, connection, op, frame, now)
                raise
            self._note(injection, connection, op, frame, result)
            if injection.action == "delay":
                self._reply_late(injection, connection, op, frame, kept, now, result)
        else:
            self._note(injection, connection, op, frame)
        if injection.action == "disconnect":
            connection.abort(injection.reason)
            raise Withheld
        if injection.action == "drop_reply":
            self.freeze(connection, injection)
            raise Withheld
        if injection.action == "expire":
            session = connection.session
            if session is not None and not session.closed:  # it may have closed itself
                engine.expire(session, self._service.at(now))
            connection.abort(injection.reason)
            raise Withheld
        # A write that is refused takes a zxid too (semantics.md section 2)
        if injection.when == "before" and op in WRITES:
            engine.refuse(injection.code, connection.session_id, frame)
        result = engine.zxid, injection.code, b""
        if recorder is not None:
            recorder.reply(connection, op, kept, now, result)
        return result

    def _inject_waiting(
        self, injection: Injection, connection: Connection, op: int, frame: bytes, now: float
    ) -> None:
        """Inject a fault ``when="after"`` into a request that waits for the log of an ensemble. If the fault
        loses the connection, the connection is lost now. If it is a delay, the delay begins now. An error
        cannot replace the reply any more."""
        self._note(injection, connection, op, frame)
        if injection.action == "disconnect":
            connection.abort(injection.reason)
        elif injection.action == "delay":
            self._wait(injection, connection, now, lambda until: None)

    def _reply_late(
        self,
        injection: Injection,
        connection: Connection,
        op: int,
        frame: bytes,
        kept: Kept,
        now: float,
        result: Result,
    ) -> None:
        """Send a reply after the delay of a fault.

        :raises Withheld: always.
        """
        connection.send(reply_frame(HEADER(frame)[0], *result))  # at once: later events come behind it

        def tell(until: float) -> None:
            if self.recorder is not None:
                self.recorder.reply(connection, op, kept, until, result)
            if op == CLOSE_SESSION:
                self.thaw(connection, injection, until)
                connection.end_session()

        self._wait(injection, connection, now, tell)
        raise Withheld

    def _wait(
        self, injection: Injection, connection: Connection, now: float, then: Callable[[float], None]
    ) -> None:
        """Freeze a connection for as many seconds as a fault says."""
        until = now + injection.seconds

        def go_on() -> None:
            if not connection.close_expected:
                then(until)
                self.thaw(connection, injection, until)
                self._go_on()

        self.freeze(connection, injection)
        self._schedule(until, go_on)

    def _note(
        self,
        injection: Injection,
        connection: Connection,
        op: int,
        frame: bytes,
        result: Result | None = None,
    ) -> None:
        if self.recorder is not None:
            path = next(iter(paths_in(op, frame)), None)
            said = "" if result is None else describe_reply(op, path, *result[1:])
            zxid = 0 if result is None else result[0]
            self.recorder.fault(connection, op, frame, injection.describe(said), zxid)

    def reset(self) -> None:
        """End every fault, hold and pause. All connections must be closed before."""
        self._injectors = []
        super().reset()
