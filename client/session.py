"""The session as users see it."""

from __future__ import annotations

import trio

from ..protocol.errors import ClosingError, SessionExpiredError
from .machine import SessionMachine, SessionState


class Session:
    """The state of the session, for users. Times are those of ``trio.current_time()``, in seconds.

    :ivar expired: set when the present session, that of this ``generation``, has ended.
    """

    def __init__(self, machine: SessionMachine, *, renews: bool) -> None:
        self._machine = machine
        self._data = machine.data
        self._renews = renews
        self._changed = trio.Event()
        self.expired = trio.Event()

    @property
    def id(self) -> int:
        """The session id; 0 until there is a session."""
        return self._data.session_id

    @property
    def password(self) -> bytes:
        """The password of the session: with the id, what it takes to resume it."""
        return self._data.password

    @property
    def generation(self) -> int:
        """1 for the first session, one more for each that replaced an expired one."""
        return self._machine.generation

    @property
    def state(self) -> SessionState:
        """The state of the session, as far as the client knows."""
        return self._machine.state

    @property
    def negotiated_timeout(self) -> float:
        """The session timeout in seconds; before there is a session, the one that was asked for."""
        return self._data.timeout

    @property
    def last_zxid(self) -> int:
        """The highest zxid seen in a reply."""
        return self._data.last_zxid

    def lease_deadline(self) -> float:
        """Return the time before which the session cannot have ended; minus infinity without a session.

        The answers that move it on are those of the leader of an ensemble: to handshakes, to writes and to
        ``sync``, not to pings and reads. With :meth:`.ZooKeeper.keep_lease` the client sends what it takes.
        Leave a margin for clocks that differ: 10 % of the session timeout (docs/lease.md).
        """
        return self._data.lease.deadline

    @property
    def changed(self) -> trio.Event:
        """Set at the next change of state. Take it before you look at the state, and no change is missed."""
        return self._changed

    async def wait_change(self) -> SessionState:
        """Wait for the next change of state and return the state as it is then. Two quick changes may look
        like one: compare the generation too."""
        await self._changed.wait()
        return self.state

    async def wait_connected(self) -> None:
        """Wait until requests are being served.

        :raises SessionExpiredError: the session has expired, and no new one will follow.
        :raises ClosingError: the client was closed.
        :raises AuthFailedError: the first server refused an identity.
        """
        while self.state is not SessionState.CONNECTED:
            if self._machine.fatal is not None:
                raise self._machine.fatal
            if self.state is SessionState.CLOSED:
                raise ClosingError(message="the client was closed")
            if self.state is SessionState.EXPIRED and not self._renews:
                raise SessionExpiredError
            await self.wait_change()
        await trio.lowlevel.checkpoint()

    def note(self, state: SessionState) -> None:
        """Called with each new state."""
        if state is SessionState.EXPIRED:
            self.expired.set()
        elif self.expired.is_set():
            self.expired = trio.Event()
        self._changed.set()
        self._changed = trio.Event()
