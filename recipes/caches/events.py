"""The stream of changes of a cache.

The rules:

* The events of one path together give the content of the cache for that path. A slow reader skips states in
  between, but never misses the last one.
* A znode that was deleted and created again is REMOVED and ADDED, never CHANGED.
* A path that was created and deleted before it was reported is left out.
* SYNCED and SUSPENDED are reported once each, at the place of the latest one.
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
    """A znode as it was last read.

    :ivar data: None if the cache holds no data, and for data that was never set.
    :ivar stat: as of the last read. A Stat that changes because a child comes or goes is no change here.
    """

    path: str
    data: bytes | None
    stat: Stat

    def same_as(self, other: CachedNode) -> bool:
        """Return whether the other is the same znode, without a write in between. The version cannot tell: it
        starts again when a znode is deleted and created again (recipe-rules.md trap E-43)."""
        return self.replaces(other) is False and self.stat.mzxid == other.stat.mzxid

    def replaces(self, other: CachedNode) -> bool:
        """Return whether the other znode was deleted, and this one created in its place."""
        return self.stat.czxid != other.stat.czxid


@attrs.frozen
class CacheEvent:
    """One change.

    :ivar path: the path of the znode; with SYNCED and SUSPENDED, the path of the cache.
    :ivar old: the znode as it was cached before; with CHANGED and REMOVED.
    :ivar new: the znode as it is cached now; with ADDED and CHANGED.
    """

    type: CacheEventType
    path: str
    old: CachedNode | None = None
    new: CachedNode | None = None


class Source(Protocol):
    """The cache, as a stream of events sees it."""

    path: str

    @property
    def nodes(self) -> Mapping[str, CachedNode]: ...

    @property
    def moved(self) -> trio.Event | None: ...


class CacheEvents:
    """The changes of a cache, as an async iterator that ends with the block of the cache. The first events
    are an ADDED for each cached znode."""

    def __init__(self, source: Source, beginning: Iterable[str | CacheEventType]) -> None:
        self._source = source
        self._reported: dict[str, CachedNode] = {}
        self._pending = OrderedDict.fromkeys(beginning)  # a plain dict is slow to give its first item

    def note(self, what: str | CacheEventType) -> None:
        """Called by the cache with a path that may have changed, or with SYNCED or SUSPENDED."""
        if isinstance(what, CacheEventType):
            self._pending.pop(what, None)  # only the latest one counts
        elif what not in self._reported and what not in self._source.nodes:
            self._pending.pop(what, None)  # it came and went before it was reported
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
        """Return the next event of a path: one step from the reported state to the cached state."""
        old, new = self._reported.get(path), self._source.nodes.get(path)
        if old is not None and (new is None or new.replaces(old)):
            del self._reported[path]
            return CacheEvent(CacheEventType.REMOVED, path, old=old)
        if new is None or (old is not None and new.same_as(old)):
            return None
        self._reported[path] = new
        kind = CacheEventType.ADDED if old is None else CacheEventType.CHANGED
        return CacheEvent(kind, path, old, new)
