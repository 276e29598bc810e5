"""Every kind of queue on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from pyzk.recipes import ClaimQueue, DelayQueue, IdQueue, PriorityQueue, Queue, QueueEmpty, QueueFull

from ...support.waiting import until
from .scene import Clients


async def take_all(queues: list[Any], count: int, *, claim: bool) -> list[bytes]:
    """Several consumers take so many items together."""
    taken: list[bytes] = []

    async def consume(queue: Any, scope: trio.CancelScope) -> None:
        while True:
            if claim:
                async with queue.claim() as item:
                    pass
            else:
                item = await queue.get()
            taken.append(item.data)
            if len(taken) >= count:
                scope.cancel()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(consume, queue, nursery.cancel_scope)
    return taken


async def check_queue(
    put: Callable[[int], Awaitable[None]], queues: list[Any], *, claims: bool = True, count: int = 9
) -> None:
    """What holds for each kind of queue."""
    first, second, third = queues
    with pytest.raises(QueueEmpty):
        await second.get(wait=False)
    assert await second.peek() is None
    async with trio.open_nursery() as nursery:
        waiting: list[bytes] = []

        async def wait() -> None:
            waiting.append((await third.get()).data)

        nursery.start_soon(wait)
        await until(lambda: third.zk.watch_count)
        await put(100)
    assert waiting == [b"100"]
    for number in range(count):
        await put(number)
    for queue in queues:
        await queue.zk.sync(queue.path)
        assert await queue.size() == count
    item = await first.peek()
    assert item is not None
    assert item.data == b"0"
    for number in range(3):
        assert (await second.get()).data == b"%d" % number
    if claims:
        with pytest.raises(ZeroDivisionError):
            async with second.claim() as item:
                assert item.data == b"3"
                await first.zk.sync(first.path)
                following = await first.peek()
                assert following is not None
                assert following.data == b"4"
                raise ZeroDivisionError
        await third.zk.sync(third.path)
        async with third.claim() as item:
            assert item.data == b"3", "it is where it was"
    else:
        await third.zk.sync(third.path)
        assert (await third.get()).data == b"3"
    taken = await take_all(queues, count - 4, claim=claims)
    assert sorted(taken) == [b"%d" % number for number in range(4, count)]
    await first.zk.sync(first.path)
    assert await first.size() == 0
    for queue in queues:
        await queue.zk.cleanup.idle()


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("layout", ["native", "simple", "kazoo"])
async def test_a_queue(clients: Clients, layout: str, safe: bool) -> None:
    queues = [Queue(zk, "/dir/q", layout=layout, safe=safe) for zk in clients]  # type: ignore[arg-type]
    await check_queue(lambda number: queues[0].put(b"%d" % number), queues, claims=safe)


@pytest.mark.parametrize("layout", ["kazoo-locking", "curator"])
async def test_a_queue_with_claims(clients: Clients, layout: str) -> None:
    queues = [ClaimQueue(zk, "/dir/q", layout=layout) for zk in clients]  # type: ignore[arg-type]
    await check_queue(lambda number: queues[0].put(b"%d" % number), queues)


async def test_a_queue_by_priority(clients: Clients) -> None:
    queues = [PriorityQueue(zk, "/dir/q") for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, number - 4), queues)
    a, b, _ = (PriorityQueue(zk, "/dir/q") for zk in clients)
    await a.put(b"later", 5)
    await a.put_all([b"first", b"second"], -5)
    await clients[1].sync("/dir/q")
    assert [(await b.get()).data for _ in range(3)] == [b"first", b"second", b"later"]


async def test_a_queue_by_time(clients: Clients) -> None:
    now = 1_000_000.0
    queues = [DelayQueue(zk, "/dir/q", clock=lambda: now) for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, number - 200), queues)
    a, b, _ = (DelayQueue(zk, "/dir/q", clock=lambda: now) for zk in clients)
    await a.put(b"late", 20)
    await a.put(b"soon", 10)
    await clients[1].sync("/dir/q")
    with pytest.raises(QueueEmpty):
        await b.get(wait=False)
    now += 10
    assert (await b.get(wait=False)).data == b"soon"
    now += 10
    assert (await b.get()).data == b"late"


async def test_a_queue_by_id(clients: Clients) -> None:
    queues = [IdQueue(zk, "/dir/q") for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, "id"), queues)
    a, b, c = (IdQueue(zk, "/dir/q") for zk in clients)
    for number, id in enumerate(["x", "y", "x", "x"]):
        await a.put(b"%d" % number, id)
    await clients[1].sync("/dir/q")
    async with b.claim() as item:
        assert item.data == b"0"
        await clients[2].sync("/dir/q")
        assert await c.remove("x") == 2
        assert await c.remove("none") == 0
    await clients[1].sync("/dir/q")
    assert (await b.get()).data == b"1"
    assert await b.size() == 0


async def test_a_bounded_queue(clients: Clients) -> None:
    a, b, _ = (Queue(zk, "/q", limit=2) for zk in clients)
    await a.put_all([b"0", b"1"])
    with pytest.raises(QueueFull):
        await a.put(b"2", wait=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.put, b"2")
        await until(lambda: clients[0].watch_count)
        await clients[1].sync("/q")
        assert await b.size() == 2
        assert (await b.get()).data == b"0"
    await clients[1].sync("/q")
    assert [(await b.get()).data for _ in range(2)] == [b"1", b"2"]
