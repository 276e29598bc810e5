"""The WatchManager: who is to be told what (semantics.md section 10).

A watch belongs to a connection. There are two registries, data and child; in each a (path, connection) pair
holds a set of modes. Exist watches are data watches. A persistent watch is an entry of both registries, a
recursive one of the data registry only, and it also sees what happens below its path.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

import attrs

from ..protocol.constants import EventType, WatcherType

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4
_ANY = STANDARD | PERSISTENT | RECURSIVE

W = TypeVar("W", bound=Hashable)

Step: TypeAlias = tuple[EventType, str, list[W]]
"""An event, the path it carries, and the watchers to tell."""

_REMOVES = {  # WatcherType: modes in the data registry, modes in the child registry (section 10.6)
    WatcherType.CHILDREN: (0, STANDARD),
    WatcherType.DATA: (STANDARD, 0),
    WatcherType.PERSISTENT: (PERSISTENT, PERSISTENT),
    WatcherType.PERSISTENT_RECURSIVE: (RECURSIVE, 0),
    WatcherType.ANY: (_ANY, _ANY),
}
_CHECKS = {**_REMOVES, WatcherType.PERSISTENT: (PERSISTENT, 0)}


@attrs.define(eq=False)
class Notification:
    """A watch event on its way to one or many connections.

    :ivar zxid: of the transaction that caused it; -1 for the catch-up events of setWatches.
    :ivar encoded: the frame on the wire, kept by the first connection that makes it.
    """

    zxid: int
    type: EventType
    path: str
    encoded: bytes | None = None


class WatchManager(Generic[W]):
    """Watchers are any hashable objects; the manager only hands them back.

    :ivar watchers: each with the paths where it may have entries; while this is empty, writes need not ask.
    """

    def __init__(self) -> None:
        self._data: dict[str, dict[W, int]] = {}
        self._child: dict[str, dict[W, int]] = {}
        self.watchers: dict[W, dict[str, None]] = {}
        self._recursive = 0  # how many recursive entries there are: while none, no ancestor is looked at

    # --- registering -------------------------------------------------------------------------------------

    def add_data(self, path: str, watcher: W, mode: int = STANDARD) -> None:
        self._add(self._data, path, watcher, mode)

    def add_child(self, path: str, watcher: W, mode: int = STANDARD) -> None:
        self._add(self._child, path, watcher, mode)

    def add_persistent(self, path: str, watcher: W) -> None:
        self._add(self._data, path, watcher, PERSISTENT)
        self._add(self._child, path, watcher, PERSISTENT)

    def add_recursive(self, path: str, watcher: W) -> None:
        if not self._data.get(path, {}).get(watcher, 0) & RECURSIVE:
            self._recursive += 1
        self._add(self._data, path, watcher, RECURSIVE)

    def _add(self, registry: dict[str, dict[W, int]], path: str, watcher: W, mode: int) -> None:
        entries = registry.get(path)
        if entries is None:
            registry[path] = {watcher: mode}
        else:
            entries[watcher] = entries.get(watcher, 0) | mode
        paths = self.watchers.get(watcher)
        if paths is None:
            self.watchers[watcher] = {path: None}
        else:
            paths[path] = None

    # --- firing: each step consumes the standard watches it hits (section 10.2) --------------------------

    def created(self, path: str, parent: str) -> list[Step[W]]:
        return self._steps((EventType.CREATED, path, self._take_data(path)), self._children_changed(parent))

    def deleted(self, path: str, parent: str) -> list[Step[W]]:
        told = self._take_data(path)
        others = self._take(self._child, path)
        if told and others:
            others = [watcher for watcher in others if watcher not in told]
        return self._steps(
            (EventType.DELETED, path, told), (EventType.DELETED, path, others), self._children_changed(parent)
        )

    def data_changed(self, path: str) -> list[Step[W]]:
        return self._steps((EventType.CHANGED, path, self._take_data(path)))

    def _children_changed(self, parent: str) -> Step[W]:
        parent = parent or "/"
        return (EventType.CHILD, parent, self._take(self._child, parent))

    @staticmethod
    def _steps(*steps: Step[W]) -> list[Step[W]]:
        return [step for step in steps if step[2]]

    def _take(self, registry: dict[str, dict[W, int]], path: str) -> list[W]:
        entries = registry.get(path)
        if entries is None:
            return []
        watchers = list(entries)
        left = {watcher: modes & ~STANDARD for watcher, modes in entries.items() if modes != STANDARD}
        if left:
            registry[path] = left
        else:
            del registry[path]
        self._gone(registry, path, [each for each in watchers if each not in left] if left else watchers)
        return watchers

    def _take_data(self, path: str) -> list[W]:
        watchers = self._take(self._data, path)
        if not self._recursive:
            return watchers
        found = dict.fromkeys(watchers)
        above = path
        while above != "/":
            above = above[: above.rindex("/")] or "/"
            for watcher, modes in self._data.get(above, {}).items():
                if modes & RECURSIVE:
                    found[watcher] = None
        return list(found)

    # --- asking and removing -----------------------------------------------------------------------------

    def has(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """What checkWatches asks."""
        data, child = _CHECKS[kind]
        return bool(
            self._data.get(path, {}).get(watcher, 0) & data
            or self._child.get(path, {}).get(watcher, 0) & child
        )

    def remove(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """What removeWatches does; False if nothing was there."""
        data, child = _REMOVES[kind]
        dropped = self._drop(self._data, path, watcher, data)
        return self._drop(self._child, path, watcher, child) or dropped

    def _drop(self, registry: dict[str, dict[W, int]], path: str, watcher: W, modes: int) -> bool:
        entries = registry.get(path)
        before = entries.get(watcher, 0) if entries else 0
        if entries is None or not before & modes:
            return False
        self._recursive -= bool(before & modes & RECURSIVE)
        left = before & ~modes
        if left:
            entries[watcher] = left
            return True
        del entries[watcher]
        if not entries:
            del registry[path]
        self._gone(registry, path, (watcher,))
        return True

    def _gone(self, registry: dict[str, dict[W, int]], path: str, watchers: Iterable[W]) -> None:
        """These have no entry at ``path`` any more in one of the registries."""
        others = (self._child if registry is self._data else self._data).get(path, {})
        for watcher in watchers:
            if watcher not in others:
                paths = self.watchers[watcher]
                del paths[path]
                if not paths:
                    del self.watchers[watcher]

    def forget(self, watcher: W) -> None:
        """Drop all watches of a connection that ended."""
        for path in list(self.watchers.get(watcher, ())):
            self.remove(path, watcher, WatcherType.ANY)

    # --- for the operator --------------------------------------------------------------------------------

    def count(self) -> int:
        """All entries of both registries."""
        return sum(len(e) for e in self._data.values()) + sum(len(e) for e in self._child.values())

    def data_by_path(self) -> Iterator[tuple[str, list[W]]]:
        """The data registry: it alone is what ``wchs``, ``wchc`` and ``wchp`` show."""
        for path, entries in self._data.items():
            yield path, list(entries)

    def paths_of(self, watcher: W) -> list[str]:
        """Every path this watcher has a watch on."""
        return list(self.watchers.get(watcher, ()))
