"""Faults: what goes wrong with exactly one request.

A fault stands before the engine and acts on the requests that it matches. The engine itself is never told a
lie: "applied, reply lost" is a request that was applied, on a connection that then ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar

from ...protocol.constants import OpCode
from ...protocol.errors import ZooKeeperError
from ..core.operations import WRITES
from ..core.txn import Refused
from ..net.connection import Connection
from ..net.requests import NoReply, NotYet
from ..net.service import Handler, Service
from .describe import describe_reply, error_name
from .history import FAULT, Recorder, Result
from .operations import glob, name_of, op_codes, paths_in

T = TypeVar("T")

When: TypeAlias = Literal["before", "after"]
Action: TypeAlias = Literal["disconnect", "drop_reply", "error", "delay"]
ErrorSpec: TypeAlias = type[ZooKeeperError] | ZooKeeperError | int
Run: TypeAlias = Callable[..., Any]
"""Calls a function in the server's own thread."""

_WORDS: dict[tuple[str, str], str] = {
    ("before", "disconnect"): "NOT APPLIED: the request is lost, the connection cut",
    ("before", "drop_reply"): "NOT APPLIED: the request is lost, the connection silent from now on",
    ("before", "error"): "NOT APPLIED: answered {error}",
    ("before", "delay"): "delayed: it will be applied and answered in {seconds:g} s",
    ("after", "disconnect"): "APPLIED{result}, REPLY LOST: the connection is cut",
    ("after", "drop_reply"): "APPLIED{result}, REPLY LOST: the connection is silent from now on",
    ("after", "error"): "APPLIED{result}, but answered {error}",
    ("after", "delay"): "APPLIED{result}, the reply comes in {seconds:g} s",
}
_SEEN = 8  # other requests that are listed when a fault never fired


class FaultNeverFired(AssertionError):
    """A fault was planned, and no request matched it: the test did not test what it meant to."""


class Fault:
    """One planned fault: a context manager, in force inside its ``with``.

    :ivar seen: how many requests have matched, spoiled or not.
    :ivar fired: how many were spoiled.
    """

    def __init__(
        self,
        faults: Faults,
        *,
        op: str | Iterable[str] | None,
        path: str | None,
        session: int | None,
        nth: int,
        times: int | None,
        when: When,
        action: Action,
        error: ErrorSpec | None,
        seconds: float | None,
        required: bool,
        run: Run,
    ) -> None:
        if (when, action) not in _WORDS:
            raise ValueError(
                f"when={when!r}, action={action!r}: when is 'before' or 'after', "
                "action is 'disconnect', 'drop_reply', 'error' or 'delay'"
            )
        if nth < 1 or (times is not None and times < 1):
            raise ValueError(f"nth and times count from 1, not {nth} and {times}")
        if (error is not None) != (action == "error"):
            raise ValueError("action='error' needs error=, and no other action takes it")
        if (seconds is not None) != (action == "delay"):
            raise ValueError("action='delay' needs seconds=, and no other action takes it")
        if seconds is not None and not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds must be a number of at least 0, not {seconds}")
        self.seen = 0
        self.fired = 0
        self.when = when
        self.action = action
        self.code = 0 if error is None else _code_of(error)
        self.seconds = seconds or 0.0
        self._ops = op_codes(op)
        self._pattern = None if path is None else glob(path)
        self._session = session
        self._first, self._times = nth, times
        self._required = required
        self._faults = faults
        self._run = run
        self._happened = threading.Event()
        self._others: Counter[str] = Counter()
        what = "any request" if op is None else op if isinstance(op, str) else " or ".join(op)
        whose = "" if session is None else f" of session 0x{session:x}"
        self._words = f"{what}{f' on {path}' if path is not None else ''}{whose}"

    def __repr__(self) -> str:
        return f"<Fault {self.when} {self._words}: {self.action}, fired {self.fired} of {self.seen}>"

    def __enter__(self) -> Self:
        self._run(self._faults.add, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._faults.remove, self)
        except RuntimeError:  # the server is gone: the body's own error, if any, says more
            if error is None and not self.fired:
                raise
        if error is None and self._required and not self.fired:
            raise FaultNeverFired(self._explain())

    def wait(self, timeout: float = 10.0) -> None:
        """Return once it has fired; for a thread other than the server's.

        :param timeout: seconds of real time.
        :raises TimeoutError: if it has not fired by then.
        """
        if self._faults.thread == threading.get_ident():
            raise RuntimeError("wait() would stop the server, which runs in this thread; look at .fired")
        if not self._happened.wait(timeout):
            raise TimeoutError(self._explain())

    def describe(self, result: str = "") -> str:
        """What it does to a request, in words.

        :param result: what the request was, or would have been, answered.
        """
        return _WORDS[self.when, self.action].format(
            error=error_name(self.code), seconds=self.seconds, result=f" ({result})" if result else ""
        )

    def _explain(self) -> str:
        text = f"the fault for {self._words} never fired"
        if self.seen:
            return f"{text}: {self.seen} such requests came, but it waits for number {self._first}"
        if not self._others:
            return f"{text}: no request came at all while it was in force"
        most = ", ".join(f"{what} ({n} times)" for what, n in self._others.most_common(_SEEN))
        hint = "; * does not match a /, ** does" if self._pattern is not None else ""
        return f"{text}. These requests came: {most}{hint}"

    # --- in the server's thread --------------------------------------------------------------------------

    def count(self, connection: Connection, op: int, frame: bytes) -> bool:
        """Take note of a request; True if it is to be spoiled."""
        if not self._is_meant(connection, op, frame):
            if op != OpCode.PING:
                self._others[" ".join([name_of(op), *paths_in(op, frame)[:1]])] += 1
            return False
        self.seen += 1
        return self.seen >= self._first and (self._times is None or self.fired < self._times)

    def _is_meant(self, connection: Connection, op: int, frame: bytes) -> bool:
        if op not in self._ops or self._session not in (None, connection.session_id):
            return False
        pattern = self._pattern
        return pattern is None or any(pattern.fullmatch(path) for path in paths_in(op, frame))

    def has_fired(self) -> None:
        self.fired += 1
        self._happened.set()


