"""Our queues and Apache Curator's at one path (recipe-rules.md B.9, D.10)."""

from __future__ import annotations

import time

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.errors import LockLost
from pyzk.recipes.queues.base import ItemQueue
from pyzk.recipes.queues.claim_queue import ClaimQueue
from pyzk.recipes.queues.delay_queue import DelayQueue
from pyzk.recipes.queues.id_queue import IdQueue
from pyzk.recipes.queues.items import QueueEmpty
from pyzk.recipes.queues.priority_queue import PriorityQueue
from pyzk.recipes.queues.queue import Queue
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until, waits_for, when_there_are
from .process import CuratorProcess


async def take(queue: ItemQueue, count: int = 1) -> list[bytes]:
    """Take what is there now."""
    return [(await queue.get(wait=False)).data for _ in range(count)]


class Failure(Exception):
    """Of a consumer."""


# --- the simple queue ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("safe", [True, False])
async def test_a_simple_queue(hosts: str, curator: CuratorProcess, safe: bool) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = Queue(zk, "/queue", layout="simple", safe=safe)
        theirs = await client.make("simple_queue", "/queue")
        await ours.put(b"1")
        await theirs("offer", b"2")
        await ours.put_all([b"3", b"4"])
        await theirs("offer", b"5")
        assert await theirs("peek") == b"1"
        assert await theirs("poll") == b"1"
        assert await take(ours, 2) == [b"2", b"3"]
        assert await theirs("poll") == b"4"
        assert await take(ours) == [b"5"]
        assert await theirs("poll") is None
        with pytest.raises(QueueEmpty):
            await take(ours)


