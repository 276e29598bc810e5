"""The table of workloads, and what most of them need.

A workload adds its workers to a scene: functions that are called with the api of a package
(``tests.bridge.drivers``), a client of their own, and a :class:`Worker`. They work until :meth:`Worker.step`
says that the run is over. A worker that waits for others is set free by them, as in a program: by a last
item, or a last leader.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable
from typing import Any, Self

import attrs

from pyzk.client import Backoff

from ...support.waiting import PATIENCE

UNTIL_ANSWERED = Backoff(idempotent=True)
"""For calls that may be carried out twice."""
PACE = 0.002
"""Seconds between two steps of a worker."""

Work = Callable[[Any, Any, "Worker"], Awaitable[None]]
Check = Callable[[Any, Any], Awaitable[None]]


@attrs.define
class Scene:
    """Where a workload is at work.

    :ivar path: of a znode of its own; for its clients it is the root.
    :ivar workers: what each does, by its name.
    :ivar steps: how many each has made.
    :ivar over: they are to stop.
    """

    path: str
    workers: dict[str, Work] = attrs.Factory(dict)
    steps: Tally[str] = attrs.Factory(Tally)
    over: bool = False
    ended: set[str] = attrs.Factory(set)

    def add(self, work: Work, times: int = 1) -> None:
        """Have so many workers run a function."""
        for number in range(times):
            self.workers[f"{work.__name__} {number}"] = work
            self.steps[f"{work.__name__} {number}"] = 0

    def at_work(self, *works: Work) -> int:
        """Count the workers that run one of these functions still."""
        return sum(work in works for name, work in self.workers.items() if name not in self.ended)


@attrs.frozen
class Worker:
    """What a worker knows of the run, besides its client."""

    name: str
    _api: Any
    _scene: Scene

    async def step(self) -> bool:
        """Count a step, and pause. Returns whether to go on."""
        self._scene.steps[self.name] += 1
        await self._api.sleep(PACE)
        return not self._scene.over

    async def linger(self) -> None:
        """Give others the time to come where they must not."""
        await self._api.sleep(4 * PACE)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{self.name} waits in vain"
            await self._api.sleep(PACE)


@attrs.frozen
class Workload:
    """How the clients of some recipes work.

    :ivar uses: the names of what it shows.
    :ivar build: adds the workers, and returns what is to be checked by a client after they have ended.
    """

    name: str
    uses: tuple[str, ...]
    build: Callable[[Scene], Check]


WORKLOADS: list[Workload] = []


def workload(*uses: str) -> Callable[[Callable[[Scene], Check]], Callable[[Scene], Check]]:
    """Enter a function into the table.

    :param uses: the recipes that it shows.
    """

    def enter(build: Callable[[Scene], Check]) -> Callable[[Scene], Check]:
        WORKLOADS.append(Workload(build.__name__, uses, build))
        return build

    return enter


class Inside:
    """A place that only so many may be in at a time.

    :ivar count: how many are there.
    """

    def __init__(self, most: int = 1) -> None:
        self.count = 0
        self._most = most
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        with self._lock:
            self.count += 1
            assert self.count <= self._most, f"{self.count} are inside"
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self.count -= 1


async def tree(api: Any, zk: Any, path: str) -> dict[str, bytes]:
    """Read all znodes below a path, after a sync."""
    await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
    found, paths = {}, [path]
    for each in paths:
        try:
            data, _ = await zk.get(each)
            names = await zk.get_children(each)
        except api.NoNodeError:
            continue
        found[each] = data
        paths += [f"{each}/{name}" for name in names]
    return found


def nothing_left(path: str) -> Check:
    """Check that no contender has left its znode."""

    async def check(api: Any, zk: Any) -> None:
        assert [each for each in await tree(api, zk, path) if each[-10:].isdigit()] == []

    return check
