"""Our semaphores and kazoo's at one path (recipe-rules.md B.5, D.5)."""

from __future__ import annotations

import re

import pytest
import trio
from kazoo.recipe.lock import Semaphore as KazooSemaphore

from pyzk.client import EventType, WatchEvent, ZooKeeper, connect
from pyzk.recipes import Grant, InconsistentLimit
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.server.testing import EmbeddedServer

from ....support.interop import is_held, kazoo_client
from ....support.waiting import PATIENCE, until, waits_for

PATH = "/pool"
GATE = "/pool-__lock__"


def semaphore(zk: ZooKeeper, max_leases: int) -> Semaphore:
    return Semaphore(zk, PATH, max_leases, layout="kazoo", data=b"ours")


async def acquire(theirs: KazooSemaphore) -> None:
    assert await trio.to_thread.run_sync(lambda: theirs.acquire(timeout=PATIENCE))


async def nowait(theirs: KazooSemaphore) -> bool:
    return bool(await trio.to_thread.run_sync(lambda: theirs.acquire(blocking=False)))


async def release(theirs: KazooSemaphore) -> None:
    await trio.to_thread.run_sync(theirs.release)


def gate(server: EmbeddedServer) -> list[str]:
    return [path for path in server.dump() if path.startswith(f"{GATE}/")]


async def test_leases_are_shared(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        ours = semaphore(zk, 3)
        first, second, third = (client.Semaphore(PATH, f"theirs {n}", max_leases=3) for n in range(3))
        await acquire(first)
        async with ours.acquire_many(2) as leases:
            for lease in leases:
                assert re.fullmatch(rf"{PATH}/[0-9a-f]{{32}}", lease.path)
            assert [holder.data for holder in await ours.holders()] == [b"theirs 0", b"ours", b"ours"]
            holders = await trio.to_thread.run_sync(first.lease_holders)
            assert sorted(holders) == ["ours", "ours", "theirs 0"]
            assert await is_held(ours)
            assert not await nowait(second)
            await leases[0].release()
            assert await nowait(second)
            assert await is_held(ours)
        assert await nowait(third)
        assert await is_held(ours)
        for theirs in (first, second, third):
            await release(theirs)
        assert not await is_held(ours)
    assert gate(server) == []
    assert server.dump()[PATH] == b"3"


async def test_theirs_waits_for_ours(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        theirs = client.Semaphore(PATH, max_leases=1)
        async with trio.open_nursery() as nursery:
            async with semaphore(zk, 1):
                nursery.start_soon(acquire, theirs)
                await waits_for(server, client.client_id[0], PATH)
                assert not theirs.is_acquired
            await until(lambda: theirs.is_acquired)
        await release(theirs)


async def test_ours_waits_for_theirs(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        theirs = client.Semaphore(PATH, max_leases=1)
        await acquire(theirs)
        won: list[Grant] = []

        async def contend() -> None:
            won.append(await semaphore(zk, 1).acquire())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(contend)
            await waits_for(server, zk.session.id, PATH)
            assert won == []
            await release(theirs)
        await won[0].verify()
        await won[0].release()


@pytest.mark.parametrize("ours_first", [True, False])
async def test_the_first_at_the_gate_is_admitted_first(server: EmbeddedServer, ours_first: bool) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        theirs = client.Semaphore(PATH, max_leases=1)
        order: list[str] = []

        async def use_ours() -> None:
            async with semaphore(zk, 1):
                order.append("ours")

        async def use_theirs() -> None:
            await acquire(theirs)
            order.append("theirs")
            await release(theirs)

        uses = [use_ours, use_theirs] if ours_first else [use_theirs, use_ours]
        async with trio.open_nursery() as nursery, semaphore(zk, 1):
            for waiting, use in enumerate(uses, start=1):
                nursery.start_soon(use)
                await until(lambda waiting=waiting: len(gate(server)) == waiting)
        assert order == (["ours", "theirs"] if ours_first else ["theirs", "ours"])


async def test_a_session_that_ends_returns_its_leases(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        await acquire(client.Semaphore(PATH, max_leases=1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits_then_expire, server, zk, client.client_id[0])
            with trio.fail_after(PATIENCE):
                lease = await semaphore(zk, 1).acquire()
        theirs = client.Semaphore(PATH, max_leases=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acquire, theirs)
            # kazoo has a new session by then
            await until(lambda: any(PATH in s.watches for s in server.sessions() if s.id != zk.session.id))
            await zk.delete(lease.path)  # an operator does that
            await until(lambda: theirs.is_acquired)
        await lease.lost.wait()
        await release(theirs)


async def waits_then_expire(server: EmbeddedServer, zk: ZooKeeper, session: int) -> None:
    await waits_for(server, zk.session.id, PATH)
    server.expire(session)


async def test_they_must_agree_on_the_limit(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as client:
        theirs = client.Semaphore(PATH, max_leases=2)
        await acquire(theirs)
        assert server.dump()[PATH] == b"2"
        with pytest.raises(InconsistentLimit) as caught:
            await semaphore(zk, 3).acquire()
        assert (caught.value.stored, caught.value.given) == (2, 3)
        await release(theirs)
        await zk.delete(PATH)  # the way to change it

        async with semaphore(zk, 3):
            with pytest.raises(ValueError, match="Inconsistent max leases"):
                await acquire(client.Semaphore(PATH, max_leases=2))
            another = client.Semaphore(PATH, max_leases=3)
            await acquire(another)
        await release(another)


async def test_many_of_both(server: EmbeddedServer) -> None:
    """There are never more leases than the limit."""
    async with (
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as client,
        zk.watch(PATH, recursive=True) as events,
    ):
        turns = 0

        async def use_ours() -> None:
            nonlocal turns
            for _ in range(5):
                async with semaphore(zk, 2).acquire_many(2):
                    turns += 1

        async def use_theirs() -> None:
            nonlocal turns
            theirs = client.Semaphore(PATH, max_leases=2)
            for _ in range(5):
                await acquire(theirs)
                turns += 1
                await release(theirs)

        with trio.fail_after(3 * PATIENCE):
            async with trio.open_nursery() as nursery:
                for use in (use_ours, use_theirs, use_ours, use_theirs):
                    nursery.start_soon(use)
        assert turns == 20
        assert gate(server) == []

        await zk.create(f"{PATH}/end")
        live, most = 0, 0
        async for event in events:
            assert isinstance(event, WatchEvent)
            if event.path == f"{PATH}/end":
                break
            if event.path.startswith(f"{PATH}/"):
                live += {EventType.CREATED: 1, EventType.DELETED: -1}[event.type]
                most = max(most, live)
    assert (live, most) == (0, 2)
