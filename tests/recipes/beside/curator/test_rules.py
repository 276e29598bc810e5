"""Whom Apache Curator waits for (recipe-rules.md B.2.2 to B.2.4, B.4 to B.9): it and znodes made by hand."""

from __future__ import annotations

import struct
import time
import uuid

import pytest

from pyzk.client import ZooKeeper, connect
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until, waits_for
from .process import CuratorProcess, Reply

U36 = str(uuid.UUID(int=0xA << 124))
H32 = U36.replace("-", "")

CURATOR_LOCK = f"_c_{U36}-lock-0000000000"
CURATOR_READ = f"_c_{U36}-__READ__0000000000"
CURATOR_WRITE = f"_c_{U36}-__WRIT__0000000000"
CURATOR_LATCH = f"_c_{U36}-latch-0000000000"
GO_LOCK = f"_c_{H32}-lock-0000000000"
OTHERS = [
    f"{H32}__lock__0000000000",
    f"{H32}__rlock__0000000000",
    f"lock-{H32}-0000000000",
    "x-1234-0000000000",
    "n_0000000000",
    "letters",
]
EARLY = ["0", "-x"]
"""Foreign names that sort before any number."""
ALL = [CURATOR_LOCK, CURATOR_READ, CURATOR_WRITE, CURATOR_LATCH, GO_LOCK, *OTHERS, *EARLY]


