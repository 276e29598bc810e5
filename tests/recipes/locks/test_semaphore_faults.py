"""Whatever goes wrong (recipe-rules.md D.13, column "Semaphore"; traps E-34 to E-36): there are never more
leases than the limit, the queue goes on, and nothing is left behind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, NoNodeError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes import Grant, LockLost, LossReason, SequenceExhausted, WouldBlock
from pyzk.recipes.locks.semaphore import Semaphore
from pyzk.recipes.locks.semaphore_layouts import SemaphoreLayout

from ...support.lab import Lab, lose_while_stopped
from .semaphores import GATE, LEASES, both_layouts, children, free

both_times = pytest.mark.parametrize("when", ["before", "after"])


def leases(lab: Lab, layout: SemaphoreLayout = "curator") -> int:
    return len(children(lab, LEASES[layout]))


# --- F1 to F5: the connection is lost -----------------------------------------------------------------------


@pytest.mark.row("F1", "F2", "F3")
@both_layouts
@both_times
@pytest.mark.parametrize("count", [1, 3])
async def test_creating_leases_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, when: Any, count: int
) -> None:
    """They are there once, found by an empty transaction and a list where the reply was lost (F3: the
    transaction is what makes a lagging follower safe, and a leader that waits for others)."""
    semaphore = Semaphore(zk, "/pool", 3, layout=layout)
    async with semaphore:
        pass
    with lab.server.fault(op="multi", when=when, action="disconnect"):
        async with semaphore.acquire_many(count) as held:
            assert sorted(lease.path for lease in held) == sorted(children(lab, LEASES[layout]))
            assert len(held) == count
    sequence = [entry.op for entry in lab.server.history(kind="request", session=zk.session.id)]
    lost = sequence.index("multi", sequence.index("multi") + 1)
    following = ["set_watches", "multi", "get_children", "exists" if when == "after" else "multi"]
    assert sequence[lost + 1 : lost + 5] == following
    await free(lab, layout, zk)


@pytest.mark.row("F1", "F2", "F3")
@both_layouts
@both_times
async def test_creating_at_the_gate_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, when: Any
) -> None:
    async with Semaphore(zk, "/pool", 1, layout=layout):
        pass
    with lab.server.fault(op="create", path=f"{GATE[layout]}/*", when=when, action="disconnect"):
        async with Semaphore(zk, "/pool", 1, layout=layout):
            assert children(lab, GATE[layout]) == []
    await free(lab, layout, zk)


@pytest.mark.row("F4", "F5")
@both_layouts
@both_times
@pytest.mark.parametrize("what", ["lease", "gate"])
async def test_deleting_and_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, when: Any, what: str
) -> None:
    parent = LEASES[layout] if what == "lease" else GATE[layout]
    with lab.server.fault(op="delete", path=f"{parent}/*", when=when, action="disconnect"):
        async with Semaphore(zk, "/pool", 1, layout=layout) as lease:
            await lease.verify()
        await free(lab, layout, zk)


# --- F6 to F9: the session expires --------------------------------------------------------------------------


async def expire_after(lab: Lab, zk: ZooKeeper, seconds: float) -> None:
    session = zk.session.id
    await trio.sleep(seconds)
    lab.server.expire(session)


@pytest.mark.row("F6")
@both_layouts
async def test_the_session_expires_while_creating(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 1, layout=layout)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expire_after, lab, zk, 1.0)
        with lab.server.fault(op="multi", when="after", action="delay", seconds=5):
            async with semaphore as lease:
                assert lease.retries == 1
                assert lease.session_id == zk.session.id
                assert leases(lab, layout) == 1
    await free(lab, layout, zk)


async def wait_for_a_lease(
    lab: Lab,
    zk: ZooKeeper,
    other: ZooKeeper,
    layout: SemaphoreLayout,
    meanwhile: Callable[[], Awaitable[None]],
    at_the_gate: bool = True,
    **options: Any,
) -> Grant:
    """``other`` has the only lease; ``zk`` waits, at the gate or behind a third; something happens; ``other``
    returns the lease."""
    won: list[Grant] = []
    holding = await Semaphore(other, "/pool", 1, layout=layout).acquire()

    async def contend(client: ZooKeeper, won: list[Grant]) -> None:
        async with Semaphore(client, "/pool", 1, layout=layout, **options) as lease:
            won.append(lease)
            await lease.verify()

    async with trio.open_nursery() as nursery:
        if not at_the_gate:
            nursery.start_soon(contend, other, [])
            await trio.sleep(0.5)
        nursery.start_soon(contend, zk, won)
        await trio.sleep(1)
        await meanwhile()
        await trio.sleep(1)
        assert won == []
        assert leases(lab, layout) == 1
        assert len(children(lab, GATE[layout])) == (1 if at_the_gate else 2), (
            "back in the queue, or still there"
        )
        await holding.release()
    await free(lab, layout, zk, other)
    return won[0]


@pytest.mark.row("F7")
@both_layouts
@pytest.mark.parametrize("at_the_gate", [True, False])
async def test_the_session_expires_while_waiting(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, at_the_gate: bool
) -> None:
    async def expire() -> None:
        lab.server.expire(zk.session.id)

    lease = await wait_for_a_lease(lab, zk, await lab.client(), layout, expire, at_the_gate)
    assert lease.retries == 1
    assert lease.sequence == (2 if at_the_gate else 3), "at the end of the queue"


@pytest.mark.row("F7")
@both_layouts
@pytest.mark.parametrize("at_the_gate", [True, False])
async def test_on_request_an_expiry_while_waiting_is_raised(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, at_the_gate: bool
) -> None:
    other = await lab.client()
    async with Semaphore(other, "/pool", 1, layout=layout), trio.open_nursery() as nursery:
        if not at_the_gate:
            nursery.start_soon(Semaphore(other, "/pool", 1, layout=layout).acquire)
            await trio.sleep(0.1)
        nursery.start_soon(expire_after, lab, zk, 1.0)
        with pytest.raises(SessionExpiredError):
            await Semaphore(zk, "/pool", 1, layout=layout, on_session_loss="raise").acquire()
        nursery.cancel_scope.cancel()
    await free(lab, layout, zk, other)


@pytest.mark.row("F8")
@both_layouts
async def test_the_session_expires_while_holding(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 2, layout=layout)
    with pytest.raises(LockLost) as caught:
        async with semaphore.acquire_many(2) as held:
            before = lab.requests(zk)["delete"]
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    assert all(lease.lost.is_set() for lease in held)
    await zk.session.wait_connected()
    assert lab.requests(zk)["delete"] == before, "nothing of it is the new session's business"
    async with semaphore as again:
        assert again.token > held[1].token
    await free(lab, layout, zk)


@pytest.mark.row("F9")
async def test_the_session_expires_while_releasing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    session = zk.session.id
    fault = lab.server.fault(op="delete", path="/pool/leases/*", action="delay", seconds=30)
    with fault:
        async with Semaphore(zk, "/pool", 1):
            pass
        assert trio.current_time() < 5, "it does not wait for ever"
        lab.server.expire(session)
    await zk.session.wait_connected()
    await free(lab, "curator", zk)


# --- F10 to F14: servers and networks -----------------------------------------------------------------------


@pytest.mark.row("F10", "F11")
@both_layouts
@pytest.mark.parametrize("keep_data", [True, False])
async def test_the_server_restarts_while_holding_and_waiting(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, keep_data: bool
) -> None:
    clients = [await lab.client() for _ in range(3)]
    order = []

    async def use(zk: ZooKeeper, name: str) -> None:
        try:
            async with Semaphore(zk, "/pool", 1, layout=layout):
                order.append(name)
                await trio.sleep(10)
        except LockLost:
            order.append("lost")

    async with trio.open_nursery() as nursery:
        for name, client in zip(("holder", "at the gate", "behind"), clients, strict=True):
            nursery.start_soon(use, client, name)
            await trio.sleep(1)
        lab.server.restart(keep_data=keep_data)
    # Sessions that were forgotten end when their clients hear of it, in any order.
    expected = ["holder", "at the gate", "behind"]
    assert order == expected if keep_data else sorted(order) == sorted([*expected, "lost"])
    await free(lab, layout, *clients)


@pytest.mark.row("F14")
async def test_a_waiter_keeps_its_place_through_a_short_absence(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """At the gate that lasts as long as the session does, and no less: nothing is decided without it."""

    async def be_away() -> None:
        lab.cut_off(zk)
        await trio.sleep_until(zk.session.lease_deadline() - 3)
        lab.let_through(zk)
        lab.server.disconnect(zk.session.id)
        await zk.session.wait_connected()

    lease = await wait_for_a_lease(lab, zk, await lab.client(), "curator", be_away, margin=6)
    assert (lease.retries, lease.sequence) == (0, 1)
    assert zk.session.generation == 1


# --- F15 to F19 ---------------------------------------------------------------------------------------------


@pytest.mark.row("F15")
@both_layouts
async def test_an_operator_deletes_a_lease(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with Semaphore(zk, "/pool", 2, layout=layout).acquire_many(2) as held:
            await other.delete(held[1].path)
            await trio.sleep_forever()
    assert (caught.value.reason, caught.value.path) == (LossReason.NODE_DELETED, held[1].path)
    assert held[0].reason is None
    await free(lab, layout, zk, other)


@pytest.mark.row("F15")
@both_layouts
@pytest.mark.parametrize("at_the_gate", [True, False])
async def test_an_operator_deletes_a_waiter(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, at_the_gate: bool
) -> None:
    async def delete() -> None:
        [path] = [s.ephemerals[0] for s in lab.server.sessions() if s.id == zk.session.id]
        assert path.startswith(GATE[layout])
        await zk.delete(path)

    lease = await wait_for_a_lease(lab, zk, await lab.client(), layout, delete, at_the_gate)
    assert lease.retries == 1


@pytest.mark.row("F15")
@both_layouts
async def test_a_gate_that_is_lost_just_before_the_lease_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    """Somebody else has come through the gate meanwhile, and taken the last lease."""
    other = await lab.client()
    got: list[Grant] = []

    async def contend() -> None:
        got.append(await Semaphore(zk, "/pool", 1, layout=layout).acquire())

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="multi", session=zk.session.id, action="delay", seconds=2):
            nursery.start_soon(contend)
            await trio.sleep(1)
            [gate] = children(lab, GATE[layout])
            await other.delete(gate)
            async with Semaphore(other, "/pool", 1, layout=layout):
                await trio.sleep(5)
                assert got == []
                assert leases(lab, layout) == 1
    assert got[0].retries == 1
    await got[0].release()
    await free(lab, layout, zk, other)


@pytest.mark.row("F15")
@both_layouts
@pytest.mark.parametrize("nth", [1, 2])
async def test_a_lease_that_is_deleted_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, nth: int
) -> None:
    with lab.server.fault(
        op="get_data", path=f"{LEASES[layout]}/*", nth=nth, action="error", error=NoNodeError
    ):
        async with Semaphore(zk, "/pool", 2, layout=layout).acquire_many(2) as held:
            assert held[0].retries == 1
            assert leases(lab, layout) == 2
    await free(lab, layout, zk)


@pytest.mark.row("F17")
@both_layouts
async def test_the_parents_are_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    semaphore = Semaphore(zk, "/pool", 1, layout=layout)

    async def delete_all() -> None:
        for path in [path for path in lab.server.dump() if path.startswith("/pool") and path.count("/") == 1]:
            await zk.delete(path, recursive=True)

    async with semaphore as first:
        pass
    await delete_all()
    with pytest.raises(LockLost) as caught:
        async with semaphore as second:
            assert second.token > first.token
            await delete_all()
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    async with semaphore as third:
        assert third.token > second.token


@pytest.mark.row("F17")
@both_layouts
async def test_the_leases_parent_is_deleted_before_the_lease_is_created(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    other = await lab.client()
    await zk.create("/keep")

    async def delete() -> None:
        await trio.sleep(1)
        await other.delete(LEASES[layout])

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="multi", session=zk.session.id, action="delay", seconds=2):
            nursery.start_soon(delete)
            async with Semaphore(zk, "/pool", 1, layout=layout) as lease:
                assert lease.retries == 0
                assert lab.server.dump().get("/pool") == (b"1" if layout == "kazoo" else b"")
    await free(lab, layout, zk, other)


@pytest.mark.row("F18")
@both_layouts
async def test_strangers_at_the_gate_do_not_count(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    lab.server.load({f"{GATE[layout]}/0": b"", f"{GATE[layout]}/junk0000000000": b""})
    with trio.fail_after(1):
        async with Semaphore(zk, "/pool", 1, layout=layout):
            assert leases(lab, layout) == 1


@pytest.mark.row("F19")
async def test_a_process_that_was_stopped_learns_it_at_the_first_checkpoint(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await lose_while_stopped(autojump_clock, Semaphore(zk, "/pool", 1))


# --- F20 and F21: cancelled, denied -------------------------------------------------------------------------


@pytest.mark.row("F20", "E-34")
@both_layouts
@pytest.mark.parametrize("busy", [True, False])
async def test_cancelled_at_every_step(
    autojump_clock: MockClock, lab: Lab, layout: SemaphoreLayout, busy: bool
) -> None:
    """Every reply takes a second, and the caller has had enough after half a second, one and a half, ..."""
    zk, other = await lab.client(), await lab.client()
    cancelled = 0
    for steps in range(12):
        with lab.server.fault(
            session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
        ):
            async with trio.open_nursery() as nursery:
                if busy:
                    nursery.start_soon(hold_for, Semaphore(other, "/pool", 2, layout=layout), 4.2)
                    await trio.sleep(0.1)
                with trio.move_on_after(steps + 0.4) as scope:
                    async with Semaphore(zk, "/pool", 2, layout=layout).acquire_many(2):
                        pass
                cancelled += scope.cancelled_caught
        await trio.sleep(5)
        await free(lab, layout, zk, other)
        assert zk.session.generation == 1
    assert cancelled >= 7


async def hold_for(semaphore: Semaphore, seconds: float) -> None:
    async with semaphore:
        await trio.sleep(seconds)


@pytest.mark.row("F20", "E-34")
@both_layouts
@pytest.mark.parametrize("busy", [True, False])
async def test_the_connection_is_lost_at_every_step(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout, busy: bool
) -> None:
    """Once without the caller's noticing more than a delay, and once when he has had enough by then."""
    other = await lab.client()
    fired = 0
    for nth in range(1, 14):
        for patience in (100, 0.0):
            with lab.server.fault(
                session=zk.session.id, nth=nth, when="after", action="disconnect", required=False
            ) as fault:
                async with trio.open_nursery() as nursery:
                    if busy:
                        nursery.start_soon(hold_for, Semaphore(other, "/pool", 1, layout=layout), 2)
                        await trio.sleep(0.1)
                    with trio.CancelScope() as scope:
                        nursery.start_soon(lose_patience, fault, patience, scope)
                        async with Semaphore(zk, "/pool", 1, layout=layout) as lease:
                            assert leases(lab, layout) == 1
                            await lease.verify()
                    assert patience == 0 or not scope.cancelled_caught
                    nursery.cancel_scope.cancel()
                fired += fault.fired
            await zk.session.wait_connected()
            await free(lab, layout, zk, other)
    assert fired >= 16


