"""The lock that is a single znode (recipe-rules.md A.1, S3-a and S4-a): the guarantees of any other."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, NoNodeError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes import Deadlock, Grant, LockLost, LossReason, WouldBlock
from pyzk.recipes.locks.single_node import SingleNodeLock, _turns

from ...support.lab import SESSION_TIMEOUT, TICK, Lab

PATH = "/exclusive/lock"


def owner(lab: Lab) -> int | None:
    for session in lab.server.sessions():
        if PATH in session.ephemerals:
            return session.id
    return None


async def free(lab: Lab, *clients: ZooKeeper) -> None:
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert owner(lab) is None
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


async def hold_for(zk: ZooKeeper, seconds: float) -> None:
    async with SingleNodeLock(zk, PATH):
        await trio.sleep(seconds)


async def test_the_creator_of_the_znode_has_the_lock(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with SingleNodeLock(zk, PATH, data=b"me") as grant:
        assert grant.path == PATH
        assert lab.server.dump()[PATH] == b"me"
        assert lab.server.dump(form="nodes")["/exclusive"].kind == "container"
        stat = await zk.exists(PATH)
        assert stat is not None
        assert (stat.czxid, stat.ephemeralOwner) == (grant.token, zk.session.id)
        with pytest.raises(WouldBlock):
            await SingleNodeLock(other, PATH).acquire(wait=False)
        await grant.verify()
    async with SingleNodeLock(other, PATH).nowait() as later:
        assert later.token > grant.token
    await free(lab, zk, other)


async def test_a_path_that_is_used_no_more_is_forgotten(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with SingleNodeLock(zk, PATH):
        assert list(_turns[zk].of_path) == [PATH]
    await free(lab, zk)
    gc.collect()
    assert not _turns[zk].of_path


async def test_a_path_is_remembered_until_its_znode_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Or the next lock object would create the znode, and the deletion that is left would delete it."""
    with lab.server.fault(op="delete", path=PATH, when="before", action="disconnect"):
        async with SingleNodeLock(zk, PATH, cleanup_grace=0):
            pass
        gc.collect()
        assert list(_turns[zk].of_path) == [PATH]
        async with SingleNodeLock(zk, PATH) as grant:
            await grant.verify()
    await free(lab, zk)


async def test_twenty_exclude_each_other_at_the_cost_that_is_said(
    autojump_clock: MockClock, lab: Lab
) -> None:
    clients = [await lab.client() for _ in range(20)]
    await clients[0].create("/exclusive")
    inside, tokens = 0, []
    before = [lab.requests(zk) for zk in clients]
    events = [zk.event_count for zk in clients]

    async def use(zk: ZooKeeper) -> None:
        nonlocal inside
        async with SingleNodeLock(zk, PATH) as grant:
            inside += 1
            assert inside == 1
            tokens.append(grant.token)
            await trio.sleep(1)
            inside -= 1

    async with trio.open_nursery() as nursery:
        for zk in clients:
            nursery.start_soon(use, zk)
    assert len(tokens) == 20
    assert tokens == sorted(tokens)
    await free(lab, *clients)

    n = len(clients)
    cost = sum((lab.requests(zk) - b for zk, b in zip(clients, before, strict=True)), start=type(before[0])())
    assert cost["create2"] <= n + n * (n - 1) // 2
    assert cost["create2"] > 100, "the herd is what is to be seen"
    assert cost["get_children"] <= n - 1 + n * (n - 1) // 2
    assert cost["delete"] == n
    assert sum(zk.event_count for zk in clients) - sum(events) <= n * (n - 1) + 2 * n


