"""Members begin together and end together (recipe-rules.md D.8, I-11)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.recipes.double_barrier import READY, DoubleBarrier

from ..support.lab import Lab
from .rounds import PATH, Member, Round, members_of, nothing_is_left


@pytest.mark.parametrize("n", [1, 2, 5])
async def test_they_begin_together_and_end_together(
    autojump_clock: MockClock, lab: Lab, round_: Round, n: int
) -> None:
    for _ in range(n - 1):
        await round_.join(n)
    assert not any(round_.working)
    await round_.join(n)
    assert all(round_.working)
    for member in round_.members[1:]:
        member.finish()
    await trio.sleep(100)
    assert not any(round_.done)
    round_.members[0].finish()
    await trio.sleep(1)
    assert all(round_.done)
    assert f"{PATH}/{READY}" not in lab.server.dump()
    await nothing_is_left(lab, *(member.zk for member in round_.members))


async def test_a_late_member_joins_in(autojump_clock: MockClock, lab: Lab, round_: Round) -> None:
    for _ in range(3):
        await round_.join(2)
    assert round_.working == [True, True, True]
    round_.members[0].finish()
    round_.members[1].finish()
    await trio.sleep(10)
    assert round_.done == [False, False, False]


async def test_a_late_member_joins_those_still_at_work(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None
) -> None:
    """However few they are."""
    lowest, *others = [await round_.join(3) for _ in range(3)]
    for member in others:
        member.finish()
    await trio.sleep(1)
    assert members_of(lab) == [lowest.path]
    assert (await round_.join(3)).working


async def test_one_round_after_the_other(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Who is out first may be back before the others have seen that the round is over."""
    other = await lab.client()
    places: dict[ZooKeeper, int] = {zk: 0, other: 0}

    async def take_part(zk: ZooKeeper) -> None:
        barrier = DoubleBarrier(zk, PATH, 2)
        for _ in range(30):
            async with barrier:
                places[zk] += 1
                await trio.sleep(0.01)
                assert len(set(places.values())) == 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_part, zk)
        nursery.start_soon(take_part, other)
    assert set(places.values()) == {30}
    await nothing_is_left(lab, zk, other)


