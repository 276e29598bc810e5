"""Following the latest value of one znode, or its children (recipe-rules.md D.12).

The rules:

* The iterator returns the present value at once, and then each later value. A slow reader skips to the latest
  value.
* A value is recognised by a mark, such as the czxid and mzxid of the znode. So a znode that was deleted and
  created again counts as changed, even with the same data.
* Each step reads and sets a one-shot watch. The watch is removed before the step ends, so the loop of a
  reader may end at any time. A change costs two reads and the removal of a watch.
* The iterator survives lost connections and expired sessions. The server of a new session may be behind the
  server of the session before (recipe-rules.md trap E-37). So the first read in a new session follows a sync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from ...client import NoNodeError, Stat, Watch, ZooKeeper
from ...protocol.paths import validate_path
from .running import steady

T = TypeVar("T")

Read = Callable[[], Awaitable[tuple[T, object, Watch]]]
"""A function that reads a value and watches the value. The function returns the value, the mark of the value,
and the watch. Two values with equal marks are the same value. If there is no value, the mark is None."""


class Latest(Generic[T]):
    """An async iterator over the successive values of something that can be read and watched."""

    def __init__(self, zk: ZooKeeper, read: Read[T]) -> None:
        self._zk = zk
        self._read = read
        self._seen: object = self  # the mark of the last value; at first a mark that no value has
        self._generation = zk.session.generation

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Wait for the next value. The iterator can still be used after an error.

        :raises ZooKeeperError: the error of the read, such as :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        while True:
            value, mark, watch = await steady(self._zk, self._fresh)
            with watch:
                if mark == self._seen:
                    await watch.wait()
                    continue
            self._seen = mark
            return value

    async def _fresh(self) -> tuple[T, object, Watch]:
        """Read the value. In a new session a sync comes before the read."""
        generation = self._zk.session.generation
        if generation != self._generation:
            await self._zk.sync()
            self._generation = generation
        return await self._read()


def watch_node(zk: ZooKeeper, path: str) -> Latest[tuple[bytes | None, Stat | None]]:
    """Follow the data of a znode.

        async for data, stat in watch_node(zk, "/config"):
            if stat is None: ...  # the znode does not exist at the moment

    A znode that was deleted and created again counts as changed, even with the same data.

    :raises BadArgumentsError: ``path`` is not a valid path.
    """
    validate_path(path)

    async def read() -> tuple[tuple[bytes | None, Stat | None], object, Watch]:
        while True:
            try:
                data, stat, watch = await zk.get_and_watch(path)
            except NoNodeError:
                missing, watch = await zk.exists_and_watch(path)
                if missing is None:
                    return (None, None), None, watch
                watch.cancel()
            else:
                return (data, stat), (stat.czxid, stat.mzxid), watch

    return Latest(zk, read)


def watch_children(zk: ZooKeeper, path: str) -> Latest[list[str] | None]:
    """Follow the sorted names of the children of a znode. The value is None while the znode does not exist.

        async for names in watch_children(zk, "/workers"):
            ...

    A child that is deleted and created again counts as a change.

    :raises BadArgumentsError: ``path`` is not a valid path.
    """
    validate_path(path)

    async def read() -> tuple[list[str] | None, object, Watch]:
        while True:
            try:
                names, stat, watch = await zk.get_children_stat_and_watch(path)
            except NoNodeError:
                missing, watch = await zk.exists_and_watch(path)
                if missing is None:
                    return None, None, watch
                watch.cancel()
            else:
                return sorted(names), (stat.czxid, stat.pzxid), watch

    return Latest(zk, read)
