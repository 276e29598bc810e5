"""Which container and TTL znodes are to go, and when (semantics.md section 13).

Every check interval the candidates are looked up, in steps if there are many to look at; they are then handed
out one by one, no faster than the limit per minute. Deleting them, which may still fail, is the engine's
business. Times are ms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

from .settings import Settings
from .tree import DataTree

_STEP = 1000
"""How many znodes are looked at in one step."""


class Reaper:
    """
    :ivar next_check: when the candidates are looked up next.
    """

    def __init__(self, tree: DataTree, settings: Settings, now: int) -> None:
        self._tree = tree
        self._interval = settings.container_check_interval
        self._pause = 60_000 / settings.container_max_per_minute
        self._never_used = settings.container_max_never_used
        self.next_check: float = now + self._interval
        self._search: Iterator[str | None] | None = None  # for candidates, while it is in progress
        self._queue: deque[str] = deque()
        self._next_deletion: float = math.inf

    def next_deadline(self) -> float:
        """When :meth:`due` has something to do; infinity while there is no container and no TTL znode."""
        if self._queue and self._search is None:
            return math.ceil(self._next_deletion)
        return self.next_check if self._has_candidates() or self._search is not None else math.inf

    def _has_candidates(self) -> bool:
        return bool(self._tree.containers or self._tree.ttl_nodes)

    def idle_until(self, now: float) -> None:
        """Time has passed: leave out the checks that had nothing to look at, and keep their rhythm."""
        if not self._queue and not self._has_candidates() and self._search is None:
            self._skip_to(now)

    def _skip_to(self, now: float) -> None:
        self.next_check += self._interval * (1 + (now - self.next_check) // self._interval)

    def due(self, now: float, wall_time: int, is_over: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """The paths to delete at ``now``; ``wall_time`` is the same moment in ms since the epoch.

        :param is_over: whether to leave the rest of a search for candidates to the next call.
        """
        if self._search is None and not self._queue and self.next_check <= now:
            self._search = self._candidates(wall_time)
        if self._search is not None:
            for found in self._search:
                if found is not None:
                    self._queue.append(found)
                elif is_over():
                    return
            self._search = None
            self._next_deletion = now
            self._skip_to(now)
        while self._queue and self._next_deletion <= now:
            self._next_deletion += self._pause
            yield self._queue.popleft()

    def _candidates(self, wall_time: int) -> Iterator[str | None]:
        """The paths; None between two steps, where others may change the tree."""
        for number, path in enumerate([*self._tree.containers, *self._tree.ttl_nodes], 1):
            node = self._tree.find(path)
            if node is not None and not node.children:
                idle = wall_time - node.mtime
                if node.is_container:
                    if node.cversion > 0 or (self._never_used > 0 and idle > self._never_used):
                        yield path
                elif node.ttl is not None and idle > node.ttl:
                    yield path
            if number % _STEP == 0:
                yield None
