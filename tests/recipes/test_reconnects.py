"""A reconnect costs those who wait nothing: the client arms their watches again, relative to the last zxid
that it has seen, and the server reports at once what has changed meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ClosingError, ZooKeeper
from pyzk.recipes import (
    PARENT,
    Barrier,
    DoubleBarrier,
    LeaderElection,
    Lock,
    Party,
    PersistentNode,
    Queue,
    RWLock,
    Semaphore,
    SharedValue,
    SingleNodeLock,
    polling,
    watch_children,
)

from ..support.lab import Lab

PATH = "/x"
AWAY = 2.0
"""Seconds without a connection: less than a session lasts."""

Wait = Callable[[ZooKeeper], Awaitable[object]]


async def hold(block: Any) -> None:
    async with block:
        await trio.sleep_forever()


async def read_all(values: Any) -> None:
    async for _ in values:
        pass


async def follow(zk: ZooKeeper) -> None:
    async with SharedValue(zk, PATH).updates() as updates:
        await read_all(updates)


WAITS: dict[str, Wait] = {
    "lock": lambda zk: hold(Lock(zk, PATH)),
    "bridge": lambda zk: hold(Lock(zk, PATH, layout="both")),
    "lock without monitor": lambda zk: hold(Lock(zk, PATH, monitor=False)),
    "lock that watches the parent": lambda zk: hold(Lock(zk, PATH, strategy=PARENT)),
    "reader": lambda zk: hold(RWLock(zk, PATH).read()),
    "writer": lambda zk: hold(RWLock(zk, PATH).write()),
    "semaphore": lambda zk: hold(Semaphore(zk, PATH, 1)),
    "semaphore of kazoo": lambda zk: hold(Semaphore(zk, PATH, 1, layout="kazoo")),
    "election": lambda zk: hold(LeaderElection(zk, PATH).lead()),
    "single znode": lambda zk: hold(SingleNodeLock(zk, PATH)),
}
"""What one holds and others wait for."""

OTHERS: dict[str, Wait] = {
    "observer": lambda zk: read_all(LeaderElection(zk, PATH).observe()),
    "party": lambda zk: hold(Party(zk, PATH, "one")),
    "changes of a party": lambda zk: read_all(Party(zk, PATH).changes()),
    "persistent node": lambda zk: hold(PersistentNode(zk, PATH)),
    "children": lambda zk: read_all(watch_children(zk, PATH)),
    "value": follow,
    "queue": lambda zk: Queue(zk, PATH).get(),
}
"""What waits, or follows, by itself."""


@asynccontextmanager
async def absence(lab: Lab, *clients: ZooKeeper) -> AsyncIterator[None]:
    """The block runs while the clients have no connection; then they are back, in their sessions."""
    generations = [zk.session.generation for zk in clients]
    await trio.sleep(1)
    for zk in clients:
        lab.cut_off(zk)
        lab.server.disconnect(zk.session.id)
    await trio.sleep(AWAY / 2)
    yield
    await trio.sleep(AWAY / 2)
    for zk in clients:
        lab.let_through(zk)
    for zk in clients:
        await zk.session.wait_connected()
    await trio.sleep(1)
    assert [zk.session.generation for zk in clients] == generations


async def requests_of_a_reconnect(lab: Lab, zk: ZooKeeper) -> dict[str, int]:
    """What an absence makes a client send, in which nothing happens."""
    await trio.sleep(1)
    before = lab.requests(zk)
    async with absence(lab, zk):
        pass
    return dict(lab.requests(zk) - before)


@pytest.mark.parametrize("wait", WAITS)
async def test_a_reconnect_costs_those_who_wait_no_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, wait: str
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(WAITS["writer" if wait == "reader" else wait], other)
        await trio.sleep(1)
        for _ in range(20):
            nursery.start_soon(WAITS[wait], zk)
            await trio.sleep(0.01)
        assert await requests_of_a_reconnect(lab, zk) == {}
        nursery.cancel_scope.cancel()


async def test_a_reconnect_of_two_hundred_waiters_costs_the_handshake_and_one_request_for_their_watches(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, Lock(other, PATH))
        await trio.sleep(1)
        lock = Lock(zk, PATH)
        for _ in range(200):
            nursery.start_soon(hold, lock)
        await trio.sleep(5)
        assert lock.statistics().waiting == 200
        armed = lab.watch_count
        stats = lab.server.running.engine.stats
        packets = stats.packets_received
        assert await requests_of_a_reconnect(lab, zk) == {}
        assert lab.watch_count == armed, "all of them watch again"
        # A handshake, the watches, and some pings; the holder keeps its lease with a few requests.
        assert stats.packets_received - packets <= 10
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wait", [*WAITS, *OTHERS])
async def test_a_reconnect_costs_those_who_hold_or_follow_no_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, wait: str
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon((WAITS | OTHERS)[wait], zk)
        assert await requests_of_a_reconnect(lab, zk) == {}
        nursery.cancel_scope.cancel()


async def test_a_reconnect_costs_those_at_a_barrier_no_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await Barrier(zk, PATH).create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Barrier(zk, PATH).wait)
        assert await requests_of_a_reconnect(lab, zk) == {}
        nursery.cancel_scope.cancel()


async def test_a_member_that_waits_at_a_double_barrier_looks_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Its ``ready`` may have come and gone, which no watch tells."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, DoubleBarrier(zk, PATH, 2))
        asked = await requests_of_a_reconnect(lab, zk)
        assert asked == {"exists": 2, "get_children": 1, "remove_watches": 2}
        nursery.cancel_scope.cancel()


class Queued:
    """Three contenders of clients of their own, of which the first holds the lock."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.granted: list[int] = []
        self.clients: list[ZooKeeper] = []
        self.leave = [trio.Event() for _ in range(3)]

    async def contend(self, number: int) -> None:
        async with Lock(self.clients[number], PATH):
            self.granted.append(number)
            await self.leave[number].wait()

    async def fill(self, nursery: trio.Nursery) -> list[str]:
        """Returns the paths of the contenders, in order."""
        for number in range(3):
            self.clients.append(await self.lab.client())
            nursery.start_soon(self.contend, number)
            await trio.sleep(1)
        return sorted(self.lab.server.dump(PATH), key=lambda path: path[-10:])[1:]


