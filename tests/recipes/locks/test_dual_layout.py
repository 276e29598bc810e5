"""The two znodes of ``layout="both"``: Curator and kazoo each look for one of them, so it takes both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import NoNodeError, SetData, ZooKeeper
from pyzk.recipes import Lock, LockLost, LockRevoked, LossReason, RWLock, WriteGrant, revoke

from ...support.lab import TICK, Lab

PATH = "/lock"

SIDES: dict[str, Callable[[ZooKeeper], Lock]] = {
    "lock": lambda zk: Lock(zk, PATH, layout="both"),
    "reader": lambda zk: RWLock(zk, PATH, layout="both").read(),
    "writer": lambda zk: RWLock(zk, PATH, layout="both").write(),
}
both_halves = pytest.mark.parametrize("half", [0, 1])


async def free(lab: Lab, *clients: ZooKeeper) -> None:
    """Nothing is left: no znode, no watch."""
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert lab.server.dump(PATH) == {PATH: b""}
    assert (lab.watch_count, *(zk.watch_count for zk in clients)) == (0,) * (1 + len(clients))


@both_halves
@pytest.mark.parametrize("side", SIDES)
async def test_the_loss_of_either_half_ends_the_body(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, side: str, half: int
) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with SIDES[side](zk) as grant:
            await other.delete(grant.paths[half])
            with trio.fail_after(1):
                await trio.sleep_forever()
    assert caught.value.reason is grant.reason is LossReason.NODE_DELETED
    assert grant.lost.is_set()
    await free(lab, zk, other)


@both_halves
async def test_a_body_that_ends_with_the_loss_is_told(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    """The event is there, but nobody has had the time to act on it."""
    with pytest.raises(LockLost):
        async with Lock(zk, PATH, layout="both") as grant:
            await zk.delete(grant.paths[half])
    await free(lab, zk)


@both_halves
async def test_what_happens_to_a_half_during_an_absence_is_told(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with Lock(zk, PATH, layout="both") as grant:
            lab.cut_off(zk)
            lab.server.disconnect(zk.session.id)
            await other.delete(grant.paths[half])
            await other.create(grant.paths[half])
            lab.let_through(zk)
            with trio.fail_after(5):
                await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    await free(lab, zk, other)


@both_halves
async def test_verifying_asks_for_both(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int) -> None:
    grant = await Lock(zk, PATH, layout="both", monitor=False).acquire()
    await grant.verify()
    await zk.delete(grant.paths[half])
    with pytest.raises(LockLost):
        await grant.verify()
    with pytest.raises(LockLost):
        await grant.release()
    await free(lab, zk)


@both_halves
async def test_a_transaction_is_fenced_by_both(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    other = await lab.client()
    await zk.create("/guarded")
    grant = await Lock(zk, PATH, layout="both", monitor=False).acquire()
    with pytest.raises(ValueError, match=r"grant\.fences\(\)"):
        grant.fence()
    await zk.multi([*grant.fences(), SetData("/guarded", b"mine")])
    await other.delete(grant.paths[half])
    with pytest.raises(NoNodeError) as caught:
        await zk.multi([*grant.fences(), SetData("/guarded", b"late")])
    assert caught.value.index == half
    assert (await zk.get("/guarded"))[0] == b"mine"
    await grant.release()
    await free(lab, zk, other)


async def test_one_znode_has_one_fence(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with Lock(zk, PATH) as grant:
        assert grant.fences() == [grant.fence()]


@both_halves
async def test_either_half_can_be_asked_for_it(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    other = await lab.client()
    with pytest.raises(LockRevoked):
        async with Lock(zk, PATH, layout="both", on_revoke="cancel") as grant:
            await revoke(other, grant.paths[half])
            with trio.fail_after(1):
                await trio.sleep_forever()
    await free(lab, zk, other)


@both_halves
async def test_a_writer_that_has_become_a_reader_needs_both_halves(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    other = await lab.client()
    with pytest.raises(LockLost) as caught:
        async with RWLock(zk, PATH, layout="both").write() as grant:
            assert isinstance(grant, WriteGrant)
            async with grant.downgrade() as reading:
                await zk.multi([*reading.fences(), SetData("/", b"")])
                await other.delete(reading.paths[half])
                with trio.fail_after(1):
                    await trio.sleep_forever()
    assert caught.value.reason is LossReason.NODE_DELETED
    await free(lab, zk, other)


@both_halves
async def test_what_is_passed_on_needs_both_halves(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    lock = Lock(zk, PATH, layout="both", local_queue=True, max_handoffs=1, on_revoke="cancel")
    other = await lab.client()

    async def second() -> None:
        with pytest.raises(LockRevoked):
            async with lock as grant:
                assert lock.statistics().local_handoffs == 1
                await revoke(other, grant.paths[half])
                with trio.fail_after(1):
                    await trio.sleep_forever()

    async with trio.open_nursery() as nursery, lock:
        nursery.start_soon(second)
        await trio.sleep(1)
    await free(lab, zk, other)


@both_halves
async def test_a_waiter_with_half_a_bridge_begins_anew_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, half: int
) -> None:
    other = await lab.client()
    async with Lock(other, PATH) as holding, trio.open_nursery() as nursery:

        async def wait() -> None:
            async with Lock(zk, PATH, layout="both"):
                pass

        nursery.start_soon(wait)
        await trio.sleep(1)
        waiting = sorted(set(lab.server.dump(PATH)) - {PATH, holding.path})
        await other.delete(waiting[half])
        await trio.sleep(1)
        anew = set(lab.server.dump(PATH)) - {PATH, holding.path}
        assert len(anew) == 2
        assert anew.isdisjoint(waiting)
        await holding.release()
    await free(lab, zk, other)


@pytest.mark.parametrize(("monitor", "requests"), [(True, 5), (False, 4)])
async def test_what_it_costs(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, monitor: bool, requests: int
) -> None:
    """A transaction, a list, a read of each half (without watches one, to have the token), a transaction."""
    async with Lock(zk, PATH):
        pass
    before = lab.requests(zk)
    async with Lock(zk, PATH, layout="both", monitor=monitor):
        pass
    assert (lab.requests(zk) - before).total() == requests
