"""The trio loop that all clients of a process share.

The rules:

* The loop runs in a daemon thread from the first :meth:`Loop.attach` to the last :meth:`Loop.detach`.
* Other threads post functions for the loop into its :class:`CallQueue`. A post wakes the loop only if no
  other post is waiting.
* When the interpreter exits, open sessions are closed as if their blocks had ended. A child process of
  multiprocessing closes its sessions too.
* A signal handler may use the loop while the interrupted thread is using the loop. If the handler raises an
  exception, :meth:`Loop.leave_all` takes back each :meth:`Loop.attach` of the client. No method waits for a
  lock.
* A forked process has the objects of its parent, but not the thread. In the forked process each use of these
  objects raises an error. New clients use a new loop.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import trio

from ..client import ClosingError
from .direct.sources import ConnectionSources
from .wakeups import CallQueue, Waiter, Wakeup
from .workers import Call, Job, Workers

T = TypeVar("T")

_EXIT_PATIENCE = 10.0
"""The longest time in seconds that the exit of the interpreter waits until sessions are closed. This is far
longer than the default of ``close_grace``, and short enough for a process that must end."""

_FORKED = (
    "this client belongs to the process {parent}, and this is a fork of it. Connect again in this process, "
    "in the hook of your server or worker that runs after the fork"
)
_GEVENT = (
    "gevent has patched this process, and pyzk does not support gevent. Run this program with threads, or "
    "use kazoo with its SequentialGeventHandler"
)


class _Clock(trio.abc.Clock):
    """The clock of ``time.monotonic()``, so that deadlines are times of threads and of asyncio."""

    def start_clock(self) -> None:
        """Nothing to start."""

    def current_time(self) -> float:
        return time.monotonic()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - time.monotonic()


class Loop:
    """A trio loop in a daemon thread.

    :ivar parent: the id of the process that has started the loop.
    :ivar forked: whether this process is a fork of the parent.
    :ivar exiting: whether the interpreter exits.
    :ivar sources: called when the loop begins to wait, and when it continues (:mod:`.direct`).
    """

    def __init__(self) -> None:
        self.parent = os.getpid()
        self.forked = self.exiting = False
        self._users: set[object] = set()
        self._workers = Workers()
        self._wakeup = Wakeup()
        self._mailbox = CallQueue(self._wakeup.ring)
        self.sources = ConnectionSources(self._wakeup.ring)
        self._ending = False
        self._begun = threading.Lock()  # never waited for, and never released
        self._thread = threading.Thread(target=self._run, name="pyzk", daemon=True)

    # --- who uses it -------------------------------------------------------------------------------------

    @staticmethod
    def attach(user: object) -> Loop:
        """Return the loop of this process, for one more client. If this method is interrupted, call
        :meth:`leave_all`.

        :param user: stands for the client.
        :raises RuntimeError: gevent has patched this process.
        """
        monkey = sys.modules.get("gevent.monkey")
        if monkey is not None and monkey.is_module_patched("threading"):
            raise RuntimeError(_GEVENT)
        while True:
            loop = _shared.get(os.getpid()) or _shared.setdefault(os.getpid(), Loop())
            loop._begin()
            loop._users.add(user)
            if not loop._ending:
                return loop
            loop.detach(user)

    def _begin(self) -> None:
        """Begin, if the loop has not begun. After an interruption, call this again."""
        if not self._begun.locked():
            _loops.add(self)
            _close_with_child()
            # In a thread of its own, which no signal interrupts: Thread.start() does not stand that.
            _thread.start_new_thread(self._start, ())

    def _start(self) -> None:
        if self._begun.acquire(blocking=False):
            self._thread.start()

    @staticmethod
    def leave_all(user: object) -> None:
        """Note that a client has closed, in every loop of this process. A second call does nothing."""
        for loop in list(_loops):
            loop.detach(user)

    def detach(self, user: object) -> None:
        """Note that a client has closed. When the last client ends, the loop ends after all callers have left
        their blocks. A second call does nothing more."""
        if self.forked:
            return
        self._users.discard(user)
        if self._users:
            return
        with suppress(ClosingError):
            self._begin()
            if self.look(self._end_if_unused):
                self._thread.join()

    def _end_if_unused(self) -> bool:
        """End if there are no users. Returns whether the loop ends now.

        :meth:`attach` first adds its user and then reads ``_ending``. This method first sets ``_ending`` and
        then reads the users. So at least one of the two notices the other.
        """
        self._ending = True
        if self._users:
            self._ending = False
            return False
        self._unshare()
        return self._workers.finish()

    def _unshare(self) -> None:
        """Make new clients use another loop; called in this loop."""
        if _shared.get(self.parent) is self:
            del _shared[self.parent]

    def stop(self, patience: float) -> None:
        """End the loop at once, and wait for its end.

        :param patience: seconds to wait at most.
        """
        self.exiting = True
        with suppress(ClosingError, RuntimeError):  # it has ended; or its thread has not begun
            self._mailbox.post(self._workers.finished.set)
            self._thread.join(patience)

    # --- what it does ------------------------------------------------------------------------------------

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Make the loop call ``function(*args)``, which must not raise.

        :raises RuntimeError: this process is a fork of the one that the loop belongs to.
        :raises ClosingError: the loop has ended: the clients were closed.
        """
        if self.forked:
            raise RuntimeError(_FORKED.format(parent=self.parent))
        self._mailbox.post(function, *args)

    def ask(self, job: Job) -> None:
        """Make a worker do the job of a caller. It raises the errors of :meth:`post`."""
        if self.forked:
            raise RuntimeError(_FORKED.format(parent=self.parent))
        self._mailbox.post(self._workers.dispatch, job)

    def take(self, job: Job) -> None:
        """Do the same as :meth:`ask`; called in the loop."""
        self._workers.dispatch(job)

    def allows(self, call: Call) -> bool:
        """Return whether a caller can do a call itself while the loop waits. A caller must not do a call
        itself if the loop still has an earlier call, because requests are sent in the order of the calls."""
        return not self._mailbox.is_woken and self._workers.allow(call)

    def look(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, called in the loop; this thread waits for it. The function must not
        wait. It raises the errors of :meth:`post`."""
        waiter: Waiter[T | None] = Waiter()

        def call() -> None:
            value, failure = None, None
            try:
                value = function(*args)
            except BaseException as error:
                failure = error
            waiter.answer(value, failure)

        if threading.current_thread() is self._thread:
            return function(*args)
        self.post(call)
        return waiter.wait()  # type: ignore[return-value]

    @property
    def is_current(self) -> bool:
        """True in the thread of the loop, which must never wait for the loop."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        try:
            trio.run(self._main, clock=_Clock(), instruments=[self.sources])
        finally:
            self._wakeup.close()
            _loops.discard(self)

    async def _main(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._workers.open(nursery)
                nursery.start_soon(self._answer_wakeup)
                await self._workers.finished.wait()
                self._workers.close()
        finally:
            self._ending = True
            self._unshare()
            self._mailbox.close()

    async def _answer_wakeup(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._wakeup.fileno())
            self._wakeup.answer()
            self._mailbox.open()


_loops: set[Loop] = set()
"""The loops of this process that have begun, and have not ended."""
_shared: dict[int, Loop] = {}
"""The loop of this process, by the id of the process. :class:`.Wakeup` says why there is no lock."""


def _after_fork() -> None:
    _shared.clear()
    while _loops:
        _loops.pop().forked = True


def _at_exit() -> None:
    for loop in list(_loops):
        loop.stop(_EXIT_PATIENCE)


_told: dict[str, int] = {}


def _close_with_child() -> None:
    """Make a child process that ends by ``os._exit`` close its clients: then the interpreter calls nothing.
    multiprocessing and billiard call their own functions before the end. A worker of billiard's pool does not
    close its sessions, but Celery sends a signal there."""
    for name in ("multiprocessing", "billiard"):
        package, util = sys.modules.get(name), sys.modules.get(f"{name}.util")
        if package is None or util is None or _told.get(name) == os.getpid():
            continue
        _told[name] = os.getpid()
        if package.current_process().name != "MainProcess":
            util.Finalize(None, _at_exit, exitpriority=0)
    if (signals := sys.modules.get("celery.signals")) is not None:
        signals.worker_process_shutdown.connect(_at_end_of_worker, weak=False)


def _at_end_of_worker(**_: object) -> None:
    _at_exit()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
