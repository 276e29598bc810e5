"""The stream of changes of a cache.

The rules:

* All events of a path together give the content of the cache for this path. A slow reader skips states in
  between, but never misses the last state.
* A znode that was deleted and created again is reported as REMOVED and ADDED, never as CHANGED.
* A path that was created and deleted before it was reported is left out.
* If SYNCED occurs several times before the stream reports it, the stream reports SYNCED once, at the place of
  the latest occurrence. The same is true for SUSPENDED.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Protocol, Self

import attrs
import trio

from ...client import Stat


class CacheEventType(enum.Enum):
    """The kind of a change."""

    ADDED = "the znode is there"
    CHANGED = "the data of the znode was written"
    REMOVED = "the znode is gone"
    SYNCED = "the cache has everything that the tree held when the last walk began"
    SUSPENDED = "the connection is lost: the cache may be out of date"


@attrs.frozen
class CachedNode:
    """A znode, as the last read returned it.

    :ivar data: the data; None if the cache holds no data or the data is null.
    :ivar stat: the Stat of the last read. If a child is created or deleted, the parent's Stat changes, but
        this makes no event for the parent.
    """

    path: str
    data: bytes | None
    stat: Stat

    def same_as(self, other: CachedNode) -> bool:
        """Return whether both reads have returned the same znode, without a write in between. The version is
        not enough to decide this, because it starts again when a znode is deleted and created again
        (recipe-rules.md trap E-43)."""
        return self.replaces(other) is False and self.stat.mzxid == other.stat.mzxid

    def replaces(self, other: CachedNode) -> bool:
        """Return whether the other znode was deleted, and this znode was created in its place."""
        return self.stat.czxid != other.stat.czxid


@attrs.frozen
class CacheEvent:
    """One change.

    :ivar path: the path of the znode. For SYNCED and SUSPENDED it is the path of the cache.
    :ivar old: the znode before the change. Only CHANGED and REMOVED have it.
    :ivar new: the znode after the change. Only ADDED and CHANGED have it.
    """

    type: CacheEventType
    path: str
    old: CachedNode | None = None
    new: CachedNode | None = None


class Source(Protocol):
    """The interface of the cache for a stream of events."""

    path: str

    @property
    def nodes(self) -> Mapping[str, CachedNode]: ...

    @property
    def moved(self) -> trio.Event | None: ...


class CacheEvents:
    """The changes of a cache, as an async iterator. The stream begins with an event ADDED for each cached
    znode, and ends with the block of the cache."""

    def __init__(self, source: Source, beginning: Iterable[str | CacheEventType]) -> None:
        self._source = source
        self._reported: dict[str, CachedNode] = {}
        self._pending = OrderedDict.fromkeys(beginning)  # a plain dict is slow to return its first item

    def note(self, what: str | CacheEventType) -> None:
        """Note a path that may have changed, or SYNCED or SUSPENDED. The cache calls this."""
        if isinstance(what, CacheEventType):
            self._pending.pop(what, None)  # only the latest one is reported
        elif what not in self._reported and what not in self._source.nodes:
            self._pending.pop(what, None)  # created and deleted before it was reported
            return
        self._pending[what] = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CacheEvent:
        """Wait for the next event."""
        await trio.lowlevel.checkpoint()
        while True:
            event = self._next()
            if event is not None:
                return event
            moved = self._source.moved
            if moved is None:
                raise StopAsyncIteration
            await moved.wait()

    def _next(self) -> CacheEvent | None:
        while self._pending:
            what = next(iter(self._pending))
            if isinstance(what, CacheEventType):
                del self._pending[what]
                return CacheEvent(what, self._source.path)
            event = self._compare(what)
            if event is not None:
                return event
            del self._pending[what]
        return None

    def _compare(self, path: str) -> CacheEvent | None:
        """Return the next event of a path. The event is one step from the last reported znode to the cached
        znode."""
        old, new = self._reported.get(path), self._source.nodes.get(path)
        if old is not None and (new is None or new.replaces(old)):
            del self._reported[path]
            return CacheEvent(CacheEventType.REMOVED, path, old=old)
        if new is None or (old is not None and new.same_as(old)):
            return None
        self._reported[path] = new
        kind = CacheEventType.ADDED if old is None else CacheEventType.CHANGED
        return CacheEvent(kind, path, old, new)
