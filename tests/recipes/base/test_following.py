"""The latest value, whatever happens in between."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.base.following import watch_children, watch_node

from ...support.lab import Lab


async def test_each_value_of_a_znode(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    values = watch_node(zk, "/node")
    assert await anext(values) == (None, None)
    await zk.create("/node", b"1")
    assert (await anext(values))[0] == b"1"
    await zk.set("/node", b"2")
    assert (await anext(values))[0] == b"2"
    await zk.delete("/node")
    assert await anext(values) == (None, None)
    await zk.create("/node", b"2")
    assert (await anext(values))[0] == b"2"


async def test_each_list_of_children(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lists = watch_children(zk, "/node")
    assert await anext(lists) is None
    await zk.create("/node")
    assert await anext(lists) == []
    await zk.create("/node/b")
    await zk.create("/node/a")
    assert await anext(lists) == ["a", "b"]
    await zk.delete("/node", recursive=True)
    assert await anext(lists) is None


async def test_waiting_for_a_change_sends_no_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/node", b"1")
    values = watch_node(zk, "/node")
    await anext(values)
    before = lab.requests(zk)
    with trio.move_on_after(1000) as patience:
        await anext(values)
    assert patience.cancelled_caught
    assert (lab.requests(zk) - before)["get_data"] == 1


async def test_a_slow_reader_gets_the_latest_value(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/node", b"0")
    values = watch_node(zk, "/node")
    await anext(values)
    for number in range(1, 10):
        await zk.set("/node", b"%d" % number)
    assert (await anext(values))[0] == b"9"
    with trio.move_on_after(10) as patience:
        await anext(values)
    assert patience.cancelled_caught


async def test_children_that_come_while_away_beside_a_recursive_watch(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """A recursive watch stands for the watch of the list, but does not tell what has happened meanwhile."""
    other = await lab.client()
    await other.create("/node")
    seen: list[list[str] | None] = []

    async def follow() -> None:
        lists = watch_children(zk, "/node")
        while True:
            seen.append(await anext(lists))

    async with zk.watch("/node", recursive=True), trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.sleep(1)
        lab.server.disconnect(zk.session.id)
        await other.create("/node/a")
        await trio.sleep(60)
        assert seen == [[], ["a"]]
        await other.create("/node/b")
        await trio.sleep(1)
        assert seen == [[], ["a"], ["a", "b"]]
        nursery.cancel_scope.cancel()


@pytest.mark.row("E-43")
async def test_deleted_and_created_again_is_a_change(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/node", b"same")
    await zk.create("/node/child")
    values, lists = watch_node(zk, "/node"), watch_children(zk, "/node")
    _, before = await anext(values)
    assert await anext(lists) == ["child"]
    await zk.delete("/node", recursive=True)
    await zk.create("/node", b"same")
    await zk.create("/node/child")
    _, after = await anext(values)
    assert before is not None
    assert after is not None
    assert before.czxid < after.czxid
    assert await anext(lists) == ["child"]


@pytest.mark.row("E-18")
@pytest.mark.parametrize("fault", ["disconnect", "expire", "restart", "cut off"])
async def test_a_change_while_disconnected_is_told(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, fault: str
) -> None:
    other = await lab.client()
    await other.create("/node", b"before")
    values, lists = watch_node(zk, "/node"), watch_children(zk, "/node")
    await anext(values)
    await anext(lists)
    found = []

    async with trio.open_nursery() as nursery:

        async def follow() -> None:
            found.append((await anext(values))[0])
            found.append(await anext(lists))

        nursery.start_soon(follow)
        await trio.sleep(1)
        if fault == "disconnect":
            lab.server.disconnect(zk.session.id)
        elif fault == "expire":
            lab.server.expire(zk.session.id)
        elif fault == "restart":
            lab.server.restart(keep_data=True)
            await trio.sleep(5)
        else:
            lab.cut_off(zk)
            await trio.sleep(60)
        await other.set("/node", b"after")
        await other.create("/node/child")
        lab.let_through(zk)
    assert found == [b"after", ["child"]]


async def test_leaving_the_loop_leaves_no_watch(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async for _ in watch_node(zk, "/missing"):
        break
    values, lists = watch_node(zk, "/missing"), watch_children(zk, "/")
    await anext(values)
    await anext(lists)
    with trio.move_on_after(5):
        await anext(values)
    with trio.move_on_after(5):
        await anext(lists)
    await zk.sync()
    assert (zk.watch_count, lab.watch_count) == (0, 0)


async def test_a_refused_read_is_raised(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/node", acl=[ACL(Perms.WRITE, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        await anext(watch_node(zk, "/node"))
    with pytest.raises(NoAuthError):
        await anext(watch_children(zk, "/node"))
    assert lab.watch_count == 0


async def test_a_closed_client(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as own:
        values = watch_node(own, "/node")
        await anext(values)
    with pytest.raises(ClosingError):
        await anext(values)


@pytest.mark.row("E-37")
async def test_a_new_session_syncs_first(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Its server may be behind the one before."""
    await zk.create("/node", b"1")
    values = watch_node(zk, "/node")
    await anext(values)
    before = lab.requests(zk)
    lab.server.expire(zk.session.id)
    await zk.session.expired.wait()
    await zk.session.wait_connected()
    await zk.set("/node", b"3")
    data, _ = await anext(values)
    assert data == b"3"
    assert (lab.requests(zk) - before)["sync"] == 1
