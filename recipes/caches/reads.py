"""The reads of a cache: plain reads for a cache with a persistent watch, or reads with one-shot watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...client import ClosingError, NoNodeError, Stat, Watch, ZooKeeper


class PlainReads:
    """Reads without watches.

    :param data: whether the data is read. If False, only the Stats are read.

    :ivar lists_always: whether each read also lists the children, because no event would name a new child.
    """

    lists_always = False

    def __init__(self, zk: ZooKeeper, *, data: bool) -> None:
        self._zk = zk
        self._data = data

    async def node(self, path: str) -> tuple[bytes | None, Stat] | None:
        """Read the data and the Stat of a znode. Returns None if the znode does not exist."""
        if not self._data:
            stat = await self._zk.exists(path)
            return None if stat is None else (None, stat)
        try:
            return await self._zk.get(path)
        except NoNodeError:
            return None

    async def names(self, path: str) -> list[str]:
        """List the names of the children. The list is empty if the znode does not exist."""
        try:
            return await self._zk.get_children(path)
        except NoNodeError:
            return []


class ArmedReads(PlainReads):
    """Reads for servers before 3.6. The reads set at most two one-shot watches on each znode.

    :param root: the root of the cache. Only this path is watched while its znode does not exist. The cache
        finds any other new znode in the list of its parent.
    :param changed: a function that is called with the path when a watch has fired.
    """

    lists_always = True

    def __init__(self, zk: ZooKeeper, root: str, changed: Callable[[str], object], *, data: bool) -> None:
        super().__init__(zk, data=data)
        self._root = root
        self._changed = changed
        self._watches: dict[tuple[str, str], Watch] = {}

    async def node(self, path: str) -> tuple[bytes | None, Stat] | None:
        if self._data:
            with suppress(NoNodeError):
                data, stat, watch = await self._zk.get_and_watch(path)
                self._keep("node", path, watch)
                return data, stat
            if path != self._root:
                self._forget(path)
                return None
        found, watch = await self._zk.exists_and_watch(path)
        self._keep("node", path, watch)
        if found is None:
            if path != self._root:
                self._forget(path)
            return None
        if self._data:  # the znode was created between the two reads
            return await self.node(path)
        return None, found

    async def names(self, path: str) -> list[str]:
        try:
            names, watch = await self._zk.get_children_and_watch(path)
        except NoNodeError:
            return []
        self._keep("names", path, watch)
        return names

    def disarm(self) -> None:
        """Remove all watches."""
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    def _keep(self, kind: str, path: str, watch: Watch) -> None:
        self._drop(kind, path)
        self._watches[kind, path] = watch
        self._zk.start_soon(self._attend, path, watch)

    def _forget(self, path: str) -> None:
        self._drop("node", path)
        self._drop("names", path)

    def _drop(self, kind: str, path: str) -> None:
        watch = self._watches.pop((kind, path), None)
        if watch is not None:
            watch.cancel()

    async def _attend(self, path: str, watch: Watch) -> None:
        with suppress(ClosingError):  # the watch was removed
            await watch.wait()
            self._changed(path)
