"""Items are divided among members: each has one owner, all have one once the members stay the same."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import NoNodeError, SessionExpiredError, SetData, ZooKeeper
from pyzk.recipes import LockLost, LossReason, Rebalance
from pyzk.recipes.partitioner import Partitioner

from ..support.lab import SESSION_TIMEOUT, TICK, Lab
from .workers import ITEMS, SETTLE, Worker, member, nothing_left, partitioner, party, shares, start


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("x", ["abcde"]),
        ("xy", ["ace", "bd"]),
        ("yx", ["bd", "ace"]),
        ("xyz", ["ad", "be", "c"]),
        ("stuvwxy", ["a", "b", "c", "d", "e", "", ""]),
    ],
)
async def test_the_shares_of_the_members(
    autojump_clock: MockClock, lab: Lab, ids: str, expected: list[str]
) -> None:
    """Sorted items, dealt out to the sorted members in turn, as kazoo does it."""
    clients = [await lab.client() for _ in ids]
    async with trio.open_nursery() as nursery:
        members = [partitioner(zk, id, reversed(ITEMS)) for zk, id in zip(clients, ids, strict=True)]
        workers = await start(nursery, *members)
        assert shares(*workers) == [list(share) for share in expected]
        assert sorted(member.id for member in await members[0].members()) == sorted(ids)
        assert all(worker.history == [] for worker in workers)
        nursery.cancel_scope.cancel()
    await nothing_left(lab, *clients)


async def test_nothing_to_divide(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with partitioner(zk, "x", []) as alone, alone.share() as items:
        assert items == {}
    await nothing_left(lab, zk)


async def test_the_znodes(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with partitioner(zk, "host-1", ["a"]) as alone:
        async with alone.share() as items:
            name = member(lab, "host-1").rpartition("/")[2]
            assert name[32:] == "-host-1"
            lab.server.assert_tree(
                {"party": {name: b"host-1"}, "locks": {"a": {items["a"].path[14:]: b"host-1"}}}, "/work"
            )
            assert items["a"].path[46:] == "__lock__0000000000"
        lab.server.assert_tree({"party": {name: b"host-1"}, "locks": {"a": {}}}, "/work")
    lab.server.assert_tree({"party": {}, "locks": {"a": {}}}, "/work")


async def test_each_item_can_be_fenced(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/guarded")
    async with partitioner(zk, "x") as alone:
        async with alone.share() as items:
            await zk.multi([items["b"].fence(), SetData("/guarded", b"mine")])
        with pytest.raises(NoNodeError):
            await zk.multi([items["b"].fence(), SetData("/guarded", b"late")])


async def test_members_come_and_go(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(3)]
    x, y, z = (partitioner(zk, id) for zk, id in zip(clients, "xyz", strict=True))
    async with trio.open_nursery() as nursery:
        [wx] = await start(nursery, x)
        assert wx.share == ITEMS
        [wy] = await start(nursery, y)
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        [wz] = await start(nursery, z)
        assert shares(wx, wy, wz) == [["a", "d"], ["b", "e"], ["c"]]
        await wx.stop()
        await trio.sleep(TICK)
        assert shares(wy, wz) == [None, None]
        await trio.sleep(2 * SETTLE)
        assert shares(wy, wz) == [["a", "c", "e"], ["b", "d"]]
        lab.server.expire(clients[1].session.id)
        await trio.sleep(2 * SETTLE)
        assert shares(wy, wz) == [["a", "c", "e"], ["b", "d"]], "it has joined again"
        assert [type(error) for error in wz.history] == [Rebalance] * 2
        assert [type(error) for error in wy.history] == [Rebalance, Rebalance, LockLost]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, *clients)


async def test_nothing_is_divided_before_the_members_stay_the_same(
    autojump_clock: MockClock, lab: Lab
) -> None:
    clients = [await lab.client() for _ in range(6)]
    async with trio.open_nursery() as nursery:
        workers = []
        for number, zk in enumerate(clients):
            workers.append(Worker(partitioner(zk, f"id{number}")))
            nursery.start_soon(workers[-1].run)
            await trio.sleep(SETTLE * 0.9)
            assert all(share is None for share in shares(*workers))
        await trio.sleep(SETTLE)
        assert None not in shares(*workers)
        assert all(worker.history == [] for worker in workers)
        nursery.cancel_scope.cancel()


async def test_what_the_body_raises_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with partitioner(zk, "x") as alone, alone.share():
            raise ZeroDivisionError
    await nothing_left(lab, zk)


async def test_a_share_needs_a_member(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    with pytest.raises(RuntimeError):
        async with partitioner(zk, "x").share():
            pass


@pytest.mark.parametrize(("id", "items"), [("x/y", ["a"]), ("x", ["a/b"]), ("x", [""]), ("x", ["."])])
def test_names_that_are_none(id: str, items: list[str]) -> None:
    with pytest.raises(Exception, match=r"name|component"):
        Partitioner(None, "/work", items, id)  # type: ignore[arg-type]


# --- exclusion ----------------------------------------------------------------------------------------------


async def test_an_item_is_free_before_another_has_it(autojump_clock: MockClock, lab: Lab) -> None:
    """Whoever is told late, or is slow to stop, keeps the others waiting: the locks see to that."""
    clients = [await lab.client() for _ in range(2)]
    times: dict[str, float] = {}
    async with trio.open_nursery() as nursery:

        async def slow() -> None:
            async with partitioner(clients[0], "x") as first:
                with pytest.raises(Rebalance):
                    async with first.share() as items:
                        assert len(items) == 5
                        with trio.CancelScope(shield=True):
                            await trio.sleep(20)
                        times["stopped"] = trio.current_time()
                await trio.sleep_forever()

        nursery.start_soon(slow)
        await trio.sleep(2 * SETTLE)
        async with partitioner(clients[1], "y") as second, second.share() as items:
            times["granted"] = trio.current_time()
            assert list(items) == ["b", "d"]
        nursery.cancel_scope.cancel()
    assert 20 < times["stopped"] <= times["granted"]


@pytest.mark.row("F14")
async def test_a_member_that_is_cut_off_stops_before_its_items_are_given_away(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, partitioner(zk, "x"), partitioner(other, "y"))
        lab.cut_off(zk)
        while wy.share != ITEMS:
            assert trio.current_time() < 100
            assert not set(wx.share or []) & set(wy.share or [])
            stopped = wx.share is None
            await trio.sleep(TICK / 2)
        assert stopped
        [error] = wx.history
        assert isinstance(error, LockLost)
        assert error.reason is LossReason.LEASE_EXPIRED
        lab.let_through(zk)
        await trio.sleep(2 * SESSION_TIMEOUT)
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("E-46")
async def test_a_newcomer_while_items_are_being_taken(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Nobody sits on items that are no longer its own while it waits for others."""
    clients = [await lab.client() for _ in range(2)]
    async with trio.open_nursery() as nursery:
        blocker = await zk.create(
            "/work/locks/c/x__lock__", ephemeral=True, sequential=True, make_parents=True
        )
        wx, wy = await start(nursery, partitioner(clients[0], "x"), partitioner(clients[1], "y"))
        assert shares(wx, wy) == [None, ["b", "d"]], "x has a and waits for c"
        assert await zk.get_children("/work/locks/a") != []
        [wz] = await start(nursery, partitioner(zk, "z"))
        assert shares(wx, wy, wz) == [["a", "d"], ["b", "e"], None]
        await zk.delete(blocker)
        await trio.sleep(TICK)
        assert wz.share == ["c"]
        assert wx.history == []
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, *clients)