async def test_waiting_at_a_simple_queue(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        ours = Queue(zk, "/queue", layout="simple")
        theirs = await client.make("simple_queue", "/queue")
        taken = theirs.start("take")
        await waits_for(server, client.session, "/queue")
        await ours.put(b"for them")
        assert await taken.wait() == b"for them"

        got: list[bytes] = []

        async def get() -> None:
            got.append((await ours.get()).data)

        nursery.start_soon(get)
        await waits_for(server, zk.session.id, "/queue")
        await theirs("offer", b"for us")
        await until(lambda: got == [b"for us"])


async def test_competing_consumers(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Every item is taken, and by one."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = Queue(zk, "/queue", layout="simple")
        theirs = [await client.make("simple_queue", "/queue") for _ in range(2)]
        items = [b"%02d" % i for i in range(40)]
        await ours.put_all(items)
        replies = [remote.start("poll") for remote in theirs for _ in items]
        taken = []
        with pytest.raises(QueueEmpty):
            while True:
                taken += await take(ours)
        for reply in replies:
            item = await reply.wait()
            if item is not None:
                taken.append(item)
        assert sorted(taken) == items


# --- with claims --------------------------------------------------------------------------------------------


async def test_a_queue_with_claims(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = ClaimQueue(zk, "/queue", layout="curator", lock_path="/claims")
        producer = await client.make("queue", "/queue", "produce")
        await producer("start")
        await producer("put", b"theirs")
        await when_there_are(1, zk, "/queue")
        await ours.put(b"ours")
        assert await take(ours) == [b"theirs"]
        await producer("put_multi", b"1", b"2")
        await when_there_are(2, zk, "/queue")

        consumer = await client.make("queue", "/queue", "consume", "/claims")
        await consumer("start")
        assert await consumer.event() == b"ours"
        async with ours.claim(wait=False) as item:  # the next: the first is claimed
            assert item.payloads == (b"1", b"2")
        await consumer("done")
        await when_there_are(0, zk, "/queue")
        await when_there_are(0, zk, "/claims")


async def test_curator_leaves_what_we_have_claimed(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Until we give it back; then it gets it."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = ClaimQueue(zk, "/queue", layout="curator", lock_path="/claims")
        theirs = await client.make("queue", "/queue", "consume", "/claims")
        await ours.put_all([b"first", b"second"])
        with pytest.raises(Failure):
            async with ours.claim() as item:
                assert item.data == b"first"
                await theirs("start")
                assert await theirs.event() == b"second"
                await theirs("done")
                await when_there_are(1, zk, "/queue")
                assert theirs.quiet
                raise Failure
        # Its consumers look again when items come or go.
        await ours.put(b"third")
        assert await theirs.event() == b"first"
        await theirs("done")
        assert await theirs.event() == b"third"
        await theirs("done")
        await when_there_are(0, zk, "/queue")


async def test_we_get_what_curator_has_failed_to_handle(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk:
        ours = ClaimQueue(zk, "/queue", layout="curator", lock_path="/claims")
        await ours.put(b"item")
        async with curator.client(hosts) as client:
            theirs = await client.make("queue", "/queue", "consume", "/claims")
            await theirs("start")
            assert await theirs.event() == b"item"
            with pytest.raises(QueueEmpty):
                await take(ours)
            await theirs("failed")  # it puts the item back
            assert await theirs.event() == b"item"
        # And has ended in the middle of the second attempt.
        assert (await ours.get()).data == b"item"
        await when_there_are(0, zk, "/queue")


async def test_curators_session_expires_while_it_handles_an_item(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    """The item is ours then: at least once."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = ClaimQueue(zk, "/queue", layout="curator", lock_path="/claims")
        theirs = await client.make("queue", "/queue", "consume", "/claims")
        await theirs("start")
        await ours.put(b"item")
        assert await theirs.event() == b"item"
        with pytest.raises(QueueEmpty):
            await take(ours)
        async with trio.open_nursery() as nursery:

            async def get() -> None:
                assert (await ours.get()).data == b"item"

            nursery.start_soon(get)
            await waits_for(server, zk.session.id, "/queue")
            server.expire(client.session)
        await theirs("done")


async def test_curator_without_claims_takes_what_we_have_claimed(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    """All consumers have to claim, or we are told that we have lost."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = ClaimQueue(zk, "/queue", layout="curator", lock_path="/claims")
        theirs = await client.make("queue", "/queue", "consume")
        await ours.put(b"item")
        with pytest.raises(LockLost):
            async with ours.claim():
                await theirs("start")
                assert await theirs.event() == b"item"
        await theirs("done")


# --- with an order of their own -----------------------------------------------------------------------------


async def test_a_priority_queue(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = PriorityQueue(zk, "/queue", lock_path="/claims")
        producer = await client.make("priority_queue", "/queue", "produce")
        await producer("start")
        for i, priority in enumerate((5, -5, 0, -(2**31), 2**31 - 1)):
            await producer("put", b"theirs %d" % priority, priority)
            await when_there_are(2 * i + 1, zk, "/queue")
            await ours.put(b"ours %d" % priority, priority)
        assert await take(ours, 4) == [
            b"theirs -2147483648",
            b"ours -2147483648",
            b"theirs -5",
            b"ours -5",
        ]
        consumer = await client.make("priority_queue", "/queue", "consume", "/claims")
        await consumer("start")
        for item in (b"theirs 0", b"ours 0", b"theirs 5", b"ours 5", b"theirs 2147483647"):
            assert await consumer.event() == item
            await consumer("done")
        assert await consumer.event() == b"ours 2147483647"


async def test_a_delay_queue(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = DelayQueue(zk, "/queue", lock_path="/claims")
        producer = await client.make("delay_queue", "/queue", "produce")
        await producer("start")
        now = round(1000 * time.time())
        await producer("put", b"theirs, later", now + 10**6)
        await when_there_are(1, zk, "/queue")
        await ours.put(b"ours, later", 2000)
        await ours.put(b"ours, due", -1)
        await producer("put", b"theirs, due first", now - 10**6)
        await when_there_are(4, zk, "/queue")
        assert await take(ours, 2) == [b"theirs, due first", b"ours, due"]
        with pytest.raises(QueueEmpty):
            await take(ours)
        in_future = DelayQueue(zk, "/queue", lock_path="/claims", clock=lambda: time.time() + 1500)
        assert await take(in_future) == [b"theirs, later"]

        consumer = await client.make("delay_queue", "/queue", "consume", "/claims")
        await consumer("start")
        await ours.put(b"ours, due", -1)
        assert await consumer.event() == b"ours, due"
        await consumer("done")
        await when_there_are(1, zk, "/queue")
        assert consumer.quiet


async def test_a_queue_of_ids(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = IdQueue(zk, "/queue", lock_path="/claims")
        theirs = await client.make("id_queue", "/queue", "produce", "/claims")
        await theirs("start")
        await theirs("put", b"1", "a/b")
        await when_there_are(1, zk, "/queue")
        await ours.put(b"2", "a|b")
        await ours.put(b"3", "c")
        await ours.put(b"4", "d")
        assert await theirs("remove", "c") == 1
        assert await ours.remove("a/b") == 2
        assert await ours.remove("c") == 0
        assert await theirs("remove", "a/b") == 0
        assert await take(ours) == [b"4"]
