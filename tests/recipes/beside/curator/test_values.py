"""Our counters and values and Apache Curator's at one path (recipe-rules.md B.8, D.9)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.codecs import INT32, INT64, Codec, MalformedValue
from pyzk.recipes.counter import Counter
from pyzk.recipes.shared_value import SharedValue
from pyzk.server.testing import EmbeddedServer

from .process import CuratorError, CuratorProcess

WIDTHS = [(INT32, "atomic_integer"), (INT64, "atomic_long")]


@pytest.mark.parametrize(("width", "kind"), WIDTHS)
async def test_counting_in_turns(hosts: str, curator: CuratorProcess, width: Codec[int], kind: str) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = Counter(zk, "/counters/a", codec=width)
        theirs = await client.make(kind, "/counters/a")
        assert await ours.add(5) == (0, 5)
        assert await theirs("add", -7) == [True, 5, -2]
        assert await ours.get() == -2
        assert await ours.compare_and_set(-2, 40)
        assert await theirs("compare_and_set", 40, 41) == [True, 40, 41]
        assert not await ours.compare_and_set(40, 50)
        await theirs("set", 7)
        assert await ours.reserve(3) == range(7, 10)
        assert (await theirs("get"))[1] == 10

        other = await client.make(kind, "/counters/b")
        assert await other("add", 1) == [True, 0, 1]
        assert await Counter(zk, "/counters/b", codec=width).add(1) == (1, 2)


@pytest.mark.parametrize(("width", "kind"), WIDTHS)
async def test_counting_at_once(
    server: EmbeddedServer, curator: CuratorProcess, width: Codec[int], kind: str
) -> None:
    """Nobody's addition is lost."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = Counter(zk, "/counter", codec=width)
        theirs = [await client.make(kind, "/counter") for _ in range(2)]
        # Curator gives up after so many attempts; it then says that it has not added.
        replies = [remote.start("add", 1) for remote in theirs for _ in range(15)]

        async def add() -> None:
            for _ in range(15):
                await ours.add(1)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(add)
        added = [await reply.wait() for reply in replies]
        assert await ours.get() == 30 + sum(succeeded for succeeded, _, _ in added)


async def test_widths_are_not_mixed_up(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await Counter(zk, "/narrow", codec=INT32).add(1)
        with pytest.raises(CuratorError):
            await (await client.make("atomic_long", "/narrow"))("get")
        await (await client.make("atomic_long", "/wide"))("add", 1)
        with pytest.raises(MalformedValue):
            await Counter(zk, "/wide", codec=INT32).get()


async def test_a_shared_count(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        ours = SharedValue(zk, "/values/count", codec=INT32)
        assert await ours.compare_and_set(None, 3)
        theirs = await client.make("shared_count", "/values/count", 99)
        await theirs("start")
        assert await theirs("get") == 3  # the seed is for a missing one
        async with ours.updates() as stream:
            first = await anext(stream)
            assert first is not None
            assert first.value == 3
            assert await theirs("try_set", 4) is True
            second = await anext(stream)
            assert second is not None
            assert (second.value, second.version) == (4, first.version + 1)
            await theirs.wait_event(4)
            assert not await ours.compare_and_set(first, 5)
            assert await ours.compare_and_set(second, 5)
            await theirs.wait_event(5)
            assert await theirs("get") == 5
        assert await Counter(zk, "/values/count", codec=INT32).add(1) == (5, 6)
        await theirs.wait_event(6)


async def test_a_shared_value(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        theirs = await client.make("shared_value", "/value", b"seed")
        await theirs("start")
        ours = SharedValue(zk, "/value")
        item = await ours.get()
        assert item is not None
        assert item.value == b"seed"
        await ours.set(b"\0\xff")
        await theirs.wait_event(b"\0\xff")
        await theirs("set", b"")
        item = await ours.get()
        assert item is not None
        assert item.value == b""


async def test_a_read_that_curator_makes_stale(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """Its write comes between our read and our write: we add to what it has written."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        ours = Counter(zk, "/counter", codec=INT64)
        await ours.set(10)
        theirs = await client.make("atomic_long", "/counter")
        fault = server.fault(
            op="set_data", session=zk.session.id, when="before", action="delay", seconds=3600
        )
        with fault:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.add, 1)
                await trio.to_thread.run_sync(fault.wait)
                assert await theirs("add", 100) == [True, 10, 110]
                server.clock.advance(3600, keep_alive=True)
        assert await ours.get() == 111
