"""The invariants I-1 to I-9 under random schedules, for locks and read/write locks, in every layout mode.

HYPOTHESIS_PROFILE=nightly tries 14,000 schedules; what failed is kept in .hypothesis and tried first.
"""

from __future__ import annotations

import pytest
import trio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.recipes import Lock

from ...support.lab import open_lab
from ...support.trouble import Step
from .schedules import run_schedule, steps

pytestmark = pytest.mark.row("I-1", "I-2", "I-3", "I-4", "I-5", "I-6", "I-7", "I-8", "I-9")

NIGHTLY = settings.get_current_profile_name() == "nightly"
EXAMPLES = 2_000 if NIGHTLY else 80

KINDS = {"lock": ["lock"], "read and write": ["read", "write", "lock"]}
NAMINGS = {
    "curator": ["curator"],
    "mixed": ["both", "curator", "kazoo"],
    "beside Curator": ["both", "Curator", "curator"],
    "beside kazoo": ["both", "kazoo (library)", "kazoo"],
    "beside Go": ["both", "Go", "curator"],
}
CASES = [
    (kind, layout)
    for kind in KINDS
    for layout in NAMINGS
    if kind == "lock" or not layout.startswith("beside")
]


@pytest.mark.parametrize(("kind", "layout"), CASES)
def test_the_invariants_hold_under_any_schedule(kind: str, layout: str) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
    @given(steps(KINDS[kind]))
    def check(schedule: list[Step[str]]) -> None:
        grants = run_schedule(schedule, NAMINGS[layout])
        event(f"{min(len(grants.intervals), 5)} grants or more")

    check()


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 20).map(lambda x: round(x, 2)), st.floats(0.01, 5).map(lambda x: round(x, 2))),
    min_size=1,
    max_size=8,
)


@pytest.mark.row("I-5", "I-16")
@settings(max_examples=EXAMPLES)
@given(ARRIVALS)
def test_without_faults_every_wait_costs_what_the_formula_says(arrivals: list[tuple[float, float]]) -> None:
    """Three requests for who finds it free, five and one event for who does not: whenever they come."""
    free_at, contended = 0.0, 0
    for arrival, hold in sorted(arrivals):
        if arrival <= free_at:
            contended += 1
        free_at = max(free_at, arrival) + hold
    at_once = len(arrivals) - len({arrival for arrival, _ in arrivals})

    async def main() -> tuple[int, list[int]]:
        async with open_lab() as lab, trio.open_nursery() as nursery:
            clients = [await lab.client(session_timeout=100) for _ in arrivals]
            await clients[0].create("/lock")
            begin = trio.current_time()

            async def contend(zk: ZooKeeper, arrival: float, hold: float) -> None:
                await trio.sleep_until(begin + arrival)
                async with Lock(zk, "/lock", monitor=False):
                    await trio.sleep(hold)

            for zk, (arrival, hold) in zip(clients, arrivals, strict=True):
                nursery.start_soon(contend, zk, arrival, hold)
            while nursery.child_tasks:
                await trio.sleep(1)
            requests = sum(lab.requests(zk).total() for zk in clients) - 1
            return requests, [zk.event_count for zk in clients]

    requests, events = trio.run(main, clock=MockClock(autojump_threshold=0))
    n = len(arrivals)
    assert max(events) <= 1, "a deletion wakes one, and nobody twice"
    # Who arrives in the moment of a release, or with another, may find it either way.
    assert abs(sum(events) - contended) <= at_once + _ties(arrivals)
    assert 3 * n + 2 * sum(events) <= requests <= 3 * n + 2 * sum(events) + 2 * (at_once + _ties(arrivals))
    assert requests <= 5 * n - 2 or n == 0


def _ties(arrivals: list[tuple[float, float]]) -> int:
    """How many arrive when another may just be releasing."""
    free_at, ties = 0.0, 0
    for arrival, hold in sorted(arrivals):
        ties += abs(arrival - free_at) < 1e-6
        free_at = max(free_at, arrival) + hold
    return ties
