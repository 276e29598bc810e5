"""Every recipe on a hostile server: what is legal but rare changes nothing of what a recipe promises.

HYPOTHESIS_PROFILE=nightly tries 100 seeds of each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
from hypothesis import settings
from trio.testing import MockClock

from pyzk.client import ConnectionLossError, NoNodeError, ZooKeeper
from pyzk.client.repeating import repeat
from pyzk.recipes import (
    INT32,
    AmbiguousResult,
    Barrier,
    ClaimQueue,
    Counter,
    DoubleBarrier,
    LeaderElection,
    LeaderLatch,
    Lock,
    Party,
    PersistentNode,
    PriorityQueue,
    Queue,
    RWLock,
    Semaphore,
    SharedValue,
    SingleNodeLock,
    TreeCache,
)

from ..support.lab import Lab, open_lab

SEEDS = range(100 if settings.get_current_profile_name() == "nightly" else 3)
CLIENTS = 4
ROUNDS = 5
PATIENCE = 300.0
"""Virtual seconds that a workload may take: the longest needs some 20."""

Workload = Callable[[Lab, list[ZooKeeper]], Awaitable[None]]
Block = Callable[[ZooKeeper], AbstractAsyncContextManager[Any]]


@attrs.define
class Room:
    """Counts who is inside, and how many ever were at the same time."""

    inside: int = 0
    most: int = 0
    total: int = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.inside += 1
        self.total += 1
        self.most = max(self.most, self.inside)
        try:
            yield
        finally:
            self.inside -= 1


async def each(clients: list[ZooKeeper], work: Callable[[ZooKeeper, int], Awaitable[None]]) -> None:
    """Do the same with each client at the same time."""
    async with trio.open_nursery() as nursery:
        for number, zk in enumerate(clients):
            nursery.start_soon(work, zk, number)


def in_turn(block: Block, most: int = 1) -> Workload:
    """All clients go in and out of a block, of which so many may be inside."""

    async def workload(lab: Lab, clients: list[ZooKeeper]) -> None:
        room = Room()

        async def work(zk: ZooKeeper, number: int) -> None:
            for _ in range(ROUNDS):
                async with block(zk):
                    with room.entered():
                        await trio.sleep(0.05)

        await each(clients, work)
        assert room.most <= most
        assert room.total == CLIENTS * ROUNDS

    return workload


async def readers_and_writers(lab: Lab, clients: list[ZooKeeper]) -> None:
    writing, reading = Room(), Room()

    async def work(zk: ZooKeeper, number: int) -> None:
        lock = RWLock(zk, "/rw")
        for n in range(ROUNDS):
            if (number + n) % 2:
                async with lock.write():
                    with writing.entered():
                        assert reading.inside == 0
                        await trio.sleep(0.05)
            else:
                async with lock.read():
                    with reading.entered():
                        assert writing.inside == 0
                        await trio.sleep(0.05)

    await each(clients, work)
    assert (writing.most, writing.total + reading.total) == (1, CLIENTS * ROUNDS)


async def latches(lab: Lab, clients: list[ZooKeeper]) -> None:
    room = Room()

    async def work(zk: ZooKeeper, number: int) -> None:
        async with LeaderLatch(zk, "/latch", id=str(number)) as latch, latch.term():
            with room.entered():
                await trio.sleep(0.05)

    await each(clients, work)
    assert (room.most, room.total) == (1, CLIENTS)


def passing_on(make: Callable[[ZooKeeper], Any], put: Callable[[Any, bytes], Awaitable[None]]) -> Workload:
    """Two clients put items, two take them. None is lost, and none comes twice but those that were put
    again because a reply was lost."""

    async def workload(lab: Lab, clients: list[ZooKeeper]) -> None:
        taken: list[bytes] = []
        again = 0
        count = 2 * ROUNDS * 2

        async def work(zk: ZooKeeper, number: int) -> None:
            nonlocal again
            queue = make(zk)
            if number % 2:
                while len(set(taken)) < count:
                    with trio.move_on_after(5):
                        taken.append((await queue.get()).data)
            else:
                for n in range(2 * ROUNDS):
                    try:
                        await put(queue, b"%d-%d" % (number, n))
                    except AmbiguousResult:  # it may be there
                        again += 1
                        await put(queue, b"%d-%d" % (number, n))

        await each(clients, work)
        assert {*taken} == {b"%d-%d" % (number, n) for number in (0, 2) for n in range(2 * ROUNDS)}
        assert len(taken) - count <= again

    return workload


async def counting(lab: Lab, clients: list[ZooKeeper]) -> None:
    async def work(zk: ZooKeeper, number: int) -> None:
        counter = Counter(zk, "/counter", exactly_once=True)
        for _ in range(ROUNDS):
            await counter.add(1)

    await each(clients, work)
    assert await repeat(clients[0], Counter(clients[0], "/counter").get) == CLIENTS * ROUNDS


async def values(lab: Lab, clients: list[ZooKeeper]) -> None:
    """Whoever follows a value comes to the last one, and sees none that is older than one before."""

    async def work(zk: ZooKeeper, number: int) -> None:
        value = SharedValue(zk, "/value", codec=INT32)
        if number == 0:
            for n in range(1, 10 * ROUNDS + 1):
                with suppress(AmbiguousResult):
                    await repeat(zk, lambda n=n: value.set(n))  # type: ignore[misc]
                await trio.sleep(0.05)
            await repeat(zk, lambda: value.set(1000))
            return
        seen = [-1]
        async with value.updates() as updates:
            async for item in updates:
                if item is not None:
                    seen.append(item.value)
                    if item.value == 1000:
                        break
        assert seen == sorted(seen)

    await each(clients, work)


async def barriers(lab: Lab, clients: list[ZooKeeper]) -> None:
    for n in range(ROUNDS):
        path = f"/barrier/{n}"
        await Barrier(clients[0], path).create()
        passed: list[int] = []

        async def work(zk: ZooKeeper, number: int, path: str = path, passed: list[int] = passed) -> None:
            if number == 0:
                await trio.sleep(0.5)
                assert passed == []
                await Barrier(zk, path).remove()
            else:
                await Barrier(zk, path).wait()
                passed.append(number)

        await each(clients, work)
        assert sorted(passed) == [1, 2, 3]


async def double_barriers(lab: Lab, clients: list[ZooKeeper]) -> None:
    for n in range(ROUNDS):
        came = left = 0

        async def work(zk: ZooKeeper, number: int, n: int = n) -> None:
            nonlocal came, left
            await trio.sleep(0.1 * number)
            came += 1
            async with DoubleBarrier(zk, f"/double/{n}", CLIENTS):
                assert came == CLIENTS
                left += 1
                await trio.sleep(0.05 * number)
            assert left == CLIENTS

        await each(clients, work)


async def parties(lab: Lab, clients: list[ZooKeeper]) -> None:
    async def work(zk: ZooKeeper, number: int) -> None:
        party = Party(zk, "/party", str(number))
        async with party:
            while len({member.id for member in await repeat(zk, party.members)}) < CLIENTS:
                await trio.sleep(0.05)
            await trio.sleep(1)

    await each(clients, work)
    assert await repeat(clients[0], Party(clients[0], "/party").members) == []


async def persistent_nodes(lab: Lab, clients: list[ZooKeeper]) -> None:
    async with PersistentNode(clients[0], "/node", data=b"x") as node:
        await node.ready()
        for _ in range(ROUNDS):
            with suppress(ConnectionLossError):
                await clients[1].delete("/node")
            await trio.sleep(2)
            assert (await repeat(clients[2], lambda: clients[2].get("/node")))[0] == b"x"
    await trio.sleep(1)
    assert await repeat(clients[2], lambda: clients[2].exists("/node")) is None


async def caches(lab: Lab, clients: list[ZooKeeper]) -> None:
    """A cache comes to what the tree holds."""
    lab.server.load({"/app": b""})

    async def work(zk: ZooKeeper, number: int) -> None:
        for n in range(3 * ROUNDS):
            path = f"/app/{(number + n) % 5}"
            with suppress(ConnectionLossError, NoNodeError):  # another has deleted it
                if await zk.exists(path) is None:
                    await zk.ensure_path(path)
                elif n % 3:
                    await zk.set(path, b"%d" % n)
                else:
                    await zk.delete(path)
            await trio.sleep(0.05)

    async with TreeCache(clients[0], "/app") as cache:
        await cache.synced()
        await each(clients[1:], work)
        await trio.sleep(5)
        assert {path: node.data for path, node in cache.nodes.items()} == lab.server.dump("/app")


@asynccontextmanager
async def lead(zk: ZooKeeper) -> AsyncIterator[Any]:
    async with LeaderElection(zk, "/election").lead() as term:
        yield term


WORKLOADS: dict[str, Workload] = {
    "lock": in_turn(lambda zk: Lock(zk, "/lock")),
    "lock of kazoo": in_turn(lambda zk: Lock(zk, "/lock", layout="kazoo")),
    "lock of both": in_turn(lambda zk: Lock(zk, "/lock", layout="both")),
    "single znode": in_turn(lambda zk: SingleNodeLock(zk, "/lock")),
    "semaphore": in_turn(lambda zk: Semaphore(zk, "/semaphore", 2), most=2),
    "semaphore of kazoo": in_turn(lambda zk: Semaphore(zk, "/semaphore", 2, layout="kazoo"), most=2),
    "election": in_turn(lead),
    "latch": latches,
    "readers and writers": readers_and_writers,
    "queue": passing_on(lambda zk: Queue(zk, "/queue"), lambda queue, data: queue.put(data)),
    "claim queue": passing_on(lambda zk: ClaimQueue(zk, "/queue"), lambda queue, data: queue.put(data)),
    "priority queue": passing_on(
        lambda zk: PriorityQueue(zk, "/queue"), lambda queue, data: queue.put(data, len(data))
    ),
    "counter": counting,
    "value": values,
    "barrier": barriers,
    "double barrier": double_barriers,
    "party": parties,
    "persistent node": persistent_nodes,
    "cache": caches,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORKLOADS)
async def test_a_recipe_holds(autojump_clock: MockClock, name: str, seed: int) -> None:
    async with open_lab(hostile=seed) as lab:
        clients = [await lab.client() for _ in range(CLIENTS)]
        with trio.fail_after(PATIENCE):
            await WORKLOADS[name](lab, clients)
