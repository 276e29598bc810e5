"""Waiting for what nothing announces, in real time."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

import trio

from pyzk.client import NoNodeError, ZooKeeper
from pyzk.server.testing import EmbeddedServer

PATIENCE = 240.0
"""Seconds that anything may take that is expected to happen: a limit for a hang, on a slow machine too."""


def wait_until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Poll until a condition holds; gives back its value."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it did not come to pass within {patience} s"
        time.sleep(0.005)
    return value


async def until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Poll until a condition, which may be async, holds; gives back its value."""
    with trio.move_on_after(patience):
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await trio.sleep(0.002)
    raise AssertionError(f"it did not come to pass within {patience} s")


async def when_there_are(count: int, zk: ZooKeeper, path: str) -> None:
    """Wait until a znode has so many children."""

    async def enough() -> bool:
        try:
            return len(await zk.get_children(path)) == count
        except NoNodeError:
            return count == 0

    await until(enough)


async def waits_for(server: EmbeddedServer, session: int, path: str) -> None:
    """Wait until a session watches a path."""
    await until(lambda: any(s.id == session and path in s.watches for s in server.sessions()))
