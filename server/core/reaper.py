"""The Reaper decides when the server deletes container znodes and TTL znodes (semantics.md section 13).

All times are whole ms. The rules:

* In each check interval all container znodes and TTL znodes are checked. A step checks 1,000 znodes and takes
  2 ms. There is a pause of 10 ms between two steps, so that no client waits.
* A container is deleted if it has no children now but had a child before. If the settings say so, a container
  that never had a child is deleted after some time.
* A TTL znode without children is deleted if its TTL has passed since the last write to it.
* The reaper returns the paths one by one, at most as many per minute as the settings allow. The engine
  deletes the znode, unless the znode has changed meanwhile.
* While there are no containers and no TTL znodes, there are no checks. The times of later checks do not move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..config.settings import Settings
from .sessions import NEVER
from .tree import DataTree
from .znode import Znode

_AT_ONCE = 1000
"""The number of znodes that one step checks, which takes 2 ms."""
_REST = 10
"""The pause between two steps, in ms."""
_MINUTE = 60_000


class Reaper:
    """The timer that finds the znodes to delete.

    :ivar tree: the tree with the znodes.
    :ivar next_check: the time of the next check of all znodes, in ms.
    """

    def __init__(self, tree: DataTree, settings: Settings, now: int) -> None:
        self.tree = tree
        self._interval = settings.container_check_interval
        self._per_minute = settings.container_max_per_minute
        self._never_used = settings.container_max_never_used
        self.next_check = now + self._interval
        self._unseen: deque[str] = deque()  # paths that this check has not yet checked
        self._next_look = NEVER
        self._queue: deque[str] = deque()  # paths to return
        self._since = now  # the time of the first deletion since the last pause; the limit counts from it
        self._deleted = 0  # the number of paths that were returned since then

    def next_deadline(self) -> int:
        """Return the time in ms at which to call :meth:`due`; :data:`.sessions.NEVER` while there is no
        container and no TTL znode."""
        if not self._queue and not self._unseen:
            return self.next_check if self._has_candidates() else NEVER
        return min(self._next_deletion if self._queue else NEVER, self._next_look if self._unseen else NEVER)

    @property
    def _next_deletion(self) -> int:
        """The time at which the limit per minute allows the next deletion, rounded up."""
        return self._since - (-self._deleted * _MINUTE // self._per_minute)

    def _start_deletions(self, now: int) -> None:
        self._since, self._deleted = now, 0

    def _has_candidates(self) -> bool:
        return bool(self.tree.containers or self.tree.ttl_nodes)

    def idle_until(self, now: int) -> None:
        """If there are no znodes to check, skip the checks that are due until ``now``. The times of later
        checks do not move."""
        if not self._queue and not self._unseen and not self._has_candidates():
            self._skip_to(now)

    def _skip_to(self, now: int) -> None:
        self.next_check += self._interval * (1 + (now - self.next_check) // self._interval)

    def due(self, now: int, wall_time: int) -> Iterator[str]:
        """Yield the paths to delete.

        :param now: the monotonic time in ms.
        :param wall_time: the same moment in ms since the epoch.
        """
        if not self._queue and not self._unseen and self.next_check <= now:
            self._skip_to(now)  # first: if the rest fails, the next check still comes at its usual time
            self._next_look = now
            self._start_deletions(now)
            self._unseen.extend(self.tree.containers)
            self._unseen.extend(self.tree.ttl_nodes)
        if self._unseen and self._next_look <= now:
            if not self._queue and self._next_deletion < now:
                self._start_deletions(now)
            unseen, self._unseen = self._unseen, deque()  # first: if the rest fails, this check ends
            self._look(unseen, wall_time)
            self._unseen, self._next_look = unseen, now + _REST
        while self._queue and self._next_deletion <= now:
            self._deleted += 1
            yield self._queue.popleft()

    def _look(self, unseen: deque[str], wall_time: int) -> None:
        """Check the next znodes, and queue the paths of the znodes to delete."""
        for _ in range(min(_AT_ONCE, len(unseen))):
            path = unseen.popleft()
            node = self.tree.find(path)
            if node is not None and not node.children and self._is_stale(node, wall_time):
                self._queue.append(path)

    def _is_stale(self, node: Znode, wall_time: int) -> bool:
        idle = wall_time - node.mtime
        if node.is_container:
            return node.children_created > 0 or 0 < self._never_used < idle
        return node.ttl is not None and idle > node.ttl
