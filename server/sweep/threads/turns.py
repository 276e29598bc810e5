"""Threads that take turns in virtual time. So a client in threads depends only on the server.

The rules:

1. The threads of a run are real threads, and only one thread acts at a time. A thread acts until it waits for
   a lock, a condition, an event, a queue, the end of a thread, a socket, or a point in time. Then the next
   ready thread acts. Threads act in the order in which they became ready.
2. When no thread is ready, all threads wait. Then :meth:`Turns.run` returns.
3. Locks, sleep and clocks of the standard library are replaced for threads of the run (:mod:`.waits`,
   :mod:`.sockets`). But a thread may wait for something that is not replaced: a call of C, or a lock that was
   made before the run. Then the sweep cannot find out when the thread acts again. So the run ends with
   :class:`NotControlled`, which names the place.
4. A wait with a timeout ends only when no thread can act at an earlier time.
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
"""The seconds of real time after which a line names the thread that acts."""
_PATIENCE: Final = 60
"""The number of such lines about one thread after which the run ends."""
_MOST_ENDINGS: Final = 100
"""The number of times that a thread can wait again after the run has begun to end the thread."""

_start = threading.Thread.start


class Interrupted(BaseException):
    """The run is over. This error ends a thread that still waits."""


@attrs.define(eq=False)
class Turn:
    """A thread of the run.

    :ivar may_act: a lock that is released when it is the thread's turn.
    :ivar deadline: the time in seconds at which the thread's wait ends by itself.
    :ivar is_ready: a function that says whether the thread may continue without a call of :meth:`Turns.wake`.
    :ivar woken: whether a call of :meth:`Turns.wake` has ended the wait; False if the deadline has ended the
        wait.
    :ivar may_be_interrupted: whether an exception can end the present wait.
    :ivar interrupted: whether an exception ends the present wait.
    :ivar outside: whether the thread is inside a call of the standard library that needs real locks.
    :ivar joining: the threads that wait for the end of this thread.
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
        """Let all threads act until each thread waits; return False if no thread could act.

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
        """The time in seconds at which the next wait with a timeout ends."""
        return min((turn.deadline for turn in self._waiting), default=math.inf)

    @property
    def are_over(self) -> bool:
        """Whether all threads have ended."""
        return not self._living and not self._ready

    def interrupt(self) -> None:
        """Raise :class:`Interrupted` in each waiting thread. After that a thread can still wait in its own
        cleanup."""
        for turn in list(self._waiting):
            if turn.may_be_interrupted:
                turn.interrupted = True
                self.wake(turn)

    def end(self) -> None:
        """End all threads at their present wait, and at every later wait."""
        self._is_ending = True
        if self._is_stuck:  # then the order in which threads end does not matter
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
            f"the thread {where} does not end its turn. Does it wait in a call of C, or for a lock that was "
            "made before the run? Make locks and threads inside the scenario"
        )

    # --- for the threads ---------------------------------------------------------------------------------

    def current(self) -> Turn | None:
        """Return the calling thread if it belongs to the run, else None."""
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
        """Let a thread wait; return False if the deadline ended the wait.

        :param turn: the calling thread.
        :param deadline: the time in seconds at which the wait ends by itself.
        :param is_ready: a function that says whether the wait may end.
        :param may_be_interrupted: whether :meth:`interrupt` may end the wait.
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
        """Let a waiting thread act when its turn comes. Do nothing if the thread does not wait."""
        if turn in self._waiting:
            del self._waiting[turn]
            turn.woken, turn.deadline, turn.is_ready = woken, math.inf, None
            self._ready.append(turn)

    def deadline_of(self, timeout: float | None) -> float:
        """Return the time in seconds at which a wait that begins now ends.

        :param timeout: the timeout in seconds; None or a negative number for a wait without an end.
        """
        return math.inf if timeout is None or timeout < 0 else self.now + timeout

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the run; raise the error of the function."""
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
        """Begin a thread of the run, and return the ident of the thread. The caller may be inside or outside
        the run."""
        thread = threading.Thread(target=function, name=name)
        self.start(thread, name)
        return thread.ident or 0

    def start(self, thread: threading.Thread, name: str) -> None:
        """Start a thread that takes turns.

        :param thread: the thread, not started yet.
        :param name: the thread's name in reports.
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
            thread._started = threading.Event()  # type: ignore[attr-defined]  # with real locks
            _start(thread)
        finally:
            if me is not None:
                me.outside = False
        self._ready.append(turn)

    def of(self, thread: threading.Thread) -> Turn | None:
        """Return the turn of a thread that is alive or has ended; None if the thread does not belong to the
        run."""
        return self._begun.get(thread)

    @property
    def next_number(self) -> int:
        """The number of the thread that begins next."""
        return len(self._begun)
