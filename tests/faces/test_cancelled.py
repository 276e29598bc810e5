"""Calls and blocks of pyzk.aio, cancelled at every point: nothing stays held, nobody waits for ever, no later
call is disturbed.

Two things move a call on: the steps of the client's tasks, and the steps of the caller's task. So each act
below is cancelled

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
from contextlib import contextmanager, suppress
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

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
STRIDE = 1 if NIGHTLY else 23
MOST = 2000
"""More points than the longest act has."""
PATIENCE = 30.0
"""Seconds that an end may take which is expected to come."""

Act = Callable[[Any, Any], Awaitable[object]]
"""Gets a client, and another client whose calls are not cancelled."""

ACTS: dict[str, Act] = {}


Partner = Callable[[Any, asyncio.Event, Callable[[], Awaitable[None]]], Awaitable[object]]
"""Gets its client; an event that it sets when the act may begin; and a function that ends when the act
waits."""

PARTNERS: dict[str, tuple[Partner, int]] = {}
"""By the name of the act: its partner, and how many watches the act has set when it waits."""


def act(function: Act) -> Act:
    ACTS[function.__name__] = function
    return function


def beside(partner: Partner, watches: int) -> Callable[[Act], Act]:
    def noted(function: Act) -> Act:
        PARTNERS[function.__name__] = partner, watches
        return act(function)

    return noted


# --- what is cancelled -------------------------------------------------------------------------------------


@act
async def requests(zk: Any, other: Any) -> None:
    await zk.exists("/")
    await zk.sync()
    await zk.multi([aio.Check("/watched")])
    await zk.set("/watched", b"")
    first, second = zk.submit(aio.SetData("/watched", b"")), zk.submit(aio.SetData("/watched", b""))
    await second.wait()
    await first.wait()


@act
async def client(zk: Any, other: Any) -> None:
    async with aio.connect(f"127.0.0.1:{zk.server.port}", session_timeout=1) as one:
        await one.exists("/")


@act
async def repeated(zk: Any, other: Any) -> None:
    await aio.retry(zk, lambda client: client.exists("/"))


@act
async def lock(zk: Any, other: Any) -> None:
    async with aio.Lock(zk, "/lock") as grant:
        grant.check()


@act
async def lock_of_one_task_after_the_other(zk: Any, other: Any) -> None:
    one = aio.Lock(zk, "/own", local_queue=True)
    async with one:
        pass
    async with one.nowait():
        pass


@act
async def grant_without_a_block(zk: Any, other: Any) -> None:
    grant = await aio.Lock(zk, "/lock").acquire()
    try:
        async with grant.scope():
            await grant.verify()
    finally:
        await grant.release()


@act
async def reentrant_lock(zk: Any, other: Any) -> None:
    one = aio.Lock(zk, "/lock", reentrant=True)
    async with one, one:
        pass


@act
async def single_node_lock(zk: Any, other: Any) -> None:
    async with aio.SingleNodeLock(zk, "/single/lock"):
        pass


@act
async def several_locks(zk: Any, other: Any) -> None:
    async with aio.MultiLock([aio.Lock(zk, "/a"), aio.SingleNodeLock(zk, "/b")]):
        pass


@act
async def readers_and_writers(zk: Any, other: Any) -> None:
    async with aio.RWLock(zk, "/rw").read():
        pass
    async with aio.RWLock(zk, "/rw").write() as grant, grant.downgrade():
        pass


@act
async def semaphore(zk: Any, other: Any) -> None:
    async with aio.Semaphore(zk, "/semaphore", 2).acquire_many(2):
        pass


@act
async def leader(zk: Any, other: Any) -> None:
    async with aio.LeaderElection(zk, "/leader").lead():
        await zk.exists("/")


@act
async def leader_again_and_again(zk: Any, other: Any) -> None:
    class Enough(Exception):
        pass

    async def lead(term: Any) -> None:
        await zk.exists("/")
        if term.number == 2:
            raise Enough

    with suppress(Enough):
        await aio.LeaderElection(zk, "/leader").run(lead)


@act
async def latch(zk: Any, other: Any) -> None:
    async with aio.LeaderLatch(zk, "/latch") as latch, latch.term():
        await zk.exists("/")


@act
async def queue(zk: Any, other: Any) -> None:
    await ledger.one_item(aio.Queue(zk, "/queue"), claims=False)


@act
async def claim(zk: Any, other: Any) -> None:
    await ledger.one_item(aio.Queue(zk, "/queue"), claims=True)


@act
async def claim_queue(zk: Any, other: Any) -> None:
    await ledger.one_item(aio.ClaimQueue(zk, "/claims"), claims=True)


@act
async def priority_queue(zk: Any, other: Any) -> None:
    await ledger.one_item(aio.PriorityQueue(zk, "/priorities"), 1, claims=False)


@act
async def delay_queue(zk: Any, other: Any) -> None:
    await ledger.one_item(aio.DelayQueue(zk, "/delays"), 0.0, claims=False)


@act
async def double_barrier(zk: Any, other: Any) -> None:
    async with aio.DoubleBarrier(zk, "/double", 1):
        pass


@act
async def persistent_watch(zk: Any, other: Any) -> None:
    async with zk.watch("/watched", recursive=True) as events:
        await zk.set("/watched", b"")
        await anext(events)


@act
async def followed_znode(zk: Any, other: Any) -> None:
    latest = aio.watch_node(zk, "/watched")
    await anext(latest)
    await zk.set("/watched", b"")
    await anext(latest)


@act
async def caches(zk: Any, other: Any) -> None:
    for kind in (aio.NodeCache, aio.ChildrenCache, aio.TreeCache):
        async with kind(zk, "/watched") as cache:
            await cache.synced()


@act
async def party(zk: Any, other: Any) -> None:
    async with aio.Party(zk, "/party", "me") as party:
        await party.members()


@act
async def kept_znodes(zk: Any, other: Any) -> None:
    async with aio.PersistentNode(zk, "/kept", data=b"x") as node:
        await node.ready()
        await node.set_data(b"y")


@act
async def partitioner(zk: Any, other: Any) -> None:
    partitioner = aio.Partitioner(zk, "/parts", ["a", "b"], id="me", settle=0)
    async with partitioner, partitioner.share():
        pass


@act
async def counter(zk: Any, other: Any) -> None:
    await aio.Counter(zk, "/counter", missing="create").add(1)


@act
async def shared_value(zk: Any, other: Any) -> None:
    value = aio.SharedValue(zk, "/value")
    async with value.updates() as updates:
        await anext(updates)
        await value.set(b"x")


@act
async def time_lease(zk: Any, other: Any) -> None:
    lease = aio.TimeLease(zk, "/lease", 60, "me")
    assert await lease.obtain()
    await lease.release()


@act
async def limit_of_time(zk: Any, other: Any) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.002), aio.Lock(zk, "/lock"):
            await aio.Queue(zk, "/nothing").get()


@act
async def limit_around_a_scope(zk: Any, other: Any) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.002):
            with anyio.move_on_after(0.002):
                async with aio.Lock(zk, "/lock"):
                    await aio.Queue(zk, "/nothing").get()
            await aio.Queue(zk, "/nothing").get()


# --- what waits for another client -------------------------------------------------------------------------


def holding(make: Callable[[Any], Any]) -> Partner:
    """Return a partner that holds something until the act waits for it."""

    async def hold(other: Any, ready: asyncio.Event, waits: Callable[[], Awaitable[None]]) -> None:
        async with make(other):
            ready.set()
            await waits()

    return hold


@beside(holding(lambda other: aio.Lock(other, "/lock", data=b"other")), watches=2)
async def held_lock(zk: Any, other: Any) -> None:
    async with aio.Lock(zk, "/lock") as grant:
        grant.check()


@beside(holding(lambda other: aio.SingleNodeLock(other, "/single/lock")), watches=1)
async def held_single_node_lock(zk: Any, other: Any) -> None:
    async with aio.SingleNodeLock(zk, "/single/lock"):
        pass


@beside(holding(lambda other: aio.RWLock(other, "/rw").write()), watches=2)
async def reader_behind_a_writer(zk: Any, other: Any) -> None:
    async with aio.RWLock(zk, "/rw").read():
        pass


@beside(holding(lambda other: aio.Semaphore(other, "/semaphore", 1)), watches=2)
async def full_semaphore(zk: Any, other: Any) -> None:
    async with aio.Semaphore(zk, "/semaphore", 1):
        pass


@beside(holding(lambda other: aio.LeaderElection(other, "/leader").lead()), watches=2)
async def follower(zk: Any, other: Any) -> None:
    async with aio.LeaderElection(zk, "/leader").lead():
        pass


async def putting(other: Any, ready: asyncio.Event, waits: Callable[[], Awaitable[None]]) -> None:
    ready.set()
    await waits()
    await ledger.put_one(aio.Queue(other, "/queue"))


@beside(putting, watches=1)
async def empty_queue(zk: Any, other: Any) -> None:
    await ledger.take(aio.Queue(zk, "/queue"))


@beside(putting, watches=1)
async def claim_at_an_empty_queue(zk: Any, other: Any) -> None:
    await ledger.take(aio.Queue(zk, "/queue"), claims=True)


async def lifting(other: Any, ready: asyncio.Event, waits: Callable[[], Awaitable[None]]) -> None:
    barrier = aio.Barrier(other, "/barrier")
    await barrier.create()
    ready.set()
    try:
        await waits()
    finally:
        await barrier.remove()


@beside(lifting, watches=1)
async def barrier(zk: Any, other: Any) -> None:
    await aio.Barrier(zk, "/barrier").wait()


async def meeting(other: Any, ready: asyncio.Event, waits: Callable[[], Awaitable[None]]) -> None:
    ready.set()
    async with aio.DoubleBarrier(other, "/double", 2):
        pass


@beside(meeting, watches=0)
async def double_barrier_of_two(zk: Any, other: Any) -> None:
    async with aio.DoubleBarrier(zk, "/double", 2):
        pass


async def changing(other: Any, ready: asyncio.Event, waits: Callable[[], Awaitable[None]]) -> None:
    ready.set()
    await waits()
    await other.set("/watched", b"")


@beside(changing, watches=1)
async def next_event(zk: Any, other: Any) -> None:
    async with zk.watch("/watched") as events:
        await anext(events)


@beside(changing, watches=1)
async def next_value(zk: Any, other: Any) -> None:
    latest = aio.watch_node(zk, "/watched")
    await anext(latest)
    await anext(latest)


# --- the items of queues ------------------------------------------------------------------------------------


class Ledger:
    """What became of the items of a queue.

    :ivar put: those of which the consumer was told that they are in the queue.
    """

    def __init__(self) -> None:
        self.queue: Any = None
        self.put: list[bytes] = []
        self.taken: list[bytes] = []
        self._number = 0
        self._once = True

    async def check(self) -> None:
        """No item was lost, and none was taken twice: but for items that were claimed."""
        if self.queue is not None:
            async with asyncio.timeout(PATIENCE):  # a claim may be given back by the janitor
                while not set(self.put) <= set(self.taken):
                    with suppress(aio.QueueEmpty):
                        self.taken.append((await self.queue.get(wait=False)).data)
                    await asyncio.sleep(0)
            with suppress(aio.QueueEmpty):
                while True:
                    self.taken.append((await self.queue.get(wait=False)).data)
            taken, once = self.taken, self._once
            self.queue, self.put, self.taken = None, [], []
            assert not once or len(set(taken)) == len(taken)

    async def put_one(self, queue: Any) -> None:
        """Put an item, for a consumer that waits for it."""
        self._number += 1
        data = b"%d" % self._number
        await queue.put(data)
        self.put.append(data)

    async def take(self, queue: Any, *, claims: bool = False) -> None:
        """Take an item that somebody else puts."""
        self.queue, self._once = queue, not claims
        if claims:
            async with queue.claim() as item:
                self.taken.append(item.data)
        else:
            self.taken.append((await queue.get()).data)

    async def one_item(self, queue: Any, *more: Any, claims: bool) -> None:
        """Put an item, and take it."""
        self._number += 1
        self.queue, data, self._once = queue, b"%d" % self._number, not claims
        await queue.put(data, *more)
        self.put.append(data)
        if claims:
            async with queue.claim() as item:
                await asyncio.sleep(0)
                self.taken.append(item.data)
        else:
            self.taken.append((await queue.get()).data)


ledger = Ledger()


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
    shared = loop._shared
    assert shared is not None
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
    await_, wake = tasks.Question.__await__, tasks.Question.wake

    def noted(question: Any) -> Generator[Any, None, Any]:
        if question._task is points.target.task:
            points.at()
        return (yield from await_(question))

    def noted_wake(question: Any) -> None:
        if question._task is points.target.task:
            points.at()
        wake(question)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.Question, "__await__", noted)
        patch.setattr(tasks.Question, "wake", noted_wake)
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
    """Nothing is held or watched. What the janitor deletes may take a moment."""
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
