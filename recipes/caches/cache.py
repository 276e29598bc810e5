"""Copies of parts of the tree that are kept up to date (recipe-rules.md B.11, D.12).

The rules:

* For each path the cache holds the result of the last read of that path. The cache uses events and lists of
  children only to find the paths that must be read.
* If an event names a path during a read of the path, the path is read once more. So the cache follows each
  path in the order of its changes, and in the end has the same content as the tree.
* The cache walks through the whole tree at its start, after a lost connection, in a new session, and after an
  overflow of events. For a walk the cache sends a sync, and then reads each cached path and each path that it
  finds. When the walk is done, the cache is *synced*.
* A walk first follows the lists of children downwards. Then it reads the cached paths that were in no list.
  The cached znode at such a path may be out of date. This happens if the event for the path was lost after a
  read had found that the parent was gone.

The stages of a cache, and the events between them::

    LOST --sync done--> DUE --walk begins--> WALKING --walk done--> SYNCED
      ^                  |                      |                     |
      '------------------'----------------------'---------------------'   connection or events lost
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from weakref import WeakSet

import trio

from ...client import (
    UNANSWERED,
    Event,
    EventType,
    Missed,
    SessionExpiredError,
    SessionState,
    Stat,
    UnimplementedError,
    ZooKeeper,
    paths,
)
from ...protocol.paths import validate_path
from ..base.running import Running, alongside, steady
from .events import CachedNode, CacheEvents, CacheEventType
from .reads import ArmedReads, PlainReads

Selector = Callable[[str], bool]
"""A function that returns whether the znode at a path is cached. Below a znode that is not cached, no znode
is cached."""

_CONCURRENT_READS = 32
"""The number of znodes that are read at the same time. With more reads, other requests would have to wait too
long. With fewer reads, the cache would often wait for a reply."""


class _Stage(enum.Enum):
    """The stages of a cache: see the diagram at the top of the module."""

    LOST = "events may be missing; nothing is read before the sync is done"
    DUE = "the next walk can begin"
    WALKING = "the walk is under way"
    SYNCED = "the walk is done"


class Cache(Running):
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

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        depth: int | None,
        *,
        with_data: bool = True,
        selector: Selector | None = None,
    ) -> None:
        super().__init__()
        validate_path(path)
        if depth is not None and depth < 0:
            raise ValueError(f"depth must be at least 0, not {depth}; None caches all levels")
        self.path = path
        self.zk = zk
        self._depth = depth
        self._with_data = with_data
        self._selector: Selector = selector or (lambda path: True)
        self._nodes: dict[str, CachedNode] = {}
        self._names: dict[str, set[str]] = {}  # the names of the cached children, by the parent's path
        self._streams: WeakSet[CacheEvents] = WeakSet()
        self._reads = PlainReads(zk, data=with_data)
        # The paths to read, each with True if the walk continues below it. (A plain dict is slow to return
        # its first item.)
        self._dirty: OrderedDict[str, bool] = OrderedDict()
        self._reading: set[str] = set()  # paths that are being read now
        self._unseen: set[str] = set()  # cached at the beginning of the walk, and not read since
        self._wakeup = trio.Event()
        self._stage = _Stage.LOST

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- the content -------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, CachedNode]:
        """All cached znodes by path. The mapping is a view, which may change at each checkpoint of your
        task."""
        return MappingProxyType(self._nodes)

    def __getitem__(self, path: str) -> CachedNode:
        """Return the cached znode at a path.

        :raises KeyError: no cached znode has this path.
        """
        return self._nodes[path]

    def __contains__(self, path: object) -> bool:
        return path in self._nodes

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the cached children of a znode."""
        return sorted(self._names.get(path, ()))

    @property
    def is_synced(self) -> bool:
        """True if the cache was synced, and the connection was not lost since then."""
        return self._stage is _Stage.SYNCED

    async def synced(self) -> None:
        """Wait until the cache is synced: then it has everything that the tree held when the last walk began.

        :raises RuntimeError: the block has ended or has not begun.
        """
        await self._until(lambda: self.is_synced)

    def events(self) -> CacheEvents:
        """Follow the changes. The stream begins with an event ADDED for each cached znode. See
        :class:`.CacheEvents`."""
        beginning: list[str | CacheEventType] = [*self._nodes]
        if self.is_synced:
            beginning.append(CacheEventType.SYNCED)
        stream = CacheEvents(self, beginning)
        self._streams.add(stream)
        return stream

    @property
    def moved(self) -> trio.Event | None:
        """An event for the streams of changes: it is set at the next change. None outside the block."""
        return self._changed if self._block is not None else None

    def _publish(self, what: str | CacheEventType) -> None:
        for stream in self._streams:
            stream.note(what)
        self._notify()

    # --- at work -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        zk = self.zk
        try:
            async with alongside(zk, self._observe), alongside(zk, self._follow), alongside(zk, self._work):
                yield
        finally:
            self._stage = _Stage.LOST

    async def _observe(self) -> None:
        """Notice when the connection is lost."""
        session = self.zk.session
        connected = True
        while True:
            changed = session.changed
            before, connected = connected, session.state is SessionState.CONNECTED
            if before and not connected:
                self._stage = _Stage.LOST
                self._publish(CacheEventType.SUSPENDED)
            await changed.wait()

    async def _follow(self) -> None:
        """Watch the tree, and read the paths that the events name."""
        zk = self.zk
        async with AsyncExitStack() as stack:
            recursive = self._depth != 0
            try:
                events = await steady(
                    zk, lambda: stack.enter_async_context(zk.watch(self.path, recursive=recursive))
                )
            except UnimplementedError:
                await self._follow_by_one_shots()
            self._reads = PlainReads(zk, data=self._with_data)
            await self._resync()
            async for event in events:
                await self._handle(event)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Missed):
            await self._resync()
        elif event.type is not EventType.CHILD and self._covers(event.path):
            self._mark(event.path)

    async def _follow_by_one_shots(self) -> None:
        session = self.zk.session
        self._reads = reads = ArmedReads(self.zk, self.path, self._mark, data=self._with_data)
        try:
            while True:
                await session.wait_connected()
                changed = session.changed
                await self._resync()
                await changed.wait()
        finally:
            reads.disarm()

    async def _resync(self) -> None:
        """Begin a walk."""
        self._stage = _Stage.LOST
        # The server that we are connected to now may be behind the one that we have read from before.
        await steady(self.zk, lambda: self.zk.sync(self.path))
        self._stage = _Stage.DUE
        self._wakeup.set()

    def _mark(self, path: str, deep: bool = False) -> None:
        """Mark a path to be read soon. With ``deep`` the read is a part of a walk."""
        self._dirty[path] = deep or self._dirty.get(path, False)
        self._wakeup.set()

    def _covers(self, path: str) -> bool:
        """Return whether the cache covers a path below its root. The znode need not exist."""
        if path == self.path:
            return True
        at = self.path.rstrip("/")
        names = path[len(at) + 1 :].split("/")
        if self._depth is not None and len(names) > self._depth:
            return False
        for name in names:
            at = f"{at}/{name}"
            if not self._selector(at):
                return False
        return True

    def _has_children(self, path: str) -> bool:
        """Return whether children of a cached znode are cached."""
        if self._depth is None:
            return True
        below = path[len(self.path.rstrip("/")) :] if path != self.path else ""
        return below.count("/") < self._depth

    # --- reading -----------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            self._wakeup = trio.Event()
            if self._stage is _Stage.DUE:
                self._stage = _Stage.WALKING
                self._unseen = {*self._nodes}
                self._mark(self.path, True)
            if self._stage is _Stage.LOST or not self._dirty:
                await self._wakeup.wait()
                continue
            batch = [self._dirty.popitem(last=False) for _ in range(min(_CONCURRENT_READS, len(self._dirty)))]
            self._reading = {path for path, _ in batch}
            failures: list[Exception] = []
            async with trio.open_nursery() as nursery:
                for path, deep in batch:
                    nursery.start_soon(self._read, path, deep, failures)
            if failures:
                raise failures[0]
            if self._stage is _Stage.WALKING and not any(self._dirty.values()):
                self._end_of_lists()

    def _end_of_lists(self) -> None:
        """Note that all lists were followed. The walk is done if every cached path was read."""
        unseen, self._unseen = self._unseen, set()
        for path in unseen:
            self._mark(path, True)
        if not unseen:
            self._stage = _Stage.SYNCED
            self._publish(CacheEventType.SYNCED)

    async def _read(self, path: str, deep: bool, failures: list[Exception]) -> None:
        lists = (deep or self._reads.lists_always) and self._has_children(path)
        try:
            found = await self._reads.node(path)
            self._store(path, found)
            self._reading.discard(path)
            self._unseen.discard(path)
            if found and lists:
                self._mark_children(path, await self._reads.names(path), deep)
        except (SessionExpiredError, *UNANSWERED):
            self._mark(path, deep)
        except Exception as error:
            failures.append(error)

    def _store(self, path: str, found: tuple[bytes | None, Stat] | None) -> None:
        old = self._nodes.get(path)
        if found is not None:
            new = self._nodes[path] = CachedNode(path, *found)
            if old is not None and new.same_as(old):
                return
        elif self._nodes.pop(path, None) is None:
            return
        if path != self.path:
            parent, name = paths.split(path)
            names = self._names.setdefault(parent, set())
            if found is not None:
                names.add(name)
            else:
                names.discard(name)
                if not names:
                    del self._names[parent]
        self._publish(path)

    def _mark_children(self, path: str, names: list[str], deep: bool) -> None:
        """Read the children of a list that are not cached yet. In a walk, read all children.

        If a cached child changes, an event names it. But for a child that is being read now, a reply that is
        older than the list may say that the child is missing. So this child is read once more.
        """
        known = self._names.get(path, set())
        for name in sorted(names):
            child = paths.join(path, name)
            wanted = (deep or child in self._reading) if name in known else self._selector(child)
            if wanted:
                self._mark(child, deep)


class NodeCache(Cache):
    """A copy of a single znode: a :class:`Cache` of depth 0."""

    def __init__(self, zk: ZooKeeper, path: str, *, with_data: bool = True) -> None:
        super().__init__(zk, path, 0, with_data=with_data)


class ChildrenCache(Cache):
    """A copy of a znode and its children: a :class:`Cache` of depth 1."""

    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None:
        super().__init__(zk, path, 1, with_data=with_data, selector=selector)


class TreeCache(Cache):
    """A copy of a znode and everything below: a :class:`Cache` of any depth."""

    def __init__(
        self, zk: ZooKeeper, path: str, *, with_data: bool = True, selector: Selector | None = None
    ) -> None:
        super().__init__(zk, path, None, with_data=with_data, selector=selector)