async def test_one_object_serves_many_tasks(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = DoubleBarrier(zk, PATH, 3)
    async with trio.open_nursery() as nursery:
        members = [Member(nursery, barrier) for _ in range(3)]
        await trio.sleep(1)
        assert len({member.path for member in members}) == 3
        assert all(member.working for member in members)
        for member in members:
            member.finish()
    assert all(member.done for member in members)


async def test_the_layout(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    async with DoubleBarrier(zk, PATH, 1, data=b"me") as path:
        nodes = lab.server.dump(form="nodes")
        name = path.removeprefix(f"{PATH}/")
        assert str(uuid.UUID(name)) == name
        assert (nodes[path].data, nodes[path].kind, nodes[path].owner) == (b"me", "ephemeral", zk.session.id)
        assert (nodes[f"{PATH}/{READY}"].data, nodes[f"{PATH}/{READY}"].kind) == (b"", "persistent")
        assert nodes[PATH].kind == "container"


async def test_what_it_costs(autojump_clock: MockClock, lab: Lab, names_in_order: None) -> None:
    first, last = await lab.client(), await lab.client()
    await first.ensure_path(PATH)
    before = lab.requests(first), lab.requests(last)
    async with trio.open_nursery() as nursery:
        members = [Member(nursery, DoubleBarrier(first, PATH, 2))]
        await trio.sleep(1)
        members.append(Member(nursery, DoubleBarrier(last, PATH, 2)))
        await trio.sleep(1)
        members[0].finish()
        await trio.sleep(1)
        members[1].finish()
    await trio.sleep(1)
    entered_and_left = {"create2": 1, "exists": 5, "get_children": 3, "get_data": 1, "multi": 1}
    assert lab.requests(first) - before[0] == entered_and_left | {"remove_watches": 1}
    spent = lab.requests(last) - before[1]
    assert spent.total() <= 13, spent


# --- ready that was left behind, ready that is gone ---------------------------------------------------------


@pytest.mark.row("E-21")
@pytest.mark.parametrize("n", [2, 3])
async def test_an_old_ready_lets_nobody_in(
    autojump_clock: MockClock, lab: Lab, round_: Round, n: int
) -> None:
    lab.server.load({f"{PATH}/{READY}": b""})
    for _ in range(n - 1):
        await round_.join(n)
    assert not any(round_.working)
    assert f"{PATH}/{READY}" not in lab.server.dump()
    await round_.join(n)
    assert all(round_.working)


async def test_members_that_died_leave_a_ready_that_lets_nobody_in(
    autojump_clock: MockClock, lab: Lab, round_: Round
) -> None:
    dead = [await round_.join(2), await round_.join(2)]
    for member in dead:
        lab.server.expire(member.zk.session.id)
    assert f"{PATH}/{READY}" in lab.server.dump()
    late = await round_.join(2)
    assert not late.working
    await round_.join(2)
    assert late.working


async def test_a_member_that_was_away_is_let_in_though_the_others_have_left(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None
) -> None:
    """``ready`` is younger than the member that finds itself alone with it: that is no stale one."""
    away = await round_.join(2)
    lab.cut_off(away.zk)
    quick = await round_.join(2)
    quick.finish()
    await trio.sleep(1)
    assert members_of(lab) == [f"{PATH}/{uuid.UUID(int=1)}"]
    lab.let_through(away.zk)
    await trio.sleep(8)
    assert away.working
    away.finish()
    await trio.sleep(1)
    assert round_.done == [True, True]


async def test_a_ready_that_is_gone_at_once_lets_in(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round
) -> None:
    """kazoo's members delete it when they begin to leave."""
    waiting = await round_.join(2)
    await zk.create(f"{PATH}/{READY}")
    await zk.delete(f"{PATH}/{READY}")
    await trio.sleep(1)
    assert waiting.working
    waiting.finish()
    await trio.sleep(1)
    assert waiting.done


async def test_an_early_deletion_of_ready_lets_nobody_leave(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, names_in_order: None
) -> None:
    lowest, leaving = await round_.join(2), await round_.join(2)
    await zk.delete(f"{PATH}/{READY}")
    leaving.finish()
    await trio.sleep(10)
    assert not leaving.done
    lowest.finish()
    await trio.sleep(1)
    assert round_.done == [True, True]


async def test_only_the_ready_that_was_meant_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, names_in_order: None
) -> None:
    """Two find a stale one. The slower of them must not delete what the faster one has written instead."""
    lab.server.load({f"{PATH}/{READY}": b""})
    with lab.server.fault(op="multi", session=zk.session.id, when="before", action="delay", seconds=5):
        slow = await round_.join(2, zk)
        await round_.join(2)
        ready = await zk.exists(f"{PATH}/{READY}")
        assert ready is not None
        await trio.sleep(10)
    assert slow.working
    again = await zk.exists(f"{PATH}/{READY}")
    assert again is not None
    assert again.czxid == ready.czxid


async def test_a_body_that_raises_does_not_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round
) -> None:
    other = await round_.join(2)
    with pytest.raises(ValueError, match="mine"):
        async with DoubleBarrier(zk, PATH, 2):
            raise ValueError("mine")
    await trio.sleep(1)
    assert members_of(lab) == [other.path]
    other.finish()
    await trio.sleep(1)
    assert other.done


@pytest.mark.parametrize(
    "make", [lambda zk: DoubleBarrier(zk, PATH, 0), lambda zk: DoubleBarrier(zk, "x", 1)]
)
async def test_nonsense_is_refused(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, make: Callable[[ZooKeeper], object]
) -> None:
    with pytest.raises(Exception, match=r"at least 1|must start with"):
        make(zk)
