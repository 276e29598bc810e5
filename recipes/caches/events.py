"""What a cache tells of the changes it sees."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Protocol, Self

import attrs
import trio

from ...client import Stat


class CacheEventType(enum.Enum):
    """What has happened."""

    ADDED = "the znode is there"
    CHANGED = "its data were written"
    REMOVED = "it is gone"
    SYNCED = "the cache has everything that the tree held when it began to read it"
    SUSPENDED = "the connection is lost: what the cache holds may be out of date"


@attrs.frozen
class CachedNode:
    """A znode as it was last read.

    :ivar data: None where data are not cached, and for data that were never set.
    :ivar stat: as of the last read. Children that come or go change a Stat without being a change of it here.
    """

    path: str
    data: bytes | None
    stat: Stat

    def same_as(self, other: CachedNode) -> bool:
        """Whether it is the same znode, and was not written in between. The version does not tell: it starts
        again when a znode is deleted and created anew (trap E-43)."""
        return self.replaces(other) is False and self.stat.mzxid == other.stat.mzxid

    def replaces(self, other: CachedNode) -> bool:
        """Whether that one was deleted, and this one created in its place."""
        return self.stat.czxid != other.stat.czxid


@attrs.frozen
class CacheEvent:
    """
    :ivar path: of the znode; of SYNCED and SUSPENDED that of the cache.
    :ivar old: what was cached before, with CHANGED and REMOVED.
    :ivar new: what is cached now, with ADDED and CHANGED.
    """

    type: CacheEventType
    path: str
    old: CachedNode | None = None
    new: CachedNode | None = None


class Source(Protocol):
    """What a stream of events needs of a cache."""

    path: str

    @property
    def nodes(self) -> Mapping[str, CachedNode]: ...

    @property
    def moved(self) -> trio.Event | None: ...


class CacheEvents:
    """The changes of a cache, as an async iterator that ends with the block of the cache.

    Begins with an ADDED for each znode that is there. What it says of a path, put together, is what the cache
    holds: who is slow finds several changes put into one, and never loses any. One that was deleted and
    created again is REMOVED and ADDED.
    """

    def __init__(self, source: Source, beginning: Iterable[str | CacheEventType]) -> None:
        self._source = source
        self._told: dict[str, CachedNode] = {}
        self._pending = OrderedDict.fromkeys(beginning)  # a plain dict is slow to give its first item

    def note(self, what: str | CacheEventType) -> None:
        """Called by the cache: a path may have changed; or SYNCED, SUSPENDED."""
        if isinstance(what, CacheEventType):
            self._pending.pop(what, None)  # it stands for all that was noted before it
        elif what not in self._told and what not in self._source.nodes:
            self._pending.pop(what, None)  # it has come and gone untold
            return
        self._pending[what] = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CacheEvent:
        """The next event."""
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
        """The next step from what was told of a path to what is there."""
        old, new = self._told.get(path), self._source.nodes.get(path)
        if old is not None and (new is None or new.replaces(old)):
            del self._told[path]
            return CacheEvent(CacheEventType.REMOVED, path, old=old)
        if new is None or (old is not None and new.same_as(old)):
            return None
        self._told[path] = new
        kind = CacheEventType.ADDED if old is None else CacheEventType.CHANGED
        return CacheEvent(kind, path, old, new)
