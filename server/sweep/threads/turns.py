"""Threads that take turns, in virtual time: what a client in threads does depends only on the server.

The rules:

1. The threads of a run are real threads, of which one acts at a time. It acts until it waits: for a lock, a
   condition, an event, a queue, a thread's end, a socket, or a time. Then the next one that can act does so,
   in the order in which they became able to.
2. When none can act, all wait. :meth:`Turns.run` returns then.
3. Locks, sleep and clocks of the standard library are replaced for threads of the run (:mod:`.waits`,
   :mod:`.sockets`). A thread may wait for something else: in C, or for a lock that was made before the run.
   Then nobody can say when it acts again. The run ends with :class:`NotControlled`, which names the place.
4. A timed wait ends when nobody can act earlier.
"""

from __future__ import annotations

import _thread
import math
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs

from ..model import NotControlled

T = TypeVar("T")

_SILENCE: Final = 1.0
"""Seconds of real time after which a thread that acts is named."""
_PATIENCE: Final = 60
"""So many of these silences, and the run is given up."""
_MOST_ENDINGS: Final = 100
"""How often a thread may wait again while it is ended."""

_start = threading.Thread.start


class Interrupted(BaseException):
    """The run is over: a thread that still waits ends."""


@attrs.define(eq=False)
class Turn:
    """A thread of the run.

    :ivar may_act: a lock that is released when it is the thread's turn.
    :ivar deadline: the time in seconds at which its wait ends by itself.
    :ivar is_ready: whether the thread may continue, if nobody calls :meth:`Turns.wake` for that.
    :ivar woken: its wait ended because somebody called :meth:`Turns.wake`, and not by its deadline.
    :ivar may_be_interrupted: while it waits: whether it can end by an exception.
    :ivar interrupted: its wait ends by one.
    :ivar outside: it is within a call of the standard library that needs real locks.
    :ivar joining: the threads that wait for its end.
    """

    name: str
    number: int
    may_act: Any = attrs.Factory(_thread.allocate_lock)
    ident: int = 0
    deadline: float = math.inf
    is_ready: Callable[[], bool] | None = None
    woken: bool = False
    may_be_interrupted: bool = True
    interrupted: bool = False
    done: bool = False
    outside: bool = False
    joining: list[Turn] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        self.may_act.acquire()


