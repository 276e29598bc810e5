"""One connection to one server: handshake, frames, pairing, pings. No I/O and no clock.

The phases (wire.md sections 4, 7, 12 and 16):

    HANDSHAKE ------> AUTHENTICATING ------> READY        of a connection that serves
        |                   |                  |
        v                   v                  v
     EXPIRED             REFUSED            BROKEN        the connection is over: close it

* HANDSHAKE: the ConnectRequest was sent, and the client waits for the answer. EXPIRED: the server has said
  that the session is over.
* AUTHENTICATING: the SASL login and the credentials are sent again, and the client waits for their answers.
  REFUSED: the server does not accept the login or one of the credentials.
* READY: the connection first arms the watches again, and then serves requests. A read-only server
  (ensemble.md section 7) serves only requests that change nothing.
* BROKEN: the peer has closed the connection, is silent, or has broken the protocol. Every phase can change to
  BROKEN.

The rules:

* Replies come in the order of the requests. If the xid of an ordinary reply is not the xid of the oldest
  request, the connection ends, because the replies and the requests no longer match.
* A malformed message of the peer can only end this connection.
* The client sends a ping when it has sent nothing for 1/3 of the session timeout.
* The client gives up the server when it has received nothing for 2/3 of the session timeout, or when the
  server has answered no message that was sent during the whole timeout.
* While the lease is kept (lease.py), the client sends a ``sync`` whenever an answer of the leader is due. If
  the server does not answer the ``sync`` for 1/4 of the timeout, the client gives up the server, because the
  server may be cut off from the leader.
"""

from __future__ import annotations

import enum
import logging
import math
import struct
from collections import deque
from typing import Any

from ..protocol.constants import (
    AUTH_XID,
    INT_MAX,
    PING_XID,
    SET_WATCHES_XID,
    WATCH_XID,
    EventType,
)
from ..protocol.errors import (
    AuthFailedError,
    MarshallingError,
    NotReadOnlyError,
    SessionClosedRequireAuthError,
    UnimplementedError,
)
from ..protocol.framing import FrameBuffer, FrameLengthError, frame
from ..protocol.jute import JuteError
from ..protocol.operations import OpCode
from ..protocol.records import (
    ConnectRequest,
    ConnectResponse,
    ReadOnlyFlag,
    RequestHeader,
    WatcherEvent,
)
from .auth import Authentication
from .direct_connection import Exchange
from .lease import PROOFS, LeaderSync, Lease
from .registry import Missed, MissedReason, Rearm
from .request import REQUEST_HEADER_SIZE, Request
from .session_data import NO_PASSWORD, SessionData

_PING_AFTER = 1 / 3
"""The client sends a ping when it has sent nothing for this fraction of the session timeout, as the C client
does."""
_SILENCE_LIMIT = 2 / 3
"""The client gives up the server when it has received nothing for this fraction of the session timeout, as
all clients do. In the last third of the timeout the client must find another server."""


