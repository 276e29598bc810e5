"""Our barriers and Apache Curator's at one path (recipe-rules.md B.7, D.8)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import ZooKeeper, connect
from pyzk.recipes.barrier import Barrier
from pyzk.recipes.double_barrier import DoubleBarrier
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until, waits_for, when_there_are
from .process import CuratorProcess


async def test_we_wait_for_curators_barrier(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs = await client.make("barrier", "/barriers/a")
        await theirs("set")
        passed = trio.Event()

        async def wait() -> None:
            await Barrier(zk, "/barriers/a").wait()
            passed.set()

        nursery.start_soon(wait)
        await waits_for(server, zk.session.id, "/barriers/a")
        await theirs("set")  # once more changes nothing
        assert not passed.is_set()
        await theirs("remove")
        await passed.wait()


async def test_curator_waits_for_our_barrier(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = Barrier(zk, "/barriers/a")
        await ours.create()
        theirs = await client.make("barrier", "/barriers/a")
        passed = theirs.start("wait")
        await waits_for(server, client.session, "/barriers/a")
        await ours.create()
        assert not passed.done
        assert await ours.remove()
        await passed.wait()

        await theirs("set")
        assert await ours.remove()
        assert await theirs("try", 0) is True
        assert not await ours.remove()


class Member:
    """A task in our double barrier, which stays until it is told to leave."""

    def __init__(self, barrier: DoubleBarrier) -> None:
        self.path = ""
        self.entered = trio.Event()
        self.left = trio.Event()
        self.work_done = trio.Event()
        self._barrier = barrier

    async def run(self) -> None:
        async with self._barrier as self.path:
            self.entered.set()
            await self.work_done.wait()
        self.left.set()


async def members(zk: ZooKeeper, path: str) -> set[str]:
    return {f"{path}/{name}" for name in await zk.get_children(path)} - {f"{path}/ready"}


@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_a_double_barrier_of_both(server: EmbeddedServer, curator: CuratorProcess, first: str) -> None:
    """Several rounds: whose name is the lowest, who therefore stays to the end, is a matter of chance."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        barrier = DoubleBarrier(zk, "/barrier", 2)
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                ours, theirs = Member(barrier), await client.make("double_barrier", "/barrier", 2)
                if first == "ours":
                    nursery.start_soon(ours.run)
                    await when_there_are(1, zk, "/barrier")
                    assert not ours.entered.is_set()
                    await theirs("enter")
                else:
                    entered = theirs.start("enter")
                    await when_there_are(1, zk, "/barrier")
                    assert not entered.done
                    nursery.start_soon(ours.run)
                    await entered.wait()
                await ours.entered.wait()
                (their_path,) = await members(zk, "/barrier") - {ours.path}

                if first == "ours":
                    ours.work_done.set()
                    await waits_for(server, zk.session.id, their_path)
                    assert not ours.left.is_set()
                    await theirs("leave")
                    await ours.left.wait()
                else:
                    left = theirs.start("leave")
                    await waits_for(server, client.session, ours.path)
                    assert not left.done
                    ours.work_done.set()
                    await left.wait()
                    await ours.left.wait()
            await when_there_are(0, zk, "/barrier")


async def test_a_double_barrier_of_four(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client, trio.open_nursery() as nursery:
        ours = [Member(DoubleBarrier(zk, "/barrier", 4)) for _ in range(2)]
        theirs = [await client.make("double_barrier", "/barrier", 4) for _ in range(2)]
        for member in ours:
            nursery.start_soon(member.run)
        entered = theirs[0].start("enter")
        await when_there_are(3, zk, "/barrier")
        assert not entered.done
        assert not any(member.entered.is_set() for member in ours)
        await theirs[1]("enter")
        await entered.wait()
        for member in ours:
            await member.entered.wait()

        left = [remote.start("leave") for remote in theirs]
        ours[0].work_done.set()
        # All but the lowest take their names off at once; one of ours works on and stays.
        await until(lambda: there_are_at_most(2, zk, "/barrier"))
        assert ours[1].path in await members(zk, "/barrier")
        assert not ours[1].left.is_set()
        ours[1].work_done.set()
        for reply in left:
            await reply.wait()
        for member in ours:
            await member.left.wait()
        await when_there_are(0, zk, "/barrier")


async def there_are_at_most(count: int, zk: ZooKeeper, path: str) -> bool:
    return len(await members(zk, path)) <= count


async def test_a_stale_ready_of_curators(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """A process of Curator's that dies inside leaves ``ready`` behind; one of ours is not let in by it."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("double_barrier", "/barrier", 1)
        await theirs("enter")
        server.expire(client.session)
        assert await zk.get_children("/barrier") == ["ready"]
        await client.remote.wait_event("RECONNECTED")
        async with trio.open_nursery() as nursery:
            ours = Member(DoubleBarrier(zk, "/barrier", 2))
            nursery.start_soon(ours.run)
            await until(lambda: is_alone(zk))
            assert not ours.entered.is_set()
            again = await client.make("double_barrier", "/barrier", 2)
            await again("enter")
            await ours.entered.wait()
            ours.work_done.set()
            await again("leave")


async def is_alone(zk: ZooKeeper) -> bool:
    names = await zk.get_children("/barrier")
    return len(names) == 1 and names != ["ready"]
