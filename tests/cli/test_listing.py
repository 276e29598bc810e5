"""``ls``, ``tree`` and ``find``, and the walk behind them."""

from __future__ import annotations

import json
import tracemalloc

import pytest
import trio
from kazoo.client import KazooClient
from trio.testing import MockClock

from pyzk.cli import walking
from pyzk.cli.status import Status
from pyzk.cli.walking import Walker, order
from pyzk.client import connect
from pyzk.server.testing import EmbeddedServer, Node, open_server

from .conftest import Run

TREE = {"app": {"config": Node(data=b"x=1", children={"db": b"12345"}), "jobs": {"a": b"", "b": b""}}}


def test_ls(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(TREE)
    assert pyzk("ls").lines == ["app", "zookeeper"]
    assert pyzk("ls", "/app").lines == ["config", "jobs"]
    assert pyzk("ls", "--paths", "/app").lines == ["/app/config", "/app/jobs"]
    assert pyzk("ls", "-R", "/app").lines == [
        "/app/config",
        "/app/config/db",
        "/app/jobs",
        "/app/jobs/a",
        "/app/jobs/b",
    ]
    head, row, _ = pyzk("ls", "-l", "/app").lines
    assert head.split() == ["SIZE", "VERSION", "CHILDREN", "CHANGED", "OWNER", "NAME"]
    assert row.endswith("  -                   config")
    assert row.index("config") == head.index("NAME")
    assert [json.loads(line)["path"] for line in pyzk("ls", "/app", "--json").lines] == [
        "/app/config",
        "/app/jobs",
    ]
    assert pyzk("ls", "/nothing").status == Status.NO


def test_tree(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(TREE)
    assert pyzk("tree", "/app", "--data").lines == [
        "/app",
        "├── config  x=1",
        "│   └── db  12345",
        "└── jobs",
        "    ├── a",
        "    └── b",
    ]
    assert pyzk("tree", "/app", "--depth", "1").lines == ["/app", "├── config", "└── jobs"]
    assert pyzk("tree", "/").lines[:3] == ["/", "├── app", "│   ├── config"]


def test_ephemerals_are_shown(pyzk: Run, server: EmbeddedServer) -> None:
    client = KazooClient(server.hosts)
    client.start()
    client.create("/e", b"", ephemeral=True)
    session = f"0x{client.client_id[0]:x}"
    assert f"├── e  (ephemeral of {session})" in pyzk("tree").out
    assert pyzk("find", "--owner", session).lines == ["/e"]
    assert pyzk("find", "--owner", "any").lines == ["/e"]
    assert pyzk("find", "--owner", "0x1").lines == []
    assert "/e" not in pyzk("find", "--owner", "none").lines
    assert pyzk("find", "--owner", "me").status == Status.USAGE
    client.stop()
    client.close()


def test_find(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(TREE)
    assert pyzk("find", "/app", "--name", "d*").lines == ["/app/config/db"]
    assert pyzk("find", "/app", "--larger", "3").lines == ["/app/config/db"]
    assert pyzk("find", "/app", "--smaller", "4", "--larger", "0").lines == ["/app/config"]
    assert pyzk("find", "/app", "--empty").lines == ["/app/jobs/a", "/app/jobs/b"]
    assert len(pyzk("find", "/app", "--newer", "1h").lines) == 6
    assert pyzk("find", "/app", "--older", "1h").lines == []
    assert pyzk("find", "/app", "--larger", "many").status == Status.USAGE


def test_names_do_not_steer_the_terminal(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"\u202etxt": b""})
    assert pyzk("ls").lines == ["zookeeper", "\\u202etxt"]


def test_a_chroot(pyzk: Run, server: EmbeddedServer) -> None:
    server.load(TREE)
    assert pyzk("--hosts", f"{server.hosts}/app", "ls").lines == ["config", "jobs"]


def test_what_may_not_be_read_is_left_out_and_said(pyzk: Run, server: EmbeddedServer) -> None:
    server.load({"app": {"open": b"", "secret": b""}})
    pyzk("acl", "/app/secret", "world:anyone:a")
    found = pyzk("ls", "-R", "/app")
    assert found.lines == ["/app/open"]
    assert (found.status, found.err) == (
        Status.FORBIDDEN,
        "pyzk: left out, because this client may not read them: /app/secret; check --auth-file or "
        "PYZK_AUTH\n",
    )
    assert pyzk("ls", "-R", "/app/secret").status == Status.FORBIDDEN


@pytest.mark.parametrize("ahead", [1, 2, 200])
async def test_a_walk_comes_by_everything_in_order(
    server: EmbeddedServer, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AHEAD", ahead)
    server.load({f"/{a}/{b}{c}": b"%d" % c for a in ("x", "x-y", "x.y", "é") for b in "ab" for c in range(9)})
    async with connect(server.hosts) as zk:
        walker = Walker(zk, leave_out=["/zookeeper"])
        async with walker.walk("/") as found:
            paths = [znode.path async for znode in found]
        assert len(paths) == 1 + 4 + 4 * 18
        assert paths == sorted(paths, key=order)
        async with walker.read("/") as read:
            znodes = [znode async for znode in read]
        assert [znode.path for znode in znodes] == paths
        assert znodes[2].data == b"0"
        assert znodes[2].acl is not None


async def test_what_goes_during_a_walk_is_left_out(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "AHEAD", 1)
    server.load({"a": {"b": {"c": b""}, "d": b""}})
    async with connect(server.hosts) as zk:
        seen = []
        async with Walker(zk).walk("/a") as znodes:
            async for found in znodes:
                seen.append(found.path)
                if found.path == "/a":
                    await zk.delete("/a/b", recursive=True)
        assert seen == ["/a", "/a/d"]


async def test_memory_is_bounded_whatever_a_tree_holds(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 MB of data pass through 1 MB."""
    monkeypatch.setattr(walking, "BYTES_AHEAD", 100_000)
    monkeypatch.setattr(walking, "AHEAD", 20)
    for n in range(10):
        server.load({f"/a/{n}/{m}": bytes(20_000) for m in range(100)})
    async with connect(server.hosts) as zk:
        tracemalloc.start()
        try:
            async with Walker(zk).read("/a") as znodes:
                size = 0
                async for znode in znodes:
                    size += len(znode.data or b"")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size == 20_000_000
    assert peak < 5_000_000


async def test_a_walk_is_pipelined(autojump_clock: MockClock) -> None:
    """Where a round trip takes 10 ms, 500 znodes do not take 5 s."""

    class Slow(trio.abc.Stream):
        def __init__(self, stream: trio.abc.Stream) -> None:
            self._stream = stream

        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await self._stream.send_all(data)

        async def wait_send_all_might_not_block(self) -> None:
            await self._stream.wait_send_all_might_not_block()

        async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
            await trio.sleep(0.01)
            return await self._stream.receive_some(max_bytes)

        async def aclose(self) -> None:
            await self._stream.aclose()

    async with open_server() as server:
        server.load({f"/a/{n}": b"" for n in range(500)})

        async def connector(host: str, port: int) -> trio.abc.Stream:
            return Slow(server.open_stream())

        async with connect("server:2181", connector=connector) as zk:
            began = trio.current_time()
            async with Walker(zk).walk("/a") as znodes:
                assert len([found async for found in znodes]) == 501
            assert trio.current_time() - began < 2.5


def test_locks_tells_deadlocks_and_who_is_where(pyzk: Run, server: EmbeddedServer) -> None:
    clients = [KazooClient(server.hosts) for _ in range(2)]
    for client in clients:
        client.start()
    server.load({"locks": {"a": {}, "b": {}}})
    names = {}
    for at, (first, second) in (("a", clients), ("b", clients[::-1])):
        for client in (first, second):
            made = client.create(
                f"/locks/{at}/{'0123456789abcdef' * 2}__lock__", ephemeral=True, sequence=True
            )
            names[at, client] = made.rpartition("/")[2]
    done, checked = pyzk("locks", "/locks"), pyzk("locks", "--check", "/locks")
    found = [json.loads(line) for line in pyzk("locks", "--json", "/locks").lines]
    ids = [f"0x{client.client_id[0]:x}" for client in clients]
    addresses = {"{}:{}".format(*client._connection._socket.getsockname()) for client in clients}
    for client in clients:
        client.stop()
        client.close()
    assert (done.status, checked.status) == (0, 1)
    assert checked.lines[-2].startswith("deadlock: ")
    *_, last, _ = done.lines
    assert last in {
        f"deadlock: {ids[0]} waits at /locks/b for {ids[1]} waits at /locks/a for {ids[0]}",
        f"deadlock: {ids[1]} waits at /locks/a for {ids[0]} waits at /locks/b for {ids[1]}",
    }
    holder = done.lines[2].split()
    assert (holder[1], holder[4], holder[5] in addresses) == ("holds", ids[0], True)
    assert holder[-1] == f"…{names['a', clients[0]][-23:]}"
    assert {entry["client"] for entry in found[0]["contenders"]} == addresses
    step = {"session": ids[1], "path": "/locks/a"}
    assert step in found[-1]["deadlock"]


def test_a_lock_is_taken_from_its_holder(pyzk: Run, server: EmbeddedServer) -> None:
    one, two = KazooClient(server.hosts), KazooClient(server.hosts)
    for client in (one, two):
        client.start()
    assert one.Lock("/l", "one").acquire()
    waiting = two.handler.spawn(two.Lock("/l", "two").acquire)
    server.wait_for("/l", children=2)
    assert pyzk("locks", "--check", "/l").status == 0
    owner = f"0x{one.client_id[0]:x}"
    done = pyzk("locks", "--break", "/l")
    waiting.join()
    [deleted] = json.loads(pyzk("locks", "--json", "/l").out)["contenders"]
    assert (deleted["session"], deleted["holds"]) == (f"0x{two.client_id[0]:x}", True)
    for client in (one, two):
        client.stop()
        client.close()
    assert done.status == 0
    assert done.out.startswith("deleted /l/")
    assert done.out.endswith(f" of session {owner}\n")
    nobody = pyzk("locks", "--break", "/l")
    assert (nobody.status, "/l is not a known lock" in nobody.err) == (Status.REFUSED, True)
    server.load({"/q": {"f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0-__lock__-0000000000": ""}})
    assert pyzk("locks", "--break").status == Status.REFUSED
