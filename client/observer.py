"""The reports of the client: to the log, to an observer of the user, and to streams of state changes.

The rules:

* Each change of the state is reported, in order. Two changes are never reported as one.
* An observer is called in the client's own tasks, and must return at once. An exception that it raises is
  logged, and the client continues.
* Without an observer no request is timed.
* The log has one line for each event in the life of the session, by the logger ``pyzk.client``. No password,
  credential or data of a znode is ever logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import trio

from ..protocol.errors import ZooKeeperError
from ..protocol.operations import OpCode
from ..protocol.text import session_text
from .hosts import Host
from .machine import SessionMachine, SessionState
from .request import Request

if TYPE_CHECKING:
    from .session import Session

logger = logging.getLogger(__name__)


@attrs.frozen
class StateChange:
    """One change of the session's state.

    :ivar state: the new state.
    :ivar previous: the state before.
    :ivar seconds: the duration of the previous state, in seconds.
    :ivar at: the time of the change, by ``trio.current_time()``, in seconds.
    :ivar session_id: the id of the session; 0 without a session.
    :ivar generation: the number of the session: 1 for the first one, and 1 more for each session that
        replaced an expired one.
    :ivar observer: the user's observer; None if there is none, and requests need not be followed.
    :ivar server: the server of the present connection, or of the last one.
    :ivar reason: why the last connection, or the last attempt to open one, ended.
    :ivar error: for the state CLOSED: the error for which the client has given up; None if the program closed
        the client.
    """

    state: SessionState
    previous: SessionState
    seconds: float
    at: float
    session_id: int
    generation: int
    server: Host | None
    reason: str
    error: ZooKeeperError | None


class Observer:
    """The base class of a hook for metrics. Override the methods that you need, and pass an instance to
    ``connect`` as ``observer``. The methods are called in the client's own tasks, and must return at once."""

    def state_changed(self, change: StateChange) -> None:
        """Called with each new state of the session."""

    def server_failed(self, server: Host, reason: str) -> None:
        """Called when an attempt to connect to a server has failed. The client tries the next server."""

    def lease_short(self, seconds: float) -> None:
        """Called when the lease is nearly over, while the program holds a lock or something else that depends
        on the lease.

        :param seconds: the seconds until the end of the lease.
        """

    def request_settled(self, operation: str, seconds: float, error: Exception | None) -> None:
        """Called with the outcome of a request.

        :param operation: a word such as ``create``, ``get_data`` or ``multi``.
        :param seconds: the seconds from the call to the outcome, with the wait for a connection.
        :param error: why the request has failed; None if it was carried out.
        """