def _code_of(error: ErrorSpec) -> int:
    code = error if isinstance(error, int) else getattr(error, "code", 0)
    if not isinstance(code, int) or isinstance(code, bool) or not -(2**31) <= code < 0:
        raise ValueError(f"error={error!r} is neither a ZooKeeperError nor a negative error code")
    return code


class Faults:
    """The faults in force, as a stand-in for the engine.

    :param settle: sends what a connection has said already, so that only the meant reply is lost.
    :param schedule: calls something at a time of the server's clock.
    :param changed: called when :attr:`needed` may have changed.
    :ivar thread: the server's thread.
    """

    def __init__(
        self,
        service: Service,
        recorder: Recorder | None,
        settle: Callable[[Connection], None],
        schedule: Callable[[float, Callable[[], object]], None],
        flush: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._service = service
        self._recorder = recorder
        self._settle = settle
        self._schedule = schedule
        self._flush = flush
        self._changed = changed
        self._active: list[Fault] = []
        self._held: dict[Connection, None] = {}  # held by a fault: nothing behind its request may overtake
        self._passed: dict[Connection, None] = {}  # the next request was delayed, and has had its share
        self.inner: Handler = service.engine.handle
        self.thread = threading.get_ident()

    @property
    def needed(self) -> bool:
        """Whether requests must pass here."""
        return bool(self._active or self._held or self._passed)

    def add(self, fault: Fault) -> None:
        self._held = {c: None for c in self._held if not c.close_expected}
        self._passed = {c: None for c in self._passed if not c.close_expected}
        self._active.append(fault)
        self._changed()

    def remove(self, fault: Fault) -> None:
        if fault in self._active:
            self._active.remove(fault)
        self._changed()

    def handle(self, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        """Stands in for the engine."""
        if connection in self._held:
            raise NotYet
        if connection in self._passed:
            del self._passed[connection]
            self._changed()
            return self.inner(connection, op, frame, now)
        # all of them count it, and the first that is due has it
        due = [fault for fault in self._active if fault.count(connection, op, frame)]
        if not due:
            return self.inner(connection, op, frame, now)
        self._settle(connection)
        spoil = self._before if due[0].when == "before" else self._after
        try:
            return spoil(due[0], connection, op, frame, now)
        finally:
            due[0].has_fired()

    def _before(self, fault: Fault, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        if fault.action == "delay":
            self._note(fault, connection, op, frame)
            self._hold(connection)

            def go_on() -> None:
                if not connection.close_expected:
                    self._passed[connection] = None
                self._release(connection, now + fault.seconds)

            self._schedule(now + fault.seconds, go_on)
            raise NotYet
        kept = self._recorder and self._recorder.request(connection, op, frame, now)
        self._note(fault, connection, op, frame)
        self._lose(fault, connection)
        engine = self._service.engine
        if op in WRITES:  # a refused write takes a zxid all the same (semantics.md section 2)
            engine.zxid += 1
            engine.record(Refused(fault.code), connection.session_id)
        result = engine.zxid, fault.code, b""
        if self._recorder and kept:
            self._recorder.reply(connection, op, kept, now, result)
        return result

    def _after(self, fault: Fault, connection: Connection, op: int, frame: bytes, now: float) -> Result:
        if fault.action in ("drop_reply", "delay"):
            self._hold(connection)  # now, so that the request's own events are held back too
        kept = self._recorder and self._recorder.request(connection, op, frame, now)
        zxid, err, body = self._service.engine.handle(connection, op, frame, now)
        self._note(fault, connection, op, frame, zxid, (err, body))
        if fault.action != "delay":
            self._lose(fault, connection)
            result = zxid, fault.code, b""
            if self._recorder and kept:
                self._recorder.reply(connection, op, kept, now, result)
            return result
        until = now + fault.seconds

        def answer() -> None:
            if self._recorder and kept and not connection.close_expected:
                self._recorder.reply(connection, op, kept, until, (zxid, err, body))
            self._release(connection, until)

        self._schedule(until, answer)
        return zxid, err, body  # it waits in the connection, so that later events come behind it

    def _lose(self, fault: Fault, connection: Connection) -> None:
        """Leave the client without an answer, unless it is to get an error."""
        if fault.action == "disconnect":
            connection.abort(FAULT)
            raise NoReply
        if fault.action == "drop_reply":
            if connection not in self._held:
                self._hold(connection)
            raise NoReply

    def _note(
        self,
        fault: Fault,
        connection: Connection,
        op: int,
        frame: bytes,
        zxid: int = 0,
        result: tuple[int, bytes] | None = None,
    ) -> None:
        if self._recorder is None:
            return
        said = ""
        if result is not None:
            path = next(iter(paths_in(op, frame)), None)
            said = describe_reply(op, path, *result)
        self._recorder.fault(connection, op, frame, fault.describe(said), zxid)

    def _hold(self, connection: Connection) -> None:
        connection.hold()
        self._held[connection] = None
        self._changed()

    def _release(self, connection: Connection, now: float) -> None:
        self._held.pop(connection, None)
        if not connection.close_expected:
            connection.release(now)
            self._flush()
        self._changed()
