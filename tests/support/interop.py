"""For tests of our recipes beside those of other libraries, in real time: states to wait for."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from kazoo.client import KazooClient

from pyzk.client import NoNodeError, ZooKeeper
from pyzk.recipes.errors import WouldBlock
from pyzk.recipes.locks.grant import Grant
from pyzk.recipes.locks.lock import Lock
from pyzk.recipes.locks.names import Naming
from pyzk.server.testing import EmbeddedServer

PATIENCE = 10.0
"""Seconds that anything may take that is expected to happen."""

SEEN: list[Naming] = ["curator", "both"]
"""The namings that Curator sees."""


async def until(condition: Callable[[], Any]) -> Any:
    """Wait for what nothing announces. Returns what the condition, which may be async, comes to."""
    with trio.move_on_after(PATIENCE):
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await trio.sleep(0.002)
    raise AssertionError(f"it did not come to pass within {PATIENCE} s")


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


class Holder:
    """A task that takes a lock and keeps it until it is told to let go."""

    def __init__(self, zk: ZooKeeper, lock: Lock) -> None:
        self.grant: Grant | None = None
        self.granted = trio.Event()
        self._zk = zk
        self._lock = lock
        self._release = trio.Event()
        self._released = trio.Event()

    async def run(self) -> None:
        async with self._lock as self.grant:
            self.granted.set()
            await self._release.wait()
        self._released.set()

    async def release(self) -> None:
        self._release.set()
        await self._released.wait()

    async def waits(self) -> None:
        """Wait until it waits: it watches its own znode, both of a bridge, and the one before."""
        own = 2 if self._lock._terms.naming == "both" else 1
        await until(lambda: self._zk.watch_count == own + 1)
        assert not self.granted.is_set()


async def is_held(lock: Lock) -> bool:
    """Whether we would have to wait."""
    try:
        async with lock.try_acquire():
            return False
    except WouldBlock:
        return True


@asynccontextmanager
async def kazoo_client(hosts: str) -> AsyncIterator[KazooClient]:
    client = KazooClient(hosts)
    await trio.to_thread.run_sync(client.start)
    try:
        yield client
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(client.stop)
            await trio.to_thread.run_sync(client.close)
