"""Interrupted before any step that the bridge's loop takes: no znode, watch, session or task is left, and the
next use works."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import trio

from pyzk import aio, blocking
from pyzk.bridge import loop
from pyzk.server.testing import EmbeddedServer

from .drivers import Proxy, aio_api, run_coroutine

MOST = 400
"""More steps than the longest use has."""
LEAST = 15
"""Fewer steps than the shortest use has."""

Act = Callable[[Any], Awaitable[object]]


async def lock(zk: Any) -> None:
    async with _api(zk).Lock(zk, "/r/lock"):
        pass


async def writer_that_becomes_a_reader(zk: Any) -> None:
    async with _api(zk).RWLock(zk, "/r/lock").write() as grant, grant.downgrade():
        pass


async def leases(zk: Any) -> None:
    async with _api(zk).Semaphore(zk, "/r/pool", 2).acquire_many(2):
        pass


async def leader(zk: Any) -> None:
    async with _api(zk).LeaderElection(zk, "/r/leader").lead():
        await zk.exists("/")


async def claim(zk: Any) -> None:
    queue = _api(zk).Queue(zk, "/q")
    await queue.put(b"x")
    async with queue.claim():
        pass


async def cache(zk: Any) -> None:
    async with _api(zk).TreeCache(zk, "/") as cache:
        await cache.synced()


async def barrier(zk: Any) -> None:
    async with _api(zk).DoubleBarrier(zk, "/r/barrier", 1):
        pass


ACTS: list[Act] = [lock, writer_that_becomes_a_reader, leases, leader, claim, cache, barrier]


def _api(zk: Any) -> Any:
    return _Threads if isinstance(zk, Proxy) else aio_api()


class _Proxies:
    def __getattr__(self, name: str) -> Any:
        return lambda zk, *args: Proxy(getattr(blocking, name)(zk.wrapper, *args))


_Threads = _Proxies()


class Before(trio.abc.Instrument):
    """Does something before the n-th step of the bridge's tasks."""

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.happened = False
        self.left = number
        self._action = action

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if not self.left:
            self.happened = True
            self._action()


@contextmanager
def before(number: int, action: Callable[[], object]) -> Iterator[Before]:
    instrument = Before(number, action)
    shared = loop._shared[os.getpid()]
    shared.look(trio.lowlevel.add_instrument, instrument)
    try:
        yield instrument
    finally:
        instrument.left = -1
        shared.look(trio.lowlevel.remove_instrument, instrument)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_a_task_is_cancelled(server: EmbeddedServer, act: Act) -> None:
    async def main() -> None:
        async with aio.connect(server.hosts) as zk:
            for number in range(1, MOST):
                task = asyncio.create_task(act(zk))  # type: ignore[arg-type]
                cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
                with before(number, cancel) as step:
                    await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
                await zk.sync()
                await zk.exists("/")
                if not step.happened:
                    assert number > LEAST
                    break
            else:
                raise AssertionError("more steps are needed")
            async with asyncio.timeout(10):
                await act(zk)
            assert await zk.get_ephemerals() == []
            assert zk.watch_count == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert server.leaks() == []


class Stopped(BaseException):
    """Raised by the handler of a signal."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], object]]:
    """A function that has the main thread raise :class:`Stopped`, wherever it is."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("the handlers of signals run in the main thread only")
    assert main.ident is not None
    ident = main.ident

    def stop(number: int, frame: object) -> None:
        raise Stopped

    old = signal.signal(signal.SIGUSR1, stop)
    try:
        yield lambda: signal.pthread_kill(ident, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, old)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_a_thread_is_interrupted(server: EmbeddedServer, act: Act, interrupt: Callable[[], object]) -> None:
    """By the handler of a signal, as Ctrl-C does."""
    with blocking.connect(server.hosts) as zk:
        for number in range(1, MOST):
            interrupted = False
            with before(number, interrupt) as step:
                try:
                    with blocking.timeout(20):
                        run_coroutine(act(Proxy(zk)))  # type: ignore[arg-type]
                    time.sleep(0 if step.happened else 0.001)
                except Stopped:
                    interrupted = True
            assert interrupted == step.happened
            zk.sync()
            if not step.happened:
                assert number > LEAST
                break
        else:
            raise AssertionError("more steps are needed")
        with blocking.timeout(10):
            run_coroutine(act(Proxy(zk)))  # type: ignore[arg-type]
        assert zk.get_ephemerals() == []
        assert zk.watch_count == 0
    assert server.leaks() == []
