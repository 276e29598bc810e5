"""Sleeps and timed waits of the clients' threads, in virtual time. Whoever waits for a time waits until
nobody else can act, and then no longer.

While :meth:`VirtualTime.applied` runs, ``time.sleep``, ``time.monotonic`` and ``Condition.wait`` (which
events and queues use) are replaced for threads that begin meanwhile. Chance decides the same in each run.
"""

from __future__ import annotations

import heapq
import queue
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, Final
from unittest import mock

import attrs

_real_sleep, _real_monotonic, _real_wait = time.sleep, time.monotonic, threading.Condition.wait
_NUMBER: Final = re.compile(r"(?<=^Thread-)\d+")
_CHANCE: Final = ("random", "uniform", "randint", "randrange", "choice", "shuffle", "sample", "getrandbits")


class RunOver(BaseException):
    """Ends a thread that hangs, where it waits."""


@attrs.define(eq=False)
class _Ticket:
    """One thread that waits.

    :ivar condition: what it waits for; None if it sleeps.
    :ivar expired: its time has come, and nothing else.
    """

    lock: Any
    thread: threading.Thread
    condition: Any = None
    expired: bool = False
    is_over: bool = False

    def go(self) -> bool:
        """Let the thread go on because its time has come; False if it does so already."""
        if self.expired:
            return False
        if self.condition is not None:
            try:
                self.condition._waiters.remove(self.lock)
            except ValueError:
                return False
        self.expired = True
        self.lock.release()
        return True


class VirtualTime:
    """The time of one run.

    :ivar now: seconds since its start.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._on = False
        self._exempt: set[threading.Thread] = set()
        self._timers: list[tuple[float, int, Callable[[], bool]]] = []
        self._numbers = count()
        self._waiting: set[_Ticket] = set()

    @property
    def threads(self) -> list[threading.Thread]:
        """Those that began while it was applied, and live."""
        return [thread for thread in threading.enumerate() if thread not in self._exempt]

    # --- timers ------------------------------------------------------------------------------------------

    def call_at(self, when: float, function: Callable[[], bool]) -> None:
        """Have :meth:`advance` call a function; it returns whether it has done anything."""
        heapq.heappush(self._timers, (when, next(self._numbers), function))

    def advance(self) -> bool:
        """Let the time of the next timer come; False if there is none."""
        while self._timers:
            when, _, function = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if function():
                return True
        return False

    def end(self, threads: set[threading.Thread]) -> None:
        """End virtual time: real time is back, sleepers wake, and these threads are ended where they wait."""
        self._on = False
        for ticket in list(self._waiting):
            ticket.is_over = ticket.thread in threads
            if ticket.is_over:
                ticket.go()
        while self.advance():
            pass

    # --- what is put in place ----------------------------------------------------------------------------

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply it to the threads that begin from now on."""
        self._exempt = set(threading.enumerate())
        self._on = True
        with ExitStack() as stack:
            for target, name, new in self._replacements():
                stack.enter_context(mock.patch.object(target, name, new))
            try:
                yield
            finally:
                self._on = False

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        monotonic, sleep = self._monotonic, self._sleep

        def wait(condition: Any, timeout: float | None = None) -> bool:
            return self._wait(condition, timeout)

        yield time, "sleep", sleep
        yield time, "monotonic", monotonic
        yield threading, "_time", monotonic
        yield queue, "time", monotonic
        yield threading.Condition, "wait", wait
        from kazoo.handlers.threading import SequentialThreadingHandler
        from kazoo.retry import KazooRetry

        yield SequentialThreadingHandler, "sleep_func", staticmethod(sleep)
        init = KazooRetry.__init__
        defaults = tuple(sleep if value is _real_sleep else value for value in init.__defaults__ or ())
        yield init, "__defaults__", defaults
        chances: dict[str, random.Random] = {}
        first = int(threading.Thread().name.partition("-")[2])

        def chance() -> random.Random:
            """Each thread has its own; the number in a thread's name counts from the start of the run."""
            name = _NUMBER.sub(lambda found: str(int(found[0]) - first), threading.current_thread().name)
            return chances.setdefault(name, random.Random(name))

        yield uuid, "uuid4", lambda: uuid.UUID(int=chance().getrandbits(128), version=4)
        for name in _CHANCE:
            yield random, name, _drawing(chance, name)

    def _applies(self) -> bool:
        return self._on and threading.current_thread() not in self._exempt

    def _monotonic(self) -> float:
        return _real_monotonic() + (self.now if self._applies() else 0.0)

    def _sleep(self, seconds: float) -> None:
        if not self._applies():
            _real_sleep(seconds)
            return
        self._park(_Ticket(threading.Lock(), threading.current_thread()), seconds)

    def _wait(self, condition: Any, timeout: float | None) -> bool:
        if not self._applies() or (timeout is not None and timeout <= 0):
            return _real_wait(condition, timeout)
        if not condition._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        ticket = _Ticket(threading.Lock(), threading.current_thread(), condition)
        condition._waiters.append(ticket.lock)
        ticket.lock.acquire()
        state = condition._release_save()
        try:
            self._park(ticket, timeout)
        finally:
            condition._acquire_restore(state)
        return not ticket.expired

    def _park(self, ticket: _Ticket, seconds: float | None) -> None:
        """:raises RunOver: it is."""
        if ticket.condition is None:
            ticket.lock.acquire()
        if seconds is not None:
            self.call_at(self.now + max(seconds, 0.0), ticket.go)
        self._waiting.add(ticket)
        try:
            ticket.lock.acquire()
        finally:
            self._waiting.discard(ticket)
        if ticket.is_over:
            raise RunOver


def _drawing(chance: Callable[[], random.Random], name: str) -> Callable[..., Any]:
    return lambda *arguments, **options: getattr(chance(), name)(*arguments, **options)
