"""Queues whose items are not simply first in, first out: by priority, by time, by id."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.recipes.errors import AmbiguousResult
from pyzk.recipes.queues.delay_queue import DelayQueue
from pyzk.recipes.queues.id_queue import IdQueue
from pyzk.recipes.queues.items import (
    CURATOR,
    CURATOR_DELAY,
    CURATOR_ID,
    CURATOR_PRIORITY,
    KAZOO,
    NATIVE,
    SIMPLE,
    ItemLayout,
    QueueEmpty,
)
from pyzk.recipes.queues.priority_queue import PriorityQueue

from ...support.lab import Lab
from .scene import contents

EPOCH = 1_700_000_000.0


def clock() -> float:
    return EPOCH + trio.current_time()


async def nothing_left(lab: Lab, zk: ZooKeeper) -> None:
    await trio.sleep(1)
    assert zk.watch_count == lab.watch_count == 0
    assert await zk.get_children("/q") == []
    assert await zk.get_children("/q.claims") == []


@pytest.mark.parametrize(
    ("layout", "name", "expected"),
    [
        (SIMPLE, "qn-0000000012", (0, 12)),
        (SIMPLE, "qn-2147483647", (0, 2147483647)),
        (SIMPLE, "qn--2147483648", (0, -2147483648)),
        (SIMPLE, "qn--000000003", (0, -3)),
        (SIMPLE, "qn-12", None),
        (SIMPLE, "xqn-0000000012", None),
        (SIMPLE, "qn-0000000012 ", None),
        (NATIVE, "item-01234567-89ab-cdef-0123-456789abcdef-0000000003", (0, 3)),
        (NATIVE, "item-01234567-0000000003", None),
        (KAZOO, "entry-007-0000000003", (7, 3)),
        (KAZOO, "entry-7-0000000003", None),
        (CURATOR, "queue-0000000003", (0, 3)),
        (CURATOR, "queue-1000000050000000003", None),
        (CURATOR_PRIORITY, "queue-1000000050000000003", (0x100000005, 3)),
        (CURATOR_PRIORITY, "queue-0FFFFFFFB0000000003", (0xFFFFFFFB, 3)),
        (CURATOR_PRIORITY, "queue-0000000003", None),
        (CURATOR_DELAY, "queue-|18BCFE56800|0000000003", (EPOCH * 1000, 3)),
        (CURATOR_DELAY, "queue-|x|0000000003", None),
        (CURATOR_ID, "queue-|my id|0000000003", (0, 3)),
        (CURATOR_ID, "queue-||0000000003", (0, 3)),
        (CURATOR_ID, "queue-0000000003", None),
    ],
)
def test_positions(layout: ItemLayout, name: str, expected: tuple[int, int] | None) -> None:
    assert layout.position(name) == expected


# --- by priority --------------------------------------------------------------------------------------------


async def test_priorities_of_curator(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = PriorityQueue(zk, "/q")
    priorities = [5, -5, 0, 2**31 - 1, -(2**31), -1]
    for priority in priorities:
        await queue.put(b"%d" % priority, priority)
    await queue.put_all([b"5 second", b"5 third"], 5)
    for wrong in (2**31, -(2**31) - 1):
        with pytest.raises(ValueError, match="32 bits"):
            await queue.put(b"", wrong)
    names = await zk.get_children("/q")
    assert {"queue-1000000050000000000", "queue-0FFFFFFFB0000000001"} <= set(names)
    assert [int(data.split()[0]) for data in await contents(queue)] == sorted([*priorities, 5, 5])
    await nothing_left(lab, zk)


async def test_priorities_of_kazoo(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = PriorityQueue(zk, "/q", layout="kazoo")
    await queue.put(b"late", 200)
    await queue.put(b"soon", 1)
    assert sorted(await zk.get_children("/q")) == ["entry-001-0000000001", "entry-200-0000000000"]
    with pytest.raises(ValueError, match="999"):
        await queue.put(b"", 1000)
    assert await contents(queue) == [b"soon", b"late"]


async def test_an_item_of_higher_priority_overtakes_those_that_are_known(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = PriorityQueue(zk, "/q"), PriorityQueue(await lab.client(), "/q")
    await other.put_all([b"a", b"b", b"c"], 10)
    assert (await queue.get()).data == b"a"
    await other.put(b"urgent", 1)
    async with queue.claim() as item:
        assert item.data == b"urgent"
        await other.put(b"another", 1)
        assert (await queue.get()).data == b"another"
    assert await contents(queue) == [b"b", b"c"]


async def test_an_item_that_was_given_back_keeps_its_place(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = PriorityQueue(zk, "/q")
    await queue.put_all([b"a", b"b"], 1)
    with pytest.raises(KeyError):
        async with queue.claim():
            raise KeyError
    assert await contents(queue) == [b"a", b"b"]


# --- by time ------------------------------------------------------------------------------------------------


async def test_items_come_when_they_are_due(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = DelayQueue(zk, "/q", clock=clock)
    for delay in (30, 10, 20, 10):
        await queue.put(b"%d" % delay, delay)
    assert await queue.peek() is None
    with pytest.raises(QueueEmpty):
        await queue.get(wait=False)
    found = []
    for _ in range(4):
        item = await queue.get()
        found.append((item.data, round(trio.current_time())))
    assert found == [(b"10", 10), (b"10", 10), (b"20", 20), (b"30", 30)]
    await nothing_left(lab, zk)


async def test_the_names_of_delayed_items(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = DelayQueue(zk, "/q", clock=lambda: EPOCH)
    await queue.put(b"x", 0.5)
    await queue.put(b"y", -2 * EPOCH)
    assert sorted(await zk.get_children("/q")) == [
        "queue-|00000000|0000000001",
        "queue-|18BCFE569F4|0000000000",
    ]
    assert (await queue.get()).data == b"y"


async def test_an_earlier_item_shortens_the_sleep(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue, other = (DelayQueue(each, "/q", clock=clock) for each in (zk, await lab.client()))
    found = []

    async def get() -> None:
        found.append(((await queue.get()).data, round(trio.current_time())))

    async with trio.open_nursery() as nursery:
        await other.put(b"late", 100)
        for _ in range(2):
            nursery.start_soon(get)
        await trio.sleep(5)
        assert found == []
        await other.put(b"soon", 5)
    assert found == [(b"soon", 10), (b"late", 100)]
    await nothing_left(lab, zk)


async def test_a_delay_outlasts_a_lost_connection(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = DelayQueue(zk, "/q", clock=clock)
    await queue.put(b"x", 60)
    async with trio.open_nursery() as nursery:

        async def trouble() -> None:
            await trio.sleep(10)
            lab.server.disconnect_all()
            await trio.sleep(10)
            lab.server.expire(zk.session.id)

        nursery.start_soon(trouble)
        assert (await queue.get()).data == b"x"
    assert round(trio.current_time()) == 60


# --- by id --------------------------------------------------------------------------------------------------


async def test_items_are_removed_by_id(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue, other = IdQueue(zk, "/q"), IdQueue(await lab.client(), "/q")
    for id in ("b/1", "a", "b|1", "c"):
        await queue.put(id.encode(), id)
    assert sorted(await zk.get_children("/q")) == [
        "queue-|a|0000000001",
        "queue-|b_1|0000000000",
        "queue-|b_1|0000000002",
        "queue-|c|0000000003",
    ]
    assert await other.remove("b/1") == 2
    assert await other.remove("b/1") == 0
    assert await contents(queue) == [b"a", b"c"]
    await nothing_left(lab, zk)


async def test_an_item_that_is_claimed_is_not_removed(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = IdQueue(zk, "/q"), IdQueue(await lab.client(), "/q")
    await queue.put(b"x", "id")
    async with queue.claim():
        assert await other.remove("id") == 0
        assert await queue.remove("id") == 0
    await nothing_left(lab, zk)


async def test_an_item_that_is_claimed_at_the_last_moment_is_not_removed_either(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = IdQueue(zk, "/q"), IdQueue(await lab.client(), "/q")
    await queue.put(b"x", "id")
    removed = []

    async def remove() -> None:
        removed.append(await other.remove("id"))

    slow = {"op": "multi", "session": other.zk.session.id, "when": "before", "action": "delay"}
    async with trio.open_nursery() as nursery:
        with lab.server.fault(seconds=2, **slow):
            nursery.start_soon(remove)
            await trio.sleep(1)
            async with queue.claim():
                await trio.sleep(5)
    assert removed == [0]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_reply_to_a_removal(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    queue = IdQueue(zk, "/q")
    await queue.put(b"x", "other")
    assert await contents(queue) == [b"x"]
    await queue.put(b"x", "id")
    with lab.server.fault(op="multi", when=when, action="disconnect"):
        if when == "before":
            assert await queue.remove("id") == 1
        else:
            with pytest.raises(AmbiguousResult):
                await queue.remove("id")
    await nothing_left(lab, zk)
