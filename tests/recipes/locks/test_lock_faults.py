"""Whatever goes wrong (recipe-rules.md D.13, column "Lock / RWLock / Election"): the lock excludes, the queue
goes on, and nothing is left behind. The faults that all holders share are in test_holder_faults.py."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    ACL,
    ClosingError,
    Id,
    NoAuthError,
    NoNodeError,
    Perms,
    SessionExpiredError,
    SetData,
    ZooKeeper,
)
from pyzk.protocol.errors import NotReadOnlyError
from pyzk.recipes import Grant, Lock, LockLost, LossReason, RWLock, SequenceExhausted, WouldBlock
from pyzk.recipes.locks.role import LockLayout

from ...support.lab import TICK, Lab, lose_while_stopped

NAMINGS: list[LockLayout] = ["curator", "both"]
CREATE: dict[LockLayout, str] = {"curator": "create", "both": "multi"}
DELETE: dict[LockLayout, str] = {"curator": "delete", "both": "multi"}


async def nodes(lab: Lab) -> int:
    return len([path for path in lab.server.dump() if path.startswith("/lock/")])


async def settle(lab: Lab, *clients: ZooKeeper) -> None:
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)


async def free(lab: Lab, *clients: ZooKeeper) -> None:
    """Nothing is left: no znode, no watch."""
    await settle(lab, *clients)
    assert await nodes(lab) == 0
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


@pytest.mark.row("F1", "F2", "F3")
@pytest.mark.parametrize("layout", NAMINGS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_create_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, layout: LockLayout
) -> None:
    """One znode comes of it, found by an empty transaction and a list where the reply was lost (F3: the
    transaction is what makes a lagging follower safe, and a leader that waits for others)."""
    await zk.create("/lock")
    with lab.server.fault(op=CREATE[layout], path="/lock/*", when=when, action="disconnect"):
        async with Lock(zk, "/lock", layout=layout) as grant:
            assert await nodes(lab) == len(grant.paths)
            with pytest.raises(WouldBlock):
                await Lock(await lab.client(), "/lock", layout=layout).acquire(wait=False)
    sequence = [entry.op for entry in lab.server.history(kind="request", session=zk.session.id)]
    if when == "after":
        lost = sequence.index(CREATE[layout], 1)
        assert sequence[lost + 1 : lost + 3] == ["multi", "get_children"]
    await free(lab, zk)


@pytest.mark.row("F2")
@pytest.mark.parametrize("layout", NAMINGS)
async def test_a_second_znode_that_turns_up_later_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: LockLayout
) -> None:
    other = await lab.client()
    async with Lock(other, "/lock") as held, trio.open_nursery() as nursery:
        nursery.start_soon(hold_until_cancelled, Lock(zk, "/lock", layout=layout))
        await trio.sleep(1)
        path = next(path for path in lab.server.dump("/lock") if path.endswith("1"))
        await zk.create(path[:-10], ephemeral=True, sequential=True)
        await other.set(held.path, b"x")  # it looks again
        await trio.sleep(1)
        assert path in lab.server.dump()
        assert await nodes(lab) == (2 if layout == "curator" else 3)
        nursery.cancel_scope.cancel()
    await free(lab, zk, other)


async def hold_until_cancelled(lock: Lock) -> None:
    async with lock:
        await trio.sleep_forever()


@pytest.mark.row("F4", "F5")
@pytest.mark.parametrize("layout", NAMINGS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_delete_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, layout: LockLayout
) -> None:
    lock = Lock(zk, "/lock", layout=layout)
    async with lock:
        fault = lab.server.fault(op=DELETE[layout], path="/lock/*", when=when, action="disconnect")
        fault.__enter__()
    fault.__exit__(None, None, None)
    assert fault.fired == 1
    await free(lab, zk)


@pytest.mark.row("F6")
async def test_the_session_expires_while_creating(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/lock")
    first = zk.session.id
    async with trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(first)

        nursery.start_soon(expire)
        with lab.server.fault(op="create", when="after", action="delay", seconds=5):
            async with Lock(zk, "/lock") as grant:
                assert grant.retries == 1
                assert grant.session_id == zk.session.id != first
                assert await nodes(lab) == 1
    await free(lab, zk)


async def wait_in_queue(
    lab: Lab, zk: ZooKeeper, other: ZooKeeper, meanwhile: Callable[[Grant], Awaitable[None]], **options: Any
) -> Grant:
    """``other`` holds the lock, ``zk`` waits, something happens, ``other`` lets go."""
    won = []
    async with trio.open_nursery() as nursery:
        holding = await Lock(other, "/lock").acquire()

        async def contend() -> None:
            async with Lock(zk, "/lock", **options) as grant:
                won.append(grant)
                await grant.verify()

        nursery.start_soon(contend)
        await trio.sleep(1)
        await meanwhile(holding)
        await trio.sleep(1)
        assert won == []
        await holding.release()
    await free(lab, zk, other)
    return won[0]


@pytest.mark.row("F7")
async def test_the_session_expires_while_waiting(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async def expire(holding: Grant) -> None:
        lab.server.expire(zk.session.id)

    grant = await wait_in_queue(lab, zk, await lab.client(), expire)
    assert grant.retries == 1
    assert grant.sequence == 2, "at the end of the queue"


@pytest.mark.row("F7")
async def test_on_request_an_expiry_while_waiting_is_raised(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Lock(other, "/lock"), trio.open_nursery() as nursery:

        async def expire() -> None:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)

        nursery.start_soon(expire)
        with pytest.raises(SessionExpiredError):
            await Lock(zk, "/lock", on_session_loss="raise").acquire()
        assert await nodes(lab) == 1
    await free(lab, zk, other)


@pytest.mark.row("F8")
async def test_the_session_expires_while_holding(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    before = lab.requests(zk)["delete"]
    with pytest.raises(LockLost) as caught:
        async with Lock(zk, "/lock") as grant:
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is grant.reason is LossReason.SESSION_EXPIRED
    await zk.session.wait_connected()
    assert lab.requests(zk)["delete"] == before, "nothing of it is the new session's business"
    async with Lock(zk, "/lock") as again:
        assert again.token > grant.token


@pytest.mark.row("F8", "E-14")
async def test_a_lost_lock_is_not_entered_again(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Curator's mutex lets its thread in again."""
    lock = Lock(zk, "/lock", reentrant=True)
    with pytest.raises(LockLost):
        async with lock:
            lab.server.expire(zk.session.id)
            with trio.CancelScope(shield=True):
                await zk.session.expired.wait()
                await zk.session.wait_connected()
                with pytest.raises(LockLost):
                    await lock.acquire()
    async with lock:
        assert await nodes(lab) == 1


