"""A cache holds what the tree holds, and says what has changed."""

from __future__ import annotations

import time

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import Create, Delete, Stat, ZooKeeper
from pyzk.protocol.errors import SessionMovedError
from pyzk.recipes.caches.cache import Cache, ChildrenCache, NodeCache, TreeCache

from ...support.lab import Lab
from .scene import ADDED, CHANGED, REMOVED, SUSPENDED, SYNCED, UNREADABLE, Told, contents, one_shots, told


@pytest.mark.row("E-44")
async def test_the_whole_tree(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    tree = {"/app": b"0", "/app/a": b"1", "/app/a/b": b"2", "/app/a/b/c": b"3", "/app/d": b"4"}
    lab.server.load({**tree, "/apple": b"5"})
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        assert contents(cache) == tree
        assert cache.children("/app") == ["a", "d"]
        assert cache["/app/a/b"].stat.numChildren == 1
        assert "/app/d" in cache
        with pytest.raises(KeyError):
            cache["/app/e"]
    await trio.sleep(1)
    assert (zk.watch_count, lab.watch_count) == (0, 0)
    assert not cache.is_synced
    await zk.set("/app", b"new")
    await trio.sleep(1)
    assert contents(cache) == tree, "it is not kept up to date after the block"


async def test_the_cache_follows_the_tree(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    other = await lab.client()
    async with TreeCache(zk, "/app") as cache, trio.open_nursery() as nursery:
        await cache.synced()
        assert contents(cache) == {}, "the root may be missing"
        found: Told = []

        async def follow() -> None:
            found.extend(await told(cache.events(), 10))

        nursery.start_soon(follow)
        for write in [
            other.create("/app", b"0"),
            other.create("/app/a", b"1"),
            other.create("/app/a/b", b"2"),
            other.set("/app/a/b", b"3"),
            other.set("/app/a/b", b"4"),
            other.delete("/app/a/b"),
            other.create("/app/c", b"5"),
            other.delete("/app/a"),
        ]:
            await write
            await trio.sleep(1)
        assert contents(cache) == {"/app": b"0", "/app/c": b"5"}
    assert found == [
        (SYNCED, "/app"),
        (ADDED, "/app"),
        (ADDED, "/app/a"),
        (ADDED, "/app/a/b"),
        (CHANGED, "/app/a/b"),
        (CHANGED, "/app/a/b"),
        (REMOVED, "/app/a/b"),
        (ADDED, "/app/c"),
        (REMOVED, "/app/a"),
    ]


async def test_each_event(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    other = await lab.client()
    await other.create("/app", b"1")
    async with TreeCache(zk, "/app") as cache:
        events = cache.events()
        event = await anext(events)
        assert (event.type, event.path, event.old) == (ADDED, "/app", None)
        assert event.new is cache["/app"]
        assert (await anext(events)).type is SYNCED
        await other.set("/app", b"2")
        event = await anext(events)
        assert event.type is CHANGED
        assert event.old is not None
        assert event.new is not None
        assert (event.old.data, event.new.data) == (b"1", b"2")
        await other.delete("/app")
        event = await anext(events)
        assert (event.type, event.new) == (REMOVED, None)
        assert event.old is not None
        assert event.old.data == b"2"
        later = cache.events()
        assert (await anext(later)).type is SYNCED
        await other.create("/app", b"3")
        assert (await anext(later)).type is ADDED
        assert (await anext(events)).type is ADDED
        assert await told(cache.events()) == [(ADDED, "/app"), (SYNCED, "/app")], "who comes late is told all"
    assert [event async for event in events] == [], "the stream ends with the block"


async def test_a_slow_reader_of_events_misses_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        events = cache.events()
        await anext(events)
        await other.create("/app", b"0")
        for number in range(5):
            await other.set("/app", b"%d" % number)
            await other.create("/app/passing")
            await trio.sleep(1)
            await other.delete("/app/passing")
            await trio.sleep(1)
        assert list(events._pending) == ["/app"], "what has come and gone takes no space"
        event = await anext(events)
        assert (event.type, event.new) == (ADDED, cache["/app"])
        assert await told(events) == []


@pytest.mark.row("E-43")
async def test_deleted_and_created_again_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    other = await lab.client()
    await other.create("/app")
    await other.create("/app/a", b"same")
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        events = cache.events()
        await told(events)
        await other.delete("/app/a")
        await other.create("/app/a", b"same")
        assert await told(events) == [(REMOVED, "/app/a"), (ADDED, "/app/a")]


@pytest.mark.row("E-43", "F7", "F10", "F14")
@pytest.mark.parametrize("away", ["cut off", "expired", "restarted"])
async def test_changes_while_disconnected_are_told(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str, away: str
) -> None:
    other = await lab.client(session_timeout=100)
    for name in ["", "/same", "/changed", "/deleted", "/deleted/below", "/again"]:
        await other.create("/app" + name, b"old")
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        events = cache.events()
        await told(events)
        lab.cut_off(zk)
        await trio.sleep(6 if away == "cut off" else 60)
        assert not cache.is_synced
        await other.set("/app/changed", b"new")
        await other.delete("/app/deleted", recursive=True)
        await other.delete("/app/again")
        await other.create("/app/again", b"old")
        await other.create("/app/new", b"new")
        if away == "restarted":
            lab.server.restart(keep_data=True)
        lab.let_through(zk)
        await cache.synced()
        assert zk.session.generation == (1 if away == "cut off" else 2)
        found = await told(events)
        assert contents(cache) == lab.server.dump("/app")
    assert found[0] == (SUSPENDED, "/app")
    assert found[-1] == (SYNCED, "/app")
    assert sorted(path for type, path in found if type is REMOVED) == [
        "/app/again",
        "/app/deleted",
        "/app/deleted/below",
    ]
    assert sorted(path for type, path in found if type is ADDED) == ["/app/again", "/app/new"]
    assert [path for type, path in found if type is CHANGED] == ["/app/changed"]
    assert found.index((REMOVED, "/app/again")) < found.index((ADDED, "/app/again"))


async def test_a_parent_found_gone_before_the_walk(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    """The read of a parent outlives its connection and finds nothing; nobody tells of the child's end."""
    lab.server.load({"/app": b"0", "/app/a": b"1", "/app/a/b/c": b"2"})
    other = await lab.client()
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        events = cache.events()
        await told(events)
        with lab.server.fault(op="get_data", path="/app/a", action="disconnect") as fault:
            await other.set("/app/a", b"new")
            while not fault.fired:
                await trio.lowlevel.checkpoint()
        for pending in [other.submit(Delete(path)) for path in ["/app/a/b/c", "/app/a/b", "/app/a"]]:
            await pending.wait()
        found = await told(events)
        assert contents(cache) == {"/app": b"0"}
    assert sorted(path for type, path in found if type is REMOVED) == ["/app/a", "/app/a/b", "/app/a/b/c"]
    assert found[-1] == (SYNCED, "/app")


async def test_a_child_created_while_its_end_is_read(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """The list that shows the new child arrives together with the answer that the old one is gone."""
    lab.server.load({"/app/a/b": b""})
    other = await lab.client()
    with one_shots(lab):
        async with TreeCache(zk, "/app") as cache:
            for _ in range(20):  # it takes a certain order of tasks, which is random
                await cache.synced()
                with lab.server.fault(
                    op="get_data", path="/app/a/b", when="after", action="delay", seconds=1
                ):
                    await other.delete("/app/a/b")
                    await trio.sleep(0.5)
                    await other.create("/app/a/b")
                    await trio.sleep(1)
                assert sorted(cache.nodes) == ["/app", "/app/a", "/app/a/b"]


async def test_a_change_during_the_first_walk(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({f"/app/{number:02}/below": b"" for number in range(99)})
    other = await lab.client()
    with lab.server.fault(op="get_data", path="/app/00", when="after", action="delay", seconds=1):
        async with TreeCache(zk, "/app") as cache:
            await trio.sleep(0.5)
            await other.set("/app/98", b"new")  # which is not read yet
            await cache.synced()
            assert cache["/app/98"].data == b"new"
            assert cache.children("/app/98") == ["below"]
            assert len(cache.nodes) == 199


@pytest.mark.parametrize("steps", range(20))
async def test_a_znode_heard_of_before_the_walk_comes_to_it(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str, steps: int
) -> None:
    lab.server.load({"/app/a/b/c": b""})
    other = await lab.client()
    async with TreeCache(zk, "/app") as cache:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        await other.set("/app/a/b", b"new")
        await trio.sleep(1)
        assert contents(cache) == lab.server.dump("/app")


async def test_an_answer_that_tells_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({"/app": b"0", "/app/a": b"1"})
    for op in ["sync", "get_data", "get_children"]:
        with lab.server.fault(op=op, action="error", error=SessionMovedError):
            async with TreeCache(zk, "/app") as cache:
                await cache.synced()
                assert contents(cache) == {"/app": b"0", "/app/a": b"1"}


@pytest.mark.row("F11")
async def test_an_emptied_server(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    lab.server.load({"/app": b"0", "/app/a": b"1"})
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        lab.server.restart(keep_data=False)
        await trio.sleep(60)
        assert cache.is_synced
        assert contents(cache) == {}
        await zk.create("/app", b"2")
        await trio.sleep(1)
        assert contents(cache) == {"/app": b"2"}


async def test_more_events_than_fit(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    await other.create("/app")
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        events = cache.events()
        await told(events)
        for pending in [other.submit(Create(f"/app/{number}")) for number in range(3000)]:
            await pending.wait()
        found = await told(events)
        assert len(cache.nodes) == 3001
    assert found.count((SYNCED, "/app")) >= 1, "the events had overflown"


# --- what is cached --------------------------------------------------------------------------------------


async def test_a_single_znode(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    lab.server.load({"/app": b"0", "/app/a": b"1"})
    async with NodeCache(zk, "/app") as cache:
        await cache.synced()
        heard = zk.event_count
        await zk.set("/app/a", b"2")
        await zk.sync()
        assert zk.event_count == heard
        await zk.create("/app/b")
        before = lab.requests(zk)
        await trio.sleep(1)
        assert lab.requests(zk) - before == {}, "what is below does not matter"
        assert contents(cache) == {"/app": b"0"}
        await zk.set("/app", b"3")
        await trio.sleep(1)
        assert contents(cache) == {"/app": b"3"}


async def test_the_children(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    lab.server.load({"/app": b"0", "/app/a": b"1", "/app/a/b": b"2"})
    async with ChildrenCache(zk, "/app") as cache:
        await cache.synced()
        await zk.set("/app/a/b", b"3")
        await zk.create("/app/a/c")
        await zk.create("/app/d", b"4")
        await zk.set("/app/a", b"5")
        await trio.sleep(1)
        assert contents(cache) == {"/app": b"0", "/app/a": b"5", "/app/d": b"4"}


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
async def test_as_deep_as_wanted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str, depth: int
) -> None:
    paths = ["/app", "/app/a", "/app/a/b", "/app/a/b/c"]
    async with Cache(zk, "/app", depth) as cache:
        await cache.synced()
        for path in paths:
            await zk.create(path)
        await trio.sleep(1)
        assert sorted(cache.nodes) == paths[: depth + 1]
    async with Cache(zk, "/app", depth) as cache:
        await cache.synced()
        assert sorted(cache.nodes) == paths[: depth + 1]


async def test_a_selector(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    def selector(path: str) -> bool:
        return not path.endswith("/private")

    lab.server.load({"/app/a": b"", "/app/private/b": b""})
    await zk.set_acl("/app/private", UNREADABLE)
    async with TreeCache(zk, "/app", selector=selector) as cache:
        await cache.synced()
        await zk.create("/app/a/private", acl=UNREADABLE)
        await zk.create("/app/private/c")
        await zk.create("/app/d")
        await trio.sleep(1)
        assert sorted(cache.nodes) == ["/app", "/app/a", "/app/d"]


async def test_without_data(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    lab.server.load({"/app": b"0", "/app/a": b"1"})
    async with TreeCache(zk, "/app", with_data=False) as cache:
        await cache.synced()
        await zk.set("/app/a", b"2")
        await zk.create("/app/b")
        await zk.delete("/app/b")
        await trio.sleep(1)
        assert contents(cache) == {"/app": None, "/app/a": None}
        assert cache["/app/a"].stat.version == 1
        assert lab.requests(zk)["get_data"] == 0


@pytest.mark.parametrize("depth", [1, None])
async def test_the_root_of_all(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str, depth: int | None
) -> None:
    def selector(path: str) -> bool:
        return path != "/zookeeper"

    async with Cache(zk, "/", depth, selector=selector) as cache:
        await cache.synced()
        await zk.create("/a", b"1")
        await zk.create("/a/b", b"2")
        await trio.sleep(1)
        below = {} if depth else {"/a/b": b"2"}
        assert contents(cache) == {"/": b"", "/a": b"1", **below}
        assert cache.children("/") == ["a"]


async def test_below_a_chroot(autojump_clock: MockClock, lab: Lab, watches: str) -> None:
    zk = await lab.client(chroot="/team")
    lab.server.load({"/team/app": b"0", "/app": b"other"})
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        await zk.create("/app/a", b"1")
        await trio.sleep(1)
        assert contents(cache) == {"/app": b"0", "/app/a": b"1"}


# --- what it costs ---------------------------------------------------------------------------------------


async def test_what_it_costs(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.load({f"/app/{name}": b"" for name in "abc"})
    async with TreeCache(zk, "/app") as cache:
        await cache.synced()
        before = lab.requests(zk)
        assert before == {"add_watch": 1, "sync": 1, "get_data": 4, "get_children": 4}
        other = await lab.client()
        await other.set("/app/a", b"new")
        await trio.sleep(1)
        await other.create("/app/d")
        await trio.sleep(1)
        assert lab.requests(zk) - before == {"get_data": 2}
        assert lab.watch_count == 1


async def test_one_shots_cost_two_watches_a_znode(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.load({f"/app/{name}": b"" for name in "abc"})
    other = await lab.client()
    with one_shots(lab):
        async with TreeCache(zk, "/app") as cache:
            for _ in range(3):
                await cache.synced()
                await trio.sleep(1)
                assert zk.watch_count == lab.watch_count == 8
                await other.delete("/app/a")
                await trio.sleep(1)
                assert zk.watch_count == lab.watch_count == 6
                await other.create("/app/a")
                lab.server.disconnect(zk.session.id)
                await trio.sleep(1)


async def test_few_reads_at_a_time(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str) -> None:
    lab.server.load({f"/app/{number}": b"" for number in range(200)})
    most = 0

    async def measure() -> None:
        nonlocal most
        while True:
            in_flight = zk._machine._connection.in_flight  # type: ignore[union-attr]
            most = max(most, sum(request.retry for request in in_flight))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure)
        async with TreeCache(zk, "/app") as cache:
            await cache.synced()
            assert len(cache.nodes) == 201
        nursery.cancel_scope.cancel()
    assert 1 < most <= 40


async def test_events_cost_the_same_however_many_wait() -> None:
    def seconds(count: int) -> float:
        cache = Cache(None, "/app", None)  # type: ignore[arg-type]
        for number in range(count):
            cache._store(f"/app/{number}", (None, Stat(*range(11))))
        events = cache.events()
        began = time.thread_time()
        assert sum(events._next() is not None for _ in range(count)) == count
        return time.thread_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (4_000, 64_000))
    assert many < 16 * few * 4, "16 times as many should cost 16 times as much"
