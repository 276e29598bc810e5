"""What is held is given up before anybody else can have it, and the code that relies on it is told why."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    Check,
    ConnectionLossError,
    NoNodeError,
    SessionExpiredError,
    SetData,
    ZooKeeper,
)
from pyzk.client.repeating import repeat
from pyzk.recipes.base.bound import Bound
from pyzk.recipes.base.ownership import Ownership
from pyzk.recipes.errors import LockLost, LossReason

from ...support.lab import SESSION_TIMEOUT, Lab


async def ownership_of(zk: ZooKeeper, *, guard: bool = True, **options: object) -> Ownership:
    await zk.create("/mine", b"", ephemeral=True)
    _, _, node = await zk.get_and_watch("/mine")
    ownership = Ownership(Bound(zk), "/mine", **options)  # type: ignore[arg-type]
    if guard:
        ownership.guard(node)
    return ownership


async def test_the_lease_ends_before_the_session(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ownership = await ownership_of(zk)
    lab.cut_off(zk)
    with pytest.raises(LockLost) as caught, ownership.scope():
        await trio.sleep_forever()
    assert caught.value.reason is LossReason.LEASE_EXPIRED
    assert "/mine" in lab.server.dump(), "the server has not ended the session yet"
    await ownership.end()


async def test_an_ownership_goes_on_while_the_server_answers(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    with ownership.scope():
        await trio.sleep(1000)
        lab.server.disconnect(zk.session.id)
        await trio.sleep(1000)
    assert ownership.reason is None
    await ownership.end()


async def test_a_session_that_expires_ends_the_ownership(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    lab.server.expire(zk.session.id)
    with pytest.raises(LockLost) as caught, ownership.scope():
        await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    await ownership.end()


async def test_a_deleted_znode_ends_the_ownership(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ownership = await ownership_of(zk)
    other = await lab.client()
    await other.set("/mine", b"changed")
    with pytest.raises(LockLost) as caught, ownership.scope():
        await trio.sleep(1)
        await other.delete("/mine")
        await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    await ownership.end()


async def test_a_znode_of_another_owner_ends_the_ownership(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    other = await lab.client()
    lab.server.disconnect(zk.session.id)
    await other.delete("/mine")
    await other.create("/mine", b"", ephemeral=True)
    with pytest.raises(LockLost) as caught, ownership.scope():
        await trio.sleep(60)
    assert caught.value.reason is LossReason.NODE_DELETED
    await ownership.end()


async def test_a_short_loss_of_connection_ends_the_ownership_only_on_request(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk, suspended="cancel")
    with pytest.raises(LockLost) as caught, ownership.scope():
        lab.server.disconnect(zk.session.id)
        await trio.sleep_forever()
    assert caught.value.reason is LossReason.SUSPENDED
    await ownership.end()


async def test_a_process_that_stood_still_does_not_go_on(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Its body and all that watches over it wake at the same moment, in any order."""
    for _ in range(30):
        ownership = await ownership_of(zk)
        steps = []

        async def work(steps: list[float]) -> None:
            while True:
                await trio.sleep(0.01)
                steps.append(trio.current_time())

        with pytest.raises(LockLost) as caught, ownership.scope():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, steps)
                await trio.sleep(1)
                deadline = ownership.deadline()
                autojump_clock.jump(deadline + 0.5 - trio.current_time())
                await trio.sleep_forever()
        assert caught.value.reason is LossReason.LEASE_EXPIRED
        assert max(steps) < deadline
        await ownership.end()
        await repeat(zk, partial(zk.delete, "/mine"))


