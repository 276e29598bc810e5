"""I-15: no item belongs to two members at any zxid, and each belongs to one once the members stay so."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import trio
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pyzk.client import NodeExistsError
from pyzk.recipes import LockLost, Rebalance
from pyzk.recipes.partitioner import Partitioner

from ..support.trouble import Step
from .members import PATH, SCHEDULES, Scene, run_schedule

pytestmark = pytest.mark.row("I-15")


@settings(suppress_health_check=[*HealthCheck])
@given(SCHEDULES, st.sets(st.sampled_from("abcdef")), st.sampled_from([0.0, 0.5, 3.0]))
def test_each_item_has_one_owner(schedule: list[Step[bool]], items: set[str], settle: float) -> None:
    async def work(scene: Scene, who: int) -> None:
        while True:
            try:
                async with Partitioner(scene.clients[who], PATH, items, f"id-{who}", settle=settle) as member:
                    await share(scene, who, member)
            except NodeExistsError:
                await trio.sleep(1)  # the znode of our former self is still there

    async def share(scene: Scene, who: int, member: Partitioner) -> None:
        while True:
            try:
                async with member.share() as owned:
                    with ExitStack() as stack:
                        for item, grant in owned.items():
                            stack.enter_context(scene.tenure(who, item, grant))
                        await trio.sleep_forever()
            except (Rebalance, LockLost):
                pass

    async def everything_is_divided(scene: Scene) -> None:
        members = len(scene.at_work)
        event(f"{members} members")
        if members:
            await scene.until(lambda: sorted(tenure.what for tenure in scene.tenures) == sorted(items))
            await trio.sleep(30)  # and so it stays
            assert sorted(tenure.what for tenure in scene.tenures) == sorted(items)
            counts = [sum(tenure.who == who for tenure in scene.tenures) for who in scene.at_work]
            assert max(counts) - min(counts) <= 1

    run_schedule(schedule, work, everything_is_divided)
