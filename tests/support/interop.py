"""What tests of our recipes beside those of Curator and kazoo have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from kazoo.client import KazooClient

from pyzk.client import ZooKeeper
from pyzk.recipes.errors import WouldBlock
from pyzk.recipes.locks.grant import Grant
from pyzk.recipes.locks.lock import Lock
from pyzk.recipes.locks.role import LockLayout
from pyzk.recipes.locks.semaphore import Semaphore

from .waiting import until

SEEN: list[LockLayout] = ["curator", "both"]
"""The layouts that Curator sees."""


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
        """Wait until the task waits: it watches its own znode (both of a bridge) and the one before."""
        own = 2 if self._lock._contest.role.layout == "both" else 1
        await until(lambda: self._zk.watch_count == own + 1)
        assert not self.granted.is_set()


async def is_held(lock: Lock | Semaphore) -> bool:
    """Whether an acquisition would have to wait."""
    try:
        async with lock.nowait():
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