async def test_a_lease_that_was_over_does_not_come_back(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """The server's answer was on its way all the time, but who knows what has happened meanwhile."""
    ownership = await ownership_of(zk)
    with pytest.raises(LockLost), ownership.scope():
        await trio.sleep(1)
        autojump_clock.jump(ownership.deadline() - trio.current_time())
        await zk.sync("/")
    assert ownership.reason is LossReason.LEASE_EXPIRED
    assert zk.session.lease_deadline() > trio.current_time()
    await ownership.end()


async def test_the_scopes_of_one_that_was_given_up_have_no_deadline(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    with ownership.scope():
        await ownership.end()
        lab.cut_off(zk)
        await trio.sleep(5 * SESSION_TIMEOUT)
    assert ownership.reason is None


async def test_an_ownership_does_not_begin_with_a_stale_lease(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Who waited for long has only pinged, which proves nothing."""
    await zk.create("/mine", b"", ephemeral=True)
    await trio.sleep(100)
    bound = Bound(zk)
    assert zk.session.lease_deadline() < trio.current_time()
    asked = trio.current_time()
    await bound.confirm()
    assert zk.session.lease_deadline() > trio.current_time() + 0.3 * SESSION_TIMEOUT
    assert trio.current_time() - asked < 0.1 * SESSION_TIMEOUT, "one answer of the leader was enough"
    ownership = Ownership(bound, "/mine")
    ownership.guard()
    with ownership.scope():
        await trio.sleep(100)
    await ownership.end()


async def test_the_lease_is_kept_for_as_long_as_asked_for(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    def moved() -> None:
        """Both have the same function called."""

    stops = [zk.keep_lease(moved), zk.keep_lease(moved)]
    for stop in stops:
        await trio.sleep(2 * SESSION_TIMEOUT)
        assert zk.session.lease_deadline() > trio.current_time()
        stop()
        stop()
    await trio.sleep(2 * SESSION_TIMEOUT)
    assert zk.session.lease_deadline() < trio.current_time(), "nobody needs it"


async def test_an_ownership_can_be_kept_until_the_server_says_no(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk, suspended="ignore")
    with pytest.raises(LockLost) as caught, ownership.scope():
        lab.cut_off(zk)
        await trio.sleep(60)
        lab.let_through(zk)
        await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    assert trio.current_time() > 60
    await ownership.end()


async def test_a_body_that_ends_too_late_is_told(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ownership = await ownership_of(zk, guard=False)
    lab.cut_off(zk)
    with pytest.raises(LockLost), ownership.scope(), trio.CancelScope(shield=True):
        await trio.sleep(30)


async def test_what_the_body_raises_is_not_hidden(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ownership = await ownership_of(zk)
    lab.server.expire(zk.session.id)
    with pytest.raises(ValueError, match="mine") as caught, ownership.scope():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")
    assert any("expired" in note for note in caught.value.__notes__)
    await ownership.end()


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_call_that_fails_because_the_session_has_expired_tells_of_the_loss(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, grouped: bool
) -> None:
    ownership = await ownership_of(zk)

    async def write() -> None:
        while True:
            with suppress(ConnectionLossError):
                await zk.set("/mine", b"")

    with pytest.raises(LockLost) as caught, ownership.scope():
        lab.server.restart(keep_data=False)
        if grouped:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                nursery.start_soon(write)
        else:
            await write()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    cause = caught.value.__cause__
    assert isinstance(cause, BaseExceptionGroup if grouped else SessionExpiredError)
    await ownership.end()


async def test_a_fence_that_fails_tells_of_the_loss(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Even of an ownership whose znode nobody watches."""
    ownership = await ownership_of(zk, guard=False)
    ownership.guard()
    other = await lab.client()
    await zk.create("/guarded")
    with pytest.raises(LockLost) as caught, ownership.scope():
        await other.delete("/mine")
        await zk.multi([Check("/mine"), SetData("/guarded", b"...")])
    assert caught.value.reason is LossReason.NODE_DELETED
    assert isinstance(caught.value.__cause__, NoNodeError)
    assert ownership.lost.is_set()
    await ownership.end()


async def test_a_missing_znode_of_another_is_no_loss(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    with pytest.raises(NoNodeError, match="/theirs"), ownership.scope():
        await zk.get("/theirs")
    ownership.check()
    await ownership.end()


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_body_that_writes_after_the_loss_raises_the_same_as_one_that_does_not(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, writes: bool, grouped: bool
) -> None:
    ownership = await ownership_of(zk)
    lab.cut_off(zk)

    async def work() -> None:
        with trio.CancelScope(shield=True):
            await ownership.lost.wait()
            if writes:
                await zk.set("/mine", b"")

    with pytest.raises(LockLost) as caught, ownership.scope():
        if grouped:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
        else:
            await work()
    assert caught.value.reason is LossReason.LEASE_EXPIRED
    assert (caught.value.__cause__ is not None) is writes
    await ownership.end()


async def test_a_connection_that_is_lost_before_the_ownership_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    with lab.server.fault(op="set_data", when="after"), pytest.raises(ConnectionLossError), ownership.scope():
        await zk.set("/mine", b"")
    ownership.check()
    await ownership.end()


async def test_the_expiry_of_another_session_is_no_loss(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    with pytest.raises(SessionExpiredError), ownership.scope():
        raise SessionExpiredError
    ownership.check()
    await ownership.end()


async def test_what_else_the_body_raises_beside_the_expiry_is_not_hidden(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    lab.server.expire(zk.session.id)
    await ownership.lost.wait()
    with pytest.raises(ExceptionGroup) as caught, ownership.scope():
        raise ExceptionGroup("of two tasks", [SessionExpiredError(), ValueError("mine")])
    assert any("expired" in note for note in caught.value.__notes__)
    await ownership.end()


async def test_a_cancelled_body_stays_cancelled(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ownership = await ownership_of(zk)
    with trio.move_on_after(1) as scope, ownership.scope():
        await trio.sleep_forever()
    assert scope.cancelled_caught
    await ownership.end()


async def test_a_closed_client_holds_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with trio.open_nursery() as nursery:
        reasons = []

        async def holder(ownership: Ownership, task_status: trio.TaskStatus[None]) -> None:
            try:
                with ownership.scope():
                    task_status.started()
                    await trio.sleep_forever()
            except LockLost as error:
                reasons.append(error.reason)

        async with lab.connect() as own:
            await nursery.start(holder, await ownership_of(own))
    assert reasons == [LossReason.CLIENT_CLOSED]


async def test_closing_ends_what_other_tasks_hold_before_the_server_ends_the_session(
    autojump_clock: MockClock, lab: Lab
) -> None:
    cancelled: list[float] = []

    async def rely(zk: ZooKeeper, task_status: trio.TaskStatus[None]) -> None:
        ownership = await ownership_of(zk)
        with suppress(LockLost), ownership.scope():
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                cancelled.append(trio.current_time())

    async with trio.open_nursery() as outside:
        with lab.server.fault(op="close_session", when="before", action="delay", seconds=0.5):
            async with lab.connect() as zk:
                await outside.start(rely, zk)
                closing = trio.current_time()
    assert cancelled == [closing]


async def test_a_body_that_begins_too_late_does_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    ownership = await ownership_of(zk)
    await trio.sleep(1)
    autojump_clock.jump(2 * SESSION_TIMEOUT)
    with pytest.raises(LockLost) as caught, ownership.scope():
        await trio.sleep(0)
        pytest.fail("it is over")
    assert caught.value.reason is LossReason.LEASE_EXPIRED
    await ownership.end()