async def lose_patience(fault: Any, seconds: float, scope: trio.CancelScope) -> None:
    while not fault.fired:
        await trio.sleep(0.01)
    await trio.sleep(seconds)
    scope.cancel()


@pytest.mark.row("F20")
@both_layouts
async def test_cancelled_without_a_connection_returns_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    other = await lab.client()
    async with Semaphore(other, "/pool", 1, layout=layout):
        with trio.move_on_after(8):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold_for, Semaphore(zk, "/pool", 1, layout=layout), 1)
                await trio.sleep(0.5)
                lab.cut_off(zk)
        assert trio.current_time() < 8.1
        assert len(children(lab, GATE[layout])) == 1
        lab.let_through(zk)
        await zk.session.wait_connected()
    await free(lab, layout, zk, other)
    assert zk.session.generation == 1


EVERYBODY = Id("world", "anyone")


@pytest.mark.row("F21")
@both_layouts
@pytest.mark.parametrize("where", ["lease", "gate"])
@pytest.mark.parametrize("denied", [Perms.CREATE, Perms.DELETE, Perms.READ])
async def test_what_is_denied_is_said_at_once(
    autojump_clock: MockClock,
    lab: Lab,
    zk: ZooKeeper,
    layout: SemaphoreLayout,
    where: str,
    denied: Perms,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = LEASES[layout] if where == "lease" else GATE[layout]
    if path.count("/") > 1:
        await zk.create("/pool")
    await zk.create(path, b"1", acl=[ACL(Perms.ALL & ~denied, EVERYBODY)])
    entered = False
    with caplog.at_level(logging.CRITICAL), pytest.raises(NoAuthError):
        async with Semaphore(zk, "/pool", 1, layout=layout):
            entered = True
    assert entered == (denied is Perms.DELETE and where == "lease")
    await zk.cleanup.idle()
    left = denied is Perms.DELETE
    assert len(children(lab, path)) == left, "an operator has to look after that one"
    others = GATE[layout] if where == "lease" else LEASES[layout]
    assert children(lab, others) == []
    await trio.sleep(1)
    assert zk.watch_count == lab.watch_count == 0


# --- F24 and the rest ---------------------------------------------------------------------------------------


@pytest.mark.row("F24")
async def test_the_numbers_of_leases_run_out(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.count_children("/pool/leases", 2147483646)
    async with Semaphore(zk, "/pool", 2) as lease:
        assert lease.path.endswith("-lease-2147483646")
    with pytest.raises(SequenceExhausted) as caught:
        await Semaphore(zk, "/pool", 2).acquire()
    assert caught.value.path == "/pool/leases"
    await free(lab, "curator", zk)


@pytest.mark.row("F24")
@both_layouts
async def test_the_numbers_of_the_gate_run_out(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    lab.count_children(GATE[layout], 2147483646)
    async with Semaphore(zk, "/pool", 1, layout=layout):
        pass
    with pytest.raises(SequenceExhausted):
        await Semaphore(zk, "/pool", 1, layout=layout).acquire()
    await free(lab, layout, zk)


@both_layouts
async def test_a_closed_client_says_so_at_once(
    autojump_clock: MockClock, lab: Lab, layout: SemaphoreLayout
) -> None:
    async with lab.connect() as zk:
        semaphore = Semaphore(zk, "/pool", 1, layout=layout)
    with pytest.raises(ClosingError), trio.fail_after(1):
        await semaphore.acquire()


@both_layouts
async def test_a_client_that_closes_lets_nobody_wait_for_ever(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: SemaphoreLayout
) -> None:
    closing: list[ZooKeeper] = []

    async def open_for_a_second(task_status: trio.TaskStatus[None]) -> None:
        async with lab.connect() as client:
            closing.append(client)
            task_status.started()
            await trio.sleep(1)

    async with Semaphore(zk, "/pool", 1, layout=layout), trio.open_nursery() as nursery:
        await nursery.start(open_for_a_second)
        with pytest.raises(ClosingError):
            await Semaphore(closing[0], "/pool", 1, layout=layout).acquire()
    assert trio.current_time() < 2
    await free(lab, layout, zk)


async def test_the_own_exception_of_the_body_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Semaphore(zk, "/pool", 3).acquire_many(2):
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with Semaphore(zk, "/pool", 3):
            raise ZeroDivisionError
    await free(lab, "curator", zk)


@pytest.mark.row("E-34")
async def test_one_who_only_tried_leaves_nothing_when_the_connection_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    async with Semaphore(other, "/pool", 1):
        with lab.server.fault(op="delete", session=zk.session.id, action="disconnect"):
            with pytest.raises(WouldBlock):
                await Semaphore(zk, "/pool", 1).acquire(wait=False)
            await zk.cleanup.idle()
        assert children(lab, "/pool/locks") == []
