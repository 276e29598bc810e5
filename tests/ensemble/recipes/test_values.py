"""Counters and shared values on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from collections import Counter as Tally

import pytest
import trio

from pyzk.recipes import ASCII_INT, INT32, INT64, Codec, Counter, SharedValue

from .scene import Clients, children


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("codec", [INT32, INT64, ASCII_INT])
async def test_a_counter(clients: Clients, codec: Codec[int], exactly_once: bool) -> None:
    counters = [
        Counter(zk, "/dir/n", codec=codec, default=7, exactly_once=exactly_once)  # type: ignore[call-overload]
        for zk in clients
    ]
    changes: list[tuple[int, int]] = []

    async def count(counter: Counter[int]) -> None:
        for amount in (1, -3, 10):
            change = await counter.add(amount)
            changes.append(change)

    async with trio.open_nursery() as nursery:
        for counter in counters:
            nursery.start_soon(count, counter)
    assert Tally(before for before, _ in changes) - Tally(after for _, after in changes) == {7: 1}
    a, b, _ = counters
    await clients[0].sync("/dir/n")
    assert await a.get() == 7 + 3 * 8
    assert sorted(after - before for before, after in changes) == sorted([1, -3, 10] * 3)
    data, stat = await clients[0].get("/dir/n")
    assert (
        data
        == {
            INT32.name: b"\0\0\0\x1f",
            INT64.name: b"\0\0\0\0\0\0\0\x1f",
            ASCII_INT.name: b"31",
        }[codec.name]
    )
    assert stat.version == 8
    await a.set(100)
    await clients[1].sync("/dir/n")
    assert await b.reserve(5) == range(100, 105)
    await clients[0].sync("/dir/n")
    assert await a.reserve(5) == range(105, 110)
    assert not await a.compare_and_set(0, 1)
    assert await a.compare_and_set(110, 1)
    for zk in clients:
        await zk.cleanup.idle()
    if exactly_once:
        assert await children(clients[2], "/dir/n.ops") == []
    else:
        assert await clients[2].exists("/dir/n.ops") is None


async def test_a_value_is_followed(clients: Clients) -> None:
    a, b, c = clients
    raw, number = SharedValue(a, "/dir/v"), SharedValue(b, "/dir/v", codec=INT32)
    async with SharedValue(c, "/dir/v", codec=INT32).updates() as updates:
        assert await anext(updates) is None
        assert await number.compare_and_set(None, 5)
        item = await anext(updates)
        assert item is not None
        assert (item.value, item.version) == (5, 0)
        await a.sync("/dir/v")
        stale = await raw.get()
        assert stale is not None
        assert stale.value == b"\0\0\0\5"
        assert not await raw.compare_and_set(None, b"")
        await number.set(6)
        assert not await raw.compare_and_set(stale, b"\0\0\0\7")
        later = await anext(updates)
        assert later is not None
        assert (later.value, later.version) == (6, 1)
        assert later.mzxid > item.mzxid
        assert await number.compare_and_set(later, 8)
        await b.delete("/dir/v")
        with trio.fail_after(10):
            async for item in updates:
                if item is None:
                    break
                assert item.value == 8
        assert not await number.compare_and_set(later, 9)
