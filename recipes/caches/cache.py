"""Copies of parts of the tree that follow it (recipe-rules.md B.11, D.12).

How a cache works:

* What it holds of a path is what a read of that path has returned. Nothing is concluded from events or lists:
  they only say which paths to read (again).
* A path that is heard of while it is being read is read once more. So each path is brought up to date in the
  order of its changes, and the end of it is what the tree holds.
* After the start, a reconnect, a new session, or an overflow of events it syncs and walks through the whole
  tree again, reading all it knows and all it finds. When a walk is done, the cache is *synced*.
* A walk goes down the lists, and then reads what is cached and has not come up in any of them: a read before
  the walk may have found a parent gone, and the event that told of the child may be lost.
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
)
from ...protocol.paths import join, split, validate_path
from ..base.running import Running, alongside, steady
from .events import CachedNode, CacheEvents, CacheEventType
from .reads import ArmedReads, PlainReads

Selector = Callable[[str], bool]
"""Whether a znode is to be cached, by its path. Nothing is cached below one that is not."""

_CONCURRENCY = 32
"""How many znodes are read at a time."""


class _Stage(enum.Enum):
    """How far a cache is. A loss of connection, or of events, leads back to LOST from each of them."""

    LOST = "events may be missing; nothing is read before the sync is done"
    DUE = "the next walk may begin"
    WALKING = "the walk is under way"
    SYNCED = "the walk is done"


class Cache(Running):
    """A copy of a znode and of what is below it, kept up to date for as long as the block lasts.

        async with Cache(zk, "/app") as cache:
            await cache.synced()
            print(cache["/app/config"].data)
            async for event in cache.events():
                ...

    The block begins at once, connected or not. The znode need not be there; it and everything below may come
    and go. What the cache holds is at each moment as of some past moment, path by path: it is no snapshot. It
    can be read after the block too, but is not kept up to date any more.

    Uses a persistent watch, and on servers before 3.6 two one-shot watches for each znode. An error such as
    :class:`NoAuthError` for a znode that it has to read cancels the block, which raises it; a selector can
    leave out such a znode.

    :param depth: how many levels below the znode are cached: 0 for none, None for all.
    :param data: whether data are cached, or Stats only.
    :param selector: called with the path of everything below the znode; always to answer the same for a path.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        depth: int | None,
        *,
        data: bool = True,
        selector: Selector | None = None,
    ) -> None:
        super().__init__()
        validate_path(path)
        if depth is not None and depth < 0:
            raise ValueError(f"depth must not be negative, not {depth}")
        self.path = path
        self._zk = zk
        self._depth = depth
        self._data = data
        self._selector: Selector = selector or (lambda path: True)
        self._nodes: dict[str, CachedNode] = {}
        self._names: dict[str, set[str]] = {}  # of the cached children, by the parent's path
        self._streams: WeakSet[CacheEvents] = WeakSet()
        self._reads = PlainReads(zk, data=data)
        # What to read, and whether to walk on below. (A plain dict is slow to give its first item.)
        self._dirty: OrderedDict[str, bool] = OrderedDict()
        self._reading: set[str] = set()  # what holds of these is not known at the moment
        self._unseen: set[str] = set()  # cached when the walk began, and not read since
        self._wakeup = trio.Event()
        self._stage = _Stage.LOST

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- what it holds -----------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, CachedNode]:
        """All that is cached, by path. It changes with the cache while you wait for anything."""
        return MappingProxyType(self._nodes)

    def __getitem__(self, path: str) -> CachedNode:
        """Raises KeyError for what is not there."""
        return self._nodes[path]

    def __contains__(self, path: object) -> bool:
        return path in self._nodes

    def children(self, path: str) -> list[str]:
        """The names of the cached children of a znode, sorted."""
        return sorted(self._names.get(path, ()))

    @property
    def is_synced(self) -> bool:
        """Whether the cache was up to date and has not lost the connection since."""
        return self._stage is _Stage.SYNCED

    async def synced(self) -> None:
        """Wait until the cache has everything that the tree held when it began to read it: after the start,
        and again after each loss of connection."""
        await self._until(lambda: self.is_synced)

    def events(self) -> CacheEvents:
        """The changes, beginning with an ADDED for each znode that is there: see :class:`.CacheEvents`."""
        beginning: list[str | CacheEventType] = [*self._nodes]
        if self.is_synced:
            beginning.append(CacheEventType.SYNCED)
        stream = CacheEvents(self, beginning)
        self._streams.add(stream)
        return stream

    @property
    def moved(self) -> trio.Event | None:
        """Set when there is something new; None outside of the block. For the streams of events."""
        return self._changed if self._block is not None else None

    def _publish(self, what: str | CacheEventType) -> None:
        for stream in self._streams:
            stream.note(what)
        self._notify()

    # --- at work -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        zk = self._zk
        try:
            async with alongside(zk, self._observe), alongside(zk, self._follow), alongside(zk, self._work):
                yield
        finally:
            self._stage = _Stage.LOST

    async def _observe(self) -> None:
        """Notice when the connection is lost."""
        session = self._zk.session
        connected = True
        while True:
            changed = session.changed
            before, connected = connected, session.state is SessionState.CONNECTED
            if before and not connected:
                self._stage = _Stage.LOST
                self._publish(CacheEventType.SUSPENDED)
            await changed.wait()

    async def _follow(self) -> None:
        """Watch, and have read what the watch tells of."""
        zk = self._zk
        async with AsyncExitStack() as stack:
            recursive = self._depth != 0
            try:
                events = await steady(
                    zk, lambda: stack.enter_async_context(zk.watch(self.path, recursive=recursive))
                )
            except UnimplementedError:
                await self._follow_by_one_shots()
            self._reads = PlainReads(zk, data=self._data)
            await self._resync()
            async for event in events:
                await self._handle(event)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Missed):
            await self._resync()
        elif event.type is not EventType.CHILD and self._covers(event.path):
            self._mark(event.path)

    async def _follow_by_one_shots(self) -> None:
        session = self._zk.session
        self._reads = reads = ArmedReads(self._zk, self.path, self._mark, data=self._data)
        try:
            while True:
                await session.wait_connected()
                changed = session.changed
                await self._resync()
                await changed.wait()
        finally:
            reads.disarm()

    async def _resync(self) -> None:
        """Have a walk begin."""
        self._stage = _Stage.LOST
        # A new session may be with a server that is behind what the one before has shown us.
        await steady(self._zk, lambda: self._zk.sync(self.path))
        self._stage = _Stage.DUE
        self._wakeup.set()

    def _mark(self, path: str, deep: bool = False) -> None:
        """Have a path read; with ``deep`` as a part of a walk."""
        self._dirty[path] = deep or self._dirty.get(path, False)
        self._wakeup.set()

    def _covers(self, path: str) -> bool:
        """Whether a znode below the root is to be cached."""
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
        """Whether anything below a cached znode is to be cached."""
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
            batch = [self._dirty.popitem(last=False) for _ in range(min(_CONCURRENCY, len(self._dirty)))]
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
        """The walk is done, unless something is cached that no list led to."""
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
            parent, name = split(path)
            names = self._names.setdefault(parent, set())
            if found is not None:
                names.add(name)
            else:
                names.discard(name)
                if not names:
                    del self._names[parent]
        self._publish(path)

    def _mark_children(self, path: str, names: list[str], deep: bool) -> None:
        """Have the children read that a list shows to be new; in a walk, all that it shows. Otherwise watches
        tell of those that are cached; but what is being read may be gone by an older answer than the list."""
        known = self._names.get(path, set())
        for name in sorted(names):
            child = join(path, name)
            wanted = (deep or child in self._reading) if name in known else self._selector(child)
            if wanted:
                self._mark(child, deep)


class NodeCache(Cache):
    """A copy of a single znode: a :class:`Cache` of depth 0."""

    def __init__(self, zk: ZooKeeper, path: str, *, data: bool = True) -> None:
        super().__init__(zk, path, 0, data=data)


class ChildrenCache(Cache):
    """A copy of a znode and its children: a :class:`Cache` of depth 1."""

    def __init__(
        self, zk: ZooKeeper, path: str, *, data: bool = True, selector: Selector | None = None
    ) -> None:
        super().__init__(zk, path, 1, data=data, selector=selector)


class TreeCache(Cache):
    """A copy of a znode and everything below: a :class:`Cache` of any depth."""

    def __init__(
        self, zk: ZooKeeper, path: str, *, data: bool = True, selector: Selector | None = None
    ) -> None:
        super().__init__(zk, path, None, data=data, selector=selector)
