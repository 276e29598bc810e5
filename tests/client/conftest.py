from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper

from .world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server in virtual time."""
    # The clock has to be asked for by the test itself; a fixture of a fixture goes unnoticed.
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_world(extended_types=True) as world:
        yield world


@pytest.fixture
async def zk(world: World) -> AsyncIterator[ZooKeeper]:
    """A client of it."""
    async with world.connect() as zk:
        yield zk
