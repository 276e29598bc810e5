"""What is cancelled: calls and blocks of pyzk.aio, alone or beside a partner, another client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from pyzk import aio

from ..support.waiting import PATIENCE

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
            async with asyncio.timeout(PATIENCE):  # a claim may be given back by the cleanup
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
