"""Following the latest value of one znode, or its children (recipe-rules.md D.12).

The rules:

* The iterator gives the present value at once, then each later one. A slow reader skips to the latest value.
* A value is recognised by a mark, such as the czxid and mzxid of the znode. So a znode that was deleted and
  created again counts as changed, even with the same data.
* Each step reads and sets a one-shot watch. The watch is removed before the step ends, so a loop may be left
  at any time. A change costs two reads and the removal of a watch.
* The iterator survives lost connections and expired sessions. A new session may be served by a server that is
  behind the server before (recipe-rules.md trap E-37), so its first read follows a sync.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from ...client import NoNodeError, Stat, Watch, ZooKeeper
from ...protocol.paths import validate_path
from .running import steady

T = TypeVar("T")

Read = Callable[[], Awaitable[tuple[T, object, Watch]]]
"""Read a value and watch it: returns the value, its mark, and the watch. Two values with equal marks are the
same value. The mark of "there is no value" is None."""


class Latest(Generic[T]):
    """An async iterator over the successive values of something that is read and watched."""

    def __init__(self, zk: ZooKeeper, read: Read[T]) -> None:
        self._zk = zk
        self._read = read
        self._seen: object = self  # the mark of the last value; at first one that no value has, not even None
        self._generation = zk.session.generation

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Wait for the next value. After an error the iterator can be used again.

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
        """Read, in a new session after a sync."""
        generation = self._zk.session.generation
        if generation != self._generation:
            await self._zk.sync()
            self._generation = generation
        return await self._read()


def watch_node(zk: ZooKeeper, path: str) -> Latest[tuple[bytes | None, Stat | None]]:
    """Follow the data of a znode.

        async for data, stat in watch_node(zk, "/config"):
            if stat is None: ...  # there is no such znode at the moment

    A znode that is deleted and created again counts as changed, even with the same data.

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
    """Follow the names of the children of a znode, sorted; None while there is no such znode.

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
