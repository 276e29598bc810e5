"""A double barrier whose members die, lose connections or are cancelled (recipe-rules.md D.8, D.13)."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.double_barrier import READY, DoubleBarrier
from pyzk.recipes.errors import BarrierBroken

from ..support.lab import Lab
from .rounds import PATH, Member, Round, members_of, nothing_is_left


@pytest.mark.parametrize("deleted", [False, True], ids=["by itself", "by another"])
async def test_a_member_slow_to_leave_does_not_wait_for_the_next_round(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None, deleted: bool
) -> None:
    """When it looks for the others, they have gone and come again, and wait for it."""
    first, second, slow = [await round_.join(3) for _ in range(3)]
    session = slow.zk.session.id
    with lab.server.fault(
        op="delete", session=session, when="after", action="delay", seconds=8, required=not deleted
    ):
        if deleted:
            await first.zk.delete(slow.path)
        else:
            slow.finish()
        await trio.sleep(1)
        assert slow.path not in lab.server.dump()
        first.finish()
        second.finish()
        await trio.sleep(1)
        assert round_.done == [True, True, False]
        again = [await round_.join(3, member.zk) for member in (first, second)]
    slow.finish()
    await trio.sleep(5)
    assert slow.done
    last = await round_.join(3, slow.zk)
    assert all(member.working for member in (*again, last))
    for member in (*again, last):
        member.finish()
    await trio.sleep(1)
    assert all(round_.done)
    await nothing_is_left(lab)


@pytest.mark.row("E-20")
async def test_the_lowest_dies_while_others_leave(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None
) -> None:
    """Who has taken its name off the list already goes on waiting for the others."""
    lowest, leaving, working = [await round_.join(3) for _ in range(3)]
    leaving.finish()
    await trio.sleep(1)
    assert leaving.path not in lab.server.dump()
    lab.server.expire(lowest.zk.session.id)
    await trio.sleep(10)
    assert not leaving.done
    working.finish()
    await trio.sleep(1)
    assert leaving.done
    assert working.done
    assert isinstance(lowest.error, BarrierBroken)


async def test_the_lowest_dies_and_nobody_else_is_left(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None
) -> None:
    lowest, leaving = await round_.join(2), await round_.join(2)
    leaving.finish()
    await trio.sleep(1)
    lab.server.expire(lowest.zk.session.id)
    await trio.sleep(1)
    assert leaving.done
    assert f"{PATH}/{READY}" not in lab.server.dump()


async def test_the_lowest_dies_and_a_late_one_is_left(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None
) -> None:
    """It came when we were on our way out already, but into the same round."""
    lowest, leaving = await round_.join(2), await round_.join(2)
    leaving.finish()
    await trio.sleep(1)
    late = await round_.join(2)
    assert late.working
    lab.server.expire(lowest.zk.session.id)
    await trio.sleep(10)
    assert not leaving.done
    late.finish()
    await trio.sleep(1)
    assert leaving.done
    assert late.done


@pytest.mark.row("F8")
async def test_a_member_that_dies_before_the_beginning_does_not_count(
    autojump_clock: MockClock, lab: Lab, round_: Round
) -> None:
    """The others see its znode vanish."""
    dead = await round_.join(2)
    lab.server.expire(dead.zk.session.id)
    await round_.join(2)
    assert not any(round_.working)
    await round_.join(2)
    assert round_.working == [False, True, True]


@pytest.mark.row("F7", "F8", "F9")
@pytest.mark.parametrize("stage", ["waiting", "working", "leaving"])
async def test_the_end_of_the_session_breaks_it(
    autojump_clock: MockClock, lab: Lab, round_: Round, names_in_order: None, stage: str
) -> None:
    """Nothing is sent on behalf of it in the next session."""
    member = await round_.join(2)
    if stage != "waiting":
        await round_.join(2)
    if stage == "leaving":
        member.finish()
        await trio.sleep(1)
    assert member.working == (stage != "waiting")
    before = lab.requests(member.zk)
    lab.server.expire(member.zk.session.id)
    await trio.sleep(10)
    assert isinstance(member.error, BarrierBroken)
    assert not member.done
    assert lab.requests(member.zk) == before
    assert member.zk.watch_count == 0


@pytest.mark.row("F6")
async def test_the_session_ends_while_it_registers(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round
) -> None:
    with lab.server.fault(op="create", path=f"{PATH}/*", when="before", action="delay", seconds=5):
        member = await round_.join(2, zk)
        lab.server.expire(zk.session.id)
        await trio.sleep(10)
    assert isinstance(member.error, BarrierBroken)
    assert members_of(lab) == []


@pytest.mark.row("F14", "F19")
async def test_a_partition_breaks_it_once_the_server_says_so(
    autojump_clock: MockClock, lab: Lab, round_: Round
) -> None:
    away, other = await round_.join(2), await round_.join(2)
    lab.cut_off(away.zk)
    other.finish()
    await trio.sleep(60)
    assert other.done
    assert away.error is None
    lab.let_through(away.zk)
    await trio.sleep(10)
    assert isinstance(away.error, BarrierBroken)


@pytest.mark.row("F10")
@pytest.mark.parametrize("stage", ["waiting", "working", "leaving"])
async def test_a_restart_breaks_nothing(
    autojump_clock: MockClock, lab: Lab, round_: Round, stage: str
) -> None:
    await round_.join(2)
    if stage != "waiting":
        await round_.join(2)
    if stage == "leaving":
        round_.members[0].finish()
    await trio.sleep(1)
    lab.server.restart(keep_data=True)
    await trio.sleep(5)
    if stage == "waiting":
        await round_.join(2)
    assert round_.working == [True, True]
    for member in round_.members:
        member.finish()
    await trio.sleep(5)
    assert round_.done == [True, True]


@pytest.mark.row("F11")
async def test_a_server_that_has_lost_everything_breaks_it(
    autojump_clock: MockClock, lab: Lab, round_: Round
) -> None:
    members = [await round_.join(3), *[await round_.join(2, path="/other") for _ in range(2)]]
    lab.server.restart(keep_data=False)
    await trio.sleep(60)
    assert all(isinstance(member.error, BarrierBroken) for member in members)


@pytest.mark.row("F15", "F17")
@pytest.mark.parametrize("everything", [False, True])
async def test_a_znode_deleted_while_waiting_is_made_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, everything: bool
) -> None:
    waiting = await round_.join(2)
    await zk.delete(PATH if everything else members_of(lab)[0], recursive=True)
    await trio.sleep(1)
    assert len(members_of(lab)) == 1
    await round_.join(2)
    assert waiting.working


@pytest.mark.row("F15")
async def test_nobody_begins_unregistered(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round
) -> None:
    """The znode is deleted between the create and the list, which shows others enough."""
    other = await lab.client()
    await other.ensure_path(PATH)
    for name in ("a", "b"):
        await other.create(f"{PATH}/{name}", ephemeral=True)
    with lab.server.fault(op="get_children", session=zk.session.id, when="before", action="delay", seconds=5):
        member = await round_.join(2, zk)
        (path,) = set(members_of(lab)) - {f"{PATH}/a", f"{PATH}/b"}
        await other.delete(path)
        await trio.sleep(10)
    assert member.working
    assert member.path in lab.server.dump()


@pytest.mark.row("F15", "F17")
@pytest.mark.parametrize("everything", [False, True])
async def test_a_znode_deleted_later_counts_as_gone(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, everything: bool
) -> None:
    victim, other = await round_.join(2), await round_.join(2)
    await zk.delete(PATH if everything else victim.path, recursive=True)
    await trio.sleep(1)
    assert victim.error is None
    other.finish()
    await trio.sleep(1)
    assert other.done
    victim.finish()
    await trio.sleep(1)
    assert victim.done
    await nothing_is_left(lab, victim.zk, other.zk)


@pytest.mark.row("F18")
async def test_members_of_any_name_count(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round
) -> None:
    await round_.join(3)
    assert not any(round_.working)
    await zk.create(f"{PATH}/9f0c1d3a5b7e4f60a1b2c3d4e5f60718", ephemeral=True)
    await round_.join(3)
    assert all(round_.working)
    for member in round_.members:
        member.finish()
    await trio.sleep(1)
    assert not any(round_.done)
    await zk.delete(f"{PATH}/9f0c1d3a5b7e4f60a1b2c3d4e5f60718")
    await trio.sleep(1)
    assert all(round_.done)


# --- connections, cancellation, refusals --------------------------------------------------------------------


FAULTS = [
    ("create", f"{PATH}/*-*"),
    ("create", f"{PATH}/{READY}"),
    ("exists", f"{PATH}/{READY}"),
    ("exists", f"{PATH}/*-*"),
    ("get_children", PATH),
    ("delete", f"{PATH}/*-*"),
    ("multi", f"{PATH}/{READY}"),
]


@pytest.mark.row("F1", "F2", "F4", "F5", "E-18")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("op", "path"), FAULTS)
async def test_lost_connections(
    autojump_clock: MockClock, lab: Lab, round_: Round, op: str, path: str, when: str
) -> None:
    with lab.server.fault(op=op, path=path, when=when, times=2, action="disconnect"):  # type: ignore[arg-type]
        for _ in range(3):
            await round_.join(3)
        await trio.sleep(10)
        assert round_.working == [True, True, True]
        assert len(members_of(lab)) == 3
        for member in round_.members:
            member.finish()
            await trio.sleep(5)
        await trio.sleep(10)
    assert round_.done == [True, True, True]
    await nothing_is_left(lab, *(member.zk for member in round_.members))
    assert f"{PATH}/{READY}" not in lab.server.dump()


@pytest.mark.row("E-23")
async def test_a_lost_connection_lets_nobody_in(autojump_clock: MockClock, lab: Lab, round_: Round) -> None:
    await round_.join(2)
    for _ in range(5):
        lab.server.disconnect_all()
        await trio.sleep(3)
    assert round_.working == [False]
    await round_.join(2)
    assert round_.working == [True, True]


@pytest.mark.row("F20")
@pytest.mark.parametrize("seconds", [number / 2 for number in range(1, 40)])
async def test_a_cancelled_member_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, seconds: float
) -> None:
    """In the middle of each request, and between them. The other has been let in or not."""
    other = await round_.join(2)
    slow = lab.server.fault(
        session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
    )
    with slow:
        victim = Member(round_.nursery, DoubleBarrier(zk, PATH, 2))
        victim.finish()
        await trio.sleep(seconds)
        victim.scope.cancel()
        await trio.sleep(0)
        gone = trio.current_time()
        await zk.cleanup.idle()
        await trio.sleep(15)
    assert trio.current_time() - gone < 60
    assert members_of(lab) == ([other.path] if other.path else members_of(lab)[:1])
    other.finish()
    if not other.working:
        other.scope.cancel()
    await trio.sleep(5)
    await nothing_is_left(lab, zk, other.zk)


@pytest.mark.row("E-23")
async def test_a_member_that_gave_up_may_come_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    barrier = DoubleBarrier(zk, PATH, 2)
    for _ in range(3):
        with trio.move_on_after(5) as scope:
            async with barrier:
                raise AssertionError("there is nobody else")
        assert scope.cancelled_caught
    await nothing_is_left(lab, zk)


async def test_what_the_body_raises_is_not_hidden_by_the_break(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        async with DoubleBarrier(zk, PATH, 1):
            lab.server.expire(zk.session.id)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("mine")
    assert any("expired" in note for note in caught.value.__notes__)


@pytest.mark.row("F21")
@pytest.mark.parametrize("allowed", [Perms.READ, Perms.READ | Perms.CREATE | Perms.DELETE])
async def test_what_is_not_allowed_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, allowed: Perms
) -> None:
    """It can neither be entered without CREATE nor ended without WRITE."""
    await zk.create("/barriers")
    await zk.create(PATH, acl=[ACL(allowed, Id("world", "anyone"))])
    with pytest.raises(NoAuthError):
        async with DoubleBarrier(zk, PATH, 1):
            assert allowed & Perms.CREATE
    await nothing_is_left(lab, zk)
