"""Our semaphores and multi-locks and Apache Curator's at one path (recipe-rules.md B.3, B.5, D.5, D.6)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import ZooKeeper, connect
from pyzk.recipes.codecs import INT32
from pyzk.recipes.errors import LockLost, LossReason, WouldBlock
from pyzk.recipes.locks.grant import Grant
from pyzk.recipes.locks.lock import Lock
from pyzk.recipes.locks.multi_lock import MultiLock
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.recipes.shared_value import SharedValue
from pyzk.server.testing import EmbeddedServer

from ....support.interop import is_held
from ....support.waiting import until, waits_for, when_there_are
from .process import CuratorProcess, Remote

LEASES = "/semaphore/leases"
GATE = "/semaphore/locks"


def semaphore(zk: ZooKeeper, max_leases: int) -> Semaphore:
    return Semaphore(zk, "/semaphore", max_leases, data=b"ours")


class Acquisition:
    """A task that acquires a lease and keeps it."""

    def __init__(self, ours: Semaphore) -> None:
        self.granted = trio.Event()
        self._ours = ours
        self._lease: Grant

    async def run(self) -> None:
        self._lease = await self._ours.acquire()
        self.granted.set()

    async def release(self) -> None:
        await self._lease.release()


async def test_leases_are_shared(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours, theirs = semaphore(zk, 3), await client.make("semaphore", "/semaphore", 3)
        await theirs("set_data", b"theirs")
        name = await theirs("acquire")
        async with ours as lease:
            assert [holder.data for holder in await ours.holders()] == [b"theirs", b"ours"]
            assert {f"{LEASES}/{each}" for each in await theirs("participants")} == {
                f"{LEASES}/{name}",
                lease.path,
            }
            second = await theirs("try", 10_000)
            assert second is not None
            assert await is_held(ours)
            assert await theirs("try", 0) is None
            await theirs("release", second)
            async with ours.nowait():
                assert await theirs("try", 0) is None
            assert await theirs("try", 0) is not None
        await when_there_are(2, zk, LEASES)
        await when_there_are(0, zk, GATE)


async def test_curator_waits_for_our_lease(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("semaphore", "/semaphore", 1)
        async with semaphore(zk, 1):
            granted = theirs.start("acquire")
            await waits_for(server, client.session, LEASES)
            assert not granted.done
            assert await is_held(semaphore(zk, 1))  # Curator is at the gate
        await theirs("release", await granted.wait())


async def test_we_wait_for_curators_lease(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """And Curator, behind us, at the gate."""
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs, behind = [await client.make("semaphore", "/semaphore", 1) for _ in range(2)]
        name = await theirs("acquire")
        ours = Acquisition(semaphore(zk, 1))
        nursery.start_soon(ours.run)
        await waits_for(server, zk.session.id, LEASES)
        (gate,) = await zk.get_children(GATE)
        granted = behind.start("acquire")
        await waits_for(server, client.session, f"{GATE}/{gate}")
        assert not ours.granted.is_set()
        await theirs("release", name)
        await ours.granted.wait()
        await waits_for(server, client.session, LEASES)
        assert not granted.done
        await ours.release()
        await granted.wait()


async def test_several_leases_at_a_time(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours, theirs = semaphore(zk, 3), await client.make("semaphore", "/semaphore", 3)
        async with ours.acquire_many(2):
            granted = theirs.start("acquire_many", 2)
            await waits_for(server, client.session, LEASES)
            assert not granted.done
        names = await granted.wait()
        assert len(names) == 2
        with pytest.raises(WouldBlock):
            async with ours.acquire_many(2, wait=False):
                pass
        await theirs("release", names[0])
        async with ours.acquire_many(2, wait=False):
            assert await theirs("try", 0) is None


@pytest.mark.parametrize("held", [True, False])
async def test_curators_session_expires(server: EmbeddedServer, curator: CuratorProcess, held: bool) -> None:
    """While it holds a lease, and while it waits for one at the gate."""
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as other,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs = await client.make("semaphore", "/semaphore", 1)
        first, second = Acquisition(semaphore(zk, 1)), Acquisition(semaphore(other, 1))
        if held:
            await theirs("acquire")
        else:
            await first.run()
            theirs.start("acquire")
            await waits_for(server, client.session, LEASES)
        nursery.start_soon(second.run)
        await until(lambda: len(server.dump(GATE)) == (2 if held else 3))
        server.expire(client.session)
        if not held:
            await first.release()
        await second.granted.wait()
        await second.release()


async def test_our_session_expires_while_we_hold_a_lease(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    async with curator.client(server.hosts) as client:
        theirs = await client.make("semaphore", "/semaphore", 1)
        with pytest.raises(LockLost) as lost:
            async with connect(server.hosts, on_expired="new_session") as zk, semaphore(zk, 1):
                granted = theirs.start("acquire")
                await waits_for(server, client.session, LEASES)
                server.expire(zk.session.id)
                await trio.sleep_forever()
        assert lost.value.reason is LossReason.SESSION_EXPIRED
        await granted.wait()


async def test_a_limit_that_changes(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """It is one of Curator's SharedCount, which both follow."""
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        limit = SharedValue(zk, "/limit", codec=INT32)
        await limit.set(1)
        theirs = await client.make("counted_semaphore", "/semaphore", "/limit")
        ours = Semaphore(zk, "/semaphore", 1, limit_source=limit)
        await theirs("acquire")
        second = Acquisition(ours)
        nursery.start_soon(second.run)
        await waits_for(server, zk.session.id, LEASES)
        await limit.set(2)
        await second.granted.wait()
        third = theirs.start("acquire")
        await waits_for(server, client.session, LEASES)
        assert not third.done
        await limit.set(3)
        await third.wait()


async def test_a_semaphore_mutex(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours, theirs = semaphore(zk, 1), await client.make("semaphore_mutex", "/semaphore")
        async with ours:
            assert await theirs("try", 0) is False
        assert await theirs("try", 0) is True
        assert await is_held(ours)
        await theirs("release")
        assert not await is_held(ours)


async def test_never_too_many(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Ours and theirs in a hurry."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        inside = most = 0

        def enter() -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)

        def leave() -> None:
            nonlocal inside
            inside -= 1

        async def run_ours() -> None:
            for _ in range(8):
                async with semaphore(zk, 2):
                    enter()
                    await trio.lowlevel.checkpoint()
                    leave()

        async def run_theirs(theirs: Remote) -> None:
            for _ in range(8):
                name = await theirs("acquire")
                enter()
                await trio.lowlevel.checkpoint()
                leave()
                await theirs("release", name)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(run_ours)
                nursery.start_soon(run_theirs, await client.make("semaphore", "/semaphore", 2))
        assert most <= 2
        assert await zk.get_children(LEASES) == []
        assert await zk.get_children(GATE) == []


async def test_multi_locks(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        theirs = await client.make("multi_lock", "/b", "/c")
        ours = MultiLock([Lock(zk, "/c"), Lock(zk, "/a")])
        async with ours:
            assert await theirs("try", 0) is False
            assert await zk.get_children("/b") == []
        await theirs("acquire")
        with pytest.raises(WouldBlock):
            async with ours.nowait():
                pass
        assert await zk.get_children("/a") == []
        await theirs("release")
        async with ours.nowait():
            pass
