"""The clients of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from pyzk.client import connect

from .scene import Clients, servers


@pytest.fixture
async def clients(chroot: str) -> AsyncIterator[Clients]:
    """Three clients. In the end they have left nothing behind: no watch, and no znode that is theirs."""
    async with AsyncExitStack() as stack:
        a, b, c = [await stack.enter_async_context(connect(each)) for each in servers(chroot)]
        yield a, b, c
        for zk in (a, b, c):
            await zk.sync()  # a cancelled create is answered by now, and what it created is the cleanup's
            await zk.cleanup.idle()
            assert zk.watch_count == 0
            assert await zk.get_ephemerals() == []
