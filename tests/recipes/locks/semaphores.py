"""Where semaphores have their znodes, and what must be left of them."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes.locks.semaphore_layouts import SemaphoreLayout

from ...support.lab import TICK, Lab

LAYOUTS: list[SemaphoreLayout] = ["curator", "kazoo"]
both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
LEASES = {"curator": "/pool/leases", "kazoo": "/pool"}
GATE = {"curator": "/pool/locks", "kazoo": "/pool-__lock__"}


def children(lab: Lab, path: str) -> list[str]:
    return [p for p in lab.server.dump() if p.rpartition("/")[0] == path]


async def free(lab: Lab, layout: SemaphoreLayout, *clients: ZooKeeper) -> None:
    """Nothing is left: no lease, nobody at the gate, no watch."""
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert children(lab, LEASES[layout]) == []
    assert children(lab, GATE[layout]) == []
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)
