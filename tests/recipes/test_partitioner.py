"""Items are divided among members: each has one owner, all have one once the members stay the same."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    ACL,
    Id,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    Perms,
    SessionExpiredError,
    SetData,
    ZooKeeper,
)
from pyzk.recipes import LockLost, LossReason, Rebalance
from pyzk.recipes.partitioner import Partitioner

from ..support.lab import SESSION_TIMEOUT, TICK, Lab, lose_while_stopped

SETTLE = 2.0
ITEMS = ["a", "b", "c", "d", "e"]


def partitioner(zk: ZooKeeper, id: str, items: Iterable[str] = ITEMS, **options: Any) -> Partitioner:
    return Partitioner(zk, "/work", items, id, **{"settle": SETTLE} | options)


def party(lab: Lab) -> list[str]:
    """The ids of those who are there."""
    names = [path.rpartition("/")[2] for path in lab.server.dump() if path.startswith("/work/party/")]
    return sorted(name.partition("-")[2] for name in names)


async def nothing_left(lab: Lab, *clients: ZooKeeper) -> None:
    """No member, no lock, no watch."""
    for zk in clients:
        await zk.janitor.idle()
    await trio.sleep(TICK)
    left = [path for path, node in lab.server.dump(form="nodes").items() if node.kind == "ephemeral"]
    assert left == []
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


async def lock(zk: ZooKeeper, item: str) -> str:
    """Have somebody hold the lock of an item; returns the znode."""
    path = f"/work/locks/{item}/{uuid.uuid4().hex}__lock__"
    return await zk.create(path, ephemeral=True, sequential=True, make_parents=True)


@attrs.define
class Worker:
    """A task that takes one share after the other.

    :ivar share: what it has now; None between two shares.
    :ivar history: why each share ended.
    """

    partitioner: Partitioner
    share: list[str] | None = None
    history: list[Exception] = attrs.Factory(list)
    _over: trio.Event = attrs.Factory(trio.Event)
    _scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    async def run(self) -> None:
        with self._scope:
            async with self.partitioner:
                while True:
                    try:
                        async with self.partitioner.share() as items:
                            self.share = list(items)
                            await trio.sleep_forever()
                    except (Rebalance, LockLost) as error:
                        self.history.append(error)
                    finally:
                        self.share = None
        self._over.set()

    async def stop(self) -> None:
        self._scope.cancel()
        await self._over.wait()


def shares(*workers: Worker) -> list[list[str] | None]:
    return [worker.share for worker in workers]


async def start(nursery: trio.Nursery, *partitioners: Partitioner) -> Sequence[Worker]:
    workers = [Worker(each) for each in partitioners]
    for worker in workers:
        nursery.start_soon(worker.run)
    await trio.sleep(2 * SETTLE)
    return workers


# --- shares -------------------------------------------------------------------------------------------------


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
async def test_who_gets_what(autojump_clock: MockClock, lab: Lab, ids: str, expected: list[str]) -> None:
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
            lab.server.assert_tree(
                {"party": {alone._member: b"host-1"}, "locks": {"a": {items["a"].path[14:]: b"host-1"}}},
                "/work",
            )
            assert alone._member[32:] == "-host-1"
            assert items["a"].path[46:] == "__lock__0000000000"
        lab.server.assert_tree({"party": {alone._member: b"host-1"}, "locks": {"a": {}}}, "/work")
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


# --- the same id twice --------------------------------------------------------------------------------------


@pytest.mark.row("E-46")
async def test_the_second_member_of_an_id_is_refused(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        [first] = await start(nursery, partitioner(zk, "x"))
        for second in (partitioner(other, "x"), partitioner(zk, "x")):
            with pytest.raises(NodeExistsError, match="'x'"):
                async with second:
                    pytest.fail("it has joined")
        await trio.sleep(2 * SETTLE)
        assert (party(lab), first.share) == (["x"], ITEMS)
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("E-46")
async def test_of_many_at_once_one_may_stay(autojump_clock: MockClock, lab: Lab) -> None:
    clients = [await lab.client() for _ in range(4)]
    refused = 0
    stayed: list[list[str]] = []

    async def stand(zk: ZooKeeper) -> None:
        nonlocal refused
        try:
            async with partitioner(zk, "x") as member, member.share() as items:
                stayed.append(list(items))
        except NodeExistsError:
            refused += 1

    async with trio.open_nursery() as nursery:
        for zk in clients:
            nursery.start_soon(stand, zk)
    assert (refused, stayed) == (3, [ITEMS])
    await nothing_left(lab, *clients)


@pytest.mark.row("E-46")
async def test_an_id_that_was_taken_while_we_were_away(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with partitioner(zk, "x") as first:
        with pytest.raises(LockLost):
            async with first.share():
                lab.cut_off(zk)
                await trio.sleep_forever()
        await trio.sleep(SESSION_TIMEOUT)
        async with trio.open_nursery() as nursery:
            [second] = await start(nursery, partitioner(other, "x"))
            assert second.share == ITEMS
            lab.let_through(zk)
            with pytest.raises(NodeExistsError, match="'x'"):
                async with first.share():
                    pytest.fail("it is no member")
            nursery.cancel_scope.cancel()


@pytest.mark.row("E-04")
async def test_the_znode_of_our_former_session_is_not_ours(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, partitioner(zk, "x"), partitioner(other, "y"))
        path = f"/work/party/{wx.partitioner._member}"
        former = zk.session.id
        lab.outlive(zk)
        await trio.sleep(1)
        assert zk.session.id != former
        assert former in [session.id for session in lab.server.sessions()]
        stat = await zk.exists(path)
        assert stat is not None
        assert stat.ephemeralOwner == zk.session.id, "the former one was deleted"
        await trio.sleep(SESSION_TIMEOUT + 2 * SETTLE)
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        assert party(lab) == ["x", "y"]
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


# --- D.13 ---------------------------------------------------------------------------------------------------


@pytest.mark.row("F1", "F2", "F3", "F4", "F5")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", ["create", "delete", "get_children", "exists"])
async def test_a_connection_lost_with_any_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, op: str, when: Any
) -> None:
    async with partitioner(zk, "y"):
        pass  # the parents are there
    with lab.server.fault(op=op, path="/work/party**", when=when, action="disconnect"):
        async with partitioner(zk, "x") as member, member.share() as items:
            assert list(items) == ITEMS
            assert party(lab) == ["x"]
        await zk.janitor.idle()
    await nothing_left(lab, zk)


@pytest.mark.row("F3")
@pytest.mark.parametrize(("path", "look"), [("/work/party/*", "exists"), ("/work/locks/**", "get_children")])
async def test_a_create_without_an_answer_is_looked_for_behind_a_sync(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, path: str, look: str
) -> None:
    async with partitioner(zk, "y") as member, member.share():
        pass  # the parents are there
    before = len(lab.server.history(kind="request", session=zk.session.id))
    with lab.server.fault(op="create", path=path, when="after", action="disconnect"):
        async with partitioner(zk, "x") as member, member.share() as items:
            assert list(items) == ITEMS
            assert len(lab.server.dump("/work/party")) == 2
    requests = lab.server.history(kind="request", session=zk.session.id)[before:]
    directory = next(entry.path for entry in requests if entry.op == "sync")
    assert directory is not None
    looked = [entry.op for entry in requests if entry.path == directory or entry.op == "create"]
    at = looked.index("sync")
    assert looked[at - 1 : at + 2] == ["create", "sync", look]
    await nothing_left(lab, zk)


@pytest.mark.row("F6")
async def test_the_session_expires_while_joining(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.ensure_path("/work/party")
    async with trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)

        nursery.start_soon(expire)
        with lab.server.fault(op="create", path="/work/party/*", when="after", action="delay", seconds=5):
            async with partitioner(zk, "x") as member:
                assert party(lab) == ["x"]
                async with member.share() as items:
                    assert {grant.session_id for grant in items.values()} == {zk.session.id}
    await nothing_left(lab, zk)


@pytest.mark.row("F7")
async def test_the_session_expires_while_waiting_for_an_item(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    blocker = await other.create(
        "/work/locks/c/x__lock__", ephemeral=True, sequential=True, make_parents=True
    )
    async with trio.open_nursery() as nursery:
        [worker] = await start(nursery, partitioner(zk, "x"))
        lab.server.expire(zk.session.id)
        await trio.sleep(2 * SETTLE)
        assert worker.share is None
        await other.delete(blocker)
        await trio.sleep(2 * SETTLE)
        assert (worker.share, worker.history) == (ITEMS, [])
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F8")
async def test_the_session_of_a_member_expires(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with trio.open_nursery() as nursery:
        [worker] = await start(nursery, partitioner(zk, "x"))
        for number in (1, 2, 3):
            lab.server.expire(zk.session.id)
            await trio.sleep(2 * SETTLE)
            assert worker.share == ITEMS
            assert len(worker.history) == number
            error = worker.history[-1]
            assert isinstance(error, LockLost)
            assert error.reason is LossReason.SESSION_EXPIRED
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk)


@pytest.mark.row("F9")
async def test_the_session_expires_while_a_share_is_given_back(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    session = zk.session.id
    async with partitioner(zk, "x") as member:
        async with member.share():
            fault = lab.server.fault(op="delete", path="/work/locks/**", action="delay", seconds=30, times=5)
            fault.__enter__()
            left = trio.current_time()
        assert trio.current_time() < left + SESSION_TIMEOUT, "it does not wait for ever"
        lab.server.expire(session)
        fault.__exit__(None, None, None)
        await zk.session.wait_connected()
        async with member.share() as items:
            assert list(items) == ITEMS
            assert {grant.session_id for grant in items.values()} == {zk.session.id} != {session}
    await nothing_left(lab, zk)


@pytest.mark.row("F10", "F11")
@pytest.mark.parametrize("keep_data", [True, False])
async def test_the_server_restarts(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, keep_data: bool
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, partitioner(zk, "x"), partitioner(other, "y"))
        lab.server.restart(keep_data=keep_data)
        await trio.sleep(SESSION_TIMEOUT + 2 * SETTLE)
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        assert (wx.history == wy.history == []) == keep_data
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F15")
async def test_an_operator_deletes_a_member(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, partitioner(zk, "x"), partitioner(other, "y"))
        await other.delete(f"/work/party/{wx.partitioner._member}")
        await trio.sleep(2 * SETTLE)
        assert party(lab) == ["x", "y"]
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        assert [type(error) for error in wx.history + wy.history] == [Rebalance] * 2
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F15")
async def test_nothing_is_divided_while_our_znode_is_missing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        [worker] = await start(nursery, partitioner(zk, "x", [], settle=0))
        for number in range(1, 21):
            await other.delete(f"/work/party/{worker.partitioner._member}")
            await trio.sleep(TICK)
            assert worker.share == []
            assert [type(error) for error in worker.history] == [Rebalance] * len(worker.history)
            assert len(worker.history) >= number
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F15")
async def test_an_operator_deletes_a_lock(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with trio.open_nursery() as nursery:
        [worker] = await start(nursery, partitioner(zk, "x"))
        [name] = await zk.get_children("/work/locks/b")
        await zk.delete(f"/work/locks/b/{name}")
        await trio.sleep(2 * SETTLE)
        assert worker.share == ITEMS
        [error] = worker.history
        assert isinstance(error, LockLost)
        assert (error.reason, error.path) == (LossReason.NODE_DELETED, f"/work/locks/b/{name}")
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk)


@pytest.mark.row("F17")
@pytest.mark.parametrize("path", ["/work", "/work/party", "/work/locks"])
async def test_a_directory_is_deleted(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, path: str) -> None:
    other = await lab.client()
    async with trio.open_nursery() as nursery:
        wx, wy = await start(nursery, partitioner(zk, "x"), partitioner(other, "y"))
        await other.delete(path, recursive=True)
        await trio.sleep(3 * SETTLE)
        assert shares(wx, wy) == [["a", "c", "e"], ["b", "d"]]
        assert len(wx.history) >= 1
        nursery.cancel_scope.cancel()
    await nothing_left(lab, zk, other)


@pytest.mark.row("F18")
async def test_foreign_children_are_no_members(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    lab.server.load({"/work/party/junk": b"", "/work/party/0-x": b""})
    async with partitioner(zk, "x") as member:
        for _ in range(2):
            async with member.share() as items:
                assert list(items) == ITEMS
        assert [other.id for other in await member.members()] == ["x"]
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "0-x" in record.getMessage()


@pytest.mark.row("F19")
async def test_a_process_that_was_stopped_learns_it_at_the_first_checkpoint(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with partitioner(zk, "x") as member:
        await lose_while_stopped(autojump_clock, member.share())
        async with member.share() as items:  # it is a member again
            assert list(items) == ITEMS
            assert party(lab) == ["x"]
    await nothing_left(lab, zk)


@pytest.mark.row("F20")
async def test_cancelled_at_every_step(autojump_clock: MockClock, lab: Lab) -> None:
    """Every reply takes a second, and the caller has had enough after 0.4 s, 1.4 s, ... The session lasts for
    long: a lease cannot be kept where answers take a fifth of the session timeout."""
    zk = await lab.client(session_timeout=3 * SESSION_TIMEOUT)
    await zk.ensure_path("/work/party")
    shared = 0
    for steps in range(25):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
        ):
            with trio.move_on_after(steps + 0.4):
                async with partitioner(zk, "x", ["a", "b"]) as member, member.share():
                    shared += 1
                    await trio.sleep_forever()
        await trio.sleep(5)
        await nothing_left(lab, zk)
    assert 5 < shared < 20


@pytest.mark.row("F21")
@pytest.mark.parametrize("path", ["/work/party", "/work/locks/c"])
async def test_what_is_denied_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, path: str
) -> None:
    await zk.ensure_path(path)
    await zk.set_acls(path, [ACL(Perms.READ | Perms.DELETE, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with partitioner(zk, "x") as member, member.share():
            pytest.fail("it cannot have everything")
    await nothing_left(lab, zk)


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
