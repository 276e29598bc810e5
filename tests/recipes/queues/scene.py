"""Queues of every layout, and what must be left of them."""

from __future__ import annotations

import trio

from pyzk.client import ZooKeeper
from pyzk.recipes.queues.base import ItemQueue
from pyzk.recipes.queues.items import QueueEmpty
from pyzk.recipes.queues.queue import Queue, QueueLayout

from ...support.lab import Lab

LAYOUTS: list[QueueLayout] = ["native", "simple", "kazoo"]
NAMES = {
    "native": r"item-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d{10}",
    "simple": r"qn-\d{10}",
    "kazoo": r"entry-100-\d{10}",
}


async def contents(queue: ItemQueue) -> list[bytes]:
    """All that there is, taken out."""
    found = []
    try:
        while True:
            found.append((await queue.get(wait=False)).data)
    except QueueEmpty:
        return found


async def prepare(*queues: Queue) -> None:
    """Have the directories created, so that the requests of a test can be counted."""
    for queue in queues:
        await queue.put(b"first")
        assert await contents(queue) == [b"first"]
        await queue.zk.cleanup.idle()


def left(lab: Lab) -> list[str]:
    """Everything but the directories."""
    return [path for path in lab.server.dump() if path.count("/") > 1 and not path.startswith("/zookeeper")]


async def nothing_left(lab: Lab, *clients: ZooKeeper) -> None:
    await trio.sleep(1)
    for zk in clients:
        await zk.cleanup.idle()
        assert zk.watch_count == 0
    assert left(lab) == []
    assert lab.watch_count == 0


async def waiter(queue: Queue, nursery: trio.Nursery, found: list[bytes]) -> None:
    """A task that waits for one item."""

    async def get() -> None:
        found.append((await queue.get()).data)

    nursery.start_soon(get)
    await trio.sleep(1)
