"""Long reads that run in turns, so that no client waits for them.

* A function that reads many objects calls :meth:`Turns.pause` between them. After each 5 ms of work, the
  tasks that serve clients run. So the tree may change during the read, and an answer may mix the states of
  several moments.
* A collection may change between two turns. So its names are listed first. For 300,000 names this takes 3 ms.
* An answer has the first objects in the order of their names, and says whether there are more objects.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

import trio

from ...core.tree import DataTree
from ...core.znode import Znode
from ...net.service import SLICE
from ...testing import tree_io
from ...testing.tree_io import Node, walk

T = TypeVar("T")

_CHUNK = 2000
"""The number of names that are read between two pauses. To read so many names takes at most 1 ms."""


class Turns:
    """The work of one request, cut into turns."""

    def __init__(self) -> None:
        self._end = time.perf_counter() + SLICE

    async def pause(self) -> None:
        """Let other tasks run if this turn has taken its time."""
        if time.perf_counter() >= self._end:
            await trio.lowlevel.checkpoint()
            self._end = time.perf_counter() + SLICE

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Return the value of a generator that yields between its steps."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
            await self.pause()


async def first_names(
    lists: Iterable[Sequence[str]],
    wanted: Callable[[str], bool],
    limit: int,
    turns: Turns,
    *,
    after: str = "",
) -> tuple[list[str], bool]:
    """Return the first names in their order, and whether there are more names.

    :param lists: all names. The same name can be in several lists.
    :param wanted: whether a name counts.
    :param after: only names after this one.
    """
    found: list[str] = []
    last = None  # names from here on are not among the first
    for names in lists:
        for start in range(0, len(names), _CHUNK):
            chunk = names[start : start + _CHUNK]
            behind = {
                name for name in chunk if name > after and (last is None or name < last) and wanted(name)
            }
            if behind:
                found = sorted(behind.union(found))[: limit + 1]
                if len(found) > limit:
                    last = found[-1]
            await turns.pause()
    return found[:limit], len(found) > limit


async def read(tree: DataTree, path: str, turns: Turns) -> dict[str, Node]:
    """Do what :func:`.tree_io.read` does, in turns."""
    chunks: list[list[tuple[str, str, Znode]]] = [[]]
    for at, node in walk(tree, path):
        reserved = f"{at}/".startswith(f"{tree_io.RESERVED}/")
        if not reserved and (at != "/" or node.data):
            # a / counts less than any other character: a znode's children follow it at once
            chunks[-1].append((at.replace("/", "\0"), at, node))
        if len(chunks[-1]) >= _CHUNK:
            chunks[-1].sort()
            chunks.append([])
        await turns.pause()
    chunks[-1].sort()
    found = {}
    for _, at, node in heapq.merge(*chunks):
        found[at] = tree_io.node_of(node)
        await turns.pause()
    return found
