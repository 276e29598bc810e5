"""Following the latest value of one znode, or its children (recipe-rules.md D.12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from ...client import NoNodeError, Stat, Watch, ZooKeeper
from ...protocol.paths import validate_path
from ..base.running import steady

T = TypeVar("T")

Read = Callable[[], Awaitable[tuple[T, object, Watch]]]


class Latest(Generic[T]):
    """An async iterator over the successive values of something that is read and watched: the present value
    at once, then each later one. Who is slow gets the latest only.

    No watch is held while nobody waits for the next value, so a loop may be left at any time.
    """

    def __init__(self, zk: ZooKeeper, read: Read[T]) -> None:
        self._zk = zk
        self._read = read
        self._seen: object = self  # what tells the value from others; never None at first
        self._generation = zk.session.generation

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next value. Raises what the read raises, such as :class:`NoAuthError`, and may be called again
        after that; :class:`ClosingError` once the client is closed."""
        while True:
            value, mark, watch = await steady(self._zk, self._fresh)
            with watch:
                if mark == self._seen:
                    await watch.wait()
                    continue
            self._seen = mark
            return value

    async def _fresh(self) -> tuple[T, object, Watch]:
        """Read. A new session may be served by a server that is behind the one before (trap E-37)."""
        generation = self._zk.session.generation
        if generation != self._generation:
            await self._zk.sync()
            self._generation = generation
        return await self._read()


def watch_node(zk: ZooKeeper, path: str) -> Latest[tuple[bytes | None, Stat | None]]:
    """Follow the data of a znode.

        async for data, stat in watch_node(zk, "/config"):
            if stat is None: ...  # there is no such znode at the moment

    One that is deleted and created again counts as changed, whatever it holds. Goes on after the connection
    or the session was lost. A change costs two reads and the removal of a watch.
    """
    validate_path(path)

    async def read() -> tuple[tuple[bytes | None, Stat | None], object, Watch]:
        while True:
            try:
                data, stat, watch = await zk.get(path, watch=True)
            except NoNodeError:
                missing, watch = await zk.exists(path, watch=True)
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

    A child that is deleted and created again counts as a change. For the rest see :func:`watch_node`.
    """
    validate_path(path)

    async def read() -> tuple[list[str] | None, object, Watch]:
        while True:
            try:
                names, stat, watch = await zk.get_children(path, watch=True, include_stat=True)
            except NoNodeError:
                missing, watch = await zk.exists(path, watch=True)
                if missing is None:
                    return None, None, watch
                watch.cancel()
            else:
                return sorted(names), (stat.czxid, stat.pzxid), watch

    return Latest(zk, read)