class Turns:
    """The threads of one run.

    :ivar now: the time, in seconds.
    :ivar errors: the errors that have ended threads.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.errors: list[BaseException] = []
        self._living: dict[int, Turn] = {}  # by the thread's ident
        self._begun: dict[threading.Thread, Turn] = {}
        self._ready: deque[Turn] = deque()
        self._waiting: dict[Turn, None] = {}
        self._calls: deque[tuple[Turn, Callable[[], object]]] = deque()
        self._back = _thread.allocate_lock()
        self._back.acquire()
        self._is_ending = False
        self._is_stuck = False

    # --- for the thread that has the run -----------------------------------------------------------------

    def run(self, now: float) -> bool:
        """Let all threads act until each of them waits; returns False if none could act.

        :param now: the time in seconds.
        :raises NotControlled: a thread acts for too long, or waits for something outside the run.
        """
        self.now = max(self.now, now)
        acted = False
        while True:
            self._wake_whose_wait_is_over()
            if not self._ready:
                return acted
            acted = True
            self._resume(self._ready.popleft())
            while self._calls:
                turn, call = self._calls.popleft()
                call()
                self.wake(turn)

    @property
    def deadline(self) -> float:
        """When the next timed wait ends, in seconds."""
        return min((turn.deadline for turn in self._waiting), default=math.inf)

    @property
    def are_over(self) -> bool:
        """Whether all threads have ended."""
        return not self._living and not self._ready

    def interrupt(self) -> None:
        """Raise :class:`Interrupted` where a thread waits. It may wait again as it cleans up."""
        for turn in list(self._waiting):
            if turn.may_be_interrupted:
                turn.interrupted = True
                self.wake(turn)

    def end(self) -> None:
        """End all threads where they wait, and wherever they wait afterwards."""
        self._is_ending = True
        if self._is_stuck:  # the order in which they end matters to nobody
            for turn in (*self._waiting, *self._ready):
                turn.may_act.release()
            return
        for _ in range(_MOST_ENDINGS):
            if self.are_over:
                return
            for turn in list(self._waiting):
                self.wake(turn)
            self.run(self.now)

    def places(self) -> dict[str, list[traceback.FrameSummary]]:
        """The place where each thread waits, by the thread's name."""
        frames = sys._current_frames()
        return {
            turn.name: list(traceback.extract_stack(frames[turn.ident]))
            for turn in self._living.values()
            if turn.ident in frames
        }

    def _wake_whose_wait_is_over(self) -> None:
        over = [
            turn
            for turn in self._waiting
            if turn.deadline <= self.now or (turn.is_ready is not None and turn.is_ready())
        ]
        for turn in sorted(over, key=lambda turn: (min(turn.deadline, self.now), turn.number)):
            self.wake(turn, woken=turn.deadline > self.now)

    def _resume(self, turn: Turn) -> None:
        turn.may_act.release()
        where = turn.name
        for silence in range(_PATIENCE):
            if self._back.acquire(timeout=_SILENCE):
                return
            place = self.places().get(turn.name, [])[-1:]
            where = f"{turn.name} at {place[0].filename}:{place[0].lineno}" if place else turn.name
            if not silence:
                print(f"sweep: waits for the thread {where}", file=sys.stderr)
        self._is_stuck = True
        raise NotControlled(
            f"the thread {where} does not come back. Does it wait in a call of C, or for a lock that was "
            "made before the run? Make locks and threads inside of the scenario"
        )

    # --- for the threads ---------------------------------------------------------------------------------

    def current(self) -> Turn | None:
        """Return the calling thread, if it is one of the run."""
        turn = self._living.get(_thread.get_ident())
        return None if turn is None or turn.outside else turn

    def wait(
        self,
        turn: Turn,
        deadline: float = math.inf,
        is_ready: Callable[[], bool] | None = None,
        *,
        may_be_interrupted: bool = True,
    ) -> bool:
        """Wait; returns False if the deadline came first.

        :raises Interrupted: the run is over.
        """
        if self._is_ending:
            raise Interrupted
        turn.deadline, turn.is_ready, turn.woken = deadline, is_ready, False
        turn.may_be_interrupted = may_be_interrupted
        self._waiting[turn] = None
        self._give_back()
        turn.may_act.acquire()
        if self._is_ending or turn.interrupted:
            turn.interrupted = False
            raise Interrupted
        return turn.woken

    def wake(self, turn: Turn, *, woken: bool = True) -> None:
        """Let a thread that waits act, when its turn comes. Does nothing if it does not wait."""
        if turn in self._waiting:
            del self._waiting[turn]
            turn.woken, turn.deadline, turn.is_ready = woken, math.inf, None
            self._ready.append(turn)

    def deadline_of(self, timeout: float | None) -> float:
        """When a wait that begins now ends.

        :param timeout: seconds; None or a negative number for a wait without an end.
        """
        return math.inf if timeout is None or timeout < 0 else self.now + timeout

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread that has the run; raises the error of the function."""
        turn = self.current()
        if turn is None:
            return function()
        results: list[T] = []
        errors: list[Exception] = []

        def act() -> None:
            try:
                results.append(function())
            except Exception as error:
                errors.append(error)

        self._calls.append((turn, act))
        self.wait(turn)
        if errors:
            raise errors[0]
        return results[0]

    def _give_back(self) -> None:
        if not self._is_stuck:
            self._back.release()

    # --- how a thread begins and ends --------------------------------------------------------------------

    def begin(self, function: Callable[[], object], name: str) -> int:
        """Begin a thread of the run, from within it or from outside; returns its ident."""
        thread = threading.Thread(target=function, name=name)
        self.start(thread, name)
        return thread.ident or 0

    def start(self, thread: threading.Thread, name: str) -> None:
        """Have a thread that was made take turns.

        :param name: what reports call it.
        """
        turn = self._begun[thread] = Turn(name, len(self._begun))
        run = thread.run

        def take_turns() -> None:
            turn.ident = _thread.get_ident()
            turn.may_act.acquire()
            self._living[turn.ident] = turn
            try:
                if not self._is_ending:
                    run()
            except (Interrupted, SystemExit):
                pass
            except BaseException as error:
                self.errors.append(error)
            finally:
                turn.done = True
                del self._living[turn.ident]
                for other in turn.joining:
                    self.wake(other)
                self._give_back()

        thread.run = take_turns  # type: ignore[method-assign]
        thread.daemon = True
        me = self.current()
        if me is not None:
            me.outside = True
        try:
            thread._started = threading.Event()  # type: ignore[attr-defined]  # of real locks
            _start(thread)
        finally:
            if me is not None:
                me.outside = False
        self._ready.append(turn)

    def of(self, thread: threading.Thread) -> Turn | None:
        """Return a thread of the run, living or not."""
        return self._begun.get(thread)

    @property
    def next_number(self) -> int:
        """The number of the thread that begins next."""
        return len(self._begun)
