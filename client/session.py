"""The session, as users of the client see it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Self
from weakref import WeakSet

import trio

from ..protocol.errors import ClosingError, SessionExpiredError
from ..protocol.text import session_text
from .machine import SERVED, SessionMachine, SessionState
from .observer import StateChange


class Session:
    """The state of the session, for users. Times are in seconds by ``trio.current_time()``.

    :ivar expired: set when the present session, which has this ``generation``, has ended.
    """

    def __init__(self, machine: SessionMachine, *, renews: bool) -> None:
        self._machine = machine
        self._data = machine.data
        self._renews = renews
        self._changed = trio.Event()
        self._streams: WeakSet[StateChanges] = WeakSet()
        self._woken: set[trio.Event] = set()
        self.expired = trio.Event()

    def __repr__(self) -> str:
        return (
            f"<Session {session_text(self.id)}, {self.state.name}, generation {self.generation}, "
            f"timeout {self.negotiated_timeout:g} s>"
        )

    @property
    def id(self) -> int:
        """The session id; 0 until there is a session."""
        return self._data.session_id

    @property
    def password(self) -> bytes:
        """The password of the session. The id and the password are needed to resume the session."""
        return self._data.password

    @property
    def generation(self) -> int:
        """The number of the session: 1 for the first one, and 1 more for each session that replaced an
        expired one."""
        return self._machine.generation

    @property
    def state(self) -> SessionState:
        """The state of the session, as far as the client knows."""
        return self._machine.state

    @property
    def negotiated_timeout(self) -> float:
        """The session timeout in seconds. Before there is a session, it is the requested timeout."""
        return self._data.timeout

    @property
    def last_zxid(self) -> int:
        """The highest zxid seen in a reply."""
        return self._data.last_zxid

    def lease_deadline(self) -> float:
        """Return the time, in seconds by ``trio.current_time()``, before which the session cannot have ended.
        Without a session the time is minus infinity.

        Only answers of the leader of an ensemble extend this time: answers to handshakes, to writes and to
        ``sync``, but not to pings and reads. After :meth:`.ZooKeeper.keep_lease` the client sends the
        requests that extend this time. Leave a margin for clocks that differ: 10 % of the session timeout
        (docs/lease.md).
        """
        return self._data.lease.deadline

    @property
    def changed(self) -> trio.Event:
        """Set at the next change of state. Get this event before you read the state; then you miss no
        change."""
        return self._changed

    @contextmanager
    def waking(self, event: trio.Event) -> Iterator[None]:
        """Open a block. If the state changes inside the block, this event is set too."""
        self._woken.add(event)
        try:
            yield
        finally:
            self._woken.discard(event)

    async def wait_change(self) -> SessionState:
        """Wait for the next change of state and return the new state. Two quick changes may look like one:
        :meth:`changes` returns each of them."""
        await self._changed.wait()
        return self.state

    async def wait_connected(self) -> None:
        """Wait until the client is connected to a server that serves reads and writes.

        :raises SessionExpiredError: the session has expired, and no new one will follow.
        :raises ClosingError: the client was closed.
        :raises AuthFailedError: the first server refused an identity.
        """
        await self._wait_for((SessionState.CONNECTED,))

    async def wait_served(self) -> None:
        """Wait until the client is connected to any server, also to a read-only one.

        It raises the errors of :meth:`wait_connected`.
        """
        await self._wait_for(SERVED)

    async def _wait_for(self, states: Collection[SessionState]) -> None:
        while self.state not in states:
            if self._machine.fatal is not None:
                raise self._machine.fatal
            if self.state is SessionState.CLOSED:
                raise ClosingError(message="the client was closed")
            if self.state is SessionState.EXPIRED and not self._renews:
                raise SessionExpiredError
            await self.wait_change()
        await trio.lowlevel.checkpoint()

    def changes(self) -> StateChanges:
        """Follow all changes of the state from now on::

            async for change in zk.session.changes():
                print(change.state, change.server, change.reason)

        The loop ends with the last change: to CLOSED, or to EXPIRED if no new session follows.
        """
        changes = StateChanges(self._is_last)
        if self._is_last(self.state):
            changes.end()
        else:
            self._streams.add(changes)
        return changes

    def _is_last(self, state: SessionState) -> bool:
        return state is SessionState.CLOSED or (state is SessionState.EXPIRED and not self._renews)

    def note(self, change: StateChange) -> None:
        """Called with each change of the state."""
        if change.state is SessionState.EXPIRED:
            self.expired.set()
        elif self.expired.is_set():
            self.expired = trio.Event()
        for changes in self._streams:
            changes.deliver(change)
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()
        woken, self._woken = self._woken, set()
        for event in woken:
            event.set()


_MOST_UNREAD = 10_000
"""The largest number of changes that a reader of :class:`StateChanges` can leave unread. They take some 3 MB.
A connection that breaks every second makes this many changes in an hour."""


class StateChanges:
    """The changes of a session's state, as an async iterator. No two changes are merged into one."""

    def __init__(self, is_last: Callable[[SessionState], bool]) -> None:
        self._is_last = is_last
        self._unread: deque[StateChange] = deque()
        self._ended = self._overflown = False
        self._wakeup = trio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateChange:
        """Wait for the next change.

        :raises BufferError: 10,000 changes were unread, and later ones are lost: read faster, or begin anew
            with :meth:`Session.changes`.
        """
        await trio.lowlevel.checkpoint()
        while not self._unread:
            if self._overflown:
                raise BufferError(
                    f"{_MOST_UNREAD:,} changes of the state were unread, and later changes are lost: read "
                    "faster, or begin again with session.changes()"
                )
            if self._ended:
                raise StopAsyncIteration
            await self._wakeup.wait()
        change = self._unread.popleft()
        if not self._unread and not self._ended:
            self._wakeup = trio.Event()
        return change

    def deliver(self, change: StateChange) -> None:
        """Keep a change until it is read. Called by the session."""
        if self._ended:
            return
        if len(self._unread) < _MOST_UNREAD:
            self._unread.append(change)
            self._ended = self._is_last(change.state)
        else:
            self._ended = self._overflown = True
        self._wakeup.set()

    def end(self) -> None:
        """Note that there will be no change."""
        self._ended = True
        self._wakeup.set()
