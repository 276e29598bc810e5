"""I-11: nobody is in before there are enough, and nobody is out before the others are."""

from __future__ import annotations

import random
import uuid
from contextlib import ExitStack, suppress
from typing import Any
from unittest import mock

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import ConnectionLossError, EventType, NoNodeError, WatchEvent, ZooKeeper
from pyzk.recipes.double_barrier import READY, DoubleBarrier
from pyzk.recipes.errors import BarrierBroken

from ..support.lab import Lab, open_lab

pytestmark = pytest.mark.row("I-11")

PATH = "/barrier"
READY_PATH = f"{PATH}/{READY}"


@attrs.frozen
class Plan:
    """What a member does."""

    begin: float
    work: float
    cancelled: float | None


@attrs.frozen
class Blow:
    """What happens to a member, and when."""

    time: float
    member: int
    kind: str


@attrs.frozen
class Fault:
    op: str
    path: str
    nth: int
    when: str
    action: str


times = st.integers(0, 24).map(lambda n: n / 8)
plans = st.builds(Plan, times, times, st.none() | times)
blows = st.builds(
    Blow,
    times,
    st.integers(0, 4),
    st.sampled_from(["disconnect", "disconnect", "cut off", "expire", "delete"]),
)
faults = st.builds(
    Fault,
    st.sampled_from(["create", "exists", "get_children", "delete", "multi", "get_data"]),
    st.sampled_from([READY_PATH, f"{PATH}/*-*", "**"]),
    st.integers(1, 4),
    st.sampled_from(["before", "after"]),
    st.sampled_from(["disconnect", "disconnect", "drop_reply"]),
)


@attrs.define
class Member:
    """
    :ivar path: of its znode, once it has been let in.
    :ivar entered: the latest zxid it knew of when it was let in; ``leaving``: when it began to leave;
        ``left``: when it was out.
    """

    zk: ZooKeeper
    plan: Plan
    path: str = ""
    entered: int = 0
    leaving: int = 0
    left: int = 0
    over: bool = False
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    async def run(self, n: int) -> None:
        await trio.sleep(self.plan.begin)
        try:
            with self.scope:
                if self.plan.cancelled is not None:
                    self.scope.deadline = trio.current_time() + self.plan.cancelled
                async with DoubleBarrier(self.zk, PATH, n) as path:
                    self.path, self.entered = path, self.zk.session.last_zxid
                    await trio.sleep(self.plan.work)
                    self.leaving = self.zk.session.last_zxid
                self.left = self.zk.session.last_zxid
        except BarrierBroken:
            pass
        self.over = True


@attrs.define
class Commits:
    """What has become of the children of the path, in order: as the server says to one who listens."""

    log: list[tuple[int, EventType, str]] = attrs.Factory(list)

    async def listen(self, zk: ZooKeeper) -> None:
        async with zk.watch(PATH, recursive=True, buffer=10_000) as events:
            async for event in events:
                assert isinstance(event, WatchEvent)
                assert event.zxid is not None
                if event.path != PATH and event.type in (EventType.CREATED, EventType.DELETED):
                    self.log.append((event.zxid, event.type, event.path))

    def states(self) -> list[tuple[int, dict[str, int]]]:
        """From which zxid on which children were there, each with its czxid."""
        states: list[tuple[int, dict[str, int]]] = [(0, {})]
        for zxid, kind, path in self.log:
            children = dict(states[-1][1])
            if kind is EventType.CREATED:
                children[path] = zxid
            else:
                del children[path]
            states.append((zxid, children))
        return states

    def between(self, first: int, last: int) -> list[dict[str, int]]:
        """The states from one zxid to another, with that in force at the first."""
        states = self.states()
        after = [zxid for zxid, _ in states[1:]] + [2**63]
        return [
            children
            for (zxid, children), end in zip(states, after, strict=True)
            if zxid <= last and end > first
        ]


def registered(children: dict[str, int]) -> dict[str, int]:
    return {path: czxid for path, czxid in children.items() if path != READY_PATH}


