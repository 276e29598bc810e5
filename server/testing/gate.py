"""The gate between the clients and the engine: what a test holds, loses, delays, reorders, spoils or records.

It has three layers, each of which uses those below: :mod:`.freezing` stops whole connections, :mod:`.holding`
keeps single messages back, :class:`MessageGate` spoils requests, writes the history and tells the observers.
The gate stands in the way only while something needs it, see ``needed``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ...protocol.operations import CLOSE_SESSION, WRITES
from ...protocol.records import ConnectRequest
from ..core.operations import UnknownOperation
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.gate import Withheld
from ..net.requests import reply_frame
from ..net.service import Service
from .describe import describe_event, describe_reply, some
from .faults import Harm, Spoiler
from .history import Kept, Result
from .holding import HEADER, HoldingGate
from .observers import Observer
from .operations import paths_in


class MessageGate(HoldingGate):
    """The gate of one server, with all of its layers.

    :param now: the server's clock, in seconds.
    :param started: that clock at the start of the server.
    :param schedule: calls something at a time of that clock.
    :param settle: sends what waits on all connections.
    :param go_on: does that, and handles what waits at those that were frozen.
    :ivar observers: what hears of messages; :meth:`update` follows a change of it.
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
        self._spoilers: list[Spoiler] = []
        self._unsent: dict[Connection, list[Notification]] = {}  # events of connections that are frozen
        self.update()

    @property
    def needed(self) -> object:
        return self.recorder or self._spoilers or self.observers or super().needed

    @property
    def wants_whole(self) -> bool:
        """While a fault may strike: it does so before or after a request, and not in the midst of one."""
        return bool(self._spoilers)

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
        for spoiler in self._spoilers:
            harm = spoiler.handshake(request.sessionId)
            if harm is not None:
                self._cut(harm, connection, "a handshake is lost, the connection cut")
        return not connection.close_expected

    def attached(self, connection: Connection, resumed: bool) -> None:
        if self.recorder is not None:
            self.recorder.attached(connection, resumed)
        for observer in self.observers:
            observer.attached(connection, resumed)
        for spoiler in self._spoilers:
            harm = spoiler.attached(connection.session_id, resumed)
            if harm is not None:
                self._cut(harm, connection, "the session is granted, the answer lost: the connection is cut")
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
        if self.observers and (released is None or not released.spoiled):
            for observer in self.observers:
                observer.request(connection, op, frame)
        if self._spoilers and (released is None or not released.spoiled):
            # Each spoiler counts the request; the first that is due spoils it
            session = connection.session_id
            due = [(each, harm) for each in self._spoilers if (harm := each.request(session, op, frame))]
            if due:
                spoiler, harm = due[0]
                self.settle(connection)
                try:
                    return self._spoil(harm, connection, op, frame, now)
                finally:
                    spoiler.has_fired()
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

        :raises Withheld: if it is held instead.
        """
        if self._holds or self._held:
            self._hold_reply(connection, op, frame, kept, result)
        if self.recorder is not None:
            self.recorder.reply(connection, op, kept, now, result)

    def events(self, connection: Connection, events: Sequence[Notification]) -> Sequence[Notification]:
        events = super().events(connection, events)
        for spoiler in self._spoilers:
            for event in events:
                harm = spoiler.event(connection.session_id, event.path)
                if harm is not None:
                    what = f"{describe_event(event.type)} {event.path}"
                    self._record(harm, connection, f"the event comes in {harm.seconds:g} s: {what}")
                    self._wait(harm, connection, self._now(), lambda until: None)
        if self.recorder is not None:
            if connection.frozen:
                self._unsent.setdefault(connection, []).extend(events)
            else:
                self.recorder.events(connection, events)
        return events

    def thaw(self, connection: Connection, why: object, now: float) -> None:
        if self._frozen.get(connection) == [why]:
            unsent = self._unsent.pop(connection, ())
            if self.recorder is not None:
                self.recorder.events(connection, unsent)
        super().thaw(connection, why, now)

    def closed(self, connection: Connection, reason: str) -> None:
        unsent = self._unsent.pop(connection, ())
        if self.recorder is not None:
            if unsent:
                names = some([f"{describe_event(event.type)} {event.path}" for event in unsent])
                self.recorder.held(connection, f"NEVER SENT, as the connection was stopped: {names}")
            self.recorder.closed(connection, reason)
        super().closed(connection, reason)

    # --- faults ------------------------------------------------------------------------------------------

    @property
    def spoilers(self) -> Sequence[Spoiler]:
        """All that are in force."""
        return self._spoilers

    def add_spoiler(self, spoiler: Spoiler) -> None:
        self._spoilers = [*self._spoilers, spoiler]  # not while it is gone through
        self.update()

    def remove_spoiler(self, spoiler: Spoiler) -> None:
        self._spoilers = [each for each in self._spoilers if each is not spoiler]
        self.update()

    def _cut(self, harm: Harm, connection: Connection, words: str) -> None:
        """Cut a connection during its handshake."""
        if not connection.close_expected:
            self._record(harm, connection, words)
            connection.abort(harm.reason)

    def _record(self, harm: Harm, connection: Connection, words: str) -> None:
        """Enter what happens to a message that is no request."""
        if self.recorder is not None:
            self.recorder.held(connection, harm.say(words), kind="fault")

    def _spoil(self, harm: Harm, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        """Do to a request what a fault says; returns its reply.

        :raises Withheld: if there is none, or not yet.
        """
        if harm.when == "before" and harm.action == "delay":
            self._note(harm, connection, op, frame)
            self._wait(harm, connection, now, partial(self._put_back, connection, frame, spoiled=True))
            raise Withheld
        if harm.when == "after" and harm.action in ("drop_reply", "delay"):
            self.freeze(connection, harm)  # now, so that the request's own events are held back too
        recorder = self.recorder
        kept = recorder.request(connection, op, frame, now) if recorder is not None else b""
        engine = connection.engine
        if harm.when == "after":
            try:
                result = engine.handle(connection, op, frame, self._service.at(now))
            except Withheld:
                self._spoil_waiting(harm, connection, op, frame, now)
                raise
            self._note(harm, connection, op, frame, result)
            if harm.action == "delay":
                self._reply_late(harm, connection, op, frame, kept, now, result)
        else:
            self._note(harm, connection, op, frame)
        if harm.action == "disconnect":
            connection.abort(harm.reason)
            raise Withheld
        if harm.action == "drop_reply":
            self.freeze(connection, harm)
            raise Withheld
        if harm.action == "expire":
            session = connection.session
            if session is not None and not session.closed:  # it may have closed itself
                engine.expire(session, self._service.at(now))
            connection.abort(harm.reason)
            raise Withheld
        # A write that is refused takes a zxid too (semantics.md section 2)
        if harm.when == "before" and op in WRITES:
            engine.refuse(harm.code, connection.session_id, frame)
        result = engine.zxid, harm.code, b""
        if recorder is not None:
            recorder.reply(connection, op, kept, now, result)
        return result

    def _spoil_waiting(self, harm: Harm, connection: Connection, op: int, frame: bytes, now: float) -> None:
        """Do what a fault says "after" a request that waits for the log of an ensemble: the connection is
        lost now, the delay begins now, and no error stands in for the reply."""
        self._note(harm, connection, op, frame)
        if harm.action == "disconnect":
            connection.abort(harm.reason)
        elif harm.action == "delay":
            self._wait(harm, connection, now, lambda until: None)

    def _reply_late(
        self,
        harm: Harm,
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
        connection.send(reply_frame(HEADER(frame)[0], *result))  # at once: later events come behind it

        def tell(until: float) -> None:
            if self.recorder is not None:
                self.recorder.reply(connection, op, kept, until, result)
            if op == CLOSE_SESSION:
                self.thaw(connection, harm, until)
                connection.end_session()

        self._wait(harm, connection, now, tell)
        raise Withheld

    def _wait(self, harm: Harm, connection: Connection, now: float, then: Callable[[float], None]) -> None:
        """Freeze a connection for the seconds of a fault."""
        until = now + harm.seconds

        def go_on() -> None:
            if not connection.close_expected:
                then(until)
                self.thaw(connection, harm, until)
                self._go_on()

        self.freeze(connection, harm)
        self._schedule(until, go_on)

    def _note(
        self, harm: Harm, connection: Connection, op: int, frame: bytes, result: Result | None = None
    ) -> None:
        if self.recorder is not None:
            path = next(iter(paths_in(op, frame)), None)
            said = "" if result is None else describe_reply(op, path, *result[1:])
            zxid = 0 if result is None else result[0]
            self.recorder.fault(connection, op, frame, harm.describe(said), zxid)

    def reset(self) -> None:
        """End every fault, hold and pause, once all connections are closed."""
        self._spoilers = []
        super().reset()
