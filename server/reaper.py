"""Which container and TTL znodes are to go, and when (semantics.md section 13).

Every check interval the candidates are looked up; they are then handed out one by one, no faster than the
limit per minute. Deleting them, which may still fail, is the engine's business. Times are ms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from .settings import Settings
from .tree import DataTree


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
        self._queue: deque[str] = deque()
        self._next_deletion: float = math.inf

    def next_deadline(self) -> float:
        """When :meth:`due` has something to do; infinity while there is no container and no TTL znode."""
        if self._queue:
            return math.ceil(self._next_deletion)
        return self.next_check if self._has_candidates() else math.inf

    def _has_candidates(self) -> bool:
        return bool(self._tree.containers or self._tree.ttl_nodes)

    def idle_until(self, now: float) -> None:
        """Time has passed: leave out the checks that had nothing to look at, and keep their rhythm."""
        if not self._queue and not self._has_candidates():
            self._skip_to(now)

    def _skip_to(self, now: float) -> None:
        self.next_check += self._interval * (1 + (now - self.next_check) // self._interval)

    def due(self, now: float, wall_time: int) -> Iterator[str]:
        """The paths to delete at ``now``; ``wall_time`` is the same moment in ms since the epoch."""
        if not self._queue and self.next_check <= now:
            self._next_deletion = now
            self._skip_to(now)  # first: whatever goes wrong, it is not tried again before its time
            self._queue.extend(self._candidates(wall_time))
        while self._queue and self._next_deletion <= now:
            self._next_deletion += self._pause
            yield self._queue.popleft()

    def _candidates(self, wall_time: int) -> Iterator[str]:
        nodes = self._tree.nodes
        for path in self._tree.containers:
            node = nodes[path]
            if node.children:
                continue
            idle = wall_time - node.mtime
            if node.cversion > 0 or (self._never_used > 0 and idle > self._never_used):
                yield path
        for path in self._tree.ttl_nodes:
            node = nodes[path]
            ttl = node.ttl
            if not node.children and ttl is not None and wall_time - node.mtime > ttl:
                yield path
