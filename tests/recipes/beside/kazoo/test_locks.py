"""Our locks and kazoo's at one path: who excludes whom (recipe-rules.md B.2.3), in one process."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from pyzk.client import connect
from pyzk.recipes import ContenderKind, Lock, RWLock, contenders
from pyzk.recipes.locks.role import LockLayout
from pyzk.server.testing import EmbeddedServer

from ....support.interop import Holder, is_held, kazoo_client
from ....support.waiting import PATIENCE, when_there_are

SEEN: list[LockLayout] = ["kazoo", "both"]
"""The namings that kazoo sees."""


async def takes(theirs: Any) -> bool:
    """Whether kazoo gets it at once; it gives it back then."""

    def attempt() -> bool:
        if not theirs.acquire(blocking=False):
            return False
        theirs.release()
        return True

    return await trio.to_thread.run_sync(attempt)


async def acquire(theirs: Any) -> None:
    assert await trio.to_thread.run_sync(lambda: theirs.acquire(timeout=PATIENCE))


async def release(theirs: Any) -> None:
    await trio.to_thread.run_sync(theirs.release)


@pytest.mark.parametrize("layout", SEEN)
async def test_kazoo_waits_for_us(server: EmbeddedServer, layout: LockLayout) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        theirs = kazoo.Lock("/lock", "them")
        granted = trio.Event()

        async def contend() -> None:
            await acquire(theirs)
            granted.set()

        async with trio.open_nursery() as nursery:
            async with Lock(zk, "/lock", layout=layout) as grant:
                assert not await takes(kazoo.Lock("/lock"))
                nursery.start_soon(contend)
                await when_there_are(len(grant.paths) + 1, zk, "/lock")
                assert not granted.is_set()
            with trio.fail_after(PATIENCE):
                await granted.wait()
        await release(theirs)
        assert await zk.get_children("/lock") == []


@pytest.mark.parametrize("layout", ["curator", "kazoo", "both"])
async def test_we_wait_for_kazoo(server: EmbeddedServer, layout: LockLayout) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        theirs = kazoo.Lock("/lock", "them")
        await acquire(theirs)
        [held] = await contenders(zk, "/lock")
        assert (held.kind, held.data) == (ContenderKind.KAZOO_LOCK, b"them")
        holder = Holder(zk, Lock(zk, "/lock", layout=layout))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.run)
            await holder.waits()
            await release(theirs)
            with trio.fail_after(PATIENCE):
                await holder.granted.wait()
            await holder.release()
        assert await zk.get_children("/lock") == []


async def test_kazoo_does_not_see_us_named_for_curator(server: EmbeddedServer) -> None:
    """Which is why there is layout="both"."""
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo, Lock(zk, "/lock"):
        assert await takes(kazoo.Lock("/lock"))
        assert not await takes(kazoo.Lock("/lock", extra_lock_patterns=["-lock-"]))


async def test_the_names_are_those_of_kazoo(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk:
        rw = RWLock(zk, "/rw", layout="kazoo")
        for side, marker in [(rw.read(), "__rlock__"), (rw.write(), "__lock__"), (Lock(zk, "/rw"), None)]:
            async with side as grant:
                if marker:
                    assert re.fullmatch(rf"/rw/[0-9a-f]{{32}}{marker}\d{{10}}", grant.path)


def side_of(kazoo: KazooClient, writes: bool) -> Any:
    return kazoo.WriteLock("/rw") if writes else kazoo.ReadLock("/rw")


@pytest.mark.parametrize("layout", SEEN)
@pytest.mark.parametrize("first_writes", [False, True])
@pytest.mark.parametrize("second_writes", [False, True])
async def test_readers_share_and_writers_exclude_both_ways(
    server: EmbeddedServer, layout: LockLayout, first_writes: bool, second_writes: bool
) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        rw = RWLock(zk, "/rw", layout=layout)
        shared = not first_writes and not second_writes
        async with rw.write() if first_writes else rw.read():
            assert await takes(side_of(kazoo, second_writes)) == shared
        theirs = side_of(kazoo, first_writes)
        await acquire(theirs)
        assert await is_held(rw.write() if second_writes else rw.read()) == (not shared)
        await release(theirs)


@pytest.mark.parametrize("layout", SEEN)
async def test_a_downgraded_writer_keeps_kazoos_writers_out(
    server: EmbeddedServer, layout: LockLayout
) -> None:
    async with (
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as kazoo,
        RWLock(zk, "/rw", layout=layout).write() as grant,
        grant.downgrade(),
    ):
        assert not await takes(kazoo.WriteLock("/rw"))
        assert await takes(kazoo.ReadLock("/rw"))


async def test_kazoo_and_ours_get_it_in_the_order_in_which_they_came(server: EmbeddedServer) -> None:
    order: list[str] = []
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        await zk.ensure_path("/lock")

        async def ours(name: str) -> None:
            async with connect(server.hosts) as own, Lock(own, "/lock", layout="both"):
                order.append(name)

        async def theirs(name: str) -> None:
            lock = kazoo.Lock("/lock")
            await acquire(lock)
            order.append(name)
            await release(lock)

        async with trio.open_nursery() as nursery, Lock(zk, "/lock", layout="both"):
            count = 2
            for turn in range(6):
                nursery.start_soon(ours if turn % 2 else theirs, str(turn))
                count += 2 if turn % 2 else 1
                await when_there_are(count, zk, "/lock")
    assert order == ["0", "1", "2", "3", "4", "5"]
