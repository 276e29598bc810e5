"""Which container and TTL znodes are to go, and when (semantics.md section 13).

Every check interval all containers and TTL znodes are looked at, 1,000 of them at a time (2 ms) and then none
for 10 ms, so that nobody has to wait for it; those that are to go are handed out one by one, no faster than
the limit per minute. Deleting them, which may still fail, is the engine's business. Times are ms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from ..config.settings import Settings
from .tree import DataTree
from .znode import Znode

_AT_ONCE = 1000
_REST = 10


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
        self._unseen: deque[str] = deque()  # still to be looked at
        self._next_look: float = math.inf
        self._queue: deque[str] = deque()  # to be handed out
        self._next_deletion: float = math.inf

    def next_deadline(self) -> float:
        """When :meth:`due` has something to do; infinity while there is no container and no TTL znode."""
        if not self._queue and not self._unseen:
            return self.next_check if self._has_candidates() else math.inf
        next_deletion = math.ceil(self._next_deletion) if self._queue else math.inf
        return min(next_deletion, self._next_look) if self._unseen else next_deletion

    def _has_candidates(self) -> bool:
        return bool(self._tree.containers or self._tree.ttl_nodes)

    def idle_until(self, now: float) -> None:
        """Time has passed: leave out the checks that had nothing to look at, and keep their rhythm."""
        if not self._queue and not self._unseen and not self._has_candidates():
            self._skip_to(now)

    def _skip_to(self, now: float) -> None:
        self.next_check += self._interval * (1 + (now - self.next_check) // self._interval)

    def due(self, now: float, wall_time: int) -> Iterator[str]:
        """The paths to delete at ``now``; ``wall_time`` is the same moment in ms since the epoch."""
        if not self._queue and not self._unseen and self.next_check <= now:
            self._skip_to(now)  # first: whatever goes wrong, it is not tried again before its time
            self._next_look = self._next_deletion = now
            self._unseen.extend(self._tree.containers)
            self._unseen.extend(self._tree.ttl_nodes)
        if self._unseen and self._next_look <= now:
            if not self._queue:
                self._next_deletion = max(self._next_deletion, now)
            unseen, self._unseen = self._unseen, deque()  # likewise
            self._look(unseen, wall_time)
            self._unseen, self._next_look = unseen, now + _REST
        while self._queue and self._next_deletion <= now:
            self._next_deletion += self._pause
            yield self._queue.popleft()

    def _look(self, unseen: deque[str], wall_time: int) -> None:
        """Queue those that are to go among the next znodes."""
        for _ in range(min(_AT_ONCE, len(unseen))):
            path = unseen.popleft()
            node = self._tree.find(path)
            if node is not None and not node.children and self._is_stale(node, wall_time):
                self._queue.append(path)

    def _is_stale(self, node: Znode, wall_time: int) -> bool:
        idle = wall_time - node.mtime
        if node.is_container:
            return node.children_created > 0 or 0 < self._never_used < idle
        return node.ttl is not None and idle > node.ttl
