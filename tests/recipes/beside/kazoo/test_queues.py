"""Our queues and kazoo's at one path, in both directions (recipe-rules.md B.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.recipe.queue import LockingQueue as KazooLockingQueue
from kazoo.recipe.queue import Queue as KazooQueue

from pyzk.client import ZooKeeper, connect
from pyzk.recipes.errors import LockLost
from pyzk.recipes.queues.claim_queue import ClaimQueue
from pyzk.recipes.queues.items import QueueEmpty
from pyzk.recipes.queues.priority_queue import PriorityQueue
from pyzk.recipes.queues.queue import Queue
from pyzk.server.testing import EmbeddedServer

from ....support.interop import kazoo_client
from ....support.waiting import PATIENCE, until, waits_for

T = TypeVar("T")
PATH = "/queue"


async def call(function: Callable[..., T], *args: Any) -> T:
    """Call something of kazoo's."""
    return await trio.to_thread.run_sync(function, *args)


def session(kazoo: KazooClient) -> int:
    return kazoo.client_id[0]  # type: ignore[no-any-return]


async def rest(queue: ClaimQueue | Queue | PriorityQueue) -> list[bytes]:
    found = []
    try:
        while True:
            found.append((await queue.get(wait=False)).data)
    except QueueEmpty:
        return found


# --- Queue --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("safe", [True, False])
async def test_each_takes_what_the_other_has_put(server: EmbeddedServer, safe: bool) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = Queue(zk, PATH, layout="kazoo", safe=safe), KazooQueue(kazoo, PATH)
        for n in range(0, 6, 2):
            await queue.put(b"%d" % n)
            await call(theirs.put, b"%d" % (n + 1))
        assert await call(len, theirs) == await queue.size() == 6
        assert await call(theirs.get) == b"0"
        assert (await queue.get()).data == b"1"
        assert [await call(theirs.get), await call(theirs.get)] == [b"2", b"3"]
        assert await rest(queue) == [b"4", b"5"]
        assert await call(theirs.get) is None


async def test_they_agree_on_priorities(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = PriorityQueue(zk, PATH, layout="kazoo"), KazooQueue(kazoo, PATH)
        for priority in (500, 7, 999):
            await queue.put(b"ours %d" % priority, priority)
            await call(theirs.put, b"theirs %d" % (priority - 1), priority - 1)
        await Queue(zk, PATH, layout="kazoo").put(b"default")
        await call(theirs.put, b"default too")
        assert await call(theirs.get) == b"theirs 6"
        assert await rest(queue) == [
            b"ours 7",
            b"default",
            b"default too",
            b"theirs 499",
            b"ours 500",
            b"theirs 998",
            b"ours 999",
        ]


@pytest.mark.parametrize("safe", [True, False])
async def test_side_by_side_each_item_is_taken_once(server: EmbeddedServer, safe: bool) -> None:
    """kazoo takes no claims, so it may take an item that we have claimed: then it is not ours."""
    count = 60
    found: list[bytes] = []
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = Queue(zk, PATH, layout="kazoo", safe=safe), KazooQueue(kazoo, PATH)
        await queue.put_all([b"%d" % n for n in range(count)])

        async def ours() -> None:
            found.extend(await rest(queue))

        async def kazoos() -> None:
            while (data := await call(theirs.get)) is not None:
                found.append(data)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ours)
            nursery.start_soon(kazoos)
        assert sorted(found, key=int) == [b"%d" % n for n in range(count)]


