"""A client that was opened and closed leaves no thread, no socket, no task and no session."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pyzk import aio, blocking
from pyzk.bridge.loop import Loop
from pyzk.bridge.objects import Wrapper
from pyzk.bridge.workers import Worker
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
CYCLES = 10_000 if NIGHTLY else 1_000
PATIENCE = math.inf if NIGHTLY else 4.0
"""Seconds: on a busy machine there are fewer cycles."""


def blocking_cycles(hosts: str, count: int) -> None:
    end = time.monotonic() + PATIENCE
    for _ in range(count):
        if time.monotonic() > end:
            break
        with blocking.connect(hosts) as zk, blocking.Lock(zk, "/lock"):
            pass


def aio_cycles(hosts: str, count: int) -> None:
    async def main() -> None:
        end = time.monotonic() + PATIENCE
        for _ in range(count):
            if time.monotonic() > end:
                break
            async with aio.connect(hosts) as zk, aio.Lock(zk, "/lock"):
                pass
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def counts() -> dict[str, int]:
    gc.collect()
    kinds = (Loop, Worker, Wrapper, asyncio.Task)
    alive = {kind.__name__: sum(isinstance(each, kind) for each in gc.get_objects()) for kind in kinds}
    sockets = len(list(Path("/proc/self/fd").iterdir()))
    return {**alive, "threads": threading.active_count(), "files": sockets}


@pytest.mark.parametrize("cycles", [blocking_cycles, aio_cycles], ids=["blocking", "aio"])
def test_a_thousand_clients_leave_nothing(cycles: Callable[[str, int], None]) -> None:
    with EmbeddedServer(record=False) as server:
        cycles(server.hosts, 5)
        before = counts()
        cycles(server.hosts, CYCLES)

        def grown() -> dict[str, int]:
            # fewer is well: what another test has left may end meanwhile
            return {kind: count for kind, count in counts().items() if count > before[kind]}

        with suppress(AssertionError):
            wait_until(lambda: not grown())  # the server closes its sockets in a thread of its own
        assert grown() == {}
        assert server.sessions() == []
