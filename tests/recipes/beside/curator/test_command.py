"""What ``pyzk locks`` says of Curator's recipes, and of several libraries on one path."""

from __future__ import annotations

import trio

from pyzk.client import connect
from pyzk.recipes import Lock

from ....support.command import brief, locks_of
from ....support.interop import Holder, kazoo_client
from ....support.waiting import until, when_there_are
from .process import CuratorProcess


async def when_seen(hosts: str, path: str, shape: str, holding: int, waiting: int) -> None:
    """Wait until a directory is seen as this, with so many of Curator who hold and who wait."""

    async def is_seen() -> bool:
        found = (await locks_of(hosts)).get(path)
        if not found or (found["shape"], found["libraries"]) != (shape, ["Curator"]):
            return False
        holds = [entry["holds"] for entry in found["contenders"]]
        return (holds.count(True), holds.count(False)) == (holding, waiting)

    await until(is_seen)


async def test_locks(hosts: str, curator: CuratorProcess) -> None:
    async with curator.client(hosts) as one, curator.client(hosts) as two:
        first, second = await one.make("mutex", "/lock"), await two.make("mutex", "/lock")
        await first("acquire")
        waiting = second.start("acquire")
        await when_seen(hosts, "/lock", "lock", 1, 1)
        await first("release")
        await waiting.wait()
        await when_seen(hosts, "/lock", "lock", 1, 0)


async def test_readers_and_writers(hosts: str, curator: CuratorProcess) -> None:
    async with curator.client(hosts) as one, curator.client(hosts) as two:
        first, second = await one.make("rw_lock", "/rw"), await two.make("rw_lock", "/rw")
        await first("read_acquire")
        waiting = second.start("write_acquire")
        await when_seen(hosts, "/rw", "read-write lock", 1, 1)
        await first("read_release")
        await waiting.wait()
        await second("read_acquire")  # beside its own write lock
        await when_seen(hosts, "/rw", "read-write lock", 2, 0)
        assert (await locks_of(hosts))["/rw"]["remarks"] == []


async def test_semaphores(hosts: str, curator: CuratorProcess) -> None:
    async with curator.client(hosts) as one, curator.client(hosts) as two:
        first, second = await one.make("semaphore", "/pool", 1), await two.make("semaphore", "/pool", 1)
        lease = await first("acquire")
        waiting = second.start("acquire")
        await when_seen(hosts, "/pool", "semaphore", 1, 1)
        found = await locks_of(hosts)
        assert not {"/pool/locks", "/pool/leases"} & found.keys()
        await first("release", lease)
        await waiting.wait()


async def test_latches(hosts: str, curator: CuratorProcess) -> None:
    async with curator.client(hosts) as client:
        for name in ("one", "two"):
            latch = await client.make("latch", "/leader", name)
            await latch("start")
            await when_seen(hosts, "/leader", "election", 1, 0 if name == "one" else 1)
        assert brief((await locks_of(hosts))["/leader"]) == "election Curator one >two"


async def test_queues_groups_and_barriers(hosts: str, curator: CuratorProcess) -> None:
    async with curator.client(hosts) as client:
        queue = await client.make("queue", "/queue", "produce")
        await queue("start")
        await queue("put", b"AB")
        member = await client.make("group", "/group", "one", b"data")
        await member("start")
        barrier = await client.make("double_barrier", "/barrier", 1)
        await barrier("enter")

        async def everything() -> bool:
            found = await locks_of(hosts)
            return {path: one["shape"] for path, one in found.items()} == {
                "/queue": "queue",
                "/group": "group",
                "/barrier": "double barrier",
            }

        await until(everything)


async def test_four_libraries_on_one_path(hosts: str, curator: CuratorProcess) -> None:
    """Ours, Curator, kazoo, and by its names alone a client in Go."""
    async with (
        connect(hosts) as zk,
        curator.client(hosts) as client,
        kazoo_client(hosts) as theirs,
        trio.open_nursery() as nursery,
    ):
        ours = Holder(zk, Lock(zk, "/printer", layout="both", data=b"ours"))
        nursery.start_soon(ours.run)
        await ours.granted.wait()
        mutex = await client.make("mutex", "/printer")
        waiting = mutex.start("acquire")
        await when_there_are(3, zk, "/printer")
        nursery.start_soon(trio.to_thread.run_sync, theirs.Lock("/printer", "kazoo").acquire)
        await when_there_are(4, zk, "/printer")
        await zk.create(
            "/printer/_c_" + "0123456789abcdef" * 2 + "-lock-", b"go", ephemeral=True, sequential=True
        )
        found = (await locks_of(hosts))["/printer"]
        assert found["libraries"] == ["pyzk", "Curator", "kazoo", "go-zookeeper"]
        one, two, three, four = found["contenders"]
        assert [entry["holds"] for entry in found["contenders"]] == [True, False, False, False]
        assert two["waits_for"] == one["nodes"][0]
        assert three["waits_for"] == one["nodes"][1]
        assert four["waits_for"] == three["nodes"][0]
        assert found["remarks"] == []

        await ours.release()
        await waiting.wait()  # and kazoo has it too: they do not look at each other

        async def both_hold() -> bool:
            found = (await locks_of(hosts))["/printer"]
            return [entry["holds"] for entry in found["contenders"]] == [True, True, False]

        await until(both_hold)
        found = (await locks_of(hosts))["/printer"]
        assert found["remarks"][0].startswith("2 hold it at the same time")
