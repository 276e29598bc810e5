"""The watches a user holds in hand."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

import trio

from ..protocol.errors import ClosingError
from .events import Event, Missed, MissedReason, WatchEvent
from .operations import client_path, server_path
from .registry import WatchRegistry

_LONGEST_BACKLOG = 4 * 2**20
"""How many characters the paths of unread events may have together."""


class Watch:
    """A one-shot watch, armed by a read: it fires once, at the first change after what the read returned.

    It survives reconnects: what happened meanwhile is reported then. Waiting may be cancelled and resumed;
    it is leaving the block, or :meth:`cancel`, that removes the watch:

        data, stat, watch = await zk.get_and_watch("/config")
        with watch:
            await watch.wait()

    :ivar path: the znode watched.
    :ivar event: what it fired with; None until then.
    """

    def __init__(self, path: str, prefix: str, registry: WatchRegistry) -> None:
        self.path = path
        self.prefix = prefix
        self.server_path = server_path(prefix, path)
        self.event: Event | None = None
        self.cancelled = False
        self._registry = registry
        self._error: Exception | None = None
        self._over = trio.Event()

    async def wait(self) -> Event:
        """Wait until it fires: with a :class:`WatchEvent`, or with :class:`Missed` when the session expired.

        Raises :class:`ClosingError` when the watch was cancelled or the client closed.
        """
        await self._over.wait()
        if self.event is None:
            assert self._error is not None
            raise self._error
        return self.event

    def cancel(self) -> None:
        """Remove the watch. The server is told when it was the last on this path."""
        if not self._over.is_set():
            self.cancelled = True
            self.end(ClosingError(self.path, "the watch was cancelled"))
        self._registry.leave(self.server_path, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.cancel()

    def deliver(self, event: Event) -> None:
        """Called by the registry."""
        if not self._over.is_set():
            self.event = localised(event, self.path, self.prefix)
            self._over.set()

    def end(self, error: Exception) -> None:
        """Called by the registry when nothing will be reported any more."""
        self._error = error
        self._over.set()


class WatchStream:
    """The events of a persistent watch, as an async iterator.

    Between :class:`WatchEvent` there may be a :class:`Missed`: changes may have gone unreported, and what one
    follows is to be read again. It comes after a reconnect, after the start of a new session, and in place
    of everything unread once more than ``buffer`` events are waiting, or events whose paths have more than
    4 Mi characters together. In each case the watch is armed before
    it is delivered, so that a read made then leaves no gap.

    :ivar path: the path watched.
    """

    def __init__(self, path: str, prefix: str, registry: WatchRegistry, buffer: int) -> None:
        self.path = path
        self.prefix = prefix
        self.server_path = server_path(prefix, path)
        self._registry = registry
        self._buffer = buffer
        self._events: deque[Event] = deque()
        self._characters = 0
        self._error: Exception | None = None
        self._wakeup = trio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event. Raises :class:`ClosingError` once the client or the watch is closed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._events:
            if self._error is not None:
                raise self._error
            await self._wakeup.wait()
        await trio.lowlevel.cancel_shielded_checkpoint()
        event = self._events.popleft()
        self._characters -= len(event.path)
        if not self._events and self._error is None:
            self._wakeup = trio.Event()
        return event

    def deliver(self, event: Event) -> None:
        """Called by the registry."""
        event = localised(event, self.path, self.prefix)
        self._characters += len(event.path)
        if len(self._events) >= self._buffer or self._characters > _LONGEST_BACKLOG:
            self._events.clear()
            event = Missed(self.path, MissedReason.OVERFLOW)
            self._characters = len(event.path)
        self._events.append(event)
        self._wakeup.set()

    def end(self, error: Exception) -> None:
        """Called when nothing will be reported any more; what came before is still handed out."""
        self._error = error
        self._wakeup.set()

    def leave(self) -> None:
        """Remove the watch. The server is told when it was the last on this path."""
        self._registry.leave(self.server_path, self)


def localised(event: Event, watched: str, prefix: str) -> Event:
    """An event of the registry, which has the server's paths, with the client's."""
    if isinstance(event, Missed):
        return Missed(watched, event.reason)
    return WatchEvent(event.type, client_path(prefix, event.path), event.zxid) if prefix else event
