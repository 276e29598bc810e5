"""A client whose server dies moves to the leader, while its write is proposed and not yet committed: there a
``sync`` is answered at once, and the write is still to come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import Counter, Queue
from pyzk.recipes.base.bound import Bound
from pyzk.recipes.base.creating import create_identified

from .place import in_virtual_time, open_place


async def create(zk: ZooKeeper) -> None:
    await create_identified(Bound(zk), "/here", ["some-id-"])


async def put(zk: ZooKeeper) -> None:
    await Queue(zk, "/here").put(b"an item")


async def add(zk: ZooKeeper) -> None:
    await Counter(zk, "/count", exactly_once=True).add(1)


async def give_up(zk: ZooKeeper) -> None:
    with trio.move_on_after(10):
        await create(zk)
    await zk.cleanup.idle()


async def children(zk: ZooKeeper) -> int:
    return len(await zk.get_children("/here"))


async def count(zk: ZooKeeper) -> int:
    return await Counter(zk, "/count").get()


@pytest.mark.parametrize(
    ("write", "result", "expected"),
    [(create, children, 1), (put, children, 1), (add, count, 1), (give_up, children, 0)],
)
def test_it_is_done_once(
    write: Callable[[ZooKeeper], Awaitable[None]],
    result: Callable[[ZooKeeper], Awaitable[int]],
    expected: int,
) -> None:
    async def main() -> None:
        async with open_place() as place:
            ensemble = place.ensemble
            leader = ensemble.leader()
            assert leader is not None
            follower = next(number for number in ensemble.numbers if number != leader)
            async with place.client("A", [follower], session_timeout=30) as zk:
                await zk.create("/here")
                await count(zk)
                async with trio.open_nursery() as nursery:
                    ensemble.hold_acks()
                    nursery.start_soon(write, zk)
                    await trio.sleep(1)  # the write is proposed
                    await zk.update_hosts(f"{leader}:{leader}")
                    ensemble.kill(follower)
                    await trio.sleep(20)
                    assert place.server_of("A") == leader
                    ensemble.release_acks()
                await zk.sync("/")
                assert await result(zk) == expected

    in_virtual_time(main)
