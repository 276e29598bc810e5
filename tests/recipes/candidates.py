"""Candidates of elections, and what must be left of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import LockLost
from pyzk.recipes.election import ElectionLayout, LeaderElection, Term

from ..support.lab import TICK, Lab

U36 = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NAMES: dict[ElectionLayout, str] = {
    "curator-latch": rf"_c_{U36}-latch-\d{{10}}",
    "curator-selector": rf"_c_{U36}-lock-\d{{10}}",
    "kazoo": r"[0-9a-f]{32}__lock__\d{10}",
}
layouts = pytest.mark.parametrize("layout", NAMES)


def candidates(lab: Lab) -> list[str]:
    return [path for path in lab.server.dump() if path.startswith("/leader/")]


async def nothing_left(lab: Lab, *clients: ZooKeeper) -> None:
    """No znode, no watch."""
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert candidates(lab) == []
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


async def lead_for(election: LeaderElection, seconds: float, log: list[Any], name: Any) -> None:
    async with election.lead():
        log.append(name)
        await trio.sleep(seconds)


async def lead_for_ever(election: LeaderElection, log: list[Term]) -> None:
    with suppress(LockLost):
        async with election.lead() as term:
            log.append(term)
            await trio.sleep_forever()
