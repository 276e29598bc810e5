"""Invariants I-1, I-3, I-4, I-6, I-8 and I-9 of elections under random schedules."""

from __future__ import annotations

import pytest
import trio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pyzk.recipes.election import ElectionLayout, LeaderElection, Term
from pyzk.recipes.errors import LockLost
from pyzk.recipes.leader_latch import LeaderLatch

from ..support.trouble import Step
from .members import CLIENTS, PATH, SCHEDULES, Scene, run_schedule

pytestmark = pytest.mark.row("I-1", "I-3", "I-4", "I-6", "I-8", "I-9")

LAYOUTS: dict[str, list[ElectionLayout]] = {
    "curator-latch": ["curator-latch"],
    "mixed": ["curator-latch", "kazoo", "curator-selector"],
}
LENGTHS = st.lists(st.sampled_from([0.5, 3.0, 30.0]), min_size=CLIENTS, max_size=CLIENTS)


async def everybody_leads(scene: Scene) -> None:
    before = list(scene.terms)
    await scene.until(lambda: all(scene.terms[who] > before[who] for who in scene.at_work))


@pytest.mark.parametrize("layouts", LAYOUTS.values(), ids=LAYOUTS)
def test_one_leader_at_a_time(layouts: list[ElectionLayout]) -> None:
    @settings(suppress_health_check=[*HealthCheck])
    @given(SCHEDULES, LENGTHS)
    def check(schedule: list[Step[bool]], lengths: list[float]) -> None:
        async def stand(scene: Scene, who: int) -> None:
            async def lead(term: Term) -> None:
                with scene.tenure(who, "leadership", term):
                    await trio.sleep(lengths[who])

            layout = layouts[who % len(layouts)]
            await LeaderElection(scene.clients[who], PATH, layout=layout).run(lead)

        terms = run_schedule(schedule, stand, everybody_leads)
        event(f"{sum(map(bool, terms))} have led")

    check()


@settings(suppress_health_check=[*HealthCheck])
@given(SCHEDULES)
def test_one_latch_at_a_time(schedule: list[Step[bool]]) -> None:
    async def stand(scene: Scene, who: int) -> None:
        async with LeaderLatch(scene.clients[who], PATH) as latch:
            while True:
                try:
                    async with latch.term() as term:
                        with scene.tenure(who, "leadership", term):
                            await trio.sleep_forever()
                except LockLost:
                    assert not latch.is_leader

    async def somebody_leads(scene: Scene) -> None:
        await scene.until(lambda: bool(scene.tenures) or not scene.at_work)

    run_schedule(schedule, stand, somebody_leads)
