"""Planned faults: by default, exactly one request fails.

A fault acts on matching requests before they reach the engine. The engine itself does not change. For
example, "applied, reply lost" means that the engine has applied the request, and then the connection has
ended.

An :class:`Injector` decides which messages are affected. An :class:`Injection` says what happens to one
message. A
:class:`Fault` is an injector that a test plans; :mod:`.chaos` has the injector of random faults.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import attrs

from ...protocol.errors import ZooKeeperError
from ...protocol.operations import PING
from .describe import error_name
from .history import FAULT
from .operations import Selection, name_of, paths_in
from .origin import BY_TEST, mark, origin

if TYPE_CHECKING:
    from .gate import MessageGate

When: TypeAlias = Literal["before", "after"]
Action: TypeAlias = Literal["disconnect", "drop_reply", "error", "delay", "expire"]
ErrorSpec: TypeAlias = type[ZooKeeperError] | ZooKeeperError | int
Run: TypeAlias = Callable[..., Any]
"""A function that calls another function in the server's own thread."""

_WORDS: dict[tuple[str, str], str] = {
    ("before", "disconnect"): "NOT APPLIED: the request is lost, the connection cut",
    ("before", "drop_reply"): "NOT APPLIED: the request is lost, the connection silent from now on",
    ("before", "error"): "NOT APPLIED: answered {error}",
    ("before", "delay"): "delayed: it will be applied and answered in {seconds:g} s",
    ("before", "expire"): "NOT APPLIED: the request is lost, the session ends",
    ("after", "disconnect"): "APPLIED{result}, REPLY LOST: the connection is cut",
    ("after", "drop_reply"): "APPLIED{result}, REPLY LOST: the connection is silent from now on",
    ("after", "error"): "APPLIED{result}, but answered {error}",
    ("after", "delay"): "APPLIED{result}, the reply comes in {seconds:g} s",
    ("after", "expire"): "APPLIED{result}, REPLY LOST: the session ends",
}
_SEEN = 8  # other requests that are listed when a fault never fired


class FaultNeverFired(AssertionError):
    """No request matched a planned fault, so the test did not test the fault."""


@attrs.frozen(eq=False)
class Injection:
    """What happens to one message.

    :ivar code: the code of the error in the reply, for the action ``error``.
    :ivar seconds: the delay in seconds on the server's clock, for the action ``delay``.
    :ivar cause: the cause that the timeline shows; empty for a planned fault.
    :ivar origin: the origin of the control (:mod:`.origin`).
    """

    when: When
    action: Action
    code: int = 0
    seconds: float = 0.0
    cause: str = ""
    origin: str = BY_TEST

    @property
    def reason(self) -> str:
        """The reason that is recorded when this injection closes a connection."""
        of = f" of {self.cause}" if self.cause else ""
        return f"{FAULT}{of}{mark(self.origin)}"

    def describe(self, result: str = "") -> str:
        """Describe what happens to a request.

        :param result: the answer that the request got, or would have got.
        """
        words = _WORDS[self.when, self.action].format(
            error=error_name(self.code), seconds=self.seconds, result=f" ({result})" if result else ""
        )
        return self.say(words)

    def say(self, words: str) -> str:
        """Return the words with the cause before them and the mark of the origin after them."""
        cause = f"{self.cause}: " if self.cause else ""
        return f"{cause}{words}{mark(self.origin)}"


class Injector:
    """Decides which messages are affected. Subclasses override the methods. By default none is.

    Each method is called once for each message, even if another injector affects the message.

    :ivar origin: the origin of the control (:mod:`.origin`).
    """

    origin: str = BY_TEST

    def request(self, session: int, op: int, frame: bytes) -> Injection | None:
        """Return what happens to a request of this session."""

    def has_fired(self) -> None:
        """Note that the fault that :meth:`request` has returned was injected."""

    def event(self, session: int, path: str) -> Injection | None:
        """Return the delay of a watch event. The delay also affects all later messages on the connection."""

    def handshake(self, session: int) -> Injection | None:
        """Return what happens to a handshake that requests this session. The session 0 means a new
        session."""

    def attached(self, session: int, resumed: bool) -> Injection | None:
        """Return what happens to the answer to a handshake."""


class Fault(Injector):
    """One planned fault. It is a context manager, and the fault is in force inside its ``with``.

    :ivar words: the requests that the fault affects, in words.
    :ivar seen: the number of requests that have matched. Requests that were not affected count too.
    :ivar fired: the number of affected requests.
    :ivar injection: what happens to these requests.
    :raises ValueError: the arguments exclude each other, or a number is out of range.
    """

    def __init__(
        self,
        gate: MessageGate,
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
                "action is 'disconnect', 'drop_reply', 'error', 'delay' or 'expire'"
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
        code = 0 if error is None else _code_of(error)
        self.origin = origin()
        self.injection = Injection(when, action, code, seconds or 0.0, origin=self.origin)
        self._selection = Selection.of(op, path, session)
        self._first, self._times = nth, times
        self._required = required
        self._gate = gate
        self._thread = threading.get_ident()
        self._run = run
        self._happened = threading.Event()
        self._others: Counter[str] = Counter()
        self.words = self._selection.describe("request")

    def __repr__(self) -> str:
        when, action = self.injection.when, self.injection.action
        return f"<Fault {when} {self.words}: {action}, fired {self.fired} of {self.seen}>"

    def __enter__(self) -> Self:
        self._run(self._gate.add_injector, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the fault.

        :raises FaultNeverFired: it never fired, and it was ``required``.
        """
        __tracebackhide__ = True
        try:
            self._run(self._gate.remove_injector, self)
        except RuntimeError:  # the server is gone: the body's own error, if any, says more
            if error is None and not self.fired:
                raise
        if error is None and self._required and not self.fired:
            raise FaultNeverFired(self._explain())

    def wait(self, timeout: float = 10.0) -> None:
        """Wait until the fault has fired. Call this method in a thread that does not run the server.

        :param timeout: seconds of real time.
        :raises TimeoutError: it has not fired by then.
        :raises RuntimeError: this is the server's thread.
        """
        if self._thread == threading.get_ident():
            raise RuntimeError("wait() would stop the server, which runs in this thread; read .fired instead")
        if not self._happened.wait(timeout):
            raise TimeoutError(self._explain())

    def _explain(self) -> str:
        text = f"the fault for {self.words} never fired"
        if self.seen:
            return f"{text}: {self.seen} such requests came, but it waits for number {self._first}"
        if not self._others:
            return f"{text}: no request came at all while it was in force"
        most = ", ".join(f"{what} ({n} times)" for what, n in self._others.most_common(_SEEN))
        hint = "; * does not match a /, ** does" if self._selection.pattern is not None else ""
        return f"{text}. These requests came: {most}{hint}"

    # --- in the server's thread --------------------------------------------------------------------------

    def request(self, session: int, op: int, frame: bytes) -> Injection | None:
        if not self._selection.has_request(session, op, frame):
            if op != PING:
                self._others[" ".join([name_of(op), *paths_in(op, frame)[:1]])] += 1
            return None
        self.seen += 1
        due = self.seen >= self._first and (self._times is None or self.fired < self._times)
        return self.injection if due else None

    def has_fired(self) -> None:
        self.fired += 1
        self._happened.set()


def _code_of(error: ErrorSpec) -> int:
    code = error if isinstance(error, int) else getattr(error, "code", 0)
    if not isinstance(code, int) or isinstance(code, bool) or not -(2**31) <= code < 0:
        raise ValueError(f"error={error!r} is neither a ZooKeeperError nor a negative error code")
    return code
