"""Watches as in releases before 3.9 (semantics.md sections 10.6 and 17). These rules differ from the rules of
:mod:`.watches`:

* In each registry a (path, connection) pair has a single mode, the last mode that was registered.
* A recursive watch is an entry of both registries. The entry in the child registry gets events of deletes
  below its path, but no events of new children. This matters if the entry in the data registry was replaced
  by another mode.
* checkWatches finds an entry of any connection at the path. removeWatches removes an entry of any mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...protocol.constants import EventType, WatcherType
from .watches import ANY_MODE, PERSISTENT, RECURSIVE, Delivery, W, WatchManager

_IN_DATA = (WatcherType.DATA, WatcherType.ANY)
_IN_CHILD = (WatcherType.CHILDREN, WatcherType.ANY)


class OneModeWatches(WatchManager[W]):
    """The watches of an emulated release before 3.9."""

    def add_recursive(self, path: str, watcher: W) -> None:
        """Add a persistent recursive watch, which has an entry in both registries here."""
        super().add_recursive(path, watcher)
        self._add(self._child, path, watcher, RECURSIVE)

    def _add(self, registry: dict[str, dict[W, int]], path: str, watcher: W, mode: int) -> None:
        entries = registry.get(path, {})
        if watcher in entries:
            if registry is self._data and entries[watcher] & RECURSIVE and mode != RECURSIVE:
                self._uncount(path)
            entries[watcher] = 0
        super()._add(registry, path, watcher, mode)

    def deleted(self, path: str, parent: str) -> list[Delivery[W]]:
        """Return the events of a delete. Recursive watches of the child registry get an event too."""
        deliveries = super().deleted(path, parent)
        told = {watcher for _, at, watchers in deliveries if at == path for watcher in watchers}
        late = dict.fromkeys(
            watcher
            for above in ancestors(path)
            for watcher, mode in self._child.get(above, {}).items()
            if mode == RECURSIVE and watcher not in told and watcher not in self._over
        )
        if late:
            before_children = len(deliveries) - (bool(deliveries) and deliveries[-1][0] == EventType.CHILD)
            deliveries.insert(before_children, (EventType.DELETED, path, list(late)))
        return deliveries

    def _children_changed(self, parent: str) -> Delivery[W]:
        entries = self._child.get(parent or "/", {})
        recursive = {watcher for watcher, mode in entries.items() if mode == RECURSIVE}
        event, path, watchers = super()._children_changed(parent)
        return event, path, [watcher for watcher in watchers if watcher not in recursive]

    def _drop(self, registry: dict[str, dict[W, int]], path: str, watcher: W, modes: int) -> bool:
        entries = registry.get(path, {})
        if registry is self._child and entries.get(watcher) == RECURSIVE:
            entries[watcher] = PERSISTENT  # only recursive entries of the data registry are counted
        return super()._drop(registry, path, watcher, modes)

    def has(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Return whether any watcher has an entry at a path."""
        found = [*self._data.get(path, ())] if kind in _IN_DATA else []
        found += self._child.get(path, ()) if kind in _IN_CHILD else ()
        return any(each not in self._over for each in found)

    def remove(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Remove a watch of any mode. The result is False if there was no such watch."""
        dropped = kind in _IN_DATA and self._drop(self._data, path, watcher, ANY_MODE)
        return (kind in _IN_CHILD and self._drop(self._child, path, watcher, ANY_MODE)) or dropped


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths above a path, the nearest first."""
    while path not in ("", "/"):
        path = path.rpartition("/")[0] or "/"
        yield path
