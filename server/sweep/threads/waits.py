"""Replaces locks, sleep, clocks and threads of the standard library, for the threads of a run.

All other threads of the process get the real objects. A function that a module imported by its name (``from
time import sleep``) is not replaced.
"""

from __future__ import annotations

import _thread
import atexit
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..model import NotControlled
from .replacing import replacing
from .turns import Turn, Turns

_EPOCH: Final = 1_700_000_000.0
"""The result of ``time.time()`` at the beginning of a run."""

_real_lock = _thread.allocate_lock
_real_r_lock = threading.RLock
_real_start, _real_join = threading.Thread.start, threading.Thread.join
_real_start_new = _thread.start_new_thread
_real_is_alive = threading.Thread.is_alive
_real_queue = queue.SimpleQueue
_real_sleep, _real_monotonic, _real_time = time.sleep, time.monotonic, time.time
_real_register = atexit.register


class Lock:
    """The replacement of ``threading.Lock``."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._is_held = False
        self._waiters: deque[Turn] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held and not (blocking and self._wait(timeout)):
            return False
        self._is_held = True
        return True

    def _wait(self, timeout: float) -> bool:
        turn = self._turns.current()
        if turn is None:
            raise NotControlled("a thread outside of the run waits for a lock that was made in the run")
        deadline = self._turns.deadline_of(timeout)
        while self._is_held:
            self._waiters.append(turn)
            if not self._turns.wait(turn, deadline):
                self._waiters.remove(turn)
                return False
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False
        if self._waiters:
            self._turns.wake(self._waiters.popleft())

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """The replacement of ``threading.RLock``."""

    def __init__(self, turns: Turns) -> None:
        self._lock = Lock(turns)
        self._owner = self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_owned() and not self._lock.acquire(blocking, timeout):
            return False
        self._owner = _thread.get_ident()
        self._count += 1
        return True

    def release(self) -> None:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = 0
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # --- the methods that ``threading.Condition`` calls --------------------------------------------------

    def _is_owned(self) -> bool:
        return self._owner == _thread.get_ident()

    def _release_save(self) -> int:
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._owner, self._count = _thread.get_ident(), count


@contextmanager
def waits_replaced(turns: Turns) -> Iterator[None]:
    """Replace the functions with which threads of a run wait, for as long as the block lasts."""

    def here(made: Callable[[], Any], real: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: real() if turns.current() is None else made()

    def monotonic() -> float:
        return _real_monotonic() if turns.current() is None else turns.now

    def now() -> float:
        return _real_time() if turns.current() is None else _EPOCH + turns.now

    def sleep(seconds: float) -> None:
        turn = turns.current()
        if turn is None:
            _real_sleep(seconds)
        else:
            turns.wait(turn, turns.now + max(seconds, 0.0))

    def register(function: Any, *args: Any, **kwargs: Any) -> Any:
        if turns.current() is None:
            _real_register(function, *args, **kwargs)
        return function

    def start(thread: threading.Thread) -> None:
        if turns.current() is None:
            _real_start(thread)
        else:
            turns.start(thread, f"{thread.name.split('-')[0]}-{turns.next_number}")

    def start_new(function: Callable[..., object], args: Any, kwargs: Any = None) -> int:
        if turns.current() is None:
            return _real_start_new(function, args, kwargs or {})
        return turns.begin(lambda: function(*args, **(kwargs or {})), f"thread-{turns.next_number}")

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        _join(turns, thread, timeout)

    def is_alive(thread: threading.Thread) -> bool:
        turn = turns.of(thread)
        return _real_is_alive(thread) if turn is None else not turn.done

    class SimpleQueue(queue._PySimpleQueue):  # type: ignore[misc, name-defined]
        """Python's own SimpleQueue is written in C, and waits without a call of a replaced function."""

        def __new__(cls) -> Any:
            return _real_queue() if turns.current() is None else super().__new__(cls)

    lock = here(lambda: Lock(turns), _real_lock)
    new: list[tuple[Any, str, Any]] = [
        (threading, "Lock", lock),
        (threading, "_allocate_lock", lock),
        (threading, "RLock", here(lambda: RLock(turns), _real_r_lock)),
        (threading, "_time", monotonic),
        (threading.Thread, "start", start),
        (threading.Thread, "join", join),
        (threading.Thread, "is_alive", is_alive),
        (queue, "SimpleQueue", SimpleQueue),
        (queue, "time", monotonic),
        (time, "sleep", sleep),
        (time, "monotonic", monotonic),
        (time, "time", now),
        (atexit, "register", register),
        (_thread, "start_new_thread", start_new),
    ]
    with replacing(new):
        yield


def _join(turns: Turns, thread: threading.Thread, timeout: float | None) -> None:
    turn, me = turns.of(thread), turns.current()
    if turn is None or me is None:
        _real_join(thread, timeout)
    elif turn is me:
        raise RuntimeError("cannot join current thread")
    else:
        deadline = turns.deadline_of(timeout)
        while not turn.done and turns.now < deadline:
            turn.joining.append(me)
            turns.wait(me, deadline)
