"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import asyncio
from typing import Self

from ..client import SessionState, StateChange
from ..client.session import Session as TrioSession
from ..client.session import StateChanges as TrioStateChanges
from .wrapper import TaskWrapper


class Session(TaskWrapper, of=TrioSession):
    """The state of the session, for users. Times are in seconds by ``loop.time()``.

    :ivar expired: set when the present session, which has this ``generation``, has ended.
    """

    _trio: TrioSession

    @property
    def expired(self) -> asyncio.Event:
        return self._wrap(self._trio.expired)

    @property
    def id(self) -> int:
        """The session id; 0 until there is a session."""
        return self._trio.id

    @property
    def password(self) -> bytes:
        """The password of the session. The id and the password are needed to resume the session."""
        return self._trio.password

    @property
    def generation(self) -> int:
        """The number of the session: 1 for the first one, and 1 more for each session that replaced an
        expired one."""
        return self._trio.generation

    @property
    def state(self) -> SessionState:
        """The state of the session, as far as the client knows."""
        return self._wrap(self._trio.state)

    @property
    def negotiated_timeout(self) -> float:
        """The session timeout in seconds. Before there is a session, it is the requested timeout."""
        return self._trio.negotiated_timeout

    @property
    def last_zxid(self) -> int:
        """The highest zxid seen in a reply."""
        return self._look_if_open(lambda: self._trio.last_zxid)

    def lease_deadline(self) -> float:
        """Return the time, in seconds by ``loop.time()``, before which the session cannot have ended.
        Without a session the time is minus infinity.

        Only answers of the leader of an ensemble extend this time: answers to handshakes, to writes and to
        ``sync``, but not to pings and reads. After :meth:`.ZooKeeper.keep_lease` the client sends the
        requests that extend this time. Leave a margin for clocks that differ: 10 % of the session timeout
        (docs/lease.md).
        """
        return self._look_if_open(self._trio.lease_deadline)

    @property
    def changed(self) -> asyncio.Event:
        """Set at the next change of state. Get this event before you read the state; then you miss no
        change."""
        return self._wrap(self._trio.changed)

    async def wait_change(self) -> SessionState:
        """Wait for the next change of state and return the new state. Two quick changes may look like one:
        :meth:`changes` returns each of them."""
        return await self._call(self._trio.wait_change)

    async def wait_connected(self) -> None:
        """Wait until the client is connected to a server that serves reads and writes.

        :raises SessionExpiredError: the session has expired, and no new one will follow.
        :raises ClosingError: the client was closed.
        :raises AuthFailedError: the first server refused an identity.
        """
        return await self._call(self._trio.wait_connected)

    async def wait_served(self) -> None:
        """Wait until the client is connected to any server, also to a read-only one.

        It raises the errors of :meth:`wait_connected`.
        """
        return await self._call(self._trio.wait_served)

    def changes(self) -> StateChanges:
        """Follow all changes of the state from now on::

            async for change in zk.session.changes():
                print(change.state, change.server, change.reason)

        The loop ends with the last change: to CLOSED, or to EXPIRED if no new session follows.
        """
        return self._look(self._trio.changes)


class StateChanges(TaskWrapper, of=TrioStateChanges):
    """The changes of a session's state, as an async iterator. No two changes are merged into one."""

    _trio: TrioStateChanges

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StateChange:
        """Wait for the next change.

        :raises BufferError: 10,000 changes were unread, and later ones are lost: read faster, or begin anew
            with :meth:`Session.changes`.
        """
        return await self._call(self._trio.__anext__)
