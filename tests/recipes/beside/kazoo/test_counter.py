"""Our counters and kazoo's at one path (recipe-rules.md B.8)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from kazoo.recipe.counter import Counter as KazooCounter

from pyzk.client import connect
from pyzk.recipes.codecs import ASCII_FLOAT, ASCII_INT, INT32
from pyzk.recipes.counter import Counter
from pyzk.server.testing import EmbeddedServer

from ....support.interop import kazoo_client

PATH = "/counters/one"

LAYOUTS: list[tuple[dict[str, Any], dict[str, Any], list[Any]]] = [
    ({"codec": ASCII_INT}, {}, [1, -5, 10**20]),
    ({"codec": ASCII_FLOAT, "default": 0.0}, {"default": 0.0}, [0.5, -2.25, 1e300]),
    ({"codec": ASCII_INT, "default": 7}, {"default": 7}, [1, 2]),
    ({"codec": INT32}, {"support_curator": True}, [1, -5, 2**31 - 1]),
]


def add(counter: KazooCounter, amount: Any) -> Any:
    counter += amount
    return counter.post_value


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize(("ours", "theirs", "amounts"), LAYOUTS)
async def test_they_add_in_turn(
    server: EmbeddedServer, ours: dict[str, Any], theirs: dict[str, Any], amounts: list[Any], ours_first: bool
) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        counter, kazoo_counter = Counter(zk, PATH, **ours), KazooCounter(kazoo, PATH, **theirs)
        value = ours.get("default", 0)
        for turn, amount in enumerate(amounts):
            if (turn % 2 == 0) == ours_first:
                assert await counter.add(amount) == (value, value + amount)
            else:
                assert await trio.to_thread.run_sync(add, kazoo_counter, amount) == value + amount
            value += amount
            assert await counter.get() == value
            assert await trio.to_thread.run_sync(lambda: kazoo_counter.value) == value


@pytest.mark.parametrize("support_curator", [True, False])
async def test_kazoo_has_only_looked(server: EmbeddedServer, support_curator: bool) -> None:
    """That creates an empty znode, which stands for nothing counted yet."""
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        kazoo_counter = KazooCounter(kazoo, PATH, support_curator=support_curator)
        assert await trio.to_thread.run_sync(lambda: kazoo_counter.value) == 0
        assert server.dump()[PATH] == b""
        counter = Counter(zk, PATH, codec=INT32 if support_curator else ASCII_INT)
        assert await counter.add(3) == (0, 3)
        assert await trio.to_thread.run_sync(lambda: kazoo_counter.value) == 3


@pytest.mark.parametrize("exactly_once", [True, False])
async def test_they_add_at_the_same_time(server: EmbeddedServer, exactly_once: bool) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        counter = Counter(zk, PATH, codec=INT32, exactly_once=exactly_once)
        kazoo_counter = KazooCounter(kazoo, PATH, support_curator=True)

        async def ours() -> None:
            for _ in range(20):
                await counter.add(1)

        async def theirs() -> None:
            for _ in range(20):
                await trio.to_thread.run_sync(add, kazoo_counter, 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours)
            nursery.start_soon(theirs)
        assert await counter.get() == 40
