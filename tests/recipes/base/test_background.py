"""Work that goes on when its caller was cancelled."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ClosingError, NoNodeError, ZooKeeper
from pyzk.recipes.base.background import BackgroundWork

from ...support.lab import Lab


async def test_it_outlives_its_caller(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    with trio.move_on_after(1):
        work = BackgroundWork(zk, lambda: trio.sleep(2))
        await work.done.wait()
    assert not work.succeeded
    await work.done.wait()
    assert work.succeeded
    assert trio.current_time() == pytest.approx(2, abs=0.1)


async def test_it_keeps_its_error(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    work = BackgroundWork(zk, lambda: zk.delete("/missing"))
    assert work.error is None
    await work.done.wait()
    assert isinstance(work.error, NoNodeError)
    assert not work.succeeded


async def test_a_client_that_closes_ends_it(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as own:
        work = BackgroundWork(own, trio.sleep_forever)
        await trio.sleep(1)
    late = BackgroundWork(own, trio.sleep_forever)
    for each in (work, late):
        assert each.done.is_set()
        assert isinstance(each.error, ClosingError)
