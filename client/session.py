"""One session with the service, over one connection after another. No I/O and no clock.

The caller opens connections and moves bytes; it says what time it is (seconds of any monotonic clock) and
asks when to come back:

    session.connection_made(now)              a connection is open
    session.receive_data(data, now)           bytes came in
    session.data_to_send(now) -> bytes        bytes to write, in this order; empty when there is nothing
    session.next_deadline() -> float          call handle_timer(now) at this time at the latest
    session.should_close -> bool              the connection has served: close it, then
    session.connection_lost(now, reason)      it is gone

The rules:

* Only the server ends a session. Until it says "expired", the session may be alive, and it is re-attached.
* Requests are sent in the order in which they were submitted. Those submitted while there is no connection
  wait for one, at most for the session timeout.
* When a serving connection ends, every write in flight fails, and so does every write behind it: whoever
  pipelines A and B must never see B applied without A. Reads go back to the queue, and their patience ends
  one session timeout later.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..protocol.constants import JUTE_MAXBUFFER
from ..protocol.errors import (
    AuthFailedError,
    BadArgumentsError,
    ClosingError,
    ConnectionLossError,
    SessionExpiredError,
    ZooKeeperError,
)
from ..protocol.operations import OpCode
from .connection import (
    DEFAULT_REPLY_LIMIT,
    NO_PASSWORD,
    Connection,
    Credential,
    Metrics,
    Phase,
    SessionData,
)
from .events import MissedReason
from .lease import Lease
from .registry import WatchRegistry
from .request import Request


class SessionState(enum.Enum):
    """What the client knows of its session."""

    CONNECTING = "there is no session yet"
    CONNECTED = "requests are being served"
    SUSPENDED = "no connection; the session may be alive or not"
    EXPIRED = "the server has ended the session"
    CLOSED = "the client was closed"


_OPEN = (SessionState.CONNECTING, SessionState.CONNECTED, SessionState.SUSPENDED)


class SessionMachine:
    """The state of a session.

    :param timeout: the session timeout to ask for, in seconds; the server has the last word.
    :param connect_budget: seconds a server has for handshake and authentication.
    :param request_limit: the largest request in bytes (the server's ``jute.maxbuffer``).
    :param reply_limit: the largest reply in bytes that is accepted.
    :param resume: id and password of a session to take over.

    :ivar generation: 1 for the first session, one more for each that replaces an expired one.
    :ivar on_state_change: called with each new state.
    :ivar fatal: why there will never be a session.
    :ivar reason: why the last connection, or the last attempt at one, failed.
    """

    def __init__(
        self,
        watches: WatchRegistry,
        *,
        timeout: float,
        connect_budget: float,
        credentials: Iterable[Credential] = (),
        request_limit: int = JUTE_MAXBUFFER,
        reply_limit: int = DEFAULT_REPLY_LIMIT,
        resume: tuple[int, bytes] | None = None,
    ) -> None:
        self.state = SessionState.CONNECTING
        self.generation = 1
        self.on_state_change: Callable[[SessionState], object] = lambda state: None
        self.fatal: ZooKeeperError | None = None
        self.reason = "there was none yet"
        self.watches = watches
        self._data = SessionData(
            watches,
            timeout,
            connect_budget,
            list(dict.fromkeys(credentials)),
            *(resume or (0, NO_PASSWORD)),
            request_limit,
            reply_limit,
        )
        self._connection: Connection | None = None
        self._close_request: Request[None] | None = None
        self._probing = False

    @property
    def session_id(self) -> int:
        return self._data.session_id

    @property
    def password(self) -> bytes:
        return self._data.password

    @property
    def timeout(self) -> float:
        """In seconds: the negotiated one, before that the wanted one."""
        return self._data.timeout

    @property
    def connect_budget(self) -> float:
        """Seconds that a server has for handshake and authentication. A change counts from the next
        connection on."""
        return self._data.connect_budget

    @connect_budget.setter
    def connect_budget(self, seconds: float) -> None:
        self._data.connect_budget = seconds

    @property
    def last_zxid(self) -> int:
        """The highest zxid seen in a reply."""
        return self._data.last_zxid

    @property
    def lease_deadline(self) -> float:
        return self.lease.deadline

    @property
    def lease(self) -> Lease:
        """Until when the session cannot have ended."""
        return self._data.lease

    @property
    def metrics(self) -> Metrics:
        return self._data.metrics

    @property
    def accepting(self) -> bool:
        """Whether requests can be submitted."""
        return self._close_request is None and self.state in _OPEN

    # --- what the user asks ------------------------------------------------------------------------------

    def submit(self, request: Request[Any], now: float) -> None:
        """Queue a request.

        Raises :class:`ClosingError` after :meth:`close`, :class:`SessionExpiredError` after the end of the
        session, :class:`BadArgumentsError` for a request above the limit.
        """
        if not self.accepting:
            raise self._refusal(request.path)
        size, limit = len(request.body) + 8, self._data.request_limit
        if size > limit:
            raise BadArgumentsError(
                request.path,
                f"a request of {size:,} bytes exceeds the limit of {limit:,}; raise it on the server with "
                "jute.maxbuffer and here with request_limit",
            )
        if self.state is not SessionState.CONNECTED:
            request.give_up_at = now + self.timeout
        self._data.outbox.append(request)

    def add_credential(self, credential: Credential, now: float) -> Request[None]:
        """Authenticate this connection and, once the server has accepted, every later one."""
        request: Request[None] = Request(OpCode.AUTH, credential.packet(), retry=True)
        self.submit(request, now)

        def settled(request: Request[None]) -> None:
            if request.error is None and credential not in self._data.credentials:
                self._data.credentials.append(credential)

        request.on_settled(settled)
        return request

    def withdraw(self, request: Request[Any]) -> bool:
        """Take back a request that is still in the queue. Returns False if there is nothing to take back."""
        if request.settled or request.xid:
            return False
        request.fail(ConnectionLossError(request.path, "the request was withdrawn", sent=request.sent))
        return True

    def close(self) -> Request[None]:
        """End the session: behind everything submitted before, tell the server. Nothing can be submitted
        any more. The state is CLOSED once the returned request is settled; :meth:`abandon` stops waiting."""
        if self._close_request is None:
            self._close_request = Request(OpCode.CLOSE_SESSION)
            self._close_request.on_settled(lambda request: self.abandon())
            if self.state in _OPEN:
                self._data.outbox.append(self._close_request)
            else:
                self._close_request.succeed(None)
        return self._close_request

    def abandon(self) -> None:
        """Stop now. Every request that is not settled fails. A session that the server was not told to close
        lives on there until it expires."""
        if self.state in _OPEN:
            self._finish(SessionState.CLOSED, ClosingError(message="the client was closed"))
        self.watches.end(ClosingError(message="the client was closed"))

    def renew(self) -> None:
        """After EXPIRED: start over with a new session."""
        self.generation += 1
        data = self._data
        data.session_id, data.password, data.last_zxid = 0, NO_PASSWORD, 0
        data.lease.ended()
        self._set_state(SessionState.CONNECTING)

    def _refusal(self, path: str | None) -> ZooKeeperError:
        """Why nothing can be submitted."""
        if self.fatal is not None:
            return self.fatal
        if self.state is SessionState.EXPIRED:
            return SessionExpiredError(path)
        return ClosingError(path, "the client was closed")

    # --- the connection ----------------------------------------------------------------------------------

    @property
    def should_close(self) -> bool:
        """Whether the present connection, if any, is of no more use."""
        return self._connection is None or self._connection.over

    @property
    def connected_since(self) -> float:
        """When the present connection began to serve; infinity if it does not."""
        return self._connection.ready_since if self._connection is not None else math.inf

    def connect_failed(self, reason: str) -> None:
        """No connection could be opened; the reason goes into the errors of those who wait for one."""
        self.reason = reason

    def connection_made(self, now: float) -> None:
        """A connection is open."""
        self._connection = Connection(self._data, now, probing=self._probing)

    @property
    def has_data_to_send(self) -> bool:
        """Whether :meth:`data_to_send` would give anything."""
        return self._connection is not None and self._connection.has_data_to_send

    def data_to_send(self, now: float) -> bytes:
        """What to write now. Ask again after writing it."""
        return self._connection.data_to_send(now) if self._connection is not None else b""

    def receive_data(self, data: bytes, now: float) -> None:
        """Bytes from the server."""
        connection = self._connection
        if connection is None:
            return
        before = connection.phase
        connection.receive_data(data, now)
        if connection.phase is before:
            return
        if connection.phase is Phase.READY:
            self._set_state(SessionState.CONNECTED)
        elif connection.phase is Phase.EXPIRED:
            self._finish(SessionState.EXPIRED, None)
        elif connection.phase is Phase.REFUSED and not self.metrics.connections:
            # Later on, another server of the ensemble may know better.
            self.fatal = AuthFailedError(None, connection.reason)
            self._finish(SessionState.CLOSED, self.fatal)

    def connection_lost(self, now: float, reason: str = "the server closed the connection") -> None:
        """The connection is gone; ``reason`` counts unless a better one is known."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.end(reason)
        self.reason = connection.reason
        self.lease.disconnected()
        # A server that is behind what we have seen closes without a word (wire.md section 4.2). One that was
        # emptied does so for ever, and we would never learn that our session is gone (trap 17): once the
        # session may be over, ask with zxid 0, and serve nothing on that connection.
        self._probing = bool(self.session_id and not connection.heard and now > self._data.silent_until)

        served = self.state is SessionState.CONNECTED
        if served:
            self._set_state(SessionState.SUSPENDED)
        self.watches.disconnected()
        waiting, self._data.outbox = [*connection.in_flight, *self._data.outbox], deque()
        for request in waiting:
            request.xid = 0
            if request.settled:
                continue
            if request is self._close_request:
                if request.sent:  # its reply or the end of the connection: either will do
                    request.succeed(None)
                else:
                    self._data.outbox.append(request)
            elif not served or (request.retry and not _out_of_patience(request, now)):
                if request.give_up_at is None:
                    request.give_up_at = now + self.timeout
                self._data.outbox.append(request)
            else:
                request.fail(self._loss(request))

    def _loss(self, request: Request[Any]) -> ConnectionLossError:
        fate = "the request may have been applied" if request.sent else "the request was not sent"
        message = f"the connection was lost ({self.reason}); {fate}"
        return ConnectionLossError(request.path, message, sent=request.sent)

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When to call :meth:`handle_timer`, in seconds of the caller's clock; infinity for never."""
        deadline = self._connection.next_deadline() if self._connection is not None else math.inf
        if self.state is not SessionState.CONNECTED:
            first = self._first_waiting()
            if first is not None and first.give_up_at is not None:
                deadline = min(deadline, first.give_up_at)
        return deadline

    def handle_timer(self, now: float) -> None:
        """Do what is due."""
        if self._connection is not None:
            self._connection.handle_timer(now)
        if self.state is SessionState.CONNECTED:
            return
        while (request := self._first_waiting()) is not None and _out_of_patience(request, now):
            self._data.outbox.popleft()
            message = f"no connection within {self.timeout:.1f} s ({self.reason})"
            request.fail(ConnectionLossError(request.path, message, sent=request.sent))

    def _first_waiting(self) -> Request[Any] | None:
        """The first of the queue, which is also the first to give up."""
        outbox = self._data.outbox
        while outbox and outbox[0].settled:
            outbox.popleft()
        return outbox[0] if outbox else None

    # --- the end -----------------------------------------------------------------------------------------

    def _set_state(self, state: SessionState) -> None:
        if state is not self.state:
            self.state = state
            self.on_state_change(state)

    def _finish(self, state: SessionState, error: ZooKeeperError | None) -> None:
        """Settle every request. ``error`` None stands for expiry."""
        self._set_state(state)
        in_flight: deque[Request[Any]] = deque()
        if self._connection is not None:
            self._connection.end("the client was closed")
            self.reason = self._connection.reason
            in_flight, self._connection.in_flight = self._connection.in_flight, in_flight
        waiting, self._data.outbox = [*in_flight, *self._data.outbox], deque()
        for request in waiting:
            if request.settled:
                continue
            if request is self._close_request:
                request.succeed(None)
            elif request.xid and not request.retry:
                request.fail(self._loss(request))
            else:
                request.fail(error or SessionExpiredError(request.path))
        if state is SessionState.EXPIRED:
            self._data.missed = MissedReason.EXPIRED
            self.watches.expired()


def _out_of_patience(request: Request[Any], now: float) -> bool:
    return request.give_up_at is not None and now >= request.give_up_at
