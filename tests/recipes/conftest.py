from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper

from ..support.lab import Lab, open_lab


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A server in virtual time."""
    # The clock has to be asked for by the test itself; a fixture of a fixture goes unnoticed.
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_lab() as lab:
        yield lab


@pytest.fixture
async def zk(lab: Lab) -> ZooKeeper:
    """A client of it."""
    return await lab.client()
