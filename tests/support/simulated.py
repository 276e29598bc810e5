"""Contenders of other libraries (recipe-rules.md B.2.2): which znodes they create, and for which they wait.

They do not notice a loss; the cleanup of the client deletes what they leave behind.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType

import attrs

from pyzk.client import NoNodeError, ZooKeeper
from pyzk.recipes.base.blocks import TaskBlocks


@attrs.frozen
class SimulatedGrant:
    token: int
    paths: tuple[str, ...]
    shared: bool = False


def _curator(names: list[str], own: str) -> str | None:
    """All names take part; a name without the marker is its own key; keys are compared as text."""
    order = sorted(names, key=lambda name: name.rpartition("lock-")[2])
    at = order.index(own)
    return order[at - 1] if at else None


def _kazoo(names: list[str], own: str) -> str | None:
    """Names that end in its marker and ten digits; the digits are compared as text."""
    found = re.compile(r"__lock__-?\d{10}$")
    lower = [name for name in names if found.search(name) and name[-10:] < own[-10:]]
    return max(lower, key=lambda name: name[-10:], default=None)


def _go(names: list[str], own: str) -> str | None:
    """The number behind the last ``lock-``, else behind the last ``__``; any other text is an error."""

    def number(name: str) -> int:
        return int(name.rpartition("lock-")[2] if "lock-" in name else name.rpartition("__")[2])

    lower = [name for name in names if number(name) < number(own)]
    return max(lower, key=number, default=None)


LIBRARIES = {
    "Curator": ("_c_{dashed}-lock-", _curator),
    "kazoo (library)": ("{hex}__lock__", _kazoo),
    "Go": ("_c_{hex}-lock-", _go),
}


class SimulatedLock:
    """:param library: a key of :data:`LIBRARIES`."""

    def __init__(self, zk: ZooKeeper, path: str, library: str) -> None:
        self._zk = zk
        self._path = path
        self._pattern, self._blocker = LIBRARIES[library]
        self._blocks: TaskBlocks[SimulatedGrant] = TaskBlocks()

    async def __aenter__(self) -> SimulatedGrant:
        return await self._blocks.enter(self._hold())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._blocks.leave(kind, error, tb)

    @asynccontextmanager
    async def _hold(self) -> AsyncIterator[SimulatedGrant]:
        zk, attempt = self._zk, uuid.uuid4()
        prefix = self._pattern.format(dashed=attempt, hex=attempt.hex)
        try:
            path, stat = await zk.create_with_stat(f"{self._path}/{prefix}", ephemeral=True, sequential=True)
            own = path.rpartition("/")[2]
            while True:
                names = await zk.get_children(self._path)
                if own not in names:
                    raise NoNodeError(path)
                blocker = self._blocker(names, own)
                if blocker is None:
                    break
                try:
                    _, _, watch = await zk.get_and_watch(f"{self._path}/{blocker}")
                except NoNodeError:
                    continue
                with watch:
                    await watch.wait()
            yield SimulatedGrant(stat.czxid, (path,))
        finally:
            zk.cleanup.delete_prefixed(self._path, prefix)
