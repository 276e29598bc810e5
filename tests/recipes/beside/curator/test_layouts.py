"""What Apache Curator itself leaves in the tree, byte for byte (recipe-rules.md B.2.1 and B.5 to B.10)."""

from __future__ import annotations

import re
import struct
from contextlib import suppress

import attrs
import pytest

from pyzk.client import NoNodeError, ZooKeeper, connect
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until, when_there_are
from .process import Curator, CuratorError, CuratorProcess

U36 = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
N10 = r"\d{10}"


@attrs.frozen
class Child:
    name: str
    data: bytes | None
    owner: int


async def children(zk: ZooKeeper, path: str) -> list[Child]:
    """What is below a path, in the order of creation."""
    found = []
    with suppress(NoNodeError):
        for name in await zk.get_children(path):
            with suppress(NoNodeError):
                data, stat = await zk.get(f"{path}/{name}")
                found.append((stat.czxid, Child(name, data, stat.ephemeralOwner)))
    return [child for _, child in sorted(found, key=lambda pair: pair[0])]


async def children_once(count: int, zk: ZooKeeper, path: str) -> list[Child]:
    """What is below a path, once it is so many."""
    await when_there_are(count, zk, path)
    return await children(zk, path)


async def default_data(client: Curator) -> bytes:
    """What Curator writes where it is told nothing: the address of the host."""
    data: bytes = await client.remote("default_data")
    assert re.fullmatch(rb"[0-9a-f.:]+", data)
    return data


def matches(pattern: str, child: Child) -> bool:
    return re.fullmatch(pattern, child.name) is not None