@pytest.mark.parametrize(
    ("kind", "verb", "blocking"),
    [
        ("mutex", "try", {CURATOR_LOCK, GO_LOCK}),
        ("rw_lock", "write_try", {CURATOR_READ, CURATOR_WRITE}),
        ("rw_lock", "read_try", {CURATOR_WRITE}),
    ],
)
async def test_who_blocks_a_lock(
    server: EmbeddedServer, curator: CuratorProcess, kind: str, verb: str, blocking: set[str]
) -> None:
    """The rows of Curator in the matrix of B.2.3."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        found = set()
        for i, name in enumerate(ALL):
            await zk.create(f"/{i}/{name}", ephemeral=True, make_parents=True)
            lock = await client.make(kind, f"/{i}")
            if not await lock(verb, 0):
                found.add(name)
        reader = verb == "read_try"  # which waits for writers alone
        assert found == blocking | (set() if reader else set(EARLY))


async def test_who_blocks_a_latch(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        for i, name in enumerate(ALL):
            path = f"/{i}/{name}"
            await zk.create(path, ephemeral=True, make_parents=True)
            latch = await client.make("latch", f"/{i}", "")
            await latch("start")
            if name in (CURATOR_LATCH, *EARLY):
                await waits_for(server, client.session, path)
                assert await latch("leads") is False
                await zk.delete(path)
            assert await latch.event() == "leads"


@pytest.mark.parametrize(
    ("kind", "verb", "name"),
    [
        ("mutex", "acquire", CURATOR_LOCK),
        ("mutex", "acquire", GO_LOCK),
        ("rw_lock", "write_acquire", CURATOR_READ),
        ("rw_lock", "write_acquire", CURATOR_WRITE),
        ("rw_lock", "read_acquire", CURATOR_WRITE),
    ],
)
async def test_a_lock_waits_until_the_znode_before_is_gone(
    server: EmbeddedServer, curator: CuratorProcess, kind: str, verb: str, name: str
) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        path = await zk.create(f"/lock/{name[:-10]}", ephemeral=True, sequential=True, make_parents=True)
        assert path == f"/lock/{name}"
        granted = (await client.make(kind, "/lock")).start(verb)
        await waits_for(server, client.session, path)
        await zk.set(path, b"an event that means nothing")
        await until(lambda: server.history(kind="event", path=path, session=client.session))
        await waits_for(server, client.session, path)  # again
        assert not granted.done
        await zk.delete(path)
        await granted.wait()


async def test_a_semaphore_counts_whatever_is_below_its_leases(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        lease = await zk.create("/s/leases/a-lease-", ephemeral=True, sequential=True, make_parents=True)
        await zk.create("/s/leases/letters")
        granted = (await client.make("semaphore", "/s", 2)).start("acquire")
        await waits_for(server, client.session, "/s/leases")
        assert not granted.done
        await zk.delete(lease)
        assert (await granted.wait()).endswith("-lease-0000000002")


async def test_barriers(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await zk.create("/barrier")
        passed = (await client.make("barrier", "/barrier")).start("wait")
        await waits_for(server, client.session, "/barrier")
        assert not passed.done
        await zk.delete("/barrier")
        await passed.wait()

        double = await client.make("double_barrier", "/double", 2)
        entered = double.start("enter")
        # It has counted, and found itself alone: with two it would write ready itself.
        await until(lambda: server.history(kind="request", op="get_children", session=client.session))
        assert len(server.dump("/double")) == 2
        assert not entered.done
        await zk.create("/double/another", ephemeral=True)
        await zk.create("/double/ready")
        await entered.wait()
        left = double.start("leave")
        await waits_for(server, client.session, "/double/another")
        assert not left.done
        await zk.delete("/double/another")
        await left.wait()
        assert await zk.get_children("/double") == []


async def test_values(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await zk.create("/count", struct.pack(">i", -7))
        count = await client.make("shared_count", "/count", 1)
        await count("start")
        assert await count("get") == -7
        await zk.set("/count", struct.pack(">i", 8))
        await count.wait_event(8)  # it may also report what it had read before
        assert await count("try_set", 9) is True
        await zk.set("/count", struct.pack(">i", 10))
        await count.wait_event(10)
        integer = await client.make("atomic_integer", "/count")
        assert await integer("compare_and_set", 10, 11) == [True, 10, 11]
        assert await integer("compare_and_set", 10, 12) == [False, 11, 0]
        await zk.create("/empty", b"")
        assert await (await client.make("atomic_long", "/empty"))("add", 1) == [True, 0, 1]


def frame(item: bytes) -> bytes:
    return struct.pack(">IBi", 0x10001, 1, len(item)) + item + b"\2"


@pytest.mark.parametrize(
    ("kind", "prefixes"),
    [
        ("queue", ["queue-", "queue-"]),
        ("priority_queue", ["queue-0FFFFFFFB", "queue-100000005"]),
        ("delay_queue", ["queue-|00000001|", "queue-|00000002|"]),
    ],
)
@pytest.mark.parametrize("claims", [(), ("/claims",)])
async def test_queues(
    server: EmbeddedServer, curator: CuratorProcess, kind: str, prefixes: list[str], claims: tuple[str, ...]
) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await zk.create("/queue")
        items = list(zip(prefixes, [b"first", b"second"], strict=True))
        for prefix, item in items if kind == "queue" else reversed(items):
            await zk.create(f"/queue/{prefix}", frame(item), sequential=True)
        queue = await client.make(kind, "/queue", "consume", *claims)
        await queue("start")
        for item in (b"first", b"second"):
            assert await queue.event() == item
            await queue("done")
        await until(lambda: "/queue" in server.dump() and len(server.dump("/queue")) == 1)


async def test_a_delayed_item_is_not_taken_early(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await zk.create("/queue")
        late = await zk.create(
            f"/queue/queue-|{round(1000 * time.time()) + 10**6:08X}|", frame(b"late"), sequential=True
        )
        await zk.create("/queue/queue-|00000001|", frame(b"due"), sequential=True)
        queue = await client.make("delay_queue", "/queue", "consume")
        await queue("start")
        assert await queue.event() == b"due"
        await queue("done")
        assert await zk.get_children("/queue") == [late.removeprefix("/queue/")]


async def test_simple_queue(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        queue = await client.make("simple_queue", "/queue")
        taken: Reply = queue.start("take")
        await waits_for(server, client.session, "/queue")
        assert not taken.done
        await zk.create("/queue/qn-", b"item", sequential=True)
        assert await taken.wait() == b"item"


async def test_membership(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        member = await client.make("group", "/group", "one", b"1")
        await member("start")
        await zk.create("/group/two", b"2", ephemeral=True, make_parents=True)

        async def both() -> bool:
            return bool(await member("members") == ["one", "two"])

        await until(both)
        assert await member("data", "two") == b"2"

        await zk.create("/taken", b"theirs", ephemeral=True)
        node = await client.make("persistent_node", "/taken", "EPHEMERAL", b"ours")
        assert await node("start") is True
        assert await data_and_owner(zk, "/taken") == (b"ours", zk.session.id)  # taken over, not replaced


async def data_and_owner(zk: ZooKeeper, path: str) -> tuple[bytes | None, int]:
    data, stat = await zk.get(path)
    return data, stat.ephemeralOwner
