"""Our locks and Apache Curator's on one path, in both directions (recipe-rules.md B.2.3, B.2.5, B.3)."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.errors import LockRevoked, SequenceExhausted
from pyzk.recipes.locks.lock import Lock, revoke
from pyzk.recipes.locks.role import LockLayout
from pyzk.recipes.locks.rwlock import RWLock
from pyzk.server.testing import EmbeddedServer

from ....support.interop import SEEN, Holder, is_held, kazoo_client
from ....support.lab import count_children
from ....support.waiting import PATIENCE, when_there_are
from .process import CuratorProcess, Remote

ALL: list[LockLayout] = ["curator", "kazoo", "both"]


# --- the lock -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SEEN)
async def test_curator_waits_for_us(hosts: str, curator: CuratorProcess, layout: LockLayout) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        znodes = 2 if layout == "both" else 1
        async with Lock(zk, "/lock", layout=layout) as grant:
            mutex = await client.make("mutex", "/lock")
            assert await mutex("try", 0) is False
            granted = mutex.start("acquire")
            await when_there_are(znodes + 1, zk, "/lock")
            assert await (await client.make("mutex", "/lock"))("try", 0) is False
            await grant.verify()
            assert not granted.done
        await granted.wait()
        await mutex("release")
        assert await zk.get_children("/lock") == []


@pytest.mark.parametrize("layout", ALL)
async def test_we_wait_for_curator(hosts: str, curator: CuratorProcess, layout: LockLayout) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client, trio.open_nursery() as nursery:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        lock = Lock(zk, "/lock", layout=layout)
        assert await is_held(lock)
        holder = Holder(zk, lock)
        nursery.start_soon(holder.run)
        await holder.waits()
        await mutex("release")
        await holder.granted.wait()
        await holder.release()
        assert await mutex("try", 0) is True


async def test_curator_does_not_see_us_named_for_kazoo(hosts: str, curator: CuratorProcess) -> None:
    """The gap that the bridge is for: if this fails, the documentation of layout= is wrong."""
    async with connect(hosts) as zk, curator.client(hosts) as client, Lock(zk, "/lock", layout="kazoo"):
        assert await (await client.make("mutex", "/lock"))("try", 0) is True


async def test_first_come_first_served(hosts: str, curator: CuratorProcess) -> None:
    """Ours and theirs in one queue."""
    async with (
        connect(hosts) as first,
        connect(hosts) as second,
        curator.client(hosts) as third,
        curator.client(hosts) as fourth,
        trio.open_nursery() as nursery,
    ):
        one = Holder(first, Lock(first, "/lock", layout="both"))
        nursery.start_soon(one.run)
        await one.granted.wait()
        two = await third.make("mutex", "/lock")
        two_granted = two.start("acquire")
        await when_there_are(3, first, "/lock")
        three = Holder(second, Lock(second, "/lock"))
        nursery.start_soon(three.run)
        await three.waits()
        four = await fourth.make("mutex", "/lock")
        four_granted = four.start("acquire")
        await when_there_are(5, first, "/lock")

        await one.release()
        await two_granted.wait()
        await three.waits()
        await two("release")
        await three.granted.wait()
        assert one.grant is not None
        assert three.grant is not None
        assert one.grant.token < three.grant.token
        assert not four_granted.done
        await three.release()
        await four_granted.wait()


async def test_each_lists_the_other(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        await zk.create("/lock/letters")
        lock = Lock(zk, "/lock", data=b"ours")
        (theirs,) = await lock.contenders()
        assert theirs.stat.ephemeralOwner == client.session
        assert theirs.data == await client.remote("default_data")
        assert await lock.is_locked()
        await mutex("release")
        await zk.delete("/lock/letters")
        async with lock as grant:
            assert await mutex("participants") == [grant.path]
            assert (await zk.get(grant.path))[0] == b"ours"


# --- the bridge: Curator and kazoo at once, neither of which sees the other ---------------------------------


@pytest.mark.parametrize("side", ["lock", "write"])
async def test_the_bridge_excludes_curator_and_kazoo_at_once(
    hosts: str, curator: CuratorProcess, side: str
) -> None:
    async with (
        connect(hosts) as zk,
        curator.client(hosts) as client,
        kazoo_client(hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        options = {"layout": "both"}
        if side == "lock":
            lock = Lock(zk, "/lock", layout="both")
            theirs, verbs = await client.make("mutex", "/lock"), {"try": "release"}
            locks = [kazoo.Lock("/lock")]
        else:
            lock = RWLock(zk, "/lock", **options).write()
            theirs = await client.make("rw_lock", "/lock")
            verbs = {"write_try": "write_release", "read_try": "read_release"}
            locks = [kazoo.WriteLock("/lock"), kazoo.ReadLock("/lock")]
        holder = Holder(zk, lock)
        nursery.start_soon(holder.run)
        await holder.granted.wait()

        for verb in verbs:
            assert await theirs(verb, 0) is False
        for one in locks:
            assert await trio.to_thread.run_sync(one.acquire, False) is False
        verb, let_go = next(iter(verbs.items()))
        curator_granted = theirs.start(verb.replace("try", "acquire"))
        kazoo_granted = trio.Event()

        async def acquire_with_kazoo() -> None:
            await trio.to_thread.run_sync(partial(locks[0].acquire, timeout=PATIENCE))
            kazoo_granted.set()

        nursery.start_soon(acquire_with_kazoo)
        await when_there_are(4, zk, "/lock")
        assert not curator_granted.done
        assert not kazoo_granted.is_set()
        await holder.release()
        await curator_granted.wait()
        await kazoo_granted.wait()

        # And the other way round: we wait for both.
        again = Holder(zk, lock)
        nursery.start_soon(again.run)
        await again.waits()
        await trio.to_thread.run_sync(locks[0].release)
        assert await is_held(Lock(zk, "/lock"))
        await theirs(let_go)
        await again.granted.wait()
        await again.release()


async def test_a_bridge_for_readers(hosts: str, curator: CuratorProcess) -> None:
    async with (
        connect(hosts) as zk,
        curator.client(hosts) as client,
        kazoo_client(hosts) as kazoo,
    ):
        ours = RWLock(zk, "/lock", layout="both")
        theirs = await client.make("rw_lock", "/lock")
        reader, writer = kazoo.ReadLock("/lock"), kazoo.WriteLock("/lock")
        async with ours.read():
            assert await theirs("write_try", 0) is False
            assert await trio.to_thread.run_sync(writer.acquire, False) is False
            assert await theirs("read_try", 0) is True
            assert await trio.to_thread.run_sync(reader.acquire, False) is True
        assert await is_held(ours.write())
        async with ours.read():
            pass
        await theirs("read_release")
        assert await is_held(ours.write())
        await trio.to_thread.run_sync(reader.release)
        assert not await is_held(ours.write())

        assert await trio.to_thread.run_sync(writer.acquire, False) is True
        assert await is_held(ours.read())
        await trio.to_thread.run_sync(writer.release)
        await theirs("write_acquire")
        assert await is_held(ours.read())
        await theirs("write_release")


def numbers_from(server: EmbeddedServer, path: str, number: int) -> None:
    """Make a znode whose next sequential child gets this number."""
    server.run(count_children, server, path, number)


async def test_high_numbers_do_not_confuse_the_order(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """From 1000000000 on a name without Curator's marker that begins with a digit may sort before Curator's
    (recipe-rules.md B.2.4): it would wait for the one of ours behind it, and that one for Curator."""
    numbers_from(server, "/lock", 10**9 - 2)
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as other,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs = await client.make("mutex", "/lock")
        first = Holder(zk, Lock(zk, "/lock", layout="both"))
        nursery.start_soon(first.run)
        await first.granted.wait()
        granted = theirs.start("acquire")
        await when_there_are(3, zk, "/lock")
        second = Holder(other, Lock(other, "/lock", layout="both"))
        nursery.start_soon(second.run)
        await second.waits()
        assert sorted(name[-10:] for name in await zk.get_children("/lock"))[-1] == "1000000002"
        await first.release()
        await granted.wait()
        assert not second.granted.is_set()
        await theirs("release")
        await second.granted.wait()
        await second.release()


async def test_the_last_number(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """We rather fail than hold it together with Curator (recipe-rules.md 0.4)."""
    numbers_from(server, "/lock", 2**31 - 2)
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        with pytest.raises(SequenceExhausted):
            await Lock(zk, "/lock").acquire()
        (theirs,) = await mutex("participants")
        assert theirs.endswith("-lock-2147483646")


# --- revocation ---------------------------------------------------------------------------------------------


async def test_we_ask_curator_for_its_lock(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client, trio.open_nursery() as nursery:
        mutex = await client.make("mutex", "/lock")
        await mutex("make_revocable")
        await mutex("acquire")
        lock = Lock(zk, "/lock")
        holder = Holder(zk, lock)
        nursery.start_soon(holder.run)
        await holder.waits()
        assert mutex.quiet
        await revoke(zk, (await lock.contenders())[0])
        assert await mutex.event() == "revoked"
        await holder.waits()  # it was a request: nothing has changed yet
        await mutex("release")
        await holder.granted.wait()
        await holder.release()


@pytest.mark.parametrize("layout", SEEN)
async def test_curator_asks_us_for_our_lock(hosts: str, curator: CuratorProcess, layout: LockLayout) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        mutex: Remote = await client.make("mutex", "/lock")
        async with Lock(zk, "/lock", layout=layout) as grant:
            granted = mutex.start("acquire")
            await client.remote("revoke", grant.path)
            await grant.revoked.wait()
            await grant.verify()
            assert not granted.done
        await granted.wait()
        await mutex("release")

        with pytest.raises(LockRevoked):
            async with Lock(zk, "/lock", layout=layout, on_revoke="cancel") as grant:
                await client.remote("revoke", grant.path)
                await trio.sleep_forever()
        assert await mutex("try", 0) is True