async def test_mutex(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("acquire")
        await mutex("acquire")  # it is reentrant: one node
        (node,) = await children(zk, "/lock")
        assert matches(rf"_c_{U36}-lock-{N10}", node)
        assert len(node.name) == 55
        assert (node.data, node.owner) == (await default_data(client), client.session)
        assert await mutex("participants") == [f"/lock/{node.name}"]
        await mutex("release")
        assert await mutex("held") is True
        await mutex("release")
        assert await children(zk, "/lock") == []


async def test_revocable_mutex(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        mutex = await client.make("mutex", "/lock")
        await mutex("make_revocable")
        await mutex("acquire")
        (node,) = await children(zk, "/lock")
        assert node.data == b""
        await client.remote("revoke", f"/lock/{node.name}")
        assert await mutex.event() == "revoked"
        (node,) = await children(zk, "/lock")
        assert node.data == b"__REVOKE__"


async def test_read_write_lock(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        plain = await client.make("rw_lock", "/lock")
        await plain("read_acquire")
        marked = await client.make("rw_lock", "/lock", b"mine")
        await marked("read_acquire")
        reading, also_reading = await children(zk, "/lock")
        assert matches(rf"_c_{U36}-__READ__0000000000", reading)
        assert matches(rf"_c_{U36}-__READ__0000000001", also_reading)
        assert reading.data == await default_data(client)
        assert also_reading.data == b"mine"
        await plain("read_release")
        await marked("read_release")

        await marked("write_acquire")
        (writing,) = await children(zk, "/lock")
        assert matches(rf"_c_{U36}-__WRIT__0000000002", writing)
        assert (writing.data, writing.owner) == (b"mine", client.session)


async def test_downgrade(hosts: str, curator: CuratorProcess) -> None:
    """The reader's number is the writer's own since CURATOR-621, and the next one before."""
    async with connect(hosts) as zk, curator.client(hosts) as client:
        lock = await client.make("rw_lock", "/lock")
        await lock("write_acquire")
        await lock("read_acquire")
        writing, reading = await children(zk, "/lock")
        assert matches(rf"_c_{U36}-__WRIT__0000000000", writing)
        assert matches(rf"_c_{U36}-__READ__000000000[01]", reading)
        assert reading.owner == client.session


async def test_semaphore(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        semaphore = await client.make("semaphore", "/semaphore", 2)
        assert matches(rf"_c_{U36}-lease-{N10}", Child(await semaphore("acquire"), b"", 0))
        await semaphore("set_data", b"mine")
        name = await semaphore("acquire")
        assert await semaphore("data", name) == b"mine"
        assert sorted(await zk.get_children("/semaphore")) == ["leases", "locks"]
        assert await children(zk, "/semaphore/locks") == []
        first, second = await children(zk, "/semaphore/leases")
        assert first.data == await default_data(client)
        assert second == Child(name, b"mine", client.session)

        assert await semaphore("try", 0) is None
        await semaphore("release", name)
        assert await children(zk, "/semaphore/leases") == [first]


async def test_semaphore_mutex_and_multi_lock(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        both = await client.make("multi_lock", "/a", "/b")
        await both("acquire")
        for path in ("/a", "/b"):
            (node,) = await children(zk, path)
            assert matches(rf"_c_{U36}-lock-{N10}", node)
        mutex = await client.make("semaphore_mutex", "/c")
        await mutex("acquire")
        (node,) = await children(zk, "/c/leases")
        assert matches(rf"_c_{U36}-lease-{N10}", node)


async def test_leader_latch(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        named = await client.make("latch", "/leader", "one")
        await named("start")
        assert await named.event() == "leads"
        nameless = await client.make("latch", "/leader", "")
        await nameless("start")
        leader, follower = await children_once(2, zk, "/leader")
        assert matches(rf"_c_{U36}-latch-{N10}", leader)
        assert (leader.data, leader.owner) == (b"one", client.session)
        assert follower.data == b""
        assert await named("participants") == ["one", ""]


async def test_leader_selector(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        selector = await client.make("selector", "/leader", "one")
        await selector("start")
        assert await selector.event() == "leads"
        (node,) = await children(zk, "/leader")
        assert matches(rf"_c_{U36}-lock-{N10}", node)
        assert (node.data, node.owner) == (b"one", client.session)


async def test_barriers(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        barrier = await client.make("barrier", "/barrier")
        await barrier("set")
        data, stat = await zk.get("/barrier")
        assert (data, stat.ephemeralOwner) == (await default_data(client), 0)
        assert await barrier("try", 0) is False
        await barrier("remove")
        assert await zk.exists("/barrier") is None

        double = await client.make("double_barrier", "/double", 1)
        await double("enter")
        member, ready = await children(zk, "/double")
        assert matches(U36, member)
        assert member.owner == client.session
        assert ready == Child("ready", await default_data(client), 0)
        await double("leave")
        assert await children(zk, "/double") == []


async def test_values(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        count = await client.make("shared_count", "/count", 258)
        await count("start")
        assert await zk.get_children("/") == ["count"]
        data, stat = await zk.get("/count")
        assert (data, stat.ephemeralOwner) == (struct.pack(">i", 258), 0)
        await count("set", -2)
        assert (await zk.get("/count"))[0] == b"\xff\xff\xff\xfe"

        integer = await client.make("atomic_integer", "/count")
        assert await integer("add", 3) == [True, -2, 1]
        assert (await zk.get("/count"))[0] == b"\0\0\0\1"
        long = await client.make("atomic_long", "/long")
        assert await long("add", 5) == [True, 0, 5]
        assert (await zk.get("/long"))[0] == struct.pack(">q", 5)
        with pytest.raises(CuratorError):  # four bytes are no long
            await (await client.make("atomic_long", "/count"))("get")

        value = await client.make("shared_value", "/value", b"\0raw")
        await value("start")
        assert (await zk.get("/value"))[0] == b"\0raw"


async def test_simple_queue(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        queue = await client.make("simple_queue", "/queue")
        await queue("offer", b"raw")
        assert await children(zk, "/queue") == [Child("qn-0000000000", b"raw", 0)]
        assert await queue("poll") == b"raw"
        assert await queue("poll") is None


def frame(item: bytes) -> bytes:
    """An item of a DistributedQueue."""
    return struct.pack(">IBi", 0x10001, 1, len(item)) + item + b"\2"


@pytest.mark.parametrize(
    ("kind", "extra", "name"),
    [
        ("queue", (), "queue-"),
        ("priority_queue", (5,), "queue-100000005"),
        ("priority_queue", (-5,), "queue-0FFFFFFFB"),
        ("delay_queue", (0xABCDEF,), "queue-|00ABCDEF|"),
        ("id_queue", ("a/b|c",), "queue-|a_b_c|"),
    ],
)
async def test_queues(
    server: EmbeddedServer, curator: CuratorProcess, kind: str, extra: tuple[int | str, ...], name: str
) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        queue = await client.make(kind, "/queue", "produce")
        await queue("start")
        await queue("put", b"AB", *extra)
        assert await children_once(1, zk, "/queue") == [Child(name + "0000000000", frame(b"AB"), 0)]
    assert frame(b"AB").hex(" ", 1) == "00 01 00 01 01 00 00 00 02 41 42 02"


async def test_queue_with_claims(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        queue = await client.make("queue", "/queue", "consume", "/claims")
        await queue("start")
        await queue("put", b"item")
        assert await queue.event() == b"item"
        assert await children(zk, "/queue") == [Child("queue-0000000000", frame(b"item"), 0)]
        (claim,) = await children(zk, "/claims")
        assert (claim.name, claim.owner) == ("queue-0000000000", client.session)
        await queue("failed")  # it is put back, under a new name
        assert await queue.event() == b"item"
        (again,) = await children(zk, "/queue")
        assert matches(f"queue-{N10}", again)
        assert again.name != "queue-0000000000"
        await queue("done")
        await when_there_are(0, zk, "/queue")
        await when_there_are(0, zk, "/claims")


async def test_membership(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        member = await client.make("group", "/group", "one", b"data")
        await member("start")
        assert await children_once(1, zk, "/group") == [Child("one", b"data", client.session)]
        assert await member("members") == ["one"]

        node = await client.make("persistent_node", "/node/a", "EPHEMERAL", b"1")
        assert await node("start") is True
        assert await children(zk, "/node") == [Child("a", b"1", client.session)]
        await zk.delete("/node/a")
        await when_there_are(1, zk, "/node")
        await node("set", b"2")
        while await children(zk, "/node") != [Child("a", b"2", client.session)]:
            pass


async def test_parents_are_containers(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with curator.client(server.hosts) as client:
        await (await client.make("mutex", "/a/lock"))("acquire")
        await (await client.make("semaphore", "/a/semaphore", 1))("acquire")
        latch = await client.make("latch", "/a/latch", "")
        await latch("start")
        await latch("await")
        await (await client.make("double_barrier", "/a/double", 1))("enter")
        count = await client.make("shared_count", "/a/b/count", 1)
        await count("start")
        await until(lambda: "/a/b/count" in server.dump())
        kinds = {
            path: node.kind for path, node in server.dump(form="nodes").items() if node.kind != "ephemeral"
        }
        containers = [
            "/a",
            "/a/lock",
            "/a/semaphore",
            "/a/semaphore/locks",
            "/a/semaphore/leases",
            "/a/latch",
        ]
        containers += ["/a/double", "/a/b"]
        assert kinds == dict.fromkeys(containers, "container") | {
            "/a/double/ready": "persistent",
            "/a/b/count": "persistent",
        }
