"""Whoever has the lease has it alone until its time is over, by the clocks of all."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.errors import ForeignLayout, LockLost
from pyzk.recipes.locks.time_lease import MultiTimeLease, TimeLease, TimeLeaseHolder

from ...support.lab import Lab

NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


def now() -> datetime:
    """The clock on the wall, which shows noon when a test begins."""
    return NOON + timedelta(seconds=trio.current_time())


def lease_of(zk: ZooKeeper, holder: str, duration: float = 60) -> TimeLease:
    return TimeLease(zk, "/lease", duration, holder, now=now)


async def test_one_at_a_time(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    ours, theirs = lease_of(zk, "ours"), lease_of(other, "theirs")
    assert await ours.last_holder() is None
    assert await ours.obtain()
    assert not await theirs.obtain()
    tenancy = await theirs.last_holder()
    assert tenancy is not None
    assert tenancy.name == "ours"
    await trio.sleep(50)
    assert await ours.obtain(), "renewed"
    await trio.sleep(50)
    assert not await theirs.obtain()
    await trio.sleep(10)
    assert await theirs.obtain(), "its time is over"
    assert not await ours.obtain()


async def test_the_layout(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    assert await lease_of(zk, "ours", 90).obtain()
    data, stat = await zk.get("/lease/lease_holder")
    assert data == b'{"version": 1, "holder": "ours", "end": "2024-01-02T12:01:30"}'
    assert stat.ephemeralOwner == 0
    assert await zk.get_children("/lease") == ["lease_holder"], "the lock is released"
    assert await lease_of(zk, "any").last_holder() == TimeLeaseHolder("ours", NOON + timedelta(seconds=90))


async def test_it_outlives_its_holder(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with lab.connect() as own:
        assert await lease_of(own, "theirs").obtain()
    assert not await lease_of(zk, "ours").obtain()
    assert await lease_of(zk, "theirs").obtain(), "the same holder may have it back"


async def test_it_is_given_back(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    ours, theirs = lease_of(zk, "ours"), lease_of(zk, "theirs")
    await ours.release()
    assert await ours.obtain()
    await theirs.release()
    assert not await theirs.obtain(), "nobody gives back what is another's"
    await ours.release()
    assert await theirs.obtain()


async def test_all_at_once(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    obtained = []

    async def attempt(holder: str) -> None:
        if await lease_of(await lab.client(), holder).obtain():
            obtained.append(holder)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(attempt, f"holder {number}")
    tenancy = await lease_of(zk, "any").last_holder()
    assert tenancy is not None
    assert obtained == [tenancy.name]


@pytest.mark.row("F1", "F2")
@pytest.mark.parametrize("renewed", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_while_it_is_written(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str, renewed: bool
) -> None:
    lease = lease_of(zk, "ours")
    if renewed:
        assert await lease.obtain()
    with lab.server.fault(op="multi", when=when, action="disconnect"):  # type: ignore[arg-type]
        assert await lease.obtain()
    assert not await lease_of(zk, "theirs").obtain()


async def test_somebody_writes_without_the_lock(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    assert await lease_of(zk, "ours").obtain()
    taken = b'{"version": 1, "holder": "other", "end": "2099-01-01T00:00:00"}'
    reply = lab.server.fault(
        op="get_data", path="/lease/lease_holder", when="after", action="delay", seconds=1
    )
    with reply:
        async with trio.open_nursery() as nursery:

            async def renew() -> None:
                assert not await lease_of(zk, "ours").obtain()

            nursery.start_soon(renew)
            await trio.sleep(0.5)
            await other.set("/lease/lease_holder", taken)
    assert lab.server.dump()["/lease/lease_holder"] == taken


async def test_the_lock_is_lost_on_the_way(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()

    async def obtain() -> None:
        with pytest.raises(LockLost):
            await lease_of(zk, "ours").obtain()

    with lab.server.fault(op="multi", when="before", action="delay", seconds=1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(obtain)
            await trio.sleep(0.5)
            (contender,) = await other.get_children("/lease")
            assert re.fullmatch(r"[0-9a-f]{32}__lock__\d{10}", contender), "which kazoo waits for"
            await other.delete(f"/lease/{contender}")
        await trio.sleep(1)
    assert await other.get_children("/lease") == []


@pytest.mark.row("F20")
async def test_a_cancelled_attempt_leaves_the_lock_free(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    for tenths in range(0, 25, 3):
        fault = lab.server.fault(when="after", action="delay", seconds=0.5, required=False)
        with fault, trio.move_on_after(tenths / 10):
            await lease_of(zk, "ours").obtain()
            await trio.sleep_forever()
        await trio.sleep(5)
        await zk.cleanup.idle()
        assert set(lab.server.dump()) <= {"/lease", "/lease/lease_holder"}


async def test_a_later_version_is_left_alone(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    lab.server.load({"/lease/lease_holder": json.dumps({"version": 2, "anything": "else"})})
    lease = lease_of(zk, "ours")
    assert not await lease.obtain()
    assert await lease.last_holder() is None


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"{}", b'{"version": 1, "holder": "x", "end": "soon"}']
)
async def test_anything_else_is_an_error(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, data: bytes
) -> None:
    lab.server.load({"/lease/lease_holder": data})
    with pytest.raises(ForeignLayout):
        await lease_of(zk, "ours").obtain()
    assert await zk.get_children("/lease") == ["lease_holder"]


@pytest.mark.row("F21")
async def test_what_the_server_refuses(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    await zk.create("/lease", acl=[ACL(Perms.READ, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        await lease_of(zk, "ours").obtain()


async def test_any_of_several(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    def several(holder: str) -> MultiTimeLease:
        return MultiTimeLease(zk, "/leases", 2, 60, holder, now=now)

    first, second = await several("a").obtain(), await several("b").obtain()
    assert first is not None
    assert second is not None
    assert (first.path, second.path) == ("/leases/0", "/leases/1")
    assert await several("c").obtain() is None
    again = await several("b").obtain()
    assert again is not None
    assert again.path == "/leases/1"
    await first.release()
    assert await several("c").obtain() is not None
