"""One client's byte stream, without a socket: bytes and the time in, bytes out.

    connection = service.accept(peer, now, wake)
    connection.receive_data(data, now)      # as bytes arrive; receive_eof() at their end
    connection.proceed(now)                 # while has_work: what was left over from an earlier turn
    connection.data_to_send()               # whenever `wake` was called, and after each of the above
    connection.exchange(data, now)          # receive_data, and data_to_send if it returns something
    connection.close_expected               # once True: send what is left, then close

It cuts frames, does the handshake and the four-letter words, hands each request to the engine and encodes the
reply. Whatever is wrong with the input ends this connection, with one log line, and nothing else.

    connection.hold(), release(now)         # for tests: a server that hears and says nothing for a while

A turn ends after 32 requests or some milliseconds of work, whichever comes first, and while much output waits
to be taken no request is handled: a client that floods, asks for much, or does not read, delays nobody but
itself, and holds a bounded amount of memory. What was not done is gone on with in the next turn, and what the
client sent behind it waits: a request that is done in steps (:mod:`.operations.long`), or the answer to a
four-letter word.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...protocol import records
from ...protocol.constants import FOUR_LETTER_WORDS, PING_XID, TELNET_CLOSE
from ...protocol.errors import (
    AuthFailedError,
    SessionClosedRequireAuthError,
    ThrottledOpError,
    UnimplementedError,
)
from ...protocol.framing import FrameBuffer, FrameLengthError
from ...protocol.jute import JuteError
from ...protocol.operations import CLIENTS, CLOSE_SESSION, CREDENTIALS, PING, WRITES, OpCode
from ..core.failures import report
from ..core.operations import IN_STEPS, Unfinished, UnknownOperation
from ..core.sessions import Session
from ..core.stats import Summary
from ..core.watches import Notification
from ..monitoring.words import answer

if TYPE_CHECKING:
    from .service import Service

logger = logging.getLogger("pyzk.server")

_HEADER = struct.Struct(">ii").unpack_from  # records.RequestHeader
_FRAME = struct.Struct(">iii").unpack_from  # a frame length, then the same
_REPLY = struct.Struct(">iiqi").pack  # a frame length, then records.ReplyHeader
_TURN = 32
"""How many requests one connection may have handled before the others get their turn."""
_HIGH_WATER = 256 * 1024
"""No further request is handled while this many bytes of output wait to be taken."""
_STMK = b"stmk"
_SESSION_ASKED = struct.Struct(">20xq").unpack_from  # of a frame with a records.ConnectRequest
_WELCOME = struct.Struct(">iiiqi16s").pack  # a frame length, then records.ConnectResponse
_SPECIAL = CREDENTIALS | {PING}
_PLAIN = CLIENTS - IN_STEPS - {PING}
_SLOW = IN_STEPS | {CLOSE_SESSION, OpCode.MULTI.value}
"""After these a turn looks at the time, which itself costs a tenth of a small request. What others cost is
bounded by the bytes of the requests that are received at once, and of the replies that may wait."""
_SLOW_IF_WATCHED = _SLOW | WRITES
_CREDENTIALS = frozenset(op.to_bytes(4) for op in CREDENTIALS)


class NoReply(Exception):
    """Raised by what stands in for the engine: the request was dealt with, and nothing is to be answered."""


class NotYet(Exception):
    """Likewise: the connection was held; the same request is to be handled again after its release."""


class Connection:
    """
    :ivar peer: the client's address as (host, port), the host as Java prints it.
    :ivar session: the session served, once the handshake is done.
    :ivar identities: who the client has proved to be: its address at first, then what auth adds.
    :ivar close_expected: nothing more will be read; send what is left and close.
    :ivar session_over: the client has closed its session, and so has nothing more to say.
    :ivar aborted: nothing more will be sent either; close at once.
    """

    def __init__(
        self,
        service: Service,
        peer: tuple[str, int],
        now: float,
        wake: Callable[[], object],
        identities: list[records.Id],
    ) -> None:
        self.peer = peer
        self.session: Session | None = None
        self.session_id = 0
        self.identities = identities
        self.close_expected = False
        self.session_over = False
        self.aborted = False
        self.established = service.engine.wall_clock(now)
        self.latency = Summary()
        self._more_received = 0  # frames that are no requests
        self._more_sent = 0  # frames that answer no request
        self.last_op: int | None = None
        self.last_xid: int | None = None
        self.last_zxid = 0
        self.last_response = 0.0  # seconds, monotonic
        self._service = service
        self._engine = service.engine
        self._settings = service.settings
        self._wake = wake
        self.last_latency = 0  # ms
        self._input = FrameBuffer(service.settings.max_buffer)
        self._frames: list[bytes] = []  # cut, but not yet handled to their end
        self._more = False  # whether the input may hold further whole frames
        # What the first of the frames has come to; before the handshake, what is left of a word's answer
        self._unfinished: Any = None  # Steps, or an Iterator of bytes
        self._plain_session: Session | None = None  # the session, while its requests need no second look
        self._held = 0
        self._arrived = now
        self._output: list[bytes] = []
        self._waiting = 0  # bytes in _output

    def __repr__(self) -> str:
        session = f" session=0x{self.session.id:x}" if self.session else ""
        return f"<Connection {self.peer[0]}:{self.peer[1]}{session}>"

    # --- bytes in ----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> None:
        """Bytes have arrived at ``now`` (seconds, monotonic)."""
        if self.close_expected:
            return
        self._engine.stats.bytes_received += len(data)
        if self._frames:
            self._more = True  # behind those
        elif not self._more:
            self._arrived = now
        self._input.feed(data)
        self.proceed(now)

    def exchange(self, data: bytes, now: float) -> bytes:
        """Like :meth:`receive_data`, in few steps where ``data`` is one whole request and nothing else is to
        be done: that is what a client sends that waits for its answer before it asks again.

        Returns the reply, if that is all there is to see to. If it is empty, go on as after
        :meth:`receive_data`.
        """
        session, service, size = self._plain_session, self._service, len(data) - 4
        if (
            session is None
            or now >= session.fresh_until
            or not service.direct
            or not self._input.empty
            or self._frames
            or not 8 <= size <= self._input.limit
        ):
            self.receive_data(data, now)
            return b""
        length, xid, op = _FRAME(data)
        if length != size or op not in _PLAIN:
            self.receive_data(data, now)
            return b""
        engine = self._engine
        before = engine.zxid
        zxid, err, body = engine.handle(self, op, data[4:], now)
        answer_size = 16 + len(body)
        reply = _REPLY(answer_size, xid, zxid, err) + body
        stats = engine.stats
        stats.last_response = answer_size
        if answer_size not in stats.response_sizes:
            stats.new_response_size(answer_size)
        stats.bytes_received += size + 4
        if zxid == before:
            stats.read_latency.zeros += 1
        else:
            stats.update_latency.zeros += 1
        self.latency.count += 1
        self.last_latency = 0
        self.last_response = self._arrived = now
        self.last_op = None if err and op in WRITES else op
        self.last_zxid = zxid
        if xid >= 0:
            self.last_xid = xid
        # Events come first; or it is held, or over
        if self._output or self._plain_session is None or session.closed:
            if not self.close_expected:
                self._send(reply)
                if op == CLOSE_SESSION:
                    self._end_session()
            return b""
        stats.bytes_sent += answer_size + 4
        return reply

    def receive_eof(self) -> None:
        """The client will send nothing more. What was answered already is still sent, if it reads on."""
        if not self.close_expected:
            logger.debug("%s: closed by the client", self)
            self._close("closed by the client")

    def proceed(self, now: float) -> None:
        """Handle what has arrived, as far as a turn and the waiting output allow."""
        if self._held:
            return
        try:
            if self.session is None and not self._shake_hands(now):
                return
            if self.session is None or self.close_expected:
                return
            frames = self._frames
            if not frames:
                frames = self._input.take(_TURN)
                self._more = self._input.more
        except FrameLengthError as error:
            self._refuse(self._explain(error))
            return
        if frames:
            self._frames = []
            self._handle_requests(self.session, frames, now)

    @property
    def has_work(self) -> bool:
        """Whether :meth:`proceed` has whole requests to go on with, output permitting."""
        return (self._more or bool(self._frames)) and not self.close_expected and not self._held

    @property
    def may_read(self) -> bool:
        """Whether more input is welcome: not while much output waits or input is left over, nor after the
        end."""
        return not (
            self._more or self._frames or self._held or self.close_expected or self._waiting > _HIGH_WATER
        )

    @property
    def is_full(self) -> bool:
        """Whether so much output waits that nothing more is handled until it is taken."""
        return self._waiting > _HIGH_WATER

    # --- bytes out ---------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many bytes of output wait to be taken."""
        return self._waiting

    def data_to_send(self) -> bytes:
        """Take the bytes that wait to be sent."""
        output = self._output
        if not output or self._held:
            return b""
        data = b"".join(output)
        output.clear()
        self._waiting = 0
        self._engine.stats.bytes_sent += len(data)
        return data

    def notify(self, events: Sequence[Notification], frames: bytes) -> None:
        """Queue watch events, which are ``frames`` on the wire."""
        if self.close_expected:
            return
        observer = self._service.observer
        if observer is not None:
            for event in events:
                observer.event(self, event)
        output = self._output
        if not output:
            self._wake()
        size = len(frames)
        output.append(frames)
        self._waiting += size
        self._more_sent += len(events)
        if self._waiting > _HIGH_WATER:
            self._service.unread.grew(self, size)
        if self._waiting > self._settings.max_unsent:
            self.abort(f"it does not read its events: {self._waiting:,} bytes wait for it")

    def abort(self, reason: str) -> None:
        """End the connection without another packet."""
        if not self.aborted:
            logger.info("%s: closed, %s", self, reason, stacklevel=2)
            self._abort(reason)

    def fail(self) -> None:
        """End the connection because of the exception that is being handled; raises nothing."""
        report("%s: closed", self)
        reason = "an error of the server"
        with suppress(Exception):
            self._abort(reason)
        with suppress(Exception):  # for the case that it was this that failed
            self._service.closed(self, reason)

    def _abort(self, reason: str) -> None:
        self.aborted = True
        self._output.clear()
        self._waiting = 0
        self._held = 0
        self._close(reason)
        self._wake()

    def _send(self, data: bytes) -> None:
        self._output.append(data)
        self._waiting += len(data)

    def _refuse(self, reason: str) -> None:
        logger.warning("%s: closed, %s", self, reason, stacklevel=2)
        self._close(reason)

    def _close(self, reason: str) -> None:
        if not self.close_expected:
            self.close_expected = True
            self._plain_session = None
            self._frames = []
            self._unfinished = None
            self._service.closed(self, reason)
            self._wake()

    # --- for tests ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Have what is said so far taken at the next occasion, although the input at hand is not done."""
        self._wake()

    def hold(self) -> None:
        """Handle and send nothing until :meth:`release`, which must be called as often."""
        self._held += 1
        self._plain_session = None
        self._wake()

    def release(self, now: float) -> None:
        """Go on where :meth:`hold` stopped."""
        self._held = max(0, self._held - 1)
        if not self._held:
            self._find_plain_session()
            self.proceed(now)
            self._wake()

    def _find_plain_session(self) -> None:
        """The session, if its requests may take the short way of :meth:`exchange`."""
        self._plain_session = (
            None if self._service.guarded or self._held or self.close_expected else self.session
        )

    # --- the handshake -----------------------------------------------------------------------------------

    def _shake_hands(self, now: float) -> bool:
        """Read a four-letter word or a ConnectRequest (wire.md sections 3 and 4); True once connected."""
        word = self._input.peek(4)
        if word in FOUR_LETTER_WORDS or word == TELNET_CLOSE:
            if word != _STMK or len(self._input) >= 12:
                self._answer_word(word, now)
            return False
        observer = self._service.observer
        if observer is not None and len(self._input) >= 28:
            observer.asked(self, *_SESSION_ASKED(self._input.peek(28)))
            if self._held:
                return False
        payloads = self._input.take(1)
        if not payloads:
            return False
        self._more_received += 1
        self._engine.stats.more_received += 1
        try:
            request, end = records.ConnectRequest.read(payloads[0])
        except JuteError as error:
            self._refuse(f"its first message is no ConnectRequest: {error}")
            return False
        if request.lastZxidSeen > self._engine.zxid:
            # wire.md section 4.2, step 4: without a word, and before the session is looked at
            self._refuse(
                f"it has seen zxid 0x{request.lastZxidSeen:x}, this server is at 0x{self._engine.zxid:x}: "
                "it belongs to another server"
            )
            return False
        self.session = session = self._engine.connect(self, request, now)
        granted = (0, 0, bytes(16)) if session is None else (session.timeout, session.id, session.password)
        timeout, session_id, password = granted
        # Who does not send the last byte does not expect it back; this server is never read-only.
        flag = b"\0" if len(payloads[0]) > end else b""
        self._send(_WELCOME(36 + len(flag), 0, timeout, session_id, 16, password) + flag)
        self._more_sent += 1
        self._engine.stats.more_sent += 1
        if session is None:
            self._close("its session was refused: unknown, expired, or wrong password")
            return False
        self._find_plain_session()
        self.last_op = OpCode.CREATE_SESSION
        self.last_response = now
        self._service.connected(self, resumed=request.sessionId != 0)
        return True

    def _answer_word(self, word: bytes, now: float) -> None:
        if self.is_full:
            return
        self._start_turn()
        if self._unfinished is None:
            self._more_received += 1
            self._engine.stats.more_received += 1
            self._unfinished = answer(word, self._service, self, now, self._input.peek(12)[4:])
        for piece in self._unfinished:
            self._send(piece)
            if self.is_full or self.turn_is_over():
                self._more = True  # the word is still there
                return
        self._close(f"answered {word!r}")

    def _explain(self, error: FrameLengthError) -> str:
        if self.session is None:
            return f"it does not speak the ZooKeeper protocol: it began with {self._input.peek(4)!r}"
        if error.length < 0:
            return str(error)
        return f"{error}; raise it with jute.maxbuffer={error.length} or more, here and in the clients"

    # --- requests ----------------------------------------------------------------------------------------

    def _handle_requests(self, session: Session, frames: list[bytes], now: float) -> None:
        if now >= session.fresh_until:
            self._sign_of_life(session, frames, now)
        service, output = self._service, self._output
        engine, guarded = service.engine, service.guarded
        handle = service.handle if self._unfinished is None else self._resume
        slow = _SLOW if not engine.watches.watchers else _SLOW_IF_WATCHED
        clock, end = service.stopwatch, self._start_turn()
        handled = xid = op = zxid = err = 0
        stats = engine.stats
        sizes = stats.response_sizes
        before = engine.zxid  # every write takes one, and nothing else does
        for payload in frames:
            if self._waiting > _HIGH_WATER:
                break
            handled += 1
            try:
                xid, op = _HEADER(payload)
                if op in _SPECIAL or guarded:
                    if not self._admit(xid, op, payload, now):
                        if self.close_expected:
                            break
                        continue
                    if op == PING:
                        xid = PING_XID  # whatever the client sent (wire.md section 5)
                zxid, err, body = handle(self, op, payload, now)
            except NoReply:
                if self.close_expected:
                    break
                continue
            except NotYet:
                handled -= 1
                break
            except Unfinished as unfinished:
                self._unfinished = unfinished.steps
                handled -= 1
                break
            except UnknownOperation:
                self._reply(xid, -1, UnimplementedError.code)
                self._refuse(f"it sent op {op}, which does not exist or is not for clients")
                break
            except struct.error:
                self._refuse(f"a request of {len(payload)} bytes has no header")
                break
            if self.close_expected:
                break
            size = 16 + len(body)
            stats.last_response = size
            if size not in sizes:
                stats.new_response_size(size)
            self._waiting += size + 4
            output.append(_REPLY(size, xid, zxid, err))
            output.append(body)
            if op in slow:
                if op == CLOSE_SESSION:
                    self._end_session()
                    break
                if clock() > end:
                    break
        if handled < len(frames) and not self.close_expected:
            self._frames = frames[handled:]
        self._account(handled, engine.zxid - before, now)
        self.last_op = None if err and op in WRITES else op  # a write that was refused has no name
        self.last_zxid = zxid
        if xid >= 0:
            self.last_xid = xid

    def _start_turn(self) -> float:
        """Returns when it is over, by the stopwatch of the service."""
        service = self._service
        service.turn_end = end = service.stopwatch() + service.slice
        return end

    def turn_is_over(self, ahead: float = 0.0) -> bool:
        """Whether others are to be served before a long request or answer is gone on with; never while
        something stands in for the engine, which wants whole replies."""
        service = self._service
        return service.direct and service.stopwatch() + ahead > service.turn_end

    def _resume(self, client: Connection, op: int, frame: bytes, now: float) -> tuple[int, int, bytes]:
        """Handle the requests of a turn whose first was begun in an earlier one."""
        steps = self._unfinished
        if steps is None:
            return self._service.handle(client, op, frame, now)
        self._unfinished = None
        return self._engine.resume(client, op, steps)

    def _end_session(self) -> None:
        self.session_over = True
        self._close("its session is closed")

    def _sign_of_life(self, session: Session, frames: list[bytes], now: float) -> None:
        """Every request keeps the session alive, but those that only prove who one is (semantics.md 12.4)."""
        if any(frame[4:8] not in _CREDENTIALS for frame in frames):
            self._engine.sessions.touch(session, now)

    def _authenticate(self, xid: int, op: int, payload: bytes) -> None:
        """Auth and sasl are the connection's own affair: no zxid, no sign of life (wire.md section 12)."""
        try:
            if op == OpCode.SASL:  # no login is configured: the exchange is over before it starts
                if records.GetSASLRequest.decode(payload, 8).token is None:
                    raise JuteError("a null token")
                self._reply(xid, 0, 0, records.SetSASLResponse(None).encode())
                return
            packet = records.AuthPacket.decode(payload, 8)
        except JuteError as error:
            self._refuse(f"its auth packet cannot be read: {error}")
            return
        try:
            self._engine.authenticate(self, packet, self.peer[0])
        except AuthFailedError as error:
            self._engine.stats.auth_failed += 1
            self._reply(xid, 0, error.code)
            self._refuse(str(error))
        else:
            self._reply(xid, 0, 0)

    def _admit(self, xid: int, op: int, payload: bytes, now: float) -> bool:
        """What comes before the engine: credentials, and the checks that are off by default. False if the
        request is dealt with."""
        if self._unfinished is not None:
            return True  # it was admitted in an earlier turn
        if op in (OpCode.AUTH, OpCode.SASL):
            self._authenticate(xid, op, payload)
            return False
        settings = self._settings
        required = settings.required_auth_schemes
        if required and not any(identity.scheme in required for identity in self.identities):
            self._reply(xid, 0, SessionClosedRequireAuthError.code)
            self._refuse(f"it must authenticate first, by one of: {', '.join(sorted(required))}")
            return False
        # Requests are dealt with one at a time, so the budget is never shared
        if -1 < settings.large_request_threshold < len(payload) > settings.large_request_max_bytes:
            self._refuse(f"a request of {len(payload):,} bytes is over largeRequestMaxBytes")
            return False
        waited = (now - self._arrived) * 1000
        limit = settings.throttled_op_wait_time
        if 0 < limit < waited and op not in (OpCode.PING, OpCode.CLOSE_SESSION):
            self._engine.stats.throttled += 1
            self._reply(xid, self._engine.zxid, ThrottledOpError.code)
            return False
        return True

    def _reply(self, xid: int, zxid: int, err: int, body: bytes = b"") -> None:
        size = 16 + len(body)
        stats = self._engine.stats
        stats.last_response = size
        stats.new_response_size(size)
        self._send(_REPLY(size, xid, zxid, err) + body)

    def _account(self, handled: int, writes: int, now: float) -> None:
        self.last_response = now
        stats = self._engine.stats
        # Nearly all requests are answered in the very turn in which they arrive: no need for a histogram
        waited = self.last_latency = 0 if now == self._arrived else int((now - self._arrived) * 1000)
        if waited:
            self.latency.add(waited, handled)
            stats.read_latency.add(waited, handled - writes)
            stats.update_latency.add(waited, writes)
        else:
            self.latency.count += handled
            stats.read_latency.zeros += handled - writes
            stats.update_latency.zeros += writes

    # --- for the operator --------------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """How many frames: requests that were handled have left their latency."""
        return self.latency.count + self._more_received

    @property
    def sent(self) -> int:
        """How many frames."""
        return self.latency.count + self._more_sent

    @property
    def outstanding(self) -> int:
        """How many requests have arrived and wait for their turn."""
        return len(self._frames)

    @property
    def interest(self) -> int:
        """What the socket is waited for: 1 to read, 4 to write."""
        return 1 if self.may_read else 4

    def reset_stats(self) -> None:
        self.latency = Summary()
        self._more_received = self._more_sent = self.last_latency = 0
        self.last_op = self.last_xid = None
        self.last_response = 0.0
        self.last_zxid = 0
