"""Everybody sees the latest value, and nobody replaces one that they have not seen (recipe-rules.md D.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.codecs import ASCII_INT, INT32, MalformedValue
from pyzk.recipes.errors import AmbiguousResult
from pyzk.recipes.shared_value import SharedValue, Updates, Versioned

from ..support.lab import Lab

PATH = "/config/limit"


class Follower:
    """Collects what it sees."""

    def __init__(self) -> None:
        self.items: list[Versioned[Any] | None] = []
        self.errors: list[Exception] = []

    @property
    def values(self) -> list[Any]:
        return [item and item.value for item in self.items]

    async def run(self, value: SharedValue[Any]) -> None:
        async with value.updates() as stream:
            await self._collect(stream)

    async def _collect(self, stream: Updates[Any]) -> None:
        while True:
            try:
                self.items.append(await anext(stream))
            except MalformedValue as error:
                self.errors.append(error)


@asynccontextmanager
async def following(value: SharedValue[Any]) -> AsyncIterator[Follower]:
    follower = Follower()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.run, value)
        await trio.sleep(1)
        yield follower
        nursery.cancel_scope.cancel()


async def test_reading_and_writing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    value = SharedValue(zk, PATH)
    assert await value.get() is None
    await value.set(b"")
    await value.set(b"two")
    item = await value.get()
    assert item is not None
    assert (item.value, item.version) == (b"two", 1)
    nodes = lab.server.dump(form="nodes")
    assert (nodes[PATH].data, nodes[PATH].kind, nodes["/config"].kind) == (b"two", "persistent", "container")


async def test_data_that_was_never_set_is_empty(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.load({PATH: None})
    item = await SharedValue(zk, PATH).get()
    assert item is not None
    assert item.value == b""


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_nobody_replaces_what_they_have_not_seen(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool
) -> None:
    value, other = SharedValue(zk, PATH, exactly_once=exactly_once), SharedValue(await lab.client(), PATH)
    assert await value.compare_and_set(None, b"1") is True
    assert await value.compare_and_set(None, b"2") is False
    seen = await other.get()
    assert await other.compare_and_set(seen, b"3") is True
    assert await value.compare_and_set(seen, b"4") is False
    await zk.delete(PATH)
    assert await value.compare_and_set(seen, b"5") is False
    assert PATH not in lab.server.dump()


@pytest.mark.row("E-39")
async def test_other_layouts(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """What another has written is read as it is meant, or not at all."""
    value = SharedValue(zk, PATH, codec=INT32)
    await value.set(-1)
    assert lab.server.dump()[PATH] == b"\xff" * 4
    with pytest.raises(OverflowError):
        await value.set(2**31)
    with pytest.raises(TypeError):
        await value.compare_and_set(None, "x")  # type: ignore[arg-type]
    for data in (b"", b"\0" * 8):
        lab.server.load({PATH: data})
        with pytest.raises(MalformedValue, match=f"{len(data)} bytes"):
            await value.get()


# --- following ----------------------------------------------------------------------------------------------


async def test_followers_see_the_present_value_and_each_later_one(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    value = SharedValue(await lab.client(), PATH)
    await value.set(b"1")
    async with following(SharedValue(zk, PATH)) as follower:
        for data in (b"2", b"3", b"3"):
            await value.set(data)
            await trio.sleep(1)
    assert follower.values == [b"1", b"2", b"3", b"3"]
    zxids = [item.mzxid for item in follower.items if item is not None]
    assert zxids == sorted(set(zxids))
    await trio.sleep(1)
    assert (lab.watch_count, zk.watch_count) == (0, 0)


async def test_a_slow_follower_sees_the_latest_value(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    value = SharedValue(zk, PATH, codec=ASCII_INT)
    await value.set(0)
    async with value.updates() as stream:
        seen = []
        async for item in stream:
            assert item is not None
            seen.append(item.value)
            if item.value == 9:
                break
            for number in range(item.value + 1, item.value + 4):
                await value.set(number)
    assert seen == [0, 3, 6, 9]


@pytest.mark.row("E-37")
async def test_a_missing_znode_is_reported_and_waited_for(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Deaf after a deletion."""
    value, other = SharedValue(zk, PATH), await lab.client()
    async with following(value) as follower:
        for data in (b"1", b"2"):
            await SharedValue(other, PATH).set(data)
            await trio.sleep(1)
            await other.delete(PATH)
            await trio.sleep(1)
        await other.delete("/config")
        await trio.sleep(1)
        await SharedValue(other, PATH).set(b"3")
        await trio.sleep(1)
    assert follower.values == [None, b"1", None, b"2", None, b"3"]