async def test_our_waiter_is_woken_by_kazoo(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue = Queue(zk, PATH, layout="kazoo")
        async with trio.open_nursery() as nursery:
            found = []

            async def get() -> None:
                found.append((await queue.get()).data)

            nursery.start_soon(get)
            await waits_for(server, zk.session.id, PATH)
            await call(KazooQueue(kazoo, PATH).put, b"x")
        assert found == [b"x"]


# --- LockingQueue -------------------------------------------------------------------------------------------


async def pair(server: EmbeddedServer, zk: ZooKeeper, kazoo: KazooClient) -> tuple[ClaimQueue, Any]:
    queue, theirs = ClaimQueue(zk, PATH), KazooLockingQueue(kazoo, PATH)
    await queue.put_all([b"ours 0", b"ours 1"])
    await call(theirs.put_all, [b"theirs 2", b"theirs 3"])
    return queue, theirs


async def test_what_one_has_claimed_the_other_leaves_alone(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = await pair(server, zk, kazoo)
        async with queue.claim() as first:
            assert first.data == b"ours 0"
            assert await call(theirs.get) == b"ours 1"
            assert await call(theirs.holds_lock)
            async with queue.claim() as second:
                assert second.data == b"theirs 2"
            assert await call(theirs.consume)
        assert await call(theirs.get) == b"theirs 3"
        assert await call(theirs.consume)
        assert await call(len, theirs) == await queue.size() == 0
        assert await zk.get_children(f"{PATH}/taken") == []


async def test_what_one_gives_back_the_other_may_have(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = await pair(server, zk, kazoo)
        with pytest.raises(KeyError):
            async with queue.claim():
                raise KeyError
        assert await call(theirs.get) == b"ours 0"
        assert await call(theirs.release)
        async with queue.claim() as item:
            assert item.data == b"ours 0"


async def test_priorities_of_claims(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = await pair(server, zk, kazoo)
        await call(theirs.put, b"urgent", 3)
        await queue.put(b"more urgent", priority=2)
        assert await call(theirs.get) == b"more urgent"
        assert await call(theirs.consume)
        assert await rest(queue) == [b"urgent", b"ours 0", b"ours 1", b"theirs 2", b"theirs 3"]


async def test_waiters_are_woken_by_the_other_library(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = ClaimQueue(zk, PATH), KazooLockingQueue(kazoo, PATH)
        found: list[bytes] = []

        async def ours() -> None:
            found.append((await queue.get()).data)

        async def kazoos() -> None:
            found.append(await call(theirs.get, PATIENCE))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours)
            await waits_for(server, zk.session.id, f"{PATH}/entries")
            await call(theirs.put, b"for us")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kazoos)
            await waits_for(server, session(kazoo), f"{PATH}/taken")
            await queue.put(b"for kazoo")
        assert found == [b"for us", b"for kazoo"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours)
            await waits_for(server, zk.session.id, f"{PATH}/taken")
            await call(theirs.release)
        assert found[2:] == [b"for kazoo"]


async def test_the_claim_of_a_kazoo_that_died_is_free(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = await pair(server, zk, kazoo)
        assert await call(theirs.get) == b"ours 0"
        server.expire(session(kazoo))
        assert await rest(queue) == [b"ours 0", b"ours 1", b"theirs 2", b"theirs 3"]


async def test_kazoo_gets_what_our_dead_session_had_claimed(server: EmbeddedServer) -> None:
    async with connect(server.hosts, on_expired="new_session") as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = await pair(server, zk, kazoo)
        with pytest.raises(LockLost):
            async with queue.claim():
                server.expire(zk.session.id)
                assert await call(theirs.get) == b"ours 0"
                await trio.sleep_forever()
        assert await call(theirs.consume)
        await until(lambda: zk.session.generation == 2)
        assert await rest(queue) == [b"ours 1", b"theirs 2", b"theirs 3"]


async def test_side_by_side_each_item_is_handled_once(server: EmbeddedServer) -> None:
    count = 40
    handled: list[bytes] = []
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        queue, theirs = ClaimQueue(zk, PATH), KazooLockingQueue(kazoo, PATH)
        await queue.put_all([b"%d" % n for n in range(count)])

        async def ours() -> None:
            while len(handled) < count:
                try:
                    async with queue.claim(wait=False) as item:
                        handled.append(item.data)
                except QueueEmpty:
                    return

        def next_of_kazoo() -> bytes | None:
            data = theirs.get(0.1)
            return data if data is not None and theirs.consume() else None

        async def kazoos() -> None:
            while (data := await call(next_of_kazoo)) is not None:
                handled.append(data)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ours)
            nursery.start_soon(kazoos)
        assert sorted(handled + await rest(queue), key=int) == [b"%d" % n for n in range(count)]
