"""Items are put once, taken once and by one, and those who wait for them cost next to nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, Perms, ZooKeeper
from pyzk.recipes.queues.items import QueueEmpty, QueueFull
from pyzk.recipes.queues.queue import Queue, QueueLayout

from ...support.lab import Lab
from .scene import LAYOUTS, NAMES, contents, nothing_left, prepare, waiter


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_first_in_first_out(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: QueueLayout, safe: bool
) -> None:
    queue = Queue(zk, "/q", layout=layout, safe=safe)
    for n in range(12):
        await queue.put(b"%d" % n)
    await queue.put_all([b"12", b"13"])
    assert await queue.size() == 14
    first = await queue.peek()
    assert first is not None
    assert first.data == b"0"
    assert await contents(queue) == [b"%d" % n for n in range(14)]
    assert await queue.peek() is None
    await nothing_left(lab, zk)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_names_of_the_layouts(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: QueueLayout
) -> None:
    await Queue(zk, "/q", layout=layout).put(b"\x00raw")
    (name,) = await zk.get_children("/q")
    assert re.fullmatch(NAMES[layout], name)
    assert (await zk.get(f"/q/{name}"))[0] == b"\x00raw"


async def test_a_queue_can_be_iterated_over(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = Queue(zk, "/q")
    await queue.put_all([b"a", b"b"])
    found = []
    async for item in queue:
        found.append(item.data)
        if item.data == b"a":
            await queue.put(b"c")
        if item.data == b"c":
            break
    assert found == [b"a", b"b", b"c"]


async def test_an_empty_queue_does_not_block_those_who_do_not_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = Queue(zk, "/q")
    with pytest.raises(QueueEmpty):
        await queue.get(wait=False)
    async with trio.open_nursery() as nursery:
        found: list[bytes] = []
        await waiter(queue, nursery, found)
        with pytest.raises(QueueEmpty):
            await queue.get(wait=False)
        await queue.put(b"x")
    assert found == [b"x"]
    assert await queue.size() == 0


async def test_a_bounded_queue_is_never_overfull(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queues = [Queue(each, "/q", limit=3) for each in (zk, await lab.client())]
    for queue in queues:
        with pytest.raises(ValueError, match="never fit"):
            await queue.put_all([b"x"] * 4)
    sizes = []
    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(queues[n % 2].put, b"%d" % n)
        await trio.sleep(5)
        assert await queues[0].size() == 3
        for queue in queues:
            with pytest.raises(QueueFull):
                await queue.put(b"no room", wait=False)
        found = []
        for n in range(20):
            found.append((await queues[n % 2].get()).data)
            await trio.sleep(1)
            sizes.append(await queues[0].size())
    assert sizes == [3] * 17 + [2, 1, 0]
    assert sorted(map(int, found)) == list(range(20))
    await nothing_left(lab, zk)


async def test_the_claims_of_others_are_respected(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await queue.put_all([b"a", b"b"])
    async with queue.claim() as item:
        assert item.data == b"a"
        assert await contents(other) == [b"b"]
    assert await contents(other) == []


async def test_consumers_of_other_libraries_may_be_mixed_in(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """They take no claims: an item that one of them has deleted under a claim was theirs."""
    queue, foreign = Queue(zk, "/q", layout="simple"), await lab.client()
    await prepare(queue)
    await queue.put_all([b"theirs", b"ours"])
    with lab.server.fault(op="multi", path="/q/*", nth=2, when="before", action="delay", seconds=1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(foreign.delete, "/q/qn-0000000001")
            item = await queue.get()
    assert item.data == b"ours"
    await nothing_left(lab, zk)


# --- waiting ------------------------------------------------------------------------------------------------


async def test_an_item_wakes_one_waiter_and_the_queue_is_watched_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, producer = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    async with trio.open_nursery() as nursery:
        found: list[bytes] = []
        for _ in range(20):
            await waiter(queue, nursery, found)
        assert lab.watch_count == zk.watch_count == 2, "on the items and on the claims"
        before = lab.requests(zk)["get_children"]
        await producer.put(b"0")
        await trio.sleep(1)
        assert found == [b"0"]
        assert lab.requests(zk)["get_children"] - before <= 8, "20 tasks, but one asks"
        for n in range(1, 20):
            await producer.put(b"%d" % n)
            await trio.sleep(1)
    assert found == [b"%d" % n for n in range(20)]
    await nothing_left(lab, zk)


async def test_the_watch_goes_with_the_last_waiter(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = Queue(zk, "/q")
    scopes = [trio.CancelScope() for _ in range(3)]

    async def get(scope: trio.CancelScope) -> None:
        with scope:
            await queue.get()

    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(get, scope)
            await trio.sleep(1)
        for scope in scopes:
            assert lab.watch_count == 2
            scope.cancel()
            await trio.sleep(1)
    await nothing_left(lab, zk)


async def test_a_released_item_wakes_another_process(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await queue.put(b"x")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        with pytest.raises(RuntimeError, match="cannot"):
            async with queue.claim():
                await waiter(other, nursery, found)
                assert found == []
                raise RuntimeError("cannot")
    assert found == [b"x"]


async def test_tasks_of_a_process_keep_out_of_each_others_way(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """What one of them is about to take, another neither tries, nor misses if it is let go."""
    queue = Queue(zk, "/q", layout="simple", safe=False)
    await queue.put(b"x")
    found: list[bytes] = []
    name = await queue._supply.reserve(wait=True)
    assert name == "qn-0000000000"
    async with trio.open_nursery() as nursery:
        await waiter(queue, nursery, found)
        assert lab.requests(zk)["get_data"] == 0
        queue._supply.free(name, gone=False)
    assert found == [b"x"]
    await nothing_left(lab, zk)


async def test_a_long_queue_is_not_listed_for_each_item(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = Queue(zk, "/q")
    await prepare(queue)
    await queue.put_all([b"x"] * 100)
    before = lab.requests(zk)
    for _ in range(100):
        await queue.get()
    asked = lab.requests(zk) - before
    del asked["delete"]  # the marker of the put
    assert asked == {"multi": 200, "get_data": 100, "get_children": 2}


@pytest.mark.parametrize("parents", ["container", "persistent"])
async def test_an_empty_queue_goes_unless_it_is_to_stay(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, parents: Any
) -> None:
    await prepare(Queue(zk, "/q", parents=parents))
    await trio.sleep(300)
    assert ("/q" in lab.server.dump()) == (parents == "persistent")


async def test_the_acl_is_that_of_directories_and_items(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    acl = [ACL(Perms.ALL, Id("ip", "127.0.0.1")), ACL(Perms.READ, Id("world", "anyone"))]
    queue = Queue(zk, "/q", acl=acl)
    await queue.put(b"x")
    async with queue.claim() as item:
        (claim,) = await zk.get_children("/q.claims")
        for path in ["/q", item.path, "/q.claims", f"/q.claims/{claim}", "/q.puts"]:
            assert (await zk.get_acl(path))[0] == acl, path