async def strike(lab: Lab, operator: ZooKeeper, members: list[Member], blow: Blow) -> None:
    zk = members[blow.member % len(members)].zk
    session = zk.session.id
    await trio.sleep(blow.time)
    if not any(found.id == session for found in lab.server.sessions()):
        return
    match blow.kind:
        case "cut off":
            lab.cut_off(zk)
            await trio.sleep(5)
            lab.let_through(zk)
        case "delete":
            for path, node in lab.server.dump(PATH, form="nodes").items():
                if node.owner == session:
                    with suppress(NoNodeError, ConnectionLossError):
                        await operator.delete(path)
        case _:
            getattr(lab.server, blow.kind)(session)


async def play(n: int, plans: list[Plan], faults: list[Fault], blows: list[Blow], stale: bool) -> None:
    commits = Commits()
    async with open_lab(tick_time=1000) as lab, trio.open_nursery() as nursery:
        spy, operator = await lab.client(), await lab.client()
        await spy.create(PATH)
        members = [Member(await lab.client(), plan) for plan in plans]
        nursery.start_soon(commits.listen, spy)
        await trio.sleep(0.01)
        if stale:
            await spy.create(READY_PATH)
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(lab.server.fault(**attrs.asdict(fault), required=False))
            for member in members:
                nursery.start_soon(member.run, n)
            for blow in blows:
                nursery.start_soon(strike, lab, operator, members, blow)
            await trio.sleep(40)
        check(commits, members, n)
        for member in members:
            member.scope.cancel()
        await trio.sleep(15)
        assert registered(commits.states()[-1][1]) == {}
        assert all(member.over and member.zk.watch_count == 0 for member in members)
        assert lab.watch_count == 1
        nursery.cancel_scope.cancel()


def check(commits: Commits, members: list[Member], n: int) -> None:
    own = {member.path for member in members}
    # Each ready but a stale one is written after enough had registered, all at the same time.
    for zxid, kind, path in commits.log[1:]:
        if path == READY_PATH and kind is EventType.CREATED:
            assert any(len(registered(children)) >= n for children in commits.between(0, zxid - 1))
    for member in members:
        if member.entered:
            check_entry(commits, member, n)
        if member.left:
            check_exit(commits, member)
    # Nothing moves any more: who still waits has reason to.
    last = commits.states()[-1][1]
    waiting = [member for member in members if not member.over]
    if waiting:
        assert len(registered(last)) < n
        assert not all(member.entered for member in waiting)
    for path, czxid in registered(last).items():
        if path not in own:  # it was not let in, so none of those that might have let it in was written
            for zxid, kind, changed in commits.log:
                assert not (changed == READY_PATH and kind is EventType.CREATED and zxid > czxid)


def check_entry(commits: Commits, member: Member, n: int) -> None:
    """Since it had registered there were enough, or a ready that was younger than a member (I-11). Its own
    znode may have been deleted meanwhile."""
    since = [zxid for zxid, children in commits.states() if member.path in children]
    assert since, "it was never registered"
    states = commits.between(since[0], member.entered)
    assert any(
        len(registered(children)) >= n
        or any(czxid < children.get(READY_PATH, 0) for czxid in registered(children).values())
        for children in states
    )


def check_exit(commits: Commits, member: Member) -> None:
    """Of those that were there when it began to leave, none has stayed."""
    states = commits.between(member.leaving, member.left)
    for other in registered(states[0]):
        assert other == member.path or any(other not in children for children in states)


@given(
    st.integers(2, 5).flatmap(lambda n: st.tuples(st.just(n), st.lists(plans, min_size=n, max_size=5))),
    st.lists(faults, max_size=3),
    st.lists(blows, max_size=3),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_members_begin_together_and_end_together(
    of: tuple[int, list[Plan]], faults: list[Fault], blows: list[Blow], stale: bool, seed: int
) -> None:
    names = random.Random(seed)

    def name() -> Any:
        return uuid.UUID(int=names.getrandbits(128))

    with mock.patch("pyzk.recipes.double_barrier.uuid.uuid4", name):
        trio.run(play, *of, faults, blows, stale, clock=MockClock(autojump_threshold=0))