class Keepalive:
    """The record of the traffic with one server. Times are in seconds of the caller's clock.

    :ivar lease: the lease of the session; ``timeout`` is the session timeout, in seconds.
    :ivar sent_at: the time at which the last bytes were sent; ``received_at`` is the time at which the last
        bytes came. The connection sets both times when it begins to serve.
    :ivar pings: whether a ping waits to be sent.
    """

    sent_at: float
    received_at: float

    def __init__(self, lease: Lease, leader_sync: LeaderSync, timeout: float) -> None:
        self.lease = lease
        self.timeout = timeout
        self.pings = False
        self._leader_sync = leader_sync
        self._pinged_at: float | None = None  # if that is not answered

    def deadline(self) -> float:
        """Return the time at which to call :meth:`complaint`."""
        deadline = min(self._silence_limit, self._acknowledgement_due, self._ping_due)
        if self.lease.kept:
            return min(deadline, self._proof_due, self._proof_overdue)
        return deadline

    def complaint(self, now: float) -> str | None:
        """Return why to give up the server. None means: keep the server, and send what is due."""
        if now >= self._silence_limit:
            return f"the server was silent for {now - self.received_at:.1f} s"
        if now >= self._acknowledgement_due:
            return f"the server acknowledged nothing for {self.timeout:.1f} s"
        if self.lease.kept and now >= self._proof_overdue:
            return (
                f"the server left a sync unanswered for {now - self._leader_sync.asked_at:.1f} s: "
                "it may be cut off from the leader"
            )
        if self.lease.kept and now >= self._proof_due:
            self._leader_sync.ask(now)
        elif now >= self._ping_due:
            self.pings = True
        return None

    @property
    def ping_open(self) -> bool:
        """True if a ping waits to be sent, or waits for its answer."""
        return self.pings or self._pinged_at is not None

    def ping_sent(self, now: float) -> None:
        """Note that the ping is sent."""
        self.pings, self._pinged_at = False, now

    def ping_answered(self, now: float) -> None:
        """Note that the server has answered the ping."""
        if self._pinged_at is not None:
            self.lease.answered(self._pinged_at, now)
            self._pinged_at = None

    @property
    def _acknowledgement_due(self) -> float:
        """The time at which the server has acknowledged nothing for too long."""
        return self.lease.acknowledged + self.timeout

    @property
    def _silence_limit(self) -> float:
        """The time at which the server has been silent for too long."""
        return self.received_at + self.timeout * _SILENCE_LIMIT

    @property
    def _ping_due(self) -> float:
        """The time at which to send a ping; infinity while a ping is not answered yet."""
        if self.ping_open:
            return math.inf
        return self.sent_at + self.timeout * _PING_AFTER

    @property
    def _proof_due(self) -> float:
        """The time at which to send a ``sync`` for the lease."""
        return self._leader_sync.due(self.lease.proof_due, self.timeout)

    @property
    def _proof_overdue(self) -> float:
        """The time at which a ``sync`` for the lease has been unanswered for too long."""
        return self._leader_sync.overdue(self.received_at, self.timeout)


logger = logging.getLogger(__name__)

_HANDSHAKE_LIMIT = 1024
"""The largest accepted size of the answer to a ConnectRequest, in bytes. The answer has 37 bytes. A peer that
announces a much longer answer speaks another protocol."""
_CONNECT_RESPONSE_SIZE = 36
"""The size of the answer to a ConnectRequest in bytes, without the read-only byte at its end. Some servers do
not send this byte (wire.md section 4.3)."""
_SEND_CHUNK = 64 * 1024
"""The number of bytes up to which requests are joined for one write, so that a write costs little for each
request."""
_REARM_CHUNK = 128 * 1024
"""The number of bytes of paths in one request that arms watches again, as in the Java client (wire.md section
16)."""
_REARM_HEADER = 64
"""An upper bound in bytes for everything except the paths in a request that arms watches."""
_FRAMES_AT_ONCE = 1000
"""The largest number of frames that are taken out of the buffer at once."""

_REQUEST_HEADER = struct.Struct(">iii")  # the length of the frame, xid, op code
_PING = frame(RequestHeader(PING_XID, OpCode.PING).encode())
_REPLY_HEADER = struct.Struct(">iqi")  # xid, zxid, error
_NOT_READ_ONLY = NotReadOnlyError.code.to_bytes(4, "big", signed=True)
_REFUSALS = (UnimplementedError.code, SessionClosedRequireAuthError.code)
"""Errors that overtake the replies to earlier requests (wire.md section 7)."""
_REPORTED = (EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD)
"""The events that servers send (wire.md section 11)."""


class Phase(enum.Enum):
    """The phases of a connection; see above."""

    HANDSHAKE = enum.auto()
    AUTHENTICATING = enum.auto()
    READY = enum.auto()
    EXPIRED = enum.auto()
    REFUSED = enum.auto()
    BROKEN = enum.auto()