async def test_a_waiter_that_was_away_learns_of_its_turn(autojump_clock: MockClock, lab: Lab) -> None:
    queued = Queued(lab)
    async with trio.open_nursery() as nursery:
        await queued.fill(nursery)
        waiters = queued.clients[1:]
        before = [lab.requests(zk) for zk in waiters]
        async with absence(lab, *waiters):
            queued.leave[0].set()
        assert queued.granted == [0, 1]
        after = [dict(lab.requests(zk) - counts) for zk, counts in zip(waiters, before, strict=True)]
        assert after == [{"get_children": 1}, {}], "only he whose predecessor has gone"
        queued.leave[1].set()
        queued.leave[2].set()


async def test_a_waiter_that_was_away_learns_that_its_znode_is_gone(
    autojump_clock: MockClock, lab: Lab
) -> None:
    queued = Queued(lab)
    async with trio.open_nursery() as nursery:
        paths = await queued.fill(nursery)
        async with absence(lab, queued.clients[1]):
            await queued.clients[2].delete(paths[1])
        assert len(lab.server.dump(PATH)) == 4, "he stands at the end again"
        for leave in queued.leave:
            leave.set()
    assert queued.granted == [0, 2, 1]


async def test_a_predecessor_that_was_deleted_and_created_again_is_waited_for(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Under the same name: the watch tells that something has changed, the list what."""
    other = await lab.client()
    name = f"{PATH}/{'0' * 32}__lock__0000000000"
    await zk.create(PATH)
    await other.create(name)
    lab.count_children(PATH, 1)
    await other.create(name)
    granted = trio.Event()

    async def contend() -> None:
        async with Lock(zk, PATH):
            granted.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(contend)
        async with absence(lab, zk):
            await other.delete(name)
            await other.create(name)
        assert not granted.is_set()
        await other.delete(name)
        await granted.wait()


@pytest.mark.parametrize("options", [{}, {"monitor": False}])
async def test_the_end_of_the_session_and_of_the_client_end_every_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, options: dict[str, Any]
) -> None:
    """Also of one that watches nothing."""
    began = trio.current_time()
    async with Lock(zk, PATH), trio.open_nursery() as nursery, lab.connect() as own:
        lock = Lock(own, PATH, strategy=polling(1000), **options)

        async def contend() -> None:
            with pytest.raises(ClosingError):
                await lock.acquire()

        nursery.start_soon(contend)
        await trio.sleep(1)
        lab.server.expire(own.session.id)
        await trio.sleep(1)
        assert lock.statistics().waiting == 1
        assert len(await lock.contenders()) == 2, "it has begun anew"
    assert trio.current_time() < began + 100
