"""How threads wake each other: a caller wakes the client's loop, and the loop wakes a caller."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from itertools import chain, starmap
from typing import Any, Generic, TypeVar

from ..client import ClosingError

T = TypeVar("T")

_RINGS = 4096
"""How often a wake-up may ring before its loop runs. All waiting posts share one wake-up, so a second wake-up
is rare."""

_pipe: Any = os.pipe
_fileno: Any = int
_write: Any = os.write
_read: Any = os.read
_close: Any = os.close
if os.name == "nt":  # event loops can wait for sockets alone
    _pipe, _fileno = socket.socketpair, socket.socket.fileno
    _write, _read, _close = socket.socket.send, socket.socket.recv, socket.socket.close


class _Waking(threading.local):
    """:ivar now: whether this thread is about to wake another one."""

    now = False


_waking = _Waking()


class CallQueue:
    """A queue of functions that another thread calls in order.

    A signal handler may post while its thread is within :meth:`post`, when the thread has noted that it
    wakes the other thread, but has not done it yet. The thread cannot continue until the handler returns, so
    the handler wakes the other thread itself.

    :param wake: makes that thread call :meth:`open` soon; called once for all waiting posts.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._posts: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._woken = self._closed = False

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Make the other thread call ``function(*args)``. Raises the error of the wake-up, if there is one.

        :raises ClosingError: the other thread has called :meth:`close`.
        """
        self._posts.append((function, args))
        if self._closed:
            raise _closed()
        before = _waking.now
        if before or not self._woken:  # two threads may both see this: one wake-up too many does no harm
            try:
                _waking.now = self._woken = True
                self._wake()
            except BaseException:
                self._woken = False
                raise
            finally:
                _waking.now = before

    @property
    def is_woken(self) -> bool:
        """True if the other thread was woken for a post, and has not begun to call functions."""
        return self._woken

    def open(self) -> None:
        """Call the functions. If a function raises, the functions behind it are called after another
        wake-up."""
        self._woken = False  # before the posts are taken: a later one wakes again
        posts = self._posts
        try:
            while posts:
                function, args = posts.popleft()
                function(*args)
        finally:
            if posts:
                self._wake()

    def close(self) -> None:
        """Call the remaining functions; no more are accepted."""
        self._closed = True  # before: what is posted behind the last look is refused
        self.open()


def _closed() -> ClosingError:
    return ClosingError(message="the client was closed")


class Wakeup:
    """Wakes an event loop by a pipe that is read once: faster than ``TrioToken.run_sync_soon`` and
    ``call_soon_threadsafe``, which read until nothing is left.

    :raises OSError: no file descriptor is left.
    """

    _closed = True  # until there is a pipe

    def __init__(self) -> None:
        self._lock = threading.RLock()  # so that nothing is written to another file with the same number
        files: list[tuple[int, int]] = []
        try:
            files.extend(starmap(_pipe, [()]))  # one call of C: no signal comes between the pipe and its note
            ((self._reader, self._writer),) = files  # never full: see CallQueue.post
        except BaseException:
            for file in chain(*files):
                _close(file)
            raise
        self._closed = False

    def fileno(self) -> int:
        """Return the file descriptor that is readable once it was rung."""
        return int(_fileno(self._reader))

    def ring(self) -> None:
        """Wake the loop; called in any thread, and by the handlers of signals.

        :raises ClosingError: it was closed.
        """
        with self._lock:
            if self._closed:
                raise _closed()
            _write(self._writer, b"\0")

    def ring_own(self) -> None:
        """Wake the loop; called in the thread that answers and closes the wake-up. So it needs no lock: a
        thread may hold that while the handler of a signal waits for this loop."""
        if not self._closed:
            _write(self._writer, b"\0")

    def answer(self) -> None:
        """Note that the loop runs, after it was rung."""
        _read(self._reader, _RINGS)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            _close(self._reader)
            _close(self._writer)

    __del__ = _close  # nobody rings any more; and in a fork nobody releases the lock


class Waiter(Generic[T]):
    """An answer that a thread waits for."""

    __slots__ = ("_answered", "_error", "_lock", "_value")

    def __init__(self) -> None:
        self._answered = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def answer(self, value: T, error: BaseException | None) -> None:
        """Give the answer. The first answer counts: an interrupted call may get two answers."""
        if self._answered:
            return
        self._value, self._error = value, error
        self._answered = True
        self._lock.release()

    def pause(self) -> None:
        """Wait for the answer. An exception such as KeyboardInterrupt ends the wait; then call this again."""
        if not self._answered:  # an exception may have come just after the lock
            self._lock.acquire()

    def pause_for_ever(self) -> None:
        """Wait until the process ends."""
        while True:
            self._lock.acquire()

    def is_answer(self, error: BaseException) -> bool:
        """Return whether an exception is the answer. Another exception may have come meanwhile."""
        return self._answered and self._error is error

    def result(self) -> T:
        """Return the answer, after :meth:`pause`."""
        error = self._error
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to itself by the traceback
        return self._value

    def forget(self) -> None:
        """Forget an error, because its traceback refers to the error itself."""
        self._error = None

    def wait(self) -> T:
        """Wait for the answer, and return it."""
        self.pause()
        try:
            return self.result()
        finally:
            self.forget()
