"""One session with the service, over one connection after another. No I/O and no clock.

The caller opens connections and moves bytes. The caller passes the time in seconds, by any monotonic clock,
and gets the next deadline:

    machine.connection_made(now)              a connection is open
    machine.receive_data(data, now)           bytes came in
    machine.data_to_send(now) -> bytes        bytes to write, in this order; empty if there are none
    machine.next_deadline() -> float          call handle_timer(now) at this time at the latest
    machine.should_close -> bool              the connection is over: close it, then
    machine.connection_lost(now, reason)      the connection is gone

The rules:

* Only the server ends a session. Until a server says "expired", the session may be alive, and the client
  attaches to it again.
* Requests are sent in the order in which they were submitted. A request that is submitted without a
  connection waits for a connection, at most for the session timeout.
* A read-only server has its own sessions. While a read-only server serves the client, the session of the
  client stays unchanged. The next full server attaches this session again. Requests that need the leader fail
  at once.
* When a serving connection ends, every write in flight fails. Every write in the queue fails too, because a
  program that pipelines A and B must never see B applied without A. Reads go back to the queue. The reads
  fail if there is no connection for the session timeout.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ..protocol.errors import (
    AuthFailedError,
    BadArgumentsError,
    ClosingError,
    ConnectionLossError,
    NotReadOnlyError,
    SessionExpiredError,
    ZooKeeperError,
)
from ..protocol.operations import OpCode
from .auth import Credential
from .connection import Connection, Phase
from .direct_connection import Exchange
from .lease import PROOFS
from .registry import MissedReason
from .request import REQUEST_HEADER_SIZE, Request
from .session_data import SessionData


class SessionState(enum.Enum):
    """The state of the session, as the client knows it."""

    CONNECTING = "there is no session yet"
    CONNECTED = "requests are being served"
    CONNECTED_READ_ONLY = "a read-only server serves reads, and refuses writes"
    SUSPENDED = "there is no connection; the session may be alive or not"
    EXPIRED = "the server has ended the session"
    CLOSED = "the client was closed"


UNSERVED = (SessionState.CONNECTING, SessionState.SUSPENDED)
"""The states in which the client tries to connect."""
SERVED = (SessionState.CONNECTED, SessionState.CONNECTED_READ_ONLY)
_OPEN = (*UNSERVED, *SERVED)


class SessionMachine:
    """The state of a session.

    :ivar data: the state that one connection leaves to the next.
    :ivar generation: the number of the session: 1 for the first session, and 1 more for each session that
        replaces an expired one.
    :ivar on_state_change: called with each new state.
    :ivar on_lease_short: called when the lease is nearly over and is kept.
    :ivar fatal: the error if there will never be a session; None while a session is possible.
    :ivar refusal: the error if a server has refused an identity since the last connection that served; None
        if no server has refused one.
    :ivar dismissed: whether the last server may be one that serves only its own, read-only sessions. Such a
        server says so, or closes the connection without sending a byte.
    :ivar peer: the name of the server for errors; ``""`` if it is unknown.
    :ivar why: why the last connection, or the last attempt to open one, failed.
    """

    def __init__(self, data: SessionData) -> None:
        self.data = data
        self.state = SessionState.CONNECTING
        self.generation = 1
        self.on_state_change: Callable[[SessionState], object] = lambda state: None
        self.on_lease_short: Callable[[], object] = lambda: None
        self.fatal: ZooKeeperError | None = None
        self.refusal: AuthFailedError | None = None
        self.dismissed = False
        self.peer = ""
        self.why = "no attempt has ended yet"
        self._connection: Connection | None = None
        self._close_request: Request[None] | None = None
        self._probing = False

    @property
    def reason(self) -> str:
        """The server that failed last, and the reason."""
        return f"{self.peer}: {self.why}" if self.peer else self.why

    @property
    def in_flight(self) -> int:
        """The number of requests that were sent and not answered."""
        return len(self._connection.in_flight) if self._connection is not None else 0

    @property
    def accepting(self) -> bool:
        """True if requests can be submitted."""
        return self._close_request is None and self.state in _OPEN

    # --- what the user asks ------------------------------------------------------------------------------

    def submit(self, request: Request[Any], now: float) -> None:
        """Queue a request.

        :raises ClosingError: after :meth:`close`.
        :raises SessionExpiredError: after the end of the session.
        :raises BadArgumentsError: the request is larger than the limit.
        :raises NotReadOnlyError: the request needs the leader, but the server is read-only.
        """
        if not self.accepting:
            raise self._refusal(request.path)
        size, limit = len(request.body) + REQUEST_HEADER_SIZE, self.data.request_limit
        if size > limit:
            raise BadArgumentsError(
                request.path,
                f"a request of {size:,} bytes exceeds the limit of {limit:,}; raise it on the server with "
                "jute.maxbuffer and here with request_limit",
            )
        if self.state is not SessionState.CONNECTED:
            if self.state is not SessionState.CONNECTED_READ_ONLY:
                request.give_up_at = now + self.data.timeout
            elif request.opcode in PROOFS:
                raise NotReadOnlyError(request.path)
        self.data.outbox.append(request)

    def add_credential(self, credential: Credential, now: float) -> Request[None]:
        """Authenticate this connection and, once the server has accepted the identity, every later one."""
        request: Request[None] = Request(OpCode.AUTH, credential.packet(), retry=True)
        self.submit(request, now)

        def settled(request: Request[None]) -> None:
            if request.error is None and credential not in self.data.credentials:
                self.data.credentials.append(credential)

        request.on_settled(settled)
        return request

    def withdraw(self, request: Request[Any]) -> bool:
        """Withdraw a request that is still in the queue: it fails as not sent. Returns False if the request
        was sent or is settled."""
        if request.settled or request.xid:
            return False
        request.fail(ConnectionLossError(request.path, "the request was withdrawn", sent=request.sent))
        return True

    def close(self) -> Request[None]:
        """Ask the server to end the session, after everything submitted before. Nothing can be submitted any
        more. The state is CLOSED when the returned request is settled. :meth:`abandon` stops the wait."""
        if self._close_request is None:
            self._close_request = Request(OpCode.CLOSE_SESSION)
            self._close_request.on_settled(lambda request: self.abandon())
            if self.state in _OPEN:
                self.data.outbox.append(self._close_request)
            else:
                self._close_request.succeed(None)
        return self._close_request

    def abandon(self) -> None:
        """Stop now. Every request that is not settled fails. If no request to close the session was sent,
        the session stays on the server until it expires."""
        if self.state in _OPEN:
            self._finish(SessionState.CLOSED, ClosingError(message="the client was closed"))
        self.data.watches.end(ClosingError(message="the client was closed"))

    def give_up(self, error: ZooKeeperError) -> None:
        """Stop now, because there will never be a session: every request fails with the error."""
        self.fatal = error
        self._finish(SessionState.CLOSED, error)

    def renew(self) -> None:
        """After EXPIRED: start over with a new session."""
        self.generation += 1
        self.data.reset()
        self._set_state(SessionState.CONNECTING)

    def _refusal(self, path: str | None) -> ZooKeeperError:
        """Return the error that says why nothing can be submitted."""
        if self.fatal is not None:
            return self.fatal
        if self.state is SessionState.EXPIRED:
            return SessionExpiredError(path)
        return ClosingError(path, "the client was closed")

    # --- the connection ----------------------------------------------------------------------------------

    @property
    def should_close(self) -> bool:
        """True if there is no connection, or if the connection is over."""
        return self._connection is None or self._connection.over

    @property
    def connected_since(self) -> float:
        """The time at which the present connection began to serve, by the caller's clock; infinity if the
        connection does not serve."""
        return self._connection.ready_since if self._connection is not None else math.inf

    def connect_failed(self, reason: str) -> None:
        """Note that no connection could be opened. Requests that fail without a connection name this
        reason."""
        self.why = reason

    def connection_made(self, now: float, *, apart: bool = False) -> None:
        """Note that a connection is open.

        :param apart: request a new session at a read-only server.
        """
        self._connection = Connection(self.data, now, probing=self._probing and not apart, apart=apart)

    @property
    def has_data_to_send(self) -> bool:
        """True if :meth:`data_to_send` would return any bytes."""
        return self._connection is not None and self._connection.has_data_to_send

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write now. Call the method again after these bytes are written."""
        return self._connection.data_to_send(now) if self._connection is not None else b""

    def receive_data(self, data: bytes, now: float) -> bool:
        """Handle bytes from the server.

        :returns: whether :meth:`next_deadline` may come earlier than before.
        """
        connection = self._connection
        if connection is None:
            return False
        before = connection.phase
        nearer = connection.receive_data(data, now)
        if connection.phase is not before:
            self._phase_changed(connection)
        return nearer

    def _phase_changed(self, connection: Connection) -> None:
        if connection.phase is Phase.READY:
            self.refusal = None
            if connection.read_only:
                self._refuse_writes()
                self._set_state(SessionState.CONNECTED_READ_ONLY)
            else:
                self._set_state(SessionState.CONNECTED)
        elif connection.phase is Phase.EXPIRED:
            self._finish(SessionState.EXPIRED, None)
        elif connection.phase is Phase.REFUSED:
            self.refusal = AuthFailedError(None, connection.reason)
            # Fatal at once only before the first session: after it, another server may accept the identity.
            if not self.data.metrics.connections:
                self.give_up(self.refusal)

    @property
    def is_quiet(self) -> bool:
        """True if the connection serves, and no request is in flight."""
        served = self.state is SessionState.CONNECTED and self.accepting
        return served and self._connection is not None and self._connection.is_quiet

    def exchanged(self, done: list[Exchange], open: Exchange | None, now: float) -> None:
        """Note exchanges that another thread has made over the connection, and continue.

        :param done: the exchanges that are over, with a reply.
        :param open: the exchange that is still open, if there is one.
        """
        assert self._connection is not None
        self._connection.exchanged(done, open)
        if open is not None and open.received:
            self.receive_data(open.received, now)

    def _refuse_writes(self) -> None:
        waiting, self.data.outbox = self.data.outbox, deque()
        for request in waiting:
            if request.opcode in PROOFS and not request.settled:
                request.fail(NotReadOnlyError(request.path))
            else:
                self.data.outbox.append(request)

    def end_connection(self, reason: str) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.end(reason)

    def leave_server(self, reason: str) -> None:
        """Move to another server: send nothing more here, and let the connection end as soon as all requests
        in flight are answered."""
        if self._connection is not None:
            self._connection.leave(reason)

    def connection_lost(self, now: float, reason: str = "the server closed the connection") -> None:
        """Note that the connection is gone.

        :param reason: why, unless the connection itself knows the reason.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not connection.heard:
            reason += " without an answer: it may have no quorum, or too many connections (maxClientCnxns)"
            if self.data.last_zxid:
                reason += f", or it lags behind zxid 0x{self.data.last_zxid:x}, which this client has seen"
        connection.end(reason)
        self.why = connection.reason
        data = self.data
        data.lease.disconnected()
        # A server whose last zxid is lower than ours closes the connection and says nothing (wire.md section
        # 4.2). A server that has lost its data does so for ever, and we would never learn that our session is
        # gone (trap 17). So, once the session may be over, the next handshake names zxid 0, and that
        # connection only finds out whether the session is alive.
        self._probing = bool(data.session_id and not connection.heard and now > data.acknowledgement_due)

        self.dismissed = connection.read_only or not connection.heard
        served = self.state in SERVED
        if served:
            self._set_state(SessionState.SUSPENDED if data.session_id else SessionState.CONNECTING)
        data.watches.disconnected()
        waiting, data.outbox = [*connection.in_flight, *data.outbox], deque()
        for request in waiting:
            request.xid = 0
            if request.settled:
                continue
            if request is self._close_request:
                if request.sent:  # the server ends the connection after it, with or without a reply
                    request.succeed(None)
                else:
                    data.outbox.append(request)
            elif not served or connection.drained or (request.retry and not _is_overdue(request, now)):
                if request.give_up_at is None:
                    request.give_up_at = now + data.timeout
                data.outbox.append(request)
            else:
                request.fail(self._loss(request))

    def _loss(self, request: Request[Any]) -> ConnectionLossError:
        fate = "the request may have been applied" if request.sent else "the request was not sent"
        message = f"the connection was lost ({self.reason}); {fate}"
        return ConnectionLossError(request.path, message, sent=request.sent)

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Return the time at which to call :meth:`handle_timer`, in the caller's time; infinity for never."""
        deadline = self._connection.next_deadline() if self._connection is not None else math.inf
        deadline = min(deadline, self.data.lease.short_at)
        if self.state in UNSERVED:
            first = self._first_waiting()
            if first is not None and first.give_up_at is not None:
                deadline = min(deadline, first.give_up_at)
        return deadline

    def handle_timer(self, now: float) -> None:
        """Do what is due by now: send pings, and give up requests that have waited too long."""
        if self._connection is not None:
            self._connection.handle_timer(now)
        if now >= self.data.lease.short_at:
            self.data.lease.warned = True
            self.on_lease_short()
        if self.state not in UNSERVED:
            return
        while (request := self._first_waiting()) is not None and _is_overdue(request, now):
            self.data.outbox.popleft()
            message = f"no connection within {self.data.timeout:.1f} s ({self.reason})"
            request.fail(ConnectionLossError(request.path, message, sent=request.sent))

    def _first_waiting(self) -> Request[Any] | None:
        """Return the first request of the queue. No other request has an earlier deadline."""
        outbox = self.data.outbox
        while outbox and outbox[0].settled:
            outbox.popleft()
        return outbox[0] if outbox else None

    # --- the end -----------------------------------------------------------------------------------------

    def _set_state(self, state: SessionState) -> None:
        if state is not self.state:
            self.state = state
            self.on_state_change(state)

    def _finish(self, state: SessionState, error: ZooKeeperError | None) -> None:
        """Settle every request.

        :param error: what unsent requests and reads fail with; None for a :class:`SessionExpiredError` each.
        """
        self._set_state(state)
        in_flight: deque[Request[Any]] = deque()
        if self._connection is not None:
            self._connection.end("the client was closed")
            self.why = self._connection.reason
            in_flight, self._connection.in_flight = self._connection.in_flight, in_flight
        waiting, self.data.outbox = [*in_flight, *self.data.outbox], deque()
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
            self.data.missed = MissedReason.EXPIRED
            self.data.watches.expired()


def _is_overdue(request: Request[Any], now: float) -> bool:
    """Return whether a request has waited for a connection for the whole allowed time."""
    return request.give_up_at is not None and now >= request.give_up_at
