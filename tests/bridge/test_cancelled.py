"""Calls and blocks of pyzk.aio, cancelled at every point: nothing stays held, nobody waits for ever, no later
call is disturbed.

Two things move a call on: the steps of the client's tasks, and the steps of the caller's task. So each act of
``acts.py`` is cancelled

* before each step of the client's tasks, which wait until the caller has been cancelled;
* at each await of the caller: as it begins to wait, and when its answer is there but it has not gone on;
* by asyncio (``Task.cancel``), by asyncio with further cancels at each later point, and by a scope of anyio,
  which goes on cancelling.

Some acts wait for another client, its *partner*: a task that is never cancelled while the act goes on. It
makes the act wait, and ends that wait once the act waits; or it waits with it, as in a double barrier. When
the act has ended, whatever the partner does is cancelled: it might wait for an act that was cut short.

HYPOTHESIS_PROFILE=nightly tries each point; otherwise every
:data:`STRIDE`-th, from a random one on, of every seventh case.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import anyio
import pytest
import trio

from pyzk import aio
from pyzk.aio import tasks
from pyzk.bridge import loop
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until
from .acts import ACTS, PARTNERS, PATIENCE, Act, Partner, ledger

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
STRIDE = 1 if NIGHTLY else 23
MOST = 2000
"""More points than the longest act has."""
# --- cancelling it -----------------------------------------------------------------------------------------


class Target:
    """A task that does an act, is cancelled, and makes another call.

    :ivar acting: whether it does the act now.
    """

    def __init__(self, function: Act, zk: Any, other: Any) -> None:
        self._function = function
        self._clients = zk, other
        self.acting = False
        self.task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        raise NotImplementedError

    async def act(self) -> None:
        raise NotImplementedError

    def carried_out(self) -> Awaitable[object]:
        return self._function(*self._clients)

    async def _run(self) -> None:
        self.acting = True
        try:
            await self.act()
        finally:
            self.acting = False
        zk, _ = self._clients
        await zk.exists("/")  # disturbed by nothing that was before
        await asyncio.sleep(0)


class ByAsyncio(Target):
    """Cancelled once, by ``Task.cancel``."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._cancelled = False

    def cancel(self) -> None:
        if self.acting and not self._cancelled:
            self._cancelled = True
            self.task.cancel()

    async def act(self) -> None:
        try:
            await self.carried_out()
            if self._cancelled:  # it has succeeded all the same: this task is cancelled at its next wait
                await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            assert self._cancelled
            assert self.task.uncancel() == 0


class ByAsyncioAgain(ByAsyncio):
    """Cancelled again and again, at each later point."""

    def cancel(self) -> None:
        if self.acting:
            self._cancelled = True
            self.task.cancel()

    async def act(self) -> None:
        try:
            await self.carried_out()
            if self._cancelled:
                await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            assert self._cancelled
            self.acting = False
            while self.task.uncancel():
                pass


class ByAnyio(Target):
    """Cancelled by a scope, which cancels until it is left."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._scope: anyio.CancelScope | None = None

    def cancel(self) -> None:
        if self.acting and self._scope is not None:
            self._scope.cancel()

    async def act(self) -> None:
        with anyio.CancelScope() as self._scope:
            await self.carried_out()
        assert self.task.cancelling() == 0


KINDS: list[type[Target]] = [ByAsyncio, ByAsyncioAgain, ByAnyio]


# --- when --------------------------------------------------------------------------------------------------


class Points:
    """Counts points, and cancels at one of them and, if the target wants that, at the later ones.

    :ivar reached: whether there are so many.
    """

    target: Target

    def __init__(self, number: int) -> None:
        self.left = number
        self.reached = False

    def at(self) -> None:
        """A point; called in the event loop."""
        if self.target.acting:
            self.left -= 1
            if self.left <= 0:
                self.reached = True
                self.target.cancel()


class _Steps(trio.abc.Instrument):
    def __init__(self, points: Points) -> None:
        self._points = points
        self._event_loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.over = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Have the event loop pass a point, and wait for that: unless it waits for this thread itself."""
        if self.over:
            return
        passed = threading.Event()

        def point() -> None:
            self._points.at()
            passed.set()

        self._event_loop.call_soon_threadsafe(point)
        passed.wait(0.02)


@contextmanager
def steps_of_the_client(points: Points) -> Iterator[None]:
    """Each step of a task in the client's loop is a point before it; that loop stands still meanwhile."""
    shared = loop._shared[os.getpid()]
    instrument = _Steps(points)
    shared.look(trio.lowlevel.add_instrument, instrument)
    try:
        yield
    finally:
        instrument.over = True
        shared.post(trio.lowlevel.remove_instrument, instrument)


