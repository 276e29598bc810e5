"""I-12: the final value is the sum of what was acknowledged, and of what may have been where that is said."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import SessionExpiredError, ZooKeeper
from pyzk.recipes.counter import Counter
from pyzk.recipes.errors import AmbiguousResult

from ..support.lab import Lab, open_lab

pytestmark = pytest.mark.row("I-12")

PATH = "/counters/one"


@attrs.frozen
class Fault:
    op: str
    nth: int
    when: str
    action: str


@attrs.frozen
class Blow:
    """What happens to an adder, and when."""

    time: float
    adder: int
    kind: str


times = st.integers(0, 20).map(lambda n: n / 4)
faults = st.builds(
    Fault,
    st.sampled_from(["set_data", "multi", "create", "get_data", "exists", "sync", "delete"]),
    st.integers(1, 4),
    st.sampled_from(["before", "after"]),
    st.sampled_from(["disconnect", "drop_reply"]),
)
blows = st.builds(Blow, times, st.integers(0, 3), st.sampled_from(["disconnect", "expire", "cut off"]))
adders = st.lists(
    st.lists(st.tuples(times, st.integers(1, 9)), min_size=1, max_size=4), min_size=1, max_size=4
)


@attrs.define
class Outcome:
    changes: list[tuple[int, int]] = attrs.Factory(list)
    ambiguous: list[int] = attrs.Factory(list)
    final: int = 0
    left: list[str] = attrs.Factory(list)


async def play(
    schedule: list[list[tuple[float, int]]], faults: list[Fault], blows: list[Blow], exactly_once: bool
) -> Outcome:
    outcome = Outcome()

    async def add(zk: ZooKeeper, additions: list[tuple[float, int]]) -> None:
        counter = Counter(zk, PATH, exactly_once=exactly_once)
        for pause, amount in additions:
            await trio.sleep(pause)
            try:
                outcome.changes.append(await counter.add(amount))
            except AmbiguousResult:
                outcome.ambiguous.append(amount)
            except SessionExpiredError:
                pass  # that is: not applied

    async def strike(lab: Lab, zk: ZooKeeper, blow: Blow) -> None:
        await trio.sleep(blow.time)
        if not any(session.id == zk.session.id for session in lab.server.sessions()):
            return
        if blow.kind == "cut off":
            lab.cut_off(zk)
            await trio.sleep(5)
            lab.let_through(zk)
        else:
            getattr(lab.server, blow.kind)(zk.session.id)

    async with open_lab(tick_time=1000) as lab:
        clients = [await lab.client() for _ in schedule]
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(lab.server.fault(**attrs.asdict(fault), required=False))
            async with trio.open_nursery() as nursery:
                for zk, additions in zip(clients, schedule, strict=True):
                    nursery.start_soon(add, zk, additions)
                for blow in blows:
                    nursery.start_soon(strike, lab, clients[blow.adder % len(clients)], blow)
        await trio.sleep(20)
        for zk in clients:
            await zk.cleanup.idle()
        outcome.final = await Counter(clients[0], PATH).get()
        outcome.left = [path for path in lab.server.dump() if path.startswith(f"{PATH}.ops/")]
    return outcome


def run(*arguments: Any) -> Outcome:
    return trio.run(play, *arguments, clock=MockClock(autojump_threshold=0))


@given(adders, st.lists(faults, max_size=3), st.lists(blows, max_size=2))
def test_exactly_once(
    schedule: list[list[tuple[float, int]]], faults: list[Fault], blows: list[Blow]
) -> None:
    outcome = run(schedule, faults, blows, True)
    assert outcome.ambiguous == []
    assert outcome.final == sum(after - before for before, after in outcome.changes)
    # Each has added to what the one before it has left.
    changes = sorted(outcome.changes)
    assert [before for before, _ in changes] == [0, *(after for _, after in changes)][: len(changes)]
    assert outcome.left == []


@given(adders, st.lists(faults, max_size=3), st.lists(blows, max_size=2))
def test_never_more_than_what_may_have_been(
    schedule: list[list[tuple[float, int]]], faults: list[Fault], blows: list[Blow]
) -> None:
    outcome = run(schedule, faults, blows, False)
    unaccounted = outcome.final - sum(after - before for before, after in outcome.changes)
    possible = itertools.chain.from_iterable(
        itertools.combinations(outcome.ambiguous, n) for n in range(len(outcome.ambiguous) + 1)
    )
    assert unaccounted in {sum(applied) for applied in possible}