async def test_tasks_of_one_client_take_turns(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    order = []

    async def use(number: int) -> None:
        async with SingleNodeLock(zk, PATH):
            order.append(number)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(use, number)
            await trio.sleep(0.1)
        with pytest.raises(WouldBlock):
            await SingleNodeLock(zk, PATH).acquire(wait=False)
    assert order == [0, 1, 2, 3]
    assert len(lab.server.history(kind="request", op="create", path=PATH)) == 5, "nobody tried in vain"
    await free(lab, zk)


async def test_a_task_that_would_wait_for_itself(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with SingleNodeLock(zk, PATH):
        with pytest.raises(Deadlock):
            await SingleNodeLock(zk, PATH).acquire()
    await free(lab, zk)


@pytest.mark.row("E-63")
async def test_other_children_of_the_parent_lead_to_no_creates(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with SingleNodeLock(other, PATH), trio.open_nursery() as nursery:
        nursery.start_soon(hold_for, zk, 1)
        await trio.sleep(1)
        for number in range(50):
            await other.create(f"/exclusive/{number}")
        assert lab.requests(zk)["create2"] <= 3
        nursery.cancel_scope.cancel()
    await free(lab, zk, other)


# --- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
async def test_creating_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    await zk.create("/exclusive")
    with lab.server.fault(op="create", path=PATH, when=when, action="disconnect"):
        async with SingleNodeLock(zk, PATH) as grant:
            assert owner(lab) == zk.session.id
            assert grant.retries == 0
    sequence = [entry.op for entry in lab.server.history(kind="request", path="/exclusive/**")]
    assert sequence[:4] == (
        ["create", "create", "sync", "get_data"]
        if when == "after"
        else ["create", "create", "get_data", "exists"]
    )
    await free(lab, zk)


async def test_a_lost_reply_and_the_znode_is_somebody_else_s(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    await zk.create("/exclusive")
    async with SingleNodeLock(other, PATH) as grant:
        with (
            lab.server.fault(
                op="create", path=PATH, session=zk.session.id, when="after", action="disconnect"
            ),
            pytest.raises(WouldBlock),
        ):
            await SingleNodeLock(zk, PATH).acquire(wait=False)
        await grant.verify()
    await free(lab, zk, other)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_deleting_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    with lab.server.fault(op="delete", path=PATH, when=when, action="disconnect"):
        async with SingleNodeLock(zk, PATH):
            pass
        await free(lab, zk)


async def test_no_task_takes_the_leftover_of_another_for_its_own(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """The first is cancelled when its reply is lost; the second loses its first reply too."""
    await zk.create("/exclusive")
    other = await lab.client()
    with lab.server.fault(op="create", path=PATH, when="after", action="drop_reply"):
        with trio.move_on_after(0.5) as scope:
            await SingleNodeLock(zk, PATH).acquire()
        assert scope.cancelled_caught
        with pytest.raises(WouldBlock):
            await SingleNodeLock(zk, PATH).acquire(wait=False)
        with lab.server.fault(
            op="create", path=PATH, session=zk.session.id, when="before", action="disconnect"
        ):
            async with SingleNodeLock(zk, PATH):
                await zk.cleanup.idle()
                await trio.sleep(2 * SESSION_TIMEOUT)
                with pytest.raises(WouldBlock):
                    await SingleNodeLock(other, PATH).acquire(wait=False)
    assert zk.session.generation == 1
    await free(lab, zk, other)


async def test_a_turn_that_is_not_waited_for_any_more_goes_to_the_next(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold_for, zk, 2)
        await trio.sleep(0.1)
        lab.cut_off(zk)
        with trio.move_on_after(3):  # past the release, which is still to be confirmed
            await SingleNodeLock(zk, PATH).acquire()
        lab.let_through(zk)
    with trio.fail_after(30):
        await hold_for(zk, 1)
    await free(lab, zk)


async def test_the_session_expires_while_creating(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/exclusive")
    first = zk.session.id
    async with trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(first)

        nursery.start_soon(expire)
        with lab.server.fault(op="create", when="after", action="delay", seconds=5):
            async with SingleNodeLock(zk, PATH) as grant:
                assert grant.retries == 1
                assert owner(lab) == zk.session.id != first
    await free(lab, zk)


@pytest.mark.parametrize("on_session_loss", ["requeue", "raise"])
async def test_the_session_expires_while_waiting(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, on_session_loss: Any
) -> None:
    other = await lab.client()
    ended: list[object] = []

    async def contend() -> None:
        try:
            async with SingleNodeLock(zk, PATH, on_session_loss=on_session_loss) as grant:
                ended.append(grant.retries)
        except SessionExpiredError:
            ended.append("expired")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold_for, other, 5)
        await trio.sleep(1)
        nursery.start_soon(contend)
        await trio.sleep(1)
        lab.server.expire(zk.session.id)
    assert ended == [1 if on_session_loss == "requeue" else "expired"]
    await free(lab, zk, other)


async def test_the_session_expires_while_holding(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    with pytest.raises(LockLost) as caught:
        async with SingleNodeLock(zk, PATH):
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    await zk.session.wait_connected()
    await hold_for(zk, 1)
    await free(lab, zk)


async def test_an_operator_makes_room_for_another(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Whoever was the holder does not take the znode of the next one along, even if he learns of it late."""
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with SingleNodeLock(zk, PATH):
            lab.server.disconnect(zk.session.id)
            await other.delete(PATH)
            grant = await SingleNodeLock(other, PATH).acquire()
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    await zk.cleanup.idle()
    await trio.sleep(1)
    await grant.verify()
    await grant.release()
    await free(lab, zk, other)


async def test_a_znode_that_is_deleted_at_once(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    await zk.create("/exclusive")
    got: list[Grant] = []

    async def contend() -> None:
        got.append(await SingleNodeLock(zk, PATH).acquire())

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="get_data", path=PATH, session=zk.session.id, action="delay", seconds=2):
            nursery.start_soon(contend)
            await trio.sleep(1)
            await other.delete(PATH)
            async with SingleNodeLock(other, PATH):
                await trio.sleep(3)
                assert got == []
    assert got[0].retries == 1
    await got[0].release()
    await free(lab, zk, other)


async def test_the_parent_goes(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    grant = await SingleNodeLock(zk, PATH).acquire()
    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="get_children", session=other.session.id, action="delay", seconds=1):
            nursery.start_soon(hold_for, other, 1)
            await trio.sleep(0.5)
            await zk.delete("/exclusive", recursive=True)
    with pytest.raises(LockLost):
        await grant.release()
    await free(lab, zk, other)


@pytest.mark.parametrize("busy", [True, False])
async def test_cancelled_at_every_step(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, busy: bool
) -> None:
    other = await lab.client()
    await zk.create("/exclusive")
    cancelled = 0
    for steps in range(8):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
        ):
            async with trio.open_nursery() as nursery:
                if busy:
                    nursery.start_soon(hold_for, other, 2.2)
                    await trio.sleep(0.1)
                with trio.move_on_after(steps + 0.4) as scope:
                    async with SingleNodeLock(zk, PATH):
                        pass
                cancelled += scope.cancelled_caught
        await trio.sleep(5)
        await free(lab, zk, other)
        assert zk.session.generation == 1
    assert cancelled >= 2


@pytest.mark.parametrize("denied", [Perms.CREATE, Perms.DELETE, Perms.READ])
async def test_what_is_denied_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, denied: Perms, caplog: pytest.LogCaptureFixture
) -> None:
    acl = [ACL(Perms.ALL & ~denied, Id("world", "anyone"))]
    await zk.create("/exclusive", acl=acl)
    with caplog.at_level(logging.CRITICAL), pytest.raises(NoAuthError):
        async with SingleNodeLock(zk, PATH, acl=acl):
            assert denied is Perms.DELETE
    await zk.cleanup.idle()
    assert (owner(lab) is not None) == (denied is Perms.DELETE), "an operator has to look after that one"
    await trio.sleep(1)
    assert zk.watch_count == lab.watch_count == 0


async def test_a_closed_client_says_so_at_once(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as zk:
        lock = SingleNodeLock(zk, PATH)
    with pytest.raises(ClosingError), trio.fail_after(1):
        await lock.acquire()


async def test_a_client_that_closes_lets_go(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with lab.connect() as closing:
        grant = await SingleNodeLock(closing, PATH).acquire()
    with pytest.raises(LockLost) as caught:
        await grant.release()
    assert caught.value.reason is LossReason.CLIENT_CLOSED
    with pytest.raises(NoNodeError):
        await zk.get(PATH)
    await free(lab, zk)