@contextmanager
def waits_of_the_caller(points: Points) -> Iterator[None]:
    """Each wait for the client is two points: as the task begins to wait, and when the answer is there, just
    before the task is woken."""
    await_, wake = tasks.CallFuture.__await__, tasks.CallFuture.wake

    def noted(question: Any) -> Generator[Any, None, Any]:
        if question._task is points.target.task:
            points.at()
        return (yield from await_(question))

    def noted_wake(question: Any) -> None:
        if question._task is points.target.task:
            points.at()
        wake(question)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.CallFuture, "__await__", noted)
        patch.setattr(tasks.CallFuture, "wake", noted_wake)
        yield


WHEN = [steps_of_the_client, waits_of_the_caller]


# --- beside it ---------------------------------------------------------------------------------------------


class Beside:
    """The partner of an act, from before its beginning until behind its end; nobody for most acts."""

    def __init__(self, name: str, zk: Any, other: Any) -> None:
        nobody: tuple[Partner | None, int] = (None, 0)
        self._partner, self._watches = PARTNERS.get(name, nobody)
        self._zk, self._other = zk, other
        self._target: Target | None = None
        self._task: asyncio.Task[object] | None = None

    async def begin(self) -> None:
        if self._partner is not None:
            ready = asyncio.Event()
            self._task = asyncio.ensure_future(self._partner(self._other, ready, self._waits))
            await ready.wait()

    def meet(self, target: Target) -> None:
        self._target = target

    async def _waits(self) -> None:
        """End when the act waits, or has ended."""
        while self._target is None or self._is_on_its_way():
            await asyncio.sleep(0)

    def _is_on_its_way(self) -> bool:
        assert self._target is not None
        try:  # the client's loop, which may stand still, is not asked
            armed = self._zk._trio.watch_count
        except RuntimeError:  # it is changed just now
            armed = 0
        return armed < self._watches and not self._target.task.done()

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            done, _ = await asyncio.wait([self._task], timeout=PATIENCE)
            assert done, "its partner waits for ever"
            if not self._task.cancelled():
                self._task.result()


# --- and then ----------------------------------------------------------------------------------------------


async def nothing_is_left(zk: Any) -> None:
    """Nothing is held or watched. What the cleanup deletes may take a moment."""
    await ledger.check()
    async with asyncio.timeout(PATIENCE):
        while await zk.get_ephemerals() or zk.watch_count:
            await asyncio.sleep(0.001)


async def prepare(zk: Any) -> None:
    for path in ("/watched", "/single", "/lock", "/held", "/queue"):
        await zk.ensure_path(path)


CASES = [
    pytest.param(name, event_loop, when, kind, id=f"{name}-{event_loop}-{when.__name__}-{kind.__name__}")
    for name, event_loop, when, kind in product(ACTS, ["asyncio", "uvloop"], WHEN, KINDS)
]


@pytest.mark.parametrize(("name", "event_loop", "when", "kind"), CASES if NIGHTLY else CASES[::7])
def test_nothing_is_left(
    server: EmbeddedServer,
    name: str,
    event_loop: str,
    when: Callable[[Points], Any],
    kind: type[Target],
) -> None:
    async def main() -> None:
        number = random.randint(1, STRIDE)
        async with aio.connect(server.hosts) as zk, aio.connect(server.hosts) as other:
            await prepare(zk)
            for _ in range(MOST):
                points = Points(number)
                partner = Beside(name, zk, other)
                await partner.begin()
                points.target = kind(ACTS[name], zk, other)
                partner.meet(points.target)
                with when(points):
                    done, _ = await asyncio.wait([points.target.task], timeout=PATIENCE)
                assert done, f"it waits for ever: cancelled at point {number}"
                points.target.task.result()
                await partner.end()
                try:
                    await nothing_is_left(zk)
                    await nothing_is_left(other)
                except TimeoutError:
                    left = await zk.get_ephemerals(), zk.watch_count, other.watch_count
                    raise AssertionError(f"left after a cancel at point {number}: {left}") from None
                if not points.reached:
                    print(f"{number} points")
                    break
                number += STRIDE
            else:
                raise AssertionError("there are more points")
        assert len(asyncio.all_tasks()) == 1

    importlib.import_module(event_loop).run(main())
    wait_until(lambda: not server.leaks())  # the session of a handshake that was cut short expires
