"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..bridge.exits import leaves
from ..client import Event
from ..client.watch import Watch as TrioWatch
from ..client.watch import WatchStream as TrioWatchStream
from .wrapper import TaskWrapper


class Watch(TaskWrapper, of=TrioWatch):
    """A one-shot watch, armed by a read. The watch fires once, at the first change after the read.

    The watch survives reconnects: a change during which the client is disconnected is reported later. You can
    cancel a wait and wait again. The end of the block, or :meth:`cancel`, removes the watch:

        data, stat, watch = await zk.get_and_watch("/config")
        with watch:
            await watch.wait()

    :ivar path: the znode that is watched.
    :ivar prefix: the chroot, ``""`` for none.
    :ivar server_path: the path of the znode at the server.
    :ivar event: the event with which the watch fired; None before that.
    :ivar cancelled: whether the watch was cancelled before it fired.
    :raises BadArgumentsError: the path is malformed.
    """

    _trio: TrioWatch

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def event(self) -> Event | None:
        return self._wrap(self._trio.event)

    @property
    def cancelled(self) -> bool:
        return self._trio.cancelled

    async def wait(self) -> Event:
        """Wait until the watch fires, and return a :class:`WatchEvent`, or :class:`Missed` if the session
        expired.

        :raises ClosingError: the watch was cancelled, or the client was closed.
        """
        return await self._call(self._trio.wait)

    def cancel(self) -> None:
        """Remove the watch. The server's watch is removed too if this was the last watch on the path."""
        self._look(self._trio.cancel)

    def __enter__(self) -> Self:
        return self._begin()

    @leaves
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.cancel()


class WatchStream(TaskWrapper, of=TrioWatchStream):
    """The events of a persistent watch, as an async iterator.

    A :class:`Missed` means that some changes may not be reported: read again what you follow. A Missed comes

    * after a reconnect and at the start of a new session;
    * in place of all unread events, when more than ``buffer`` events are unread, or when the paths of the
      unread events have more than 4 Mi characters together.

    The watch is armed before a Missed is delivered. So a read after the Missed misses no change.

    :param buffer: the number of unread events that are kept.
    :ivar path: the watched path.
    :ivar prefix: the chroot, ``""`` for none.
    :ivar server_path: the path at the server.
    :raises BadArgumentsError: the path is malformed.
    """

    _trio: TrioWatchStream

    @property
    def path(self) -> str:
        return self._trio.path

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event.

        :raises ClosingError: the client was closed, and no event is left.
        """
        return await self._call(self._trio.__anext__)
