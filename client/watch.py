"""Watches as objects for users, without callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import trio

from ..protocol.errors import ClosingError, NoNodeError
from .operations import client_path, server_path
from .pending import Pending
from .registry import Event, Missed, MissedReason, WatchEvent, WatchKind, WatchRegistry

T = TypeVar("T")

_LONGEST_BACKLOG = 4 * 2**20
"""The largest number of characters in the paths of unread events. This limit bounds the memory for a slow
reader."""


class Watch:
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

    def __init__(self, path: str, prefix: str, registry: WatchRegistry) -> None:
        self.path = path
        self.prefix = prefix
        self.server_path = server_path(prefix, path)
        self.event: Event | None = None
        self.cancelled = False
        self._registry = registry
        self._error: Exception | None = None
        self._over = trio.Event()
        self._woken: trio.Event | None = None

    def __repr__(self) -> str:
        state = f"fired: {self.event}" if self.event else "over" if self._over.is_set() else "not fired"
        return f"<Watch {self.path}, {state}>"

    async def wait(self) -> Event:
        """Wait until the watch fires, and return a :class:`WatchEvent`, or :class:`Missed` if the session
        expired.

        :raises ClosingError: the watch was cancelled, or the client was closed.
        """
        await self._over.wait()
        if self.event is None:
            assert self._error is not None
            raise self._error
        return self.event

    def wakes(self, event: trio.Event) -> None:
        """Set an event when the watch fires, or ends without an event. A later call replaces the event."""
        self._woken = event
        if self._over.is_set():
            event.set()

    def _end(self) -> None:
        self._over.set()
        if self._woken is not None:
            self._woken.set()

    def cancel(self) -> None:
        """Remove the watch. The server's watch is removed too if this was the last watch on the path."""
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
        """Fire. Called by the registry."""
        if not self._over.is_set():
            self.event = localised(event, self.path, self.prefix)
            self._end()

    def end(self, error: Exception) -> None:
        """Called by the registry when no event will come any more."""
        self._error = error
        self._end()


class WatchStream:
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

    def __repr__(self) -> str:
        return f"<WatchStream {self.path}, {len(self._events)} unread>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event.

        :raises ClosingError: the client was closed, and no event is left.
        """
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
        """Keep an event until it is read. Called by the registry."""
        event = localised(event, self.path, self.prefix)
        self._characters += len(event.path)
        if len(self._events) >= self._buffer or self._characters > _LONGEST_BACKLOG:
            self._events.clear()
            event = Missed(self.path, MissedReason.OVERFLOW)
            self._characters = len(event.path)
        self._events.append(event)
        self._wakeup.set()

    def end(self, error: Exception) -> None:
        """Called by the registry when no event will come any more. Unread events can still be read."""
        self._error = error
        self._wakeup.set()

    def leave(self) -> None:
        """Remove the watch. The server's watch is removed too if this was the last watch on the path."""
        self._registry.leave(self.server_path, self)


def localised(event: Event, watched: str, prefix: str) -> Event:
    """Return an event with the client's path in place of the server's."""
    if isinstance(event, Missed):
        return Missed(watched, event.reason)
    return WatchEvent(event.type, client_path(prefix, event.path), event.zxid) if prefix else event


def arm(
    submit: Callable[[bool], Pending[T]],
    watcher: Watch | WatchStream,
    registry: WatchRegistry,
    kind: WatchKind,
    missing: WatchKind | None = None,
) -> Pending[T]:
    """Submit an operation that arms a watch.

    :param submit: submits the operation. The argument says whether the operation must request this kind of
        watch from the server.
    :param missing: the kind of watch that a :class:`NoNodeError` leaves behind, if any.
    """
    path = watcher.server_path
    asks = registry.reserve(path, kind)
    try:
        pending = submit(asks)
    except Exception:
        registry.settle(path, kind, None, watcher)
        raise

    def settled(pending: Pending[T]) -> None:
        error = pending.error
        armed = missing if isinstance(error, NoNodeError) else None if error else kind
        registry.settle(path, kind, armed, watcher)

    pending.on_settled(settled)
    return pending
