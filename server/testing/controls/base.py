"""The base of the controls of one server and of an ensemble: the thread, and the time.

Each control runs in the thread of its servers. First the servers handle all messages that have reached them.
The control returns when its effects have been sent. So a control takes effect after all messages that clients
sent before it, and before all messages that they send later. The decorator :func:`control` ensures this.

The traceback of an error that the test has caused or found has no frames inside the control. Any other error
may be a bug in this project, so its traceback keeps all frames. pytest hides only the frames that pass a call
to the server's thread.
"""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from ....protocol.control_verbs import VERBS
from ....protocol.errors import ZooKeeperError
from ...core.engine import Engine
from ...core.sessions import Session
from ...ensemble.errors import EnsembleError
from ...net.clock import Clock
from ..clock import ServerClock
from ..finding import find, unknown
from ..history import EntryKind
from ..running import Running
from ..sessions import SessionRef, UnknownSessionError
from ..steps import finish

B = TypeVar("B", bound="Base")
P = ParamSpec("P")
T = TypeVar("T")

FURTHEST = 1_000_000_000
"""The largest jump of time, in seconds (30 years). The times of znodes are numbers of 64 bits."""


SHORT = (AssertionError, EnsembleError, UnknownSessionError, ZooKeeperError)
"""The errors whose tracebacks have no frames inside the control."""


def short(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Remove the frames inside a method from the tracebacks of the errors in :data:`SHORT`."""

    @functools.wraps(method)
    def call(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return method(self, *args, **kwargs)
        except SHORT as error:
            if error.__traceback__ is not None:
                error.__traceback__.tb_next = None
            raise

    return call


def control(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Make a method a control, by the rules at the head of this module."""

    @short
    @functools.wraps(method)
    def call(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True

        def act() -> T:
            __tracebackhide__ = True
            self._receive()
            try:
                return method(self, *args, **kwargs)
            finally:
                self._flush()

        return self.run(act)

    return call


def verb(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Make a method a verb of an ensemble. The arguments are checked before the method runs."""
    checks, signature = VERBS[method.__name__], inspect.signature(method)

    @short
    @functools.wraps(method)
    def call(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        checks.check(signature.bind(self, *args, **kwargs).arguments)
        return method(self, *args, **kwargs)

    return call


def control_verb(method: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], T]:
    """Make a method a control and a verb."""
    return verb(control(method))


class Base(ABC):
    """The base of all controls.

    :ivar clock: the clock of the server, or of the ensemble.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ServerClock(self._now, self._advance, self._freeze_clock, self._is_frozen)

    @abstractmethod
    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the thread of the servers, and return its result."""

    @abstractmethod
    def _receive(self) -> None:
        """Handle the messages that have reached the servers."""

    @abstractmethod
    def _flush(self) -> None:
        """Send the messages that wait on the connections of all servers."""

    @abstractmethod
    def _enter(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        """Write an action of the test into the history.

        :param text: the action in words.
        :param session: the id of the session concerned; 0 for none.
        """

    # --- time --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _time(self) -> tuple[Clock, float]:
        """The clock, and its time at the start of the server, in seconds."""

    @abstractmethod
    def _next_stop(self, until: float, keep_alive: bool) -> float:
        """Return the time at which the clock must stop next because something is due, in seconds. At most
        ``until``.

        :param until: the latest time to return, in seconds.
        :param keep_alive: whether connected clients send their pings until then.
        """

    @abstractmethod
    def _do_what_is_due(self, within: float) -> bool:
        """Do the work that is due now.

        :param within: the seconds of work after which some work may be left.
        :returns: whether all work is done.
        """

    def _now(self) -> float:
        def now() -> float:
            clock, start = self._time
            return clock.now() - start

        return self.run(now)

    def _advance(self, seconds: float, keep_alive: bool) -> None:
        self.run(lambda: finish(advancing(self, seconds, keep_alive)))

    @control
    def _freeze_clock(self, frozen: bool) -> None:
        self._enter(f"clock {'frozen' if frozen else 'running'}")
        self._time[0].freeze(frozen)

    def _is_frozen(self) -> bool:
        return self.run(lambda: self._time[0].frozen)


def advancing(
    controls: Base, seconds: float, keep_alive: bool = False, *, within: float = math.inf
) -> Generator[None, None, None]:
    """Advance the clock in steps, from one deadline to the next, as :meth:`.ServerClock.advance` says.

    Run the steps in the thread of the servers. Other tasks may run between two steps. At the end of a step,
    everything that was due has happened. If another task also advances the clock, the clock advances by the
    sum of the two times.

    :param controls: the controls of the servers.
    :param seconds: the number of seconds by which the clock advances.
    :param keep_alive: whether the servers treat connected clients as if the clients had sent their pings in
        time.
    :param within: the largest number of seconds of work in one step. A longer step is cut into several steps.
    :raises ValueError: ``seconds`` is negative or longer than 30 years.
    """
    if not 0 <= seconds <= FURTHEST:
        raise ValueError(f"seconds must be from 0 to {FURTHEST:,}, not {seconds}")
    controls._receive()
    try:
        controls._enter(f"clock advanced by {seconds:g} s" + (", clients kept alive" if keep_alive else ""))
        clock, _ = controls._time
        until = clock.now() + seconds
        while True:
            stop = controls._next_stop(until, keep_alive)
            clock.jump(max(0.0, stop - clock.now()))
            while not controls._do_what_is_due(within):
                yield
            if stop >= until:
                break
            leapt = clock.leapt
            yield
            until += clock.leapt - leapt
        clock.wake()  # deadlines are nearer than before
    finally:
        controls._flush()


class ServerBase(Base):
    """The base of the controls of one server."""

    @property
    @abstractmethod
    def running(self) -> Running:
        """The parts of the server."""

    def writer(self) -> Engine:
        """Return the engine that executes the writes of the controls."""
        return self.running.engine

    def _receive(self) -> None:
        self.running.receive()

    def _flush(self) -> None:
        self.running.server.flush()

    def _enter(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        self.running.enter(text, session, kind)

    def _find(self, session: SessionRef) -> Session:
        session_id = find((self.running,), session)
        found = self.running.engine.sessions.get(session_id)
        if found is None:
            raise unknown(self.running, session if isinstance(session, str) else session_id)
        return found
