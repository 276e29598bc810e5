"""Barriers on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from collections import Counter as Tally

import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import Barrier, DoubleBarrier

from ...support.waiting import until
from .scene import Clients, children, stay


async def test_a_barrier(clients: Clients) -> None:
    a, b, c = (Barrier(zk, "/dir/barrier") for zk in clients)
    await a.wait()
    await a.create()
    await b.create()
    passed = 0

    async def wait(barrier: Barrier) -> None:
        nonlocal passed
        await barrier.zk.sync(barrier.path)
        await barrier.wait()
        passed += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, b)
        nursery.start_soon(wait, c)
        for zk in clients[1:]:
            await until(lambda zk=zk: zk.watch_count == 1)
        assert passed == 0
        assert await a.remove()
    assert passed == 2
    assert not await c.remove()


async def test_a_double_barrier_round_after_round(clients: Clients) -> None:
    came: Tally[int] = Tally()
    ended: Tally[int] = Tally()

    async def member(zk: ZooKeeper) -> None:
        barrier = DoubleBarrier(zk, "/dir/double", 3)
        for number in range(3):
            came[number] += 1
            async with barrier:
                assert came[number] == 3
                await zk.sync()
                ended[number] += 1
            assert ended[number] == 3

    async with trio.open_nursery() as nursery:
        for zk in clients:
            nursery.start_soon(member, zk)
    assert (came, ended) == ({0: 3, 1: 3, 2: 3}, {0: 3, 1: 3, 2: 3})
    assert await children(clients[0], "/dir/double") == []


async def test_a_double_barrier_waits_for_the_number(clients: Clients) -> None:
    a, b, _ = clients
    async with trio.open_nursery() as nursery:
        first = stay(nursery, DoubleBarrier(a, "/double", 2))
        await until(lambda: a.watch_count == 2)  # on ready and on its own
        assert not first.inside
        second = stay(nursery, DoubleBarrier(b, "/double", 2))
        await first.entered()
        await second.entered()
        first.ask_to_leave()
        await until(lambda: a.watch_count == 1)  # on the other, which works still
        assert first.inside
        await second.leave()
        await first.leave()
