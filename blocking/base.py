"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ..bridge.exits import leaves
from ..client import Stat
from ..recipes.base.following import Latest as TrioLatest
from ..recipes.base.following import watch_children as trio_watch_children
from ..recipes.base.following import watch_node as trio_watch_node
from ..recipes.base.running import Running as TrioRunning
from .client import ZooKeeper
from .threads import THREADS
from .wrapper import ThreadWrapper

T = TypeVar("T")


class Running(ThreadWrapper, of=TrioRunning):
    """The base of a recipe that runs until the end of its block. An object has at most one block at the same
    time. Any number of threads can use the object in this block."""

    _trio: TrioRunning

    def __enter__(self) -> Self:
        """Begin the block.

        :raises RuntimeError: another block of this object has not ended.
        """
        return self._enter()

    @leaves
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return self._leave(kind, error, tb)


class Latest(ThreadWrapper, Generic[T], of=TrioLatest):
    """An iterator over the successive values of something that can be read and watched."""

    _trio: TrioLatest[Any]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        """Wait for the next value. The iterator can still be used after an error.

        :raises ZooKeeperError: the error of the read, such as :class:`NoAuthError`.
        :raises ClosingError: the client was closed.
        """
        return self._next(self._trio.__anext__)


def watch_children(zk: ZooKeeper, path: str) -> Latest[list[str] | None]:
    """Follow the sorted names of the children of a znode. The value is None while the znode does not exist.

        for names in watch_children(zk, "/workers"):
            ...

    A child that is deleted and created again counts as a change.

    :raises BadArgumentsError: ``path`` is not a valid path.
    """
    return THREADS.use(trio_watch_children, zk, path)


def watch_node(zk: ZooKeeper, path: str) -> Latest[tuple[bytes | None, Stat | None]]:
    """Follow the data of a znode.

        for data, stat in watch_node(zk, "/config"):
            if stat is None: ...  # the znode does not exist at the moment

    A znode that was deleted and created again counts as changed, even with the same data.

    :raises BadArgumentsError: ``path`` is not a valid path.
    """
    return THREADS.use(trio_watch_node, zk, path)
