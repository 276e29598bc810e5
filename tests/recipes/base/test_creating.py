"""Exactly one znode comes of a create, whatever happens to the connection or to the caller."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import NodeExistsError, ZooKeeper
from pyzk.recipes.base.bound import Bound
from pyzk.recipes.base.creating import create_ephemeral, create_identified

from ...support.lab import Lab


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_connection_makes_no_second_znode(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str
) -> None:
    with lab.server.fault(op="create", path="/lock/*", when=when, action="disconnect"):  # type: ignore[arg-type]
        created = await create_identified(Bound(zk), "/lock", ["id-lock-"])
    assert [f"/lock/{name}" for name in await zk.get_children("/lock")] == list(created.paths)
    stat = await zk.exists(created.paths[0])
    assert created.stat is not None
    assert stat is not None
    assert created.stat.czxid == stat.czxid


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_pair_stays_a_pair(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: str) -> None:
    await zk.create("/lock")
    with lab.server.fault(op="multi", when=when, action="disconnect"):  # type: ignore[arg-type]
        created = await create_identified(Bound(zk), "/lock", ["_c_id-lock-", "zid__lock__"])
    assert sorted(f"/lock/{name}" for name in await zk.get_children("/lock")) == sorted(created.paths)
    assert len(created.paths) == 2


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 4.0])
async def test_a_cancelled_caller_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, seconds: float
) -> None:
    await zk.create("/lock")
    fault = lab.server.fault(
        op="create", path="/lock/*", when="after", action="delay", seconds=2, required=False
    )
    with fault, trio.move_on_after(seconds):
        await create_identified(Bound(zk), "/lock", ["id-lock-"])
        await trio.sleep_forever()
    await trio.sleep(5)
    await zk.cleanup.idle()
    left = await zk.get_children("/lock")
    assert len(left) == (seconds > 2), "after the reply it is the caller's"


async def test_a_fixed_name_is_recognised_as_our_own(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    other = await lab.client()
    with lab.server.fault(op="create", path="/party/me", when="after", action="disconnect"):
        stat = await create_ephemeral(Bound(zk), "/party/me")
    assert stat.ephemeralOwner == zk.session.id
    with pytest.raises(NodeExistsError):
        await create_ephemeral(Bound(other), "/party/me")


async def test_a_cancelled_create_of_a_fixed_name_deletes_no_other_s(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Its deletion is repeated when the reply to it is lost, and by then the name may be another's."""
    other = await lab.client()
    await zk.create("/party")
    with (
        lab.server.fault(op="create", path="/party/me", when="after", action="delay", seconds=1),
        trio.move_on_after(0.5),
    ):
        await create_ephemeral(Bound(zk), "/party/me")
    with lab.server.fault(op="delete", when="after", action="disconnect") as fault:
        while not fault.fired:
            await trio.sleep(0.01)
        await create_ephemeral(Bound(other), "/party/me")
    await zk.cleanup.idle()
    assert await other.exists("/party/me") is not None
