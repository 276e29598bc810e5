"""Members of a double barrier, round by round."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes.double_barrier import READY, DoubleBarrier
from pyzk.recipes.errors import BarrierBroken

from ..support.lab import Lab

PATH = "/barriers/step"


class Member:
    """Takes part: ``working`` once it is in, ``done`` once it is out again. It works until :meth:`finish`."""

    def __init__(self, nursery: trio.Nursery, barrier: DoubleBarrier) -> None:
        self.zk = barrier.zk
        self.path = ""
        self.working = False
        self.done = False
        self.error: Exception | None = None
        self.scope = trio.CancelScope()
        self._end = trio.Event()
        nursery.start_soon(self._run, barrier)

    async def _run(self, barrier: DoubleBarrier) -> None:
        with self.scope:
            try:
                async with barrier as self.path:
                    self.working = True
                    await self._end.wait()
            except BarrierBroken as error:
                self.error = error
            else:
                self.done = True

    def finish(self) -> None:
        self._end.set()


class Round:
    """Members, each with a client of its own."""

    def __init__(self, nursery: trio.Nursery, lab: Lab) -> None:
        self.members: list[Member] = []
        self.nursery = nursery
        self._lab = lab

    async def join(self, n: int, zk: ZooKeeper | None = None, path: str = PATH) -> Member:
        """One more, which has had the time to come as far as it can."""
        member = Member(self.nursery, DoubleBarrier(zk or await self._lab.client(), path, n))
        self.members.append(member)
        await trio.sleep(1)
        return member

    @property
    def working(self) -> list[bool]:
        return [member.working for member in self.members]

    @property
    def done(self) -> list[bool]:
        return [member.done for member in self.members]


@pytest.fixture
async def round_(lab: Lab, nursery: trio.Nursery) -> Round:
    return Round(nursery, lab)


@pytest.fixture
def names_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first member has the lowest name, so it leaves last."""
    numbers: Iterator[int] = itertools.count(1)
    monkeypatch.setattr("pyzk.recipes.double_barrier.uuid.uuid4", lambda: uuid.UUID(int=next(numbers)))


def members_of(lab: Lab, path: str = PATH) -> list[str]:
    return [node for node in lab.server.dump() if node.startswith(f"{path}/") and not node.endswith(READY)]


async def nothing_is_left(lab: Lab, *clients: ZooKeeper) -> None:
    await trio.sleep(1)
    for zk in clients:
        await zk.cleanup.idle()
        assert zk.watch_count == 0
    assert members_of(lab) == []
    assert lab.watch_count == 0
