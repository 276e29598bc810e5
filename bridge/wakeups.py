"""The wake-ups between threads: a caller wakes the client's loop, and the loop wakes a caller."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from io import FileIO
from itertools import chain, starmap
from typing import Any, Generic, TypeVar

from ..client import ClosingError

T = TypeVar("T")

_RINGS = 4096
"""The number of times that a wake-up can ring before its loop runs. All waiting posts share one wake-up, so a
second wake-up is rare."""


class _PipeEnd(FileIO):
    """One end of a pipe. The pipe end is closed when its last reference is dropped. This happens in C, so no
    handler of a signal runs meanwhile."""

    __del__ = FileIO.close


def _pipe() -> Iterable[Any]:
    """Return both ends of a new pipe, as an iterable. The pipe is made when the caller reads the first end.
    All of this happens in C."""
    return map(_PipeEnd, chain.from_iterable(starmap(os.pipe, [()])), ("rb", "wb"))


_write: Any = FileIO.write
_read: Any = FileIO.read
if os.name == "nt":  # event loops can wait for sockets alone

    class _SocketEnd(socket.socket):
        """One end of a socket pair, which replaces the pipe."""

        __slots__ = ()
        __del__ = socket.SocketType.close

    def _pipe() -> Iterable[Any]:
        return [_SocketEnd(fileno=end.detach()) for end in socket.socketpair()]

    _write, _read = socket.socket.send, socket.socket.recv


class _Waking(threading.local):
    """:ivar now: whether this thread is about to wake another thread."""

    now = False


_waking = _Waking()


class CallQueue:
    """A queue of functions that another thread calls in order.

    A signal handler may post while its thread is within :meth:`post`. At that moment the thread may have
    noted the wake-up of the other thread, but the other thread may not be woken yet. The thread cannot
    continue until the handler returns, so the handler wakes the other thread itself.

    :param wake: makes the other thread call :meth:`open` soon; called once for all waiting posts.
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
        """Call the functions. If a function raises an error, the functions after it are called after another
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

    There is no lock. If a signal's handler raised an exception just after a thread has taken a lock, nobody
    would release the lock. A thread that rings holds a reference to the end of the pipe. So the end stays
    open until the thread has written, and the thread writes into no other file with the same number.

    :raises OSError: no file descriptor is left.
    """

    def __init__(self) -> None:
        self._reader: Any
        self._writer: Any  # never full: see CallQueue.post
        self._reader, self._writer = _pipe()

    def fileno(self) -> int:
        """Return the file descriptor that is readable after the wake-up has rung."""
        return int(self._reader.fileno())

    def ring(self) -> None:
        """Wake the loop; called in any thread, and by the handlers of signals.

        :raises ClosingError: it was closed.
        """
        writer = self._writer
        if writer is None:
            raise _closed()
        _write(writer, b"\0")

    def answer(self) -> None:
        """Note that the loop runs, after it was rung."""
        _read(self._reader, _RINGS)

    def close(self) -> None:
        """Close the pipe, after the threads that ring it now."""
        self._reader = self._writer = None


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
        """Wait for the answer. An exception such as KeyboardInterrupt ends the wait. Then the wait must be
        called again."""
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