@pytest.mark.row("F9")
async def test_the_session_expires_while_releasing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    session = zk.session.id
    async with Lock(zk, "/lock"):
        fault = lab.server.fault(op="delete", when="before", action="delay", seconds=30)
        fault.__enter__()
    assert trio.current_time() < 5, "it does not wait for ever"
    lab.server.expire(session)
    fault.__exit__(None, None, None)
    await zk.session.wait_connected()
    await free(lab, zk)


@pytest.mark.row("F14")
async def test_a_holder_that_gave_up_does_not_block_when_its_session_lives_on(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(LockLost) as caught:
        async with Lock(zk, "/lock", suspended="cancel"):
            lab.server.disconnect(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SUSPENDED
    await zk.session.wait_connected()
    await free(lab, zk)
    assert zk.session.generation == 1


@pytest.mark.row("F15")
async def test_an_operator_deletes_the_waiters_znode(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()

    async def delete(holding: Grant) -> None:
        [name] = [name for name in await other.get_children("/lock") if not holding.path.endswith(name)]
        await other.delete(f"/lock/{name}")

    grant = await wait_in_queue(lab, zk, other, delete)
    assert (grant.retries, grant.sequence) == (1, 2)


@pytest.mark.row("F15")
async def test_half_of_a_bridge_is_as_good_as_none(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()

    async def delete(holding: Grant) -> None:
        [name] = [name for name in await other.get_children("/lock") if name.startswith("z")]
        await other.delete(f"/lock/{name}")
        lab.server.disconnect(zk.session.id)

    grant = await wait_in_queue(lab, zk, other, delete, layout="both")
    assert grant.retries == 1


@pytest.mark.row("F15")
async def test_an_operator_deletes_the_holders_znode(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with Lock(zk, "/lock") as grant:
            await other.delete(grant.path)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    await free(lab, zk, other)


@pytest.mark.row("F16")
async def test_an_operator_deletes_the_predecessor(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    clients = [await lab.client() for _ in range(4)]
    order = []
    async with trio.open_nursery() as nursery:

        async def use(zk: ZooKeeper, number: int) -> None:
            async with Lock(zk, "/lock"):
                order.append(number)
                await trio.sleep(10)

        for number, client in enumerate(clients):
            nursery.start_soon(use, client, number)
            await trio.sleep(0.1)
        names = sorted(await zk.get_children("/lock"), key=lambda name: name[-10:])
        await zk.delete(f"/lock/{names[2]}")
    assert order == [0, 1, 3, 2]
    await free(lab, zk, *clients)


@pytest.mark.row("F17")
async def test_the_parent_is_deleted(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Containers go with their last child, at any moment (recipe-rules.md 0.15)."""
    lock = Lock(zk, "/a/b/lock")
    async with lock as first:
        pass
    await zk.delete("/a", recursive=True)
    with pytest.raises(LockLost) as caught:
        async with lock as second:
            assert second.sequence == first.sequence == 0
            assert second.token > first.token
            await zk.delete("/a", recursive=True)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED


@pytest.mark.row("F17")
async def test_a_new_container_may_be_gone_before_its_first_child(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/lock")
    with lab.server.fault(op="create", path="/lock/*", action="error", error=NoNodeError, times=3):
        async with Lock(zk, "/lock"):
            assert await nodes(lab) == 1


@pytest.mark.row("F18")
async def test_foreign_children_do_not_count(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.load({"/lock/0": b"", "/lock/-x": b"", "/lock/leases": b"", "/lock/junk0000000000": b""})
    async with Lock(zk, "/lock"), trio.open_nursery() as nursery:
        with pytest.raises(WouldBlock):
            await Lock(await lab.client(), "/lock").acquire(wait=False)
        nursery.cancel_scope.cancel()


@pytest.mark.row("F19")
async def test_a_process_that_was_stopped_learns_it_at_the_first_checkpoint(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await lose_while_stopped(autojump_clock, Lock(zk, "/lock"))


@pytest.mark.row("F20")
@pytest.mark.parametrize("layout", NAMINGS)
async def test_cancelled_at_every_step(autojump_clock: MockClock, lab: Lab, layout: LockLayout) -> None:
    """Every reply takes a second, and the caller has had enough after half a second, one and a half, ..."""
    zk, other = await lab.client(), await lab.client()
    await zk.create("/lock")
    cancelled = 0
    for steps in range(8):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold_for, Lock(other, "/lock"), 2.2)
                await trio.sleep(0.1)
                with trio.move_on_after(steps + 0.4) as scope:
                    async with Lock(zk, "/lock", layout=layout):
                        pass
                cancelled += scope.cancelled_caught
        await trio.sleep(5)
        await free(lab, zk, other)
        assert zk.session.generation == 1
    assert cancelled >= 5


async def hold_for(lock: Lock, seconds: float) -> None:
    async with lock:
        await trio.sleep(seconds)


@pytest.mark.row("F20")
async def test_cancelled_without_a_connection_returns_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Lock(other, "/lock"):
        with trio.move_on_after(8):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold_until_cancelled, Lock(zk, "/lock"))
                await trio.sleep(0.5)
                lab.cut_off(zk)
        assert trio.current_time() < 8.1
        assert await nodes(lab) == 2
        lab.let_through(zk)
        await zk.session.wait_connected()
        await settle(lab, zk)
        assert await nodes(lab) == 1
    assert zk.session.generation == 1


@pytest.mark.row("F21")
@pytest.mark.parametrize("denied", [Perms.CREATE, Perms.DELETE, Perms.READ])
async def test_what_is_denied_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, denied: Perms, caplog: pytest.LogCaptureFixture
) -> None:
    everybody = Id("world", "anyone")
    await zk.create("/lock", acl=[ACL(Perms.ALL & ~denied, everybody)])
    with caplog.at_level(logging.CRITICAL), pytest.raises(NoAuthError):
        async with Lock(zk, "/lock"):
            assert denied is Perms.DELETE
    await settle(lab, zk)
    assert await nodes(lab) == (denied is Perms.DELETE), "an operator has to look after that one"


@pytest.mark.row("F22")
async def test_a_read_only_server_grants_nothing(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The client never asks to be served by one, so that it is refused and waits for another; what is refused
    as a write all the same is said at once."""
    await zk.create("/lock")
    with (
        lab.server.fault(op="create", action="error", error=NotReadOnlyError, times=None),
        pytest.raises(NotReadOnlyError),
    ):
        await Lock(zk, "/lock").acquire()
    await free(lab, zk)


@pytest.mark.row("F23")
async def test_a_predecessor_whose_data_keep_changing_is_waited_for(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()

    async def change(holding: Grant) -> None:
        for _ in range(1000):
            await other.set(holding.path, b"again")
        await trio.sleep(1)

    events = zk.event_count
    before = lab.requests(zk)
    await wait_in_queue(lab, zk, other, change)
    lists = (lab.requests(zk) - before)["get_children"]
    assert lists <= zk.event_count - events + 2
    assert lists > 3


@pytest.mark.row("F24")
async def test_numbers_run_out_in_a_read_write_lock_too(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    lab.count_children("/lock", 2147483646)
    async with RWLock(zk, "/lock").write():
        pass
    with pytest.raises(SequenceExhausted):
        await RWLock(zk, "/lock").read().acquire()
    await free(lab, zk)


async def test_a_closed_client_says_so_at_once(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as zk:
        lock = Lock(zk, "/lock")
    with pytest.raises(ClosingError), trio.fail_after(1):
        await lock.acquire()


async def test_the_own_exception_of_the_body_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Lock(zk, "/lock"):
            raise ZeroDivisionError
    await free(lab, zk)


async def test_the_default_client_ends_the_body_too(autojump_clock: MockClock, lab: Lab) -> None:
    with pytest.raises(LockLost) as caught:
        async with lab.connect(on_expired="cancel") as zk, Lock(zk, "/lock"):
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED


@pytest.mark.row("F24")
@pytest.mark.parametrize("created", [2147483645, 2147483646])
async def test_neither_half_of_a_bridge_may_have_the_last_number(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, created: int
) -> None:
    """The next of kazoo's would have it too, and would not wait for ours."""
    lab.count_children("/lock", created)
    if created == 2147483645:
        async with Lock(zk, "/lock", layout="both") as grant:
            assert [path[-10:] for path in grant.paths] == ["2147483645", "2147483646"]
    else:
        with pytest.raises(SequenceExhausted):
            await Lock(zk, "/lock", layout="both").acquire()
    await free(lab, zk)


@pytest.mark.row("F21")
async def test_what_cannot_be_released_does_not_hide_what_the_body_raised(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/lock", acl=[ACL(Perms.ALL & ~Perms.DELETE, Id("world", "anyone"))])
    with caplog.at_level(logging.CRITICAL), pytest.raises(ZeroDivisionError) as caught:
        async with Lock(zk, "/lock"):
            raise ZeroDivisionError
    assert any("NoAuthError" in note for note in caught.value.__notes__)


@pytest.mark.row("F21")
async def test_a_holder_that_may_not_look_any_more_goes_on(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Lock(zk, "/lock") as grant:
        changed = other.submit(SetData(grant.path, b"changed"))
        await other.set_acl(grant.path, [ACL(Perms.ALL & ~Perms.READ, Id("world", "anyone"))])
        await changed.wait()
        await trio.sleep(60)
    assert grant.reason is None
    await free(lab, zk, other)
