"""Our read/write locks and Apache Curator's on one path, in both directions (recipe-rules.md B.4, D.4)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.locks.role import LockLayout
from pyzk.recipes.locks.rwlock import RWLock

from ....support.interop import SEEN, Holder, is_held
from ....support.waiting import when_there_are
from .process import CuratorProcess


@pytest.mark.parametrize("layout", SEEN)
async def test_readers_and_writers(hosts: str, curator: CuratorProcess, layout: LockLayout) -> None:
    async with (
        connect(hosts) as zk,
        connect(hosts) as other,
        curator.client(hosts) as client,
        trio.open_nursery() as nursery,
    ):
        ours = RWLock(zk, "/lock", layout=layout)
        theirs = await client.make("rw_lock", "/lock")
        waiting = await client.make("rw_lock", "/lock")
        per = 2 if layout == "both" else 1

        await theirs("read_acquire")
        async with ours.read():  # readers side by side
            granted = waiting.start("write_acquire")
            await when_there_are(1 + per + 1, zk, "/lock")
            assert await is_held(RWLock(zk, "/lock").read())  # behind their writer
            await theirs("read_release")
            assert await theirs("write_try", 0) is False
            assert not granted.done
        await granted.wait()

        reading = Holder(zk, ours.read())
        nursery.start_soon(reading.run)
        await reading.waits()
        writing = Holder(other, RWLock(other, "/lock", layout=layout).write())
        nursery.start_soon(writing.run)
        await writing.waits()
        await waiting("write_release")
        await reading.granted.wait()
        assert not writing.granted.is_set()
        last = theirs.start("read_acquire")
        await when_there_are(2 * per + 1, zk, "/lock")
        await reading.release()
        await writing.granted.wait()
        assert await waiting("read_try", 0) is False
        assert not last.done
        await writing.release()
        await last.wait()


@pytest.mark.parametrize("layout", SEEN)
async def test_our_downgrade(hosts: str, curator: CuratorProcess, layout: LockLayout) -> None:
    """Their waiting readers come in, their waiting writer does not."""
    async with connect(hosts) as zk, curator.client(hosts) as client:
        reader, writer = [await client.make("rw_lock", "/lock") for _ in range(2)]
        per = 2 if layout == "both" else 1
        async with RWLock(zk, "/lock", layout=layout).write() as grant:
            reading = reader.start("read_acquire")
            await when_there_are(per + 1, zk, "/lock")
            writing = writer.start("write_acquire")
            await when_there_are(per + 2, zk, "/lock")
            assert not reading.done
            token = grant.token
            async with grant.downgrade() as reading_grant:
                await reading.wait()
                await reader("read_release")
                await when_there_are(per + 1, zk, "/lock")
                assert await reader("write_try", 0) is False
                assert not writing.done
                assert reading_grant.token == token
            await writing.wait()


async def test_their_downgrade(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client, trio.open_nursery() as nursery:
        theirs = await client.make("rw_lock", "/lock")
        await theirs("write_acquire")
        await theirs("read_acquire")
        ours = RWLock(zk, "/lock")
        assert await is_held(ours.read())
        await theirs("write_release")
        assert not await is_held(ours.read())
        assert await is_held(ours.write())
        writing = Holder(zk, ours.write())
        nursery.start_soon(writing.run)
        await writing.waits()
        await theirs("read_release")
        await writing.granted.wait()
        await writing.release()


async def test_their_downgrade_while_we_wait_to_write(hosts: str, curator: CuratorProcess) -> None:
    """Since CURATOR-621 the reader takes the writer's number, and we go on waiting. Before it takes the next
    one, behind ours: no writer, Curator's own included, can know that it was a writer."""
    async with connect(hosts) as zk, curator.client(hosts) as client, trio.open_nursery() as nursery:
        theirs = await client.make("rw_lock", "/lock")
        await theirs("write_acquire")
        writing = Holder(zk, RWLock(zk, "/lock").write())
        nursery.start_soon(writing.run)
        await writing.waits()
        await theirs("read_acquire")
        (reader,) = [name for name in await zk.get_children("/lock") if "__READ__" in name]
        await theirs("write_release")
        if reader.endswith("0000000000"):
            await writing.waits()
            assert await is_held(RWLock(zk, "/lock").write())
            await theirs("read_release")
        await writing.granted.wait()
        await writing.release()


async def test_their_mutex_counts_as_a_writer_for_us(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        assert await is_held(RWLock(zk, "/lock").read())
        await mutex("release")
        assert not await is_held(RWLock(zk, "/lock").read())
