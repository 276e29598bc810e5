from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.server.testing import Controls

from .memory import client, open_memory_server
from .scripted import Script


@pytest.fixture
async def server() -> AsyncIterator[Controls]:
    """A server in virtual time."""
    # The clock has to be asked for by the test itself; a fixture of a fixture goes unnoticed.
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_memory_server(extended_types=True) as server:
        yield server


@pytest.fixture
async def zk(server: Controls) -> AsyncIterator[ZooKeeper]:
    """A client of it."""
    async with client(server) as zk:
        yield zk


@pytest.fixture
def script() -> Script:
    """A session machine that is connected."""
    script = Script()
    script.connect()
    return script
