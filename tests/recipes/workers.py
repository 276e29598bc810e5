"""Members of a partitioner that work on what is theirs."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import LockLost, Rebalance
from pyzk.recipes.partitioner import Partitioner

from ..support.lab import TICK, Lab

SETTLE = 2.0
ITEMS = ["a", "b", "c", "d", "e"]


def partitioner(zk: ZooKeeper, id: str, items: Iterable[str] = ITEMS, **options: Any) -> Partitioner:
    return Partitioner(zk, "/work", items, id, **{"settle": SETTLE} | options)


def party(lab: Lab) -> list[str]:
    """The ids of those who are there."""
    names = [path.rpartition("/")[2] for path in lab.server.dump() if path.startswith("/work/party/")]
    return sorted(name.partition("-")[2] for name in names)


def member(lab: Lab, id: str) -> str:
    """The path of the znode of a member."""
    [path] = [path for path in lab.server.dump() if re.fullmatch(f"/work/party/[^-]*-{id}", path)]
    return path


async def nothing_left(lab: Lab, *clients: ZooKeeper) -> None:
    """No member, no lock, no watch."""
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    left = [path for path, node in lab.server.dump(form="nodes").items() if node.kind == "ephemeral"]
    assert left == []
    assert lab.watch_count == 0
    assert all(zk.watch_count == 0 for zk in clients)


async def lock(zk: ZooKeeper, item: str) -> str:
    """Have somebody hold the lock of an item; returns the znode."""
    path = f"/work/locks/{item}/{uuid.uuid4().hex}__lock__"
    return await zk.create(path, ephemeral=True, sequential=True, make_parents=True)


@attrs.define
class Worker:
    """A task that takes one share after the other.

    :ivar share: what it has now; None between two shares.
    :ivar history: why each share ended.
    """

    partitioner: Partitioner
    share: list[str] | None = None
    history: list[Exception] = attrs.Factory(list)
    _over: trio.Event = attrs.Factory(trio.Event)
    _scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    async def run(self) -> None:
        with self._scope:
            async with self.partitioner:
                while True:
                    try:
                        async with self.partitioner.share() as items:
                            self.share = list(items)
                            await trio.sleep_forever()
                    except (Rebalance, LockLost) as error:
                        self.history.append(error)
                    finally:
                        self.share = None
        self._over.set()

    async def stop(self) -> None:
        self._scope.cancel()
        await self._over.wait()


def shares(*workers: Worker) -> list[list[str] | None]:
    return [worker.share for worker in workers]


async def start(nursery: trio.Nursery, *partitioners: Partitioner) -> Sequence[Worker]:
    workers = [Worker(each) for each in partitioners]
    for worker in workers:
        nursery.start_soon(worker.run)
    await trio.sleep(2 * SETTLE)
    return workers
