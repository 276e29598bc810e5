"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ..recipes import CachedNode, CacheEvent
from ..recipes.caches.cache import Cache as TrioCache
from ..recipes.caches.cache import ChildrenCache as TrioChildrenCache
from ..recipes.caches.cache import NodeCache as TrioNodeCache
from ..recipes.caches.cache import Selector
from ..recipes.caches.cache import TreeCache as TrioTreeCache
from ..recipes.caches.events import CacheEvents as TrioCacheEvents
from .base import Running
from .client import ZooKeeper
from .wrapper import TaskWrapper


class Cache(Running, of=TrioCache):
    """A copy of a znode and of the znodes below it, kept up to date until the end of the block.

        async with Cache(zk, "/app") as cache:
            await cache.synced()
            print(cache["/app/config"].data)
            async for event in cache.events():
                ...

    The block begins at once, even without a connection. The znode and the znodes below it may be created and
    deleted at any time. Each cached znode shows a moment in the past. These moments differ, so the cache is
    not a snapshot. After the block the cache can still be read, but it does not change any more.

    The cache uses one persistent watch. On servers before 3.6 the cache uses two one-shot watches for each
    znode. An error of a read, for example :class:`NoAuthError`, cancels the block, and the block raises the
    error. A selector can leave out a znode that cannot be read.

    :param depth: the number of cached levels below the znode; None means all levels.
    :param with_data: whether the data is cached. If False, only the Stats are cached.
    :param selector: a function that says which paths below the znode are cached. The function must always
        return the same result for the same path.
    :raises BadArgumentsError: ``path`` is not a valid path.
    :raises ValueError: ``depth`` is negative.
    """

    _trio: TrioCache

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        depth: int | None,
        *,
        with_data: bool = True,
        selector: Selector | None = None,
    ) -> None:
        self._make(zk, path, depth, with_data=with_data, selector=selector)

    @property
    def nodes(self) -> Mapping[str, CachedNode]:
        """All cached znodes by path. The mapping is a view, which may change at each checkpoint of your
        task."""
        return self._look(lambda: self._trio.nodes)

    def __getitem__(self, path: str) -> CachedNode:
        """Return the cached znode at a path.

        :raises KeyError: no cached znode has this path.
        """
        return self._wrap(self._trio.__getitem__(path))

    def __contains__(self, path: object) -> bool:
        return self._trio.__contains__(path)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the cached children of a znode."""
        return self._look(self._trio.children, path)

    @property
    def is_synced(self) -> bool:
        """True if the cache was synced, and the connection was not lost since then."""
        return self._trio.is_synced

    async def synced(self) -> None:
        """Wait until the cache is synced: then it has everything that the tree held when the last walk began.

        :raises RuntimeError: the block has ended or has not begun.
        """
        return await self._call(self._trio.synced)

    def events(self) -> CacheEvents:
        """Follow the changes. The stream begins with an event ADDED for each cached znode. See
        :class:`.CacheEvents`."""
        return self._look(self._trio.events)


class NodeCache(Cache, of=TrioNodeCache):
    """A copy of a single znode: a :class:`Cache` of depth 0."""

    _trio: TrioNodeCache

    def __init__(self, zk: ZooKeeper, path: str, *, with_data: bool = True) -> None:
        self._make(zk, path, with_data=with_data)


class ChildrenCache(Cache, of=TrioChildrenCache):
    """A copy of a znode and its children: a :class:`Cache` of depth 1."""

    _trio: TrioChildrenCache

    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None:
        self._make(zk, path, with_data=with_data, selector=selector)


class TreeCache(Cache, of=TrioTreeCache):
    """A copy of a znode and everything below: a :class:`Cache` of any depth."""

    _trio: TrioTreeCache

    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None:
        self._make(zk, path, with_data=with_data, selector=selector)


class CacheEvents(TaskWrapper, of=TrioCacheEvents):
    """The changes of a cache, as an async iterator. The stream begins with an event ADDED for each cached
    znode, and ends with the block of the cache."""

    _trio: TrioCacheEvents

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CacheEvent:
        """Wait for the next event."""
        return await self._call(self._trio.__anext__)
