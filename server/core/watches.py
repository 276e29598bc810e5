"""The WatchManager decides which connections get which event (semantics.md section 10).

The rules:

* A watch belongs to a connection. There are two registries, data and child. An entry of a registry is a set
  of modes (standard, persistent, recursive) for a pair of path and connection.
* Exist watches are data watches. A persistent watch has an entry in both registries. A recursive watch has an
  entry in the data registry only, and also gets the events of znodes below its path.
* An event consumes the standard mode of each entry that it hits.

==================== ============================= ===========================
effect               data registry, at the path    child registry
==================== ============================= ===========================
create               created                       children changed, at parent
delete               deleted                       deleted, at the path; then
                                                   children changed, at parent
set data             changed
==================== ============================= ===========================

The cost of a change does not grow with the number of watches at other paths: one walk along the names of a
path finds the recursive watches above it. The end of a connection is cheap too: its entries become invalid
immediately, and are removed in steps of 1,000 paths.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Generic, TypeAlias, TypeVar

import attrs

from ...protocol.constants import WATCH_XID, EventType, KeeperState, WatcherType
from ...protocol.framing import frame
from ...protocol.records import ReplyHeader, WatcherEvent
from .txn import Create, Delete, Effect, SetData

STANDARD = 1
PERSISTENT = 2
RECURSIVE = 4
NULL_PATH = "null"
"""The key for watches on a null path. No znode has this path. Java prints this word for null."""
ANY_MODE = STANDARD | PERSISTENT | RECURSIVE
_ONCE = frozenset(modes for modes in range(ANY_MODE + 1) if modes & STANDARD)
_STEP = 1000
"""The number of paths of a forgotten watcher that one step removes, which takes about 1 ms."""

_FEW = 8
"""The largest number of prefixes that are compared one by one. With more prefixes a look-up costs less."""

W = TypeVar("W", bound=Hashable)

Delivery: TypeAlias = tuple[EventType, str, list[W]]
"""An event, the path in the event, and the watchers to notify."""

_REMOVES = {  # WatcherType: modes in the data registry, modes in the child registry (section 10.6)
    WatcherType.CHILDREN: (0, STANDARD),
    WatcherType.DATA: (STANDARD, 0),
    WatcherType.PERSISTENT: (PERSISTENT, PERSISTENT),
    WatcherType.PERSISTENT_RECURSIVE: (RECURSIVE, 0),
    WatcherType.ANY: (ANY_MODE, ANY_MODE),
}
_CHECKS = {**_REMOVES, WatcherType.PERSISTENT: (PERSISTENT, 0)}


@attrs.define(eq=False)
class Notification:
    """A watch event on its way to one or many connections.

    :ivar zxid: the zxid of the transaction that has caused the event; -1 for the catch-up events of
        setWatches.
    """

    zxid: int
    type: EventType
    path: str
    _frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        """The bytes on the wire. They are encoded only once for all connections."""
        if self._frame is None:
            event = WatcherEvent(self.type, KeeperState.SYNC_CONNECTED, self.path)
            self._frame = frame(ReplyHeader(WATCH_XID, self.zxid, 0).encode() + event.encode())
        return self._frame


class WatchManager(Generic[W]):
    """The watches of all connections. A watcher is any hashable object. The manager only stores and returns
    watchers.

    :ivar watchers: each watcher with the paths at which it may have entries. As long as this dict is empty,
        writes need no look-up.
    """

    def __init__(self) -> None:
        self._data: dict[str, dict[W, int]] = {}
        self._child: dict[str, dict[W, int]] = {}
        self.watchers: dict[W, dict[str, None]] = {}
        self._recursive: dict[int, dict[str, int]] = {}  # mark: path: the number of its recursive entries
        self._count = 0  # the number of entries
        self._over: dict[W, dict[str, None]] = {}  # forgotten watchers, with paths that may have entries
        # The last entries that an event has hit and not consumed: a multi may hit them again and again.
        self._lasting: tuple[dict[W, int], list[W]] = {}, []

    # --- registering -------------------------------------------------------------------------------------

    def add_data(self, path: str, watcher: W, mode: int = STANDARD) -> None:
        """Add a data watch."""
        self._add(self._data, path, watcher, mode)

    def add_child(self, path: str, watcher: W, mode: int = STANDARD) -> None:
        """Add a child watch."""
        self._add(self._child, path, watcher, mode)

    def add_persistent(self, path: str, watcher: W) -> None:
        """Add a persistent watch."""
        self._add(self._data, path, watcher, PERSISTENT)
        self._add(self._child, path, watcher, PERSISTENT)

    def add_recursive(self, path: str, watcher: W) -> None:
        """Add a persistent recursive watch."""
        if not self._data.get(path, {}).get(watcher, 0) & RECURSIVE:
            counts = self._recursive.setdefault(_marks(path)[-1], {})
            counts[path] = counts.get(path, 0) + 1
        self._add(self._data, path, watcher, RECURSIVE)

    def _add(self, registry: dict[str, dict[W, int]], path: str, watcher: W, mode: int) -> None:
        entries = registry.get(path)
        if entries is None:
            registry[path] = {watcher: mode}
            self._count += 1
        elif watcher in entries:
            entries[watcher] |= mode
            self._lasting = {}, []
        else:
            entries[watcher] = mode
            self._count += 1
        paths = self.watchers.get(watcher)
        if paths is None:
            self.watchers[watcher] = {path: None}
        else:
            paths[path] = None

    # --- firing: each event consumes the standard watches that it hits (section 10.2) -----------------------

    def hit(self, effect: Effect) -> Sequence[Delivery[W]]:
        """Return the events of an applied effect, in their order, each with the watchers to notify."""
        if isinstance(effect, SetData):
            return self.data_changed(effect.path)
        if isinstance(effect, Create):
            return self.created(effect.path, effect.parent)
        if isinstance(effect, Delete):
            return self.deleted(effect.path, effect.parent)
        return ()

    def created(self, path: str, parent: str) -> list[Delivery[W]]:
        """Return the events of a create, each with the watchers to notify."""
        return self._deliveries(
            (EventType.CREATED, path, self._take_data(path)), self._children_changed(parent)
        )

    def deleted(self, path: str, parent: str) -> list[Delivery[W]]:
        """Return the events of a delete, each with the watchers to notify."""
        told = self._take_data(path)
        others = self._take(self._child, path)
        if told and others:
            others = [watcher for watcher in others if watcher not in told]
        return self._deliveries(
            (EventType.DELETED, path, told), (EventType.DELETED, path, others), self._children_changed(parent)
        )

    def data_changed(self, path: str) -> list[Delivery[W]]:
        """Return the events of a change of data, each with the watchers to notify."""
        return self._deliveries((EventType.CHANGED, path, self._take_data(path)))

    def _children_changed(self, parent: str) -> Delivery[W]:
        parent = parent or "/"
        return (EventType.CHILD, parent, self._take(self._child, parent))

    @staticmethod
    def _deliveries(*deliveries: Delivery[W]) -> list[Delivery[W]]:
        return [delivery for delivery in deliveries if delivery[2]]

    def _take(self, registry: dict[str, dict[W, int]], path: str) -> list[W]:
        entries = registry.get(path)
        if entries is None:
            return []
        before, watchers = self._lasting
        if before is entries and len(watchers) == len(entries) and not self._over:
            return watchers
        watchers = list(entries)
        if len(watchers) > 1 and _ONCE.isdisjoint(entries.values()):  # the event consumes no entry
            self._lasting = entries, watchers
            return [each for each in watchers if each not in self._over] if self._over else watchers
        left = {watcher: modes & ~STANDARD for watcher, modes in entries.items() if modes != STANDARD}
        if left:
            registry[path] = left
        else:
            del registry[path]
        self._gone(registry, path, [each for each in watchers if each not in left] if left else watchers)
        if self._over:
            return [each for each in watchers if each not in self._over]
        return watchers

    def _take_data(self, path: str) -> list[W]:
        watchers = self._take(self._data, path)
        if not self._recursive:
            return watchers
        found = dict.fromkeys(watchers)
        for mark in _marks(path):
            for above in self._recursive.get(mark, ()):
                size = len(above)
                if above == "/" or (size and path.startswith(above) and path[size : size + 1] == "/"):
                    for watcher, modes in self._data[above].items():
                        if modes & RECURSIVE:
                            found[watcher] = None
        return [each for each in found if each not in self._over] if self._over else list(found)

    def watched(self, paths: Mapping[str, object], below: Mapping[str, list[str]]) -> Iterator[str]:
        """Yield the paths whose changes may hit a watch; a path may be yielded more than once.

        :param below: the same paths, by their parents.
        """
        yield from self._data.keys() & paths.keys()
        yield from self._child.keys() & paths.keys()
        for parent in self._child.keys() & below.keys():
            yield from below[parent]
        tops = tuple(f"{path.rstrip('/')}/" for counts in self._recursive.values() for path in counts)
        if len(tops) <= _FEW:
            yield from (path for path in paths if path.startswith(tops)) if tops else ()
        else:
            known = set(tops)
            yield from (path for path in paths if not known.isdisjoint(_above(path)))

    # --- asking and removing -----------------------------------------------------------------------------

    def has(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Return whether a watcher has a watch of a kind, for checkWatches."""
        data, child = _CHECKS[kind]
        return bool(
            self._data.get(path, {}).get(watcher, 0) & data
            or self._child.get(path, {}).get(watcher, 0) & child
        )

    def remove(self, path: str, watcher: W, kind: WatcherType) -> bool:
        """Remove a watch, for removeWatches. The result is False if there was no such watch."""
        data, child = _REMOVES[kind]
        dropped = self._drop(self._data, path, watcher, data)
        return self._drop(self._child, path, watcher, child) or dropped

    def _drop(self, registry: dict[str, dict[W, int]], path: str, watcher: W, modes: int) -> bool:
        entries = registry.get(path)
        before = entries.get(watcher, 0) if entries else 0
        if entries is None or not before & modes:
            return False
        self._lasting = {}, []
        if before & modes & RECURSIVE:
            self._uncount(path)
        left = before & ~modes
        if left:
            entries[watcher] = left
            return True
        del entries[watcher]
        if not entries:
            del registry[path]
        self._gone(registry, path, (watcher,))
        return True

    @property
    def any_recursive(self) -> bool:
        """Whether there is a recursive watch."""
        return bool(self._recursive)

    def _uncount(self, path: str) -> None:
        """Subtract one recursive entry at ``path``."""
        mark = _marks(path)[-1]
        counts = self._recursive[mark]
        counts[path] -= 1
        if not counts[path]:
            del counts[path]
        if not counts:
            del self._recursive[mark]

    def _gone(self, registry: dict[str, dict[W, int]], path: str, watchers: Iterable[W]) -> None:
        """Subtract entries that were removed from a registry at ``path``. If a watcher has no other entry at
        the path, its list of paths loses the path."""
        others = (self._child if registry is self._data else self._data).get(path, {})
        for watcher in watchers:
            self._count -= 1
            if watcher not in others and watcher not in self._over:
                paths = self.watchers[watcher]
                del paths[path]
                if not paths:
                    del self.watchers[watcher]

    def forget(self, watcher: W) -> None:
        """Drop all watches of a connection that has ended. If the connection has entries at more than 1,000
        paths, its entries get no events any more, and :meth:`sweep` removes them."""
        paths = self.watchers.pop(watcher, None)
        if paths:
            self._over[watcher] = paths
            if len(paths) <= _STEP and len(self._over) == 1:
                self.sweep()

    @property
    def unswept(self) -> bool:
        """Whether :meth:`sweep` has entries of forgotten watchers to remove."""
        return bool(self._over)

    def sweep(self) -> None:
        """Remove the next entries of forgotten watchers."""
        watcher, paths = next(iter(self._over.items()))
        for _ in range(min(_STEP, len(paths))):
            self.remove(paths.popitem()[0], watcher, WatcherType.ANY)
        if not paths:
            del self._over[watcher]

    # --- for the operator --------------------------------------------------------------------------------

    def count(self) -> int:
        """Count the entries of both registries. The count includes entries of forgotten watchers that
        :meth:`sweep` has not yet removed."""
        return self._count

    def data_by_path(self) -> Iterator[tuple[str, list[W]]]:
        """Yield each path of the data registry with its watchers, for ``wchs``, ``wchc`` and ``wchp``.

        The registry may change meanwhile. Each path is yielded with the watchers that it has at that moment,
        also if it has no watchers any more. New paths are left out.
        """
        for path in list(self._data):
            yield path, [each for each in self._data.get(path, ()) if each not in self._over]

    def summary(self) -> Iterator[tuple[int, int, int]]:
        """Count the watchers, the paths and the entries of the data registry. Only the last result that is
        yielded is complete."""
        watchers: set[W] = set()
        paths = entries = 0
        yield 0, 0, 0
        for _, told in self.data_by_path():
            watchers.update(told)
            paths += bool(told)
            entries += len(told)
            yield len(watchers), paths, entries

    def sees_data(self, path: str, watcher: W) -> bool:
        """Return whether a watcher has an entry for a path in the data registry."""
        return watcher in self._data.get(path, ())

    def count_at(self, path: str) -> dict[str, int]:
        """Count the entries of each registry at a path."""
        return {"data": len(self._data.get(path, ())), "child": len(self._child.get(path, ()))}

    def paths(self) -> list[list[str]]:
        """List the paths of the data registry, and the paths of the child registry."""
        return [list(self._data), list(self._child)]

    def modes_of(self, path: str, watcher: W) -> tuple[int, int]:
        """Return the modes of a watcher in the data and in the child registry."""
        return self._data.get(path, {}).get(watcher, 0), self._child.get(path, {}).get(watcher, 0)

    def modes_at(self, path: str, most: int) -> list[tuple[W, int, int]]:
        """List the first watchers of a path, each with its modes in the data and in the child registry."""
        data, child = self._data.get(path, {}), self._child.get(path, {})
        watchers = chain(data, (watcher for watcher in child if watcher not in data))
        live = (watcher for watcher in watchers if watcher not in self._over)
        return [(watcher, data.get(watcher, 0), child.get(watcher, 0)) for watcher in islice(live, most)]

    def paths_of(self, watcher: W) -> list[str]:
        """Return all paths on which a watcher has a watch."""
        return list(self.watchers.get(watcher, ()))


def _above(path: str) -> Iterator[str]:
    """Yield the paths above a path, the root first. Each has a ``/`` at its end."""
    end = path.find("/")
    while end >= 0:
        yield path[: end + 1]
        end = path.find("/", end + 1)


def _marks(path: str) -> list[int]:
    """Return a number for each path from the root down to ``path``. Equal paths have equal numbers. Two
    different paths almost never have equal numbers. The number of a path is made from the number of its
    parent and from its name. So one pass over the path makes all numbers."""
    mark = 0
    return [mark := hash((mark, name)) for name in path.rstrip("/").split("/")]
