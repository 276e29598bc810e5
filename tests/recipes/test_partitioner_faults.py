"""A partitioner meets the faults of recipe-rules.md D.13: each item has one owner in the end, never two."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, NodeExistsError, Perms, ZooKeeper
from pyzk.recipes import LockLost, LossReason, Rebalance

from ..support.lab import SESSION_TIMEOUT, TICK, Lab, lose_while_stopped
from .workers import ITEMS, SETTLE, member, nothing_left, partitioner, party, shares, start


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
        path = member(lab, "x")
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
        await zk.cleanup.idle()
    await nothing_left(lab, zk)


@pytest.mark.row("F3")
@pytest.mark.parametrize(
    ("path", "barrier", "look"),
    [("/work/party/*", "sync", "exists"), ("/work/locks/**", "multi", "get_children")],
)
async def test_a_create_without_an_answer_is_looked_for_behind_all_writes(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, path: str, barrier: str, look: str
) -> None:
    async with partitioner(zk, "y") as member, member.share():
        pass  # the parents are there
    before = len(lab.server.history(kind="request", session=zk.session.id))
    with lab.server.fault(op="create", path=path, when="after", action="disconnect"):
        async with partitioner(zk, "x") as member, member.share() as items:
            assert list(items) == ITEMS
            assert len(lab.server.dump("/work/party")) == 2
    requests = lab.server.history(kind="request", session=zk.session.id)[before:]
    looked = [entry.op for entry in requests if entry.op in ("create", barrier, look)]
    at = looked.index(barrier)
    assert "create" in looked[:at]
    assert looked[at + 1] == look
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
        await other.delete(member(lab, "x"))
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
            await other.delete(member(lab, "x"))
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
    await zk.set_acl(path, [ACL(Perms.READ | Perms.DELETE, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with partitioner(zk, "x") as member, member.share():
            pytest.fail("it cannot have everything")
    await nothing_left(lab, zk)
