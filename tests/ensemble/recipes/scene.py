"""Three clients, each with a server of its own where there are three, and tasks that hold something."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import contenders

from ...support.waiting import until

Clients = tuple[ZooKeeper, ZooKeeper, ZooKeeper]
T = TypeVar("T")


def servers(chroot: str) -> list[str]:
    """A connect string for each of three clients."""
    hosts, slash, path = chroot.partition("/")
    each = hosts.split(",")
    return [each[number % len(each)] + slash + path for number in range(3)]


class Stay(Generic[T]):
    """A task that enters a block and stays until it is told to leave."""

    value: T

    def __init__(self, block: AbstractAsyncContextManager[T]) -> None:
        self._block = block
        self._entered = trio.Event()
        self._leave = trio.Event()
        self._left = trio.Event()

    @property
    def inside(self) -> bool:
        return self._entered.is_set() and not self._left.is_set()

    async def run(self) -> None:
        async with self._block as self.value:
            self._entered.set()
            await self._leave.wait()
        self._left.set()

    async def entered(self) -> T:
        with trio.fail_after(10):
            await self._entered.wait()
        return self.value

    def ask_to_leave(self) -> None:
        self._leave.set()

    async def leave(self) -> None:
        self.ask_to_leave()
        with trio.fail_after(10):
            await self._left.wait()


def stay(nursery: trio.Nursery, block: AbstractAsyncContextManager[T]) -> Stay[T]:
    task = Stay(block)
    nursery.start_soon(task.run)
    return task


async def in_line(zk: ZooKeeper, path: str, count: int) -> None:
    """Wait until so many stand at a lock."""

    async def enough() -> bool:
        return len(await contenders(zk, path)) == count

    await until(enough)


async def children(zk: ZooKeeper, path: str) -> list[str]:
    await zk.sync(path)
    return await zk.get_children(path)