_OVER = (Phase.EXPIRED, Phase.REFUSED, Phase.BROKEN)


class _ViolationError(Exception):
    """The peer has broken the protocol."""


class Connection:
    """A connection that has just been opened. Times are in seconds of the caller's clock.

    :param probing: whether the connection only finds out if the session is alive, and serves no requests.
    :param apart: whether the connection requests a new session at a read-only server, because a read-only
        server cannot attach the client's session.
    :ivar phase: see above.
    :ivar reason: the reason why the connection is BROKEN, EXPIRED or REFUSED.
    :ivar heard: whether any byte came.
    :ivar in_flight: requests that were sent and not answered, the oldest first.
    :ivar ready_since: the time at which the connection became READY; infinity before that.
    :ivar read_only: whether the server is read-only. A read-only server has its own sessions, which prove
        nothing about this client's session.
    :ivar drained: whether the client has left the connection without a lost request.
    """

    def __init__(
        self, session: SessionData, now: float, *, probing: bool = False, apart: bool = False
    ) -> None:
        self.phase = Phase.HANDSHAKE
        self.reason = ""
        self.heard = False
        self.in_flight: deque[Request[Any]] = deque()
        self.ready_since = math.inf
        self.read_only = False
        self.drained = False
        self._leaving: str | None = None
        self._session = session
        self._probing = probing
        self._session_id = 0 if apart else session.session_id
        self._buffer = FrameBuffer(_HANDSHAKE_LIMIT)
        self._handshake_deadline = now + session.connect_budget
        self._handshake_sent_at = now
        self._authentication: Authentication | None = None  # while it goes on
        self._rearming: deque[Rearm] = deque()
        self._leader_sync = LeaderSync(now)
        self._keepalive = Keepalive(session.lease, self._leader_sync, session.timeout)
        zxid = 0 if probing else session.last_zxid
        timeout = min(round(session.wanted_timeout * 1000), INT_MAX)
        password = session.password if self._session_id else NO_PASSWORD
        request = ConnectRequest(0, zxid, timeout, self._session_id, password)
        # Frames that go out ahead of the requests:
        self._control = [frame(request.encode() + ReadOnlyFlag(session.read_only).encode())]

    @property
    def over(self) -> bool:
        """True if this connection is over."""
        return self.phase in _OVER

    @property
    def has_data_to_send(self) -> bool:
        """True if :meth:`data_to_send` would return any bytes."""
        waiting = (
            (self._session.outbox and self._leaving is None)
            or self._leader_sync.unsent
            or self._keepalive.pings
        )
        return bool(self._control or (waiting and self.phase is Phase.READY))

    # --- bytes -------------------------------------------------------------------------------------------

    def data_to_send(self, now: float) -> bytes:
        """Return the bytes to write now: about 64 KiB of requests, or one larger one. Ask again after
        writing."""
        parts, self._control = self._control, []
        if self.phase is Phase.READY:
            if self._keepalive.pings:
                parts.append(_PING)
                self._keepalive.ping_sent(now)
            session, in_flight = self._session, self.in_flight
            outbox, counts = session.outbox, session.metrics.requests
            size = 0
            if self._leader_sync.unsent:
                proof, data = self._leader_sync.send(session.next_xid(), now)
                in_flight.append(proof)
                parts.append(data)
            while outbox and size < _SEND_CHUNK and self._leaving is None:
                request = outbox.popleft()
                if request.settled:  # withdrawn
                    continue
                opcode, body = request.opcode, request.body
                if opcode == OpCode.AUTH:
                    request.xid = AUTH_XID
                else:
                    request.xid = session.next_xid()
                request.sent = True
                request.sent_at = now
                in_flight.append(request)
                counts[opcode] += 1
                length = len(body) + REQUEST_HEADER_SIZE
                parts.append(_REQUEST_HEADER.pack(length, request.xid, opcode))
                parts.append(body)
                size += length
        if not parts:
            return b""
        self._keepalive.sent_at = now
        return b"".join(parts)

    def receive_data(self, data: bytes, now: float) -> bool:
        """Handle bytes from the server.

        :returns: whether :meth:`next_deadline` may come earlier than before. It may after the answer to a
            ping, after an answer of the leader, and in a new phase. All other input can only move it later.
        """
        phase, keepalive = self.phase, self._keepalive
        if phase in _OVER:
            return False
        nearer = phase is not Phase.READY or keepalive.ping_open or keepalive.lease.kept
        self._receive(data, now)
        return nearer or self.phase is not phase

    def _receive(self, data: bytes, now: float) -> None:
        self.heard = True
        self._keepalive.received_at = now
        self._buffer.feed(data)
        try:
            if self.phase is Phase.HANDSHAKE:
                for payload in self._buffer.take(1):
                    self._handshake(payload, now)
            while self.phase in (Phase.AUTHENTICATING, Phase.READY):
                self._replies(self._buffer.take(_FRAMES_AT_ONCE), now)
                if not self._buffer.more:
                    break
            self._leave_when_idle()
        except FrameLengthError as error:
            self._oversized(error)
        except (_ViolationError, JuteError) as error:
            self.end(f"the server broke the protocol: {error}")
        except Exception as error:
            logger.exception(
                "The connection is closed, because the client failed to handle data of the server.  "
                "Please report this as a bug of the client."
            )
            self.end(f"an unexpected error while handling data of the server: {error!r}")

    def end(self, reason: str, phase: Phase = Phase.BROKEN) -> None:
        """End the connection. If there are several reasons, the first one counts."""
        if not self.over:
            self.phase = phase
            self.reason = reason

    def leave(self, reason: str) -> None:
        """End the connection as soon as all requests in flight are answered; send no more requests."""
        self._leaving = reason
        self._leave_when_idle()

    def _leave_when_idle(self) -> None:
        if (
            self._leaving is not None
            and not self.in_flight
            and not self._leader_sync.unsent
            and not self.over
        ):
            self.drained = True
            self.end(self._leaving)

    def _oversized(self, error: FrameLengthError) -> None:
        """End the connection: the server announces a frame above the limit."""
        if self.phase is Phase.HANDSHAKE or error.length < 0:
            self.end(f"the peer does not speak ZooKeeper's protocol: {error}")
            return
        reason = f"a reply of {error.length:,} bytes; reply_limit is {error.limit:,}"
        if self.in_flight:
            # Only the reply to a request can be so large. Repeating the request would not make it smaller.
            request = self.in_flight.popleft()
            if not request.settled:
                request.fail(MarshallingError(request.path, reason))
        self.end(reason)

    # --- exchanges of others -----------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """True if no request is in flight, and nothing waits to be sent."""
        return not (
            self.phase is not Phase.READY
            or self.read_only
            or self.in_flight
            or self._rearming
            or self._leaving is not None
            or not self._buffer.empty
            or self.has_data_to_send
        )

    def exchanged(self, done: list[Exchange], open: Exchange | None) -> None:
        """Note exchanges that another thread has made over the connection.

        :param done: the exchanges that are over, with a reply.
        :param open: the exchange that is still open, if there is one.
        """
        session, keepalive = self._session, self._keepalive
        counts, lease = session.metrics.requests, keepalive.lease
        proof_sent_at = -math.inf
        for exchange in done:
            opcode = exchange.request.opcode
            counts[opcode] += 1
            if exchange.zxid > 0:
                session.last_zxid = exchange.zxid
            if not exchange.code and opcode in PROOFS:
                proof_sent_at = exchange.sent_at
        if done:
            last = done[-1]
            session.xid = last.xid
            keepalive.sent_at, keepalive.received_at = last.sent_at, last.received_at
            lease.answered(last.sent_at, last.received_at)
            if proof_sent_at > -math.inf:
                lease.prove(proof_sent_at)
        if open is not None:
            request = open.request
            session.xid = request.xid = open.xid
            keepalive.sent_at = open.sent_at
            counts[request.opcode] += 1
            self.in_flight.append(request)
            if open.failed:
                self.end(f"the connection is lost: {open.outcomes[-1]}")

    # --- time --------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Return the time at which to call :meth:`handle_timer`; infinity for never."""
        if self.phase is Phase.READY:
            return self._keepalive.deadline()
        return math.inf if self.over else self._handshake_deadline

    def handle_timer(self, now: float) -> None:
        """Do what is due by now: send a ping or a ``sync`` for the lease, or give up the server."""
        if self.phase is Phase.READY:
            complaint = self._keepalive.complaint(now)
            if complaint is not None:
                self.end(complaint)
        elif now >= self._handshake_deadline:
            self.end(
                f"no answer to the handshake within {self._session.connect_budget:.1f} s: "
                "check that this is the client port of ZooKeeper, whether the port needs TLS, and whether "
                "the server has a quorum"
            )

    # --- frames ------------------------------------------------------------------------------------------

    def _send_control(self, xid: int, opcode: OpCode, body: bytes = b"") -> None:
        self._control.append(frame(RequestHeader(xid, opcode).encode() + body))

    def _handshake(self, payload: bytes, now: float) -> None:
        """Handle the answer to the ConnectRequest (wire.md section 4.3)."""
        session = self._session
        if len(payload) < _CONNECT_RESPONSE_SIZE:
            if payload[_REPLY_HEADER.size - 4 :] == _NOT_READ_ONLY:  # ensemble.md section 7.2
                self.end("the server is read-only, and takes no sessions (localSessionsEnabled is off)")
                return
            raise _ViolationError(f"an answer of {len(payload)} bytes to the handshake")
        response = ConnectResponse.decode(payload)
        self.read_only = payload[_CONNECT_RESPONSE_SIZE:] == b"\1"
        if response.timeOut <= 0 or response.sessionId == 0:
            if not self._session_id:
                raise _ViolationError("a new session was refused")
            if self.read_only:  # the session may have begun after this server was cut off: it may be alive
                self.end("the server is read-only, and does not know the session")
            else:
                self.end("the session expired", Phase.EXPIRED)
            return
        if self._session_id and response.sessionId != self._session_id:
            # ClickHouse Keeper gives no session back: what the old one owns is lost, the new one is empty.
            self.end("the server began another session in place of this one", Phase.EXPIRED)
            return
        if self._probing:
            self.end("the session is alive, but this server lacks changes that the client has seen")
            return
        timeout = response.timeOut / 1000
        keepalive = self._keepalive
        keepalive.timeout = timeout
        if self.read_only:
            keepalive.lease = Lease()
        elif self._session_id != session.session_id:
            # Not what we are here for. The server ends that new session, which owns nothing, by itself.
            self.end("the server is not read-only any more, and can attach the session")
            return
        else:
            session.session_id = response.sessionId
            session.password = response.passwd or b""
            session.timeout = timeout
        keepalive.lease.attached(self._handshake_sent_at, now, timeout)
        self._buffer.limit = session.reply_limit
        self.phase = Phase.AUTHENTICATING
        self._authentication = Authentication(
            session.sasl, session.credentials, session.next_xid, self._send_control
        )
        self._go_on(self._authentication, now)

    def _go_on(self, authentication: Authentication, now: float) -> None:
        if authentication.over:
            self._authentication = None
            self._serve(now)

    def _authenticated(self, authentication: Authentication, code: int, payload: bytes, now: float) -> None:
        """Handle the answer to one of the requests with which this connection began."""
        try:
            authentication.receive(code, payload)
        except AuthFailedError as error:
            self.end(error.words, Phase.REFUSED)
        else:
            self._go_on(authentication, now)

    def _serve(self, now: float) -> None:
        """Begin to serve: the session and its identities are restored. Arm the watches again, before any
        request: the server compares them with what has changed since ``last_zxid``."""
        self.phase = Phase.READY
        self.ready_since = self._leader_sync.asked_at = now
        self._keepalive.sent_at = self._keepalive.received_at = now
        session = self._session
        if not self.read_only:
            session.metrics.connections += 1
        limit = min(_REARM_CHUNK, session.request_limit - _REARM_HEADER)
        for rearm in session.watches.rearm(session.last_zxid, limit):
            self._rearming.append(rearm)
            self._send_control(SET_WATCHES_XID, rearm.opcode, rearm.record.encode())

    def _replies(self, payloads: list[bytes], now: float) -> None:
        """Settle the requests that the server has answered, and pass on its events."""
        in_flight, session = self.in_flight, self._session
        sent_at = proof_sent_at = -math.inf
        for payload in payloads:
            try:
                xid, zxid, code = _REPLY_HEADER.unpack_from(payload)
            except struct.error:
                raise _ViolationError(f"a reply of {len(payload)} bytes") from None
            if xid < 0:
                self._special_reply(xid, zxid, code, payload, now)
                continue
            if not in_flight or in_flight[0].xid != xid:
                self._other_reply(xid, code, payload, now)
                continue
            request = in_flight.popleft()
            sent_at = request.sent_at
            if zxid > 0:
                session.last_zxid = zxid
            if not code and request.opcode in PROOFS:
                proof_sent_at = sent_at
            if not request.settled:
                request.take_reply(code, payload)
        if sent_at > -math.inf:
            lease = self._keepalive.lease
            lease.answered(sent_at, now)
            if proof_sent_at > -math.inf:
                lease.prove(proof_sent_at)

    def _special_reply(self, xid: int, zxid: int, code: int, payload: bytes, now: float) -> None:
        """Handle a frame with one of the reserved xids (wire.md section 5)."""
        session = self._session
        if xid == WATCH_XID:
            event = WatcherEvent.decode(payload, _REPLY_HEADER.size)
            if event.type in _REPORTED and event.path:
                if not event.path.startswith("/"):
                    raise _ViolationError(f"an event of a path without a leading slash: {event.path!r:.100}")
                type, known = EventType(event.type), zxid if zxid > 0 else None
                session.watches.notify(type, event.path, known, catch_up=bool(self._rearming))
        elif xid == PING_XID:
            self._keepalive.ping_answered(now)
        elif xid == AUTH_XID:
            self._other_reply(xid, code, payload, now)
        elif xid == SET_WATCHES_XID and self._rearming and not code:
            rearm = self._rearming.popleft()
            for path, watcher in rearm.watchers:
                watcher.deliver(Missed(path, session.missed))
            if not self._rearming:
                session.missed = MissedReason.RECONNECTED
        else:
            raise _ViolationError(f"an unexpected reply with xid {xid}, error {code}")

    def _other_reply(self, xid: int, code: int, payload: bytes, now: float) -> None:
        """Handle a reply that is not the reply to the oldest request. The reply may answer one of the
        requests with which the connection began. Or the reply overtook other replies: the server answers
        authentication and refuses requests at once (wire.md section 7). Any other reply is a violation.
        """
        if self._authentication is not None and self._authentication.expects(xid):
            self._authenticated(self._authentication, code, payload, now)
            return
        request = next((r for r in self.in_flight if r.xid == xid), None)
        if request is None or (xid != AUTH_XID and code not in _REFUSALS):
            expected = self.in_flight[0].xid if self.in_flight else "none"
            raise _ViolationError(f"a reply with xid {xid} where {expected} was due")
        self.in_flight.remove(request)
        if request.settled:
            return
        if code:
            request.refuse(code)
        else:
            request.succeed(None)