class Reporter:
    """Passes on what happens.

    :param own: the observer of the client itself.
    :param observer: the user's observer, which also gets requests.
    :ivar observer: the user's observer; None if there is none, and requests need not be followed.
    :ivar server: the server of the present connection, or of the last connection; None before the first
        connection.
    """

    def __init__(
        self, machine: SessionMachine, session: Session, own: Observer, observer: Observer | None
    ) -> None:
        self.server: Host | None = None
        self._machine = machine
        self._session = session
        self.observer = observer
        self._observers = [own] if observer is None else [own, observer]
        self._state = machine.state
        self._since = trio.current_time()
        machine.on_state_change = self.state_changed
        machine.on_lease_short = self.lease_short

    def state_changed(self, state: SessionState) -> None:
        """Pass on a new state."""
        machine, now = self._machine, trio.current_time()
        data = machine.data
        change = StateChange(
            state=state,
            previous=self._state,
            seconds=now - self._since,
            at=now,
            session_id=data.session_id,
            generation=machine.generation,
            server=self.server,
            reason=machine.why,
            error=machine.fatal,
        )
        if change.previous is SessionState.SUSPENDED:
            data.metrics.suspended += change.seconds
        self._state, self._since = state, now
        self._session.note(change)
        self._tell(lambda observer: observer.state_changed(change))

    def server_failed(self, server: Host, reason: str) -> None:
        """Pass on that an attempt has failed."""
        self._tell(lambda observer: observer.server_failed(server, reason))

    def lease_short(self) -> None:
        """Pass on that the lease is nearly over."""
        left = self._machine.data.lease.deadline - trio.current_time()
        self._tell(lambda observer: observer.lease_short(left))

    def follow(self, request: Request[Any], observer: Observer) -> None:
        """Pass the outcome of a request that is submitted now to the user's observer."""
        began = trio.current_time()

        def settled(request: Request[Any]) -> None:
            word, seconds = OpCode(request.opcode).word, trio.current_time() - began
            observer.request_settled(word, seconds, request.error)

        request.on_settled(settled)

    def _tell(self, call: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                call(observer)
            except Exception:
                logger.exception(
                    "The observer %r must not raise. Handle the exception in the observer.", observer
                )


_log = logging.getLogger(__package__)

_AGAIN_AFTER = 60.0
"""The seconds after which another failure of the same server is logged as a warning again. Before that it is
logged at DEBUG. While all servers are down, each of them fails about twice a second."""


class Log(Observer):
    """Logs what happens to one session.

    :param renews: whether a new session follows an expired one.
    """

    def __init__(self, *, renews: bool) -> None:
        self._renews = renews
        self._began = False
        self._quiet_until: dict[Host, float] = {}

    def state_changed(self, change: StateChange) -> None:
        """Log a new state."""
        name = f"session {session_text(change.session_id)}"
        match change.state:
            case SessionState.CONNECTED:
                self._quiet_until.clear()
                self._began = True
                if change.previous is SessionState.SUSPENDED:
                    text = "Connected to %s after %.3f s without a connection: %s continues."
                elif change.generation > 1:
                    text = "Connected to %s after %.3f s: %s replaces the expired one."
                else:
                    text = "Connected to %s after %.3f s: %s begins."
                _log.info(text, change.server, change.seconds, name)
            case SessionState.CONNECTED_READ_ONLY:
                _log.warning(
                    "Connected to %s after %.3f s: it is read-only and refuses writes. Looking for another.",
                    *(change.server, change.seconds),
                )
            case SessionState.CONNECTING if change.previous is SessionState.CONNECTED_READ_ONLY:
                _log.warning(
                    "Lost the connection to %s, which was read-only (%s). Trying the next server.",
                    *(change.server, change.reason),
                )
            case SessionState.SUSPENDED:
                _log.warning(
                    "Lost the connection to %s after %.3f s (%s). Trying the next server; %s may continue.",
                    *(change.server, change.seconds, change.reason, name),
                )
            case SessionState.EXPIRED:
                then = "A new session follows." if self._renews else "The block of the client is cancelled."
                _log.error("The server has ended %s: its ephemeral znodes are gone. %s", name, then)
            case SessionState.CLOSED if change.error is not None:
                _log.error("The client gives up: %s (%s).", change.error, change.server)
            case SessionState.CLOSED:
                _log.info("Closed %s.", name if change.session_id else "without a session")

    def server_failed(self, server: Host, reason: str) -> None:
        """Log that an attempt has failed."""
        now = trio.current_time()
        if now < self._quiet_until.get(server, now):
            level = logging.DEBUG
        else:
            self._quiet_until[server] = now + _AGAIN_AFTER
            # Before the first session the error of connect says it, too.
            level = logging.WARNING if self._began else logging.INFO
        _log.log(level, "Not served by %s (%s). Trying the next server.", server, reason)

    def lease_short(self, seconds: float) -> None:
        """Log that the lease is nearly over."""
        _log.warning(
            "The lease %s %.1f s%s, and locks and other holds end with the lease: the leader of the "
            "servers has not answered. "
            "Check the connection and the load of the servers.",
            *(("ends in", seconds, "") if seconds >= 0 else ("ended", -seconds, " ago")),
        )