@pytest.mark.row("E-46")
@pytest.mark.parametrize("how", ["disconnect", "restart", "cut off"])
async def test_a_change_that_is_missed(autojump_clock: MockClock, lab: Lab, how: str) -> None:
    """The members change while one is without a connection: it learns it when it is back."""
    clients = [await lab.client() for _ in range(3)]
    x, y, z = (partitioner(zk, id) for zk, id in zip(clients, "xyz", strict=True))
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, x, y)
        lab.cut_off(clients[0])
        if how == "disconnect":
            lab.server.disconnect(clients[0].session.id)
        elif how == "restart":
            lab.server.restart(keep_data=True)
            await clients[1].session.wait_connected()
        nursery.start_soon((wz := Worker(z)).run)
        await trio.sleep(1)
        assert party(lab) == ["x", "y", "z"]
        assert shares(wx, wy) == [["a", "c", "e"], None]
        lab.let_through(clients[0])
        await trio.sleep(2 * SETTLE + SESSION_TIMEOUT)
        assert shares(wx, wy, wz) == [["a", "d"], ["b", "e"], ["c"]]
        assert [type(error) for error in wx.history] == [Rebalance]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, *clients)


async def test_the_default_client_ends_with_its_session(autojump_clock: MockClock, lab: Lab) -> None:
    with pytest.raises(LockLost) as caught:
        async with lab.connect(on_expired="cancel") as zk, partitioner(zk, "x") as member, member.share():
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    with pytest.raises(SessionExpiredError):
        async with lab.connect(on_expired="cancel") as zk, partitioner(zk, "x") as member:
            lab.server.expire(zk.session.id)
            async with member.share():
                pytest.fail("there is no session")
    assert party(lab) == []
