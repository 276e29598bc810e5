"""Members begin together and end together (recipe-rules.md D.8, I-11)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, Perms, ZooKeeper
from pyzk.recipes.double_barrier import READY, DoubleBarrier
from pyzk.recipes.errors import BarrierBroken

from ..support.lab import Lab

PATH = "/barriers/step"


class Member:
    """Takes part: ``working`` once it is in, ``done`` once it is out again. It works until :meth:`finish`."""

    def __init__(self, nursery: trio.Nursery, barrier: DoubleBarrier) -> None:
        self.zk = barrier.zk
        self.path = ""
        self.working = False
        self.done = False
        self.error: Exception | None = None
        self.scope = trio.CancelScope()
        self._end = trio.Event()
        nursery.start_soon(self._run, barrier)

    async def _run(self, barrier: DoubleBarrier) -> None:
        with self.scope:
            try:
                async with barrier as self.path:
                    self.working = True
                    await self._end.wait()
            except BarrierBroken as error:
                self.error = error
            else:
                self.done = True

    def finish(self) -> None:
        self._end.set()


class Round:
    """Members, each with a client of its own."""

    def __init__(self, nursery: trio.Nursery, lab: Lab) -> None:
        self.members: list[Member] = []
        self._nursery = nursery
        self._lab = lab

    async def join(self, n: int, zk: ZooKeeper | None = None, path: str = PATH) -> Member:
        """One more, which has had the time to come as far as it can."""
        member = Member(self._nursery, DoubleBarrier(zk or await self._lab.client(), path, n))
        self.members.append(member)
        await trio.sleep(1)
        return member

    @property
    def working(self) -> list[bool]:
        return [member.working for member in self.members]

    @property
    def done(self) -> list[bool]:
        return [member.done for member in self.members]


@pytest.fixture
async def round_(lab: Lab, nursery: trio.Nursery) -> Round:
    return Round(nursery, lab)


@pytest.fixture
def names_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes first has the lowest name, and thus is the one to stay until the last."""
    numbers: Iterator[int] = itertools.count(1)
    monkeypatch.setattr("pyzk.recipes.double_barrier.uuid.uuid4", lambda: uuid.UUID(int=next(numbers)))


def members_of(lab: Lab, path: str = PATH) -> list[str]:
    return [node for node in lab.server.dump() if node.startswith(f"{path}/") and not node.endswith(READY)]


async def nothing_is_left(lab: Lab, *clients: ZooKeeper) -> None:
    await trio.sleep(1)
    for zk in clients:
        await zk.janitor.idle()
        assert zk.watch_count == 0
    assert members_of(lab) == []
    assert lab.watch_count == 0


# --- the rounds ---------------------------------------------------------------------------------------------


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


async def test_who_comes_late_joins_in(autojump_clock: MockClock, lab: Lab, round_: Round) -> None:
    for _ in range(3):
        await round_.join(2)
    assert round_.working == [True, True, True]
    round_.members[0].finish()
    round_.members[1].finish()
    await trio.sleep(10)
    assert round_.done == [False, False, False]


async def test_who_comes_late_joins_those_still_at_work(
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


async def test_what_members_look_like(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
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
async def test_a_ready_of_the_past_lets_nobody_in(
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


async def test_who_was_away_is_let_in_though_the_others_have_left(
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


async def test_an_early_end_of_ready_is_no_leave_to_go(
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


# --- what happens to members --------------------------------------------------------------------------------


@pytest.mark.parametrize("deleted", [False, True], ids=["by itself", "by another"])
async def test_who_is_slow_to_leave_does_not_wait_for_the_next_round(
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
async def test_a_restart_is_no_matter(autojump_clock: MockClock, lab: Lab, round_: Round, stage: str) -> None:
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
async def test_who_is_cancelled_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, round_: Round, seconds: float
) -> None:
    """In the middle of each request, and between them. The other has been let in or not."""
    other = await round_.join(2)
    slow = lab.server.fault(
        session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
    )
    with slow:
        victim = Member(round_._nursery, DoubleBarrier(zk, PATH, 2))
        victim.finish()
        await trio.sleep(seconds)
        victim.scope.cancel()
        await trio.sleep(0)
        gone = trio.current_time()
        await zk.janitor.idle()
        await trio.sleep(15)
    assert trio.current_time() - gone < 60
    assert members_of(lab) == ([other.path] if other.path else members_of(lab)[:1])
    other.finish()
    if not other.working:
        other.scope.cancel()
    await trio.sleep(5)
    await nothing_is_left(lab, zk, other.zk)


@pytest.mark.row("E-23")
async def test_who_gives_up_may_come_again(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    barrier = DoubleBarrier(zk, PATH, 2)
    for _ in range(3):
        with trio.move_on_after(5) as scope:
            async with barrier:
                raise AssertionError("there is nobody else")
        assert scope.cancelled_caught
    await nothing_is_left(lab, zk)


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


@pytest.mark.parametrize(
    "make", [lambda zk: DoubleBarrier(zk, PATH, 0), lambda zk: DoubleBarrier(zk, "x", 1)]
)
async def test_nonsense_is_refused(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, make: Callable[[ZooKeeper], object]
) -> None:
    with pytest.raises(Exception, match=r"at least one|must start with"):
        make(zk)