@pytest.mark.row("E-37", "E-43")
async def test_a_value_created_again_is_a_new_one(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The version is the same, the value is not."""
    other = SharedValue(await lab.client(), PATH)
    await other.set(b"1")
    async with following(SharedValue(zk, PATH)) as follower:
        lab.cut_off(zk)
        await other.zk.delete(PATH)
        await other.set(b"2")
        lab.let_through(zk)
        await trio.sleep(10)
    assert follower.values == [b"1", b"2"]
    assert [item.version for item in follower.items if item] == [0, 0]


@pytest.mark.row("F7", "F14", "E-37")
@pytest.mark.parametrize("seconds", [3, 60])
@pytest.mark.parametrize("change", [True, False])
async def test_a_follower_that_was_cut_off(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, seconds: float, change: bool
) -> None:
    """After a short time or after the end of the session, what is new and only that."""
    other = SharedValue(await lab.client(), PATH)
    await other.set(b"1")
    generation = zk.session.generation
    async with following(SharedValue(zk, PATH)) as follower:
        lab.cut_off(zk)
        await trio.sleep(seconds / 2)
        if change:
            await other.set(b"2")
        await trio.sleep(seconds / 2)
        lab.let_through(zk)
        await trio.sleep(20)
        assert (zk.session.generation > generation) == (seconds == 60)
        assert follower.values == ([b"1", b"2"] if change else [b"1"])
        await other.set(b"3")
        await trio.sleep(1)
    assert follower.values[-1] == b"3"


@pytest.mark.row("F10", "F11")
async def test_restarts(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = SharedValue(await lab.client(), PATH)
    await other.set(b"1")
    async with following(SharedValue(zk, PATH)) as follower:
        lab.server.restart(keep_data=True)
        await trio.sleep(10)
        assert follower.values == [b"1"]
        lab.server.restart(keep_data=False)
        await trio.sleep(60)
        assert follower.values == [b"1", None]
        await other.set(b"2")
        await trio.sleep(1)
    assert follower.values == [b"1", None, b"2"]


async def test_a_value_that_cannot_be_read_is_reported_and_passed_over(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = SharedValue(await lab.client(), PATH)
    await other.set(b"1")
    async with following(SharedValue(zk, PATH, codec=ASCII_INT)) as follower:
        for data in (b"x", b"2"):
            await other.set(data)
            await trio.sleep(1)
    assert follower.values == [1, 2]
    assert len(follower.errors) == 1


async def test_followers_of_a_closed_client_stop(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as own:
        value = SharedValue(own, PATH)
        async with value.updates() as stream:
            assert await anext(stream) is None
    with pytest.raises(ClosingError):
        await anext(stream)


# --- connections, cancellation, refusals --------------------------------------------------------------------


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", ["create", "set_data"])
async def test_setting_survives_a_lost_connection(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, op: str, when: Any
) -> None:
    value = SharedValue(zk, PATH)
    if op == "set_data":
        await value.set(b"1")
    with lab.server.fault(op=op, path=PATH, when=when, action="disconnect"):
        await value.set(b"2")
    assert lab.server.dump()[PATH] == b"2"


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_comparing_and_setting_with_a_lost_reply(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, exactly_once: bool
) -> None:
    value = SharedValue(zk, PATH, exactly_once=exactly_once)
    await value.compare_and_set(None, b"1")
    seen, outcome = await value.get(), None
    op = "multi" if exactly_once else "set_data"
    with lab.server.fault(op=op, when=when, action="disconnect"):
        try:
            outcome = await value.compare_and_set(seen, b"2")
        except AmbiguousResult:
            assert (when, exactly_once) == ("after", False)
        else:
            assert outcome is True
    assert lab.server.dump()[PATH] == b"2"


@pytest.mark.row("F20")
async def test_a_follower_that_gives_up_leaves_no_watch(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    for seconds in (0.5, 1.5, 2.5, 5):
        with (
            lab.server.fault(when="after", action="delay", seconds=1, times=None),
            trio.move_on_after(seconds),
        ):
            await Follower().run(SharedValue(zk, PATH))
        await trio.sleep(10)
        assert (lab.watch_count, zk.watch_count) == (0, 0)


@pytest.mark.row("F21")
async def test_what_is_not_allowed_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/config", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    await zk.create("/secret", acl=[ACL(Perms.WRITE, Id("world", "anyone"))])
    for refused in (
        SharedValue(zk, PATH).set(b"1"),
        SharedValue(zk, PATH).compare_and_set(None, b"1"),
        SharedValue(zk, "/secret").get(),
        Follower().run(SharedValue(zk, "/secret")),
    ):
        with pytest.raises(NoAuthError):
            await refused
