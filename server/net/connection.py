"""One client's byte stream, without a socket. It takes received bytes and the time, and returns the bytes to
send.

    connection = service.accept(peer, now, wake)
    connection.receive_data(data, now)      # when bytes arrive; receive_eof() at the end of the input
    connection.proceed(now)                 # while has_work: the rest of an earlier turn
    connection.data_to_send()               # after each of the calls above, and after each call of `wake`
    connection.exchange(data, now)          # receive_data, and data_to_send if it returns something
    connection.close_expected               # if True: send the rest of the output, then close

A connection has three states, one after the other. Before the handshake its bytes are a ConnectRequest or a
four-letter word, whose answer ends the connection. After a granted ConnectRequest ``session`` is set, and
each frame is a request, which :mod:`.requests` handles. At the end the connection is over, and
``close_expected`` is set. Wrong input ends only this connection, and the log gets one line.

Work is done in turns, so that no client delays all other clients. The rest of a turn is in three places:
``input`` has bytes (``more`` says whether they may have whole frames), ``frames`` has frames that are not
handled, and ``unfinished`` has the rest of the first of these frames if it is done in steps (see
:mod:`.operations.long`). While one of these places is not empty, or while much output waits, no more input is
    received: see :attr:`may_read`. :attr:`may_read` is not the opposite of :attr:`has_work`: if a client does
    not read its output, its connection has no work, but reads nothing either. A connection that is over, or
    frozen by a gate, does not read and does not work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Protocol

from ...protocol import records
from ...protocol.constants import FOUR_LETTER_WORDS, HTTP_METHODS, PING_XID, TELNET_CLOSE, TLS_HELLO
from ...protocol.framing import FrameBuffer, FrameLengthError
from ...protocol.jute import JuteError
from ...protocol.operations import CLOSE_SESSION, PING
from ...protocol.text import session_text
from ..config.settings import Settings
from ..core.engine import Engine
from ..core.failures import report
from ..core.operations import Steps
from ..core.sessions import Session
from ..core.watches import Notification
from ..logger import logger
from .connection_stats import ConnectionStats
from .requests import HIGH_WATER, MAX_LOGGED, MAX_REQUESTS, exchange, reply_frame, serve_requests

if TYPE_CHECKING:
    from ..core.sasl import Login
    from .gate import Gate
    from .unread import UnreadOutput

_WELCOME = struct.Struct(">iiiqi16s").pack  # a frame length, then records.ConnectResponse
_XID = struct.Struct(">i").unpack_from
_FIRST_BYTES = 4
"""The number of bytes that distinguish a four-letter word and an HTTP method from the length of a frame."""
_STMK = b"stmk"
_STMK_SIZE = 12  # bytes of the word stmk with its argument, a long; no other word has an argument


class ServiceView(Protocol):
    """The part of the service that a connection uses.

    :class:`.service.Service` describes the attributes and the methods.
    """

    settings: Settings
    gate: Gate | None
    stopwatch: Callable[[], float]
    answer_word: Callable[..., Iterator[bytes]]
    foreign: Container[bytes]
    serves_http: bool
    is_controlled: bool
    has_request_checks: bool
    refusing: bool
    unread: UnreadOutput
    slice: float
    turn_end: float
    now: float
    now_ms: int

    @property
    def engine(self) -> Engine:
        """The engine of the service."""

    def at(self, now: float) -> int:
        """Convert a time in monotonic seconds to ms for the engine."""

    def wall_clock(self, now: float) -> float:
        """Convert a time in monotonic seconds to seconds since the epoch."""

    def connected(self, connection: Connection, resumed: bool) -> None:
        """Note that a connection has its session."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Forget a connection that is over."""


class Connection:
    """The connection of one client.

    :ivar peer: the client's address as (host, port), with the host in Java's notation.
    :ivar session: the session of the client; None before the end of the handshake.
    :ivar identities: the identities of the client: its address, and the identities that auth adds.
    :ivar close_expected: whether nothing more will be read; the caller must send the rest and close.
    :ivar session_over: whether the client has closed its session, so it sends nothing more.
    :ivar aborted: whether nothing more will be read or sent; the caller must close without sending the rest.
    :ivar is_foreign: whether the client speaks HTTP, or TLS on a port for both. Then this connection is over,
        and ``input`` has the client's bytes.
    :ivar unwelcome: whether connections are refused. Then this connection is closed, unless the client speaks
        HTTP.
    :ivar login: the SASL login, from its first token on.
    :ivar null_tokens: the number of SASL tokens that got a null answer. After the first such token there is
        no login.
    :ivar frozen: whether a gate has stopped the connection, which then receives and sends nothing.
    :ivar endpoint: the name of the client's endpoint; empty for the port of all clients.
    :ivar program: the program at the other end (:mod:`.programs`); empty if it is not known, None if nobody
        has looked for it.
    :ivar stats: the figures of this connection for operators.
    :ivar wake: a function that is called when there is output although nothing was received, and on closing.

    Only :mod:`.requests` uses these attributes too:

    :ivar fast_session: the session, while a request that arrives alone may take the short way.
    :ivar input: the received bytes that are not yet cut into frames.
    :ivar more: whether the input may have further whole frames.
    :ivar frames: requests that were cut off the input, and are not handled to their end.
    :ivar unfinished: the remaining steps of the first request in ``frames``, if an earlier turn has begun it.
    :ivar arrived: the time at which the requests that are being handled arrived, in monotonic seconds.
    :ivar output: the bytes that wait to be sent, in pieces.
    :ivar waiting: the number of bytes that wait to be sent.
    """

    behind: ClassVar[str] = "it belongs to another server, or to this one before it lost its data"
    """The reason why a client may have seen changes that this server does not have."""

    # Defaults are in the class, because most connections never set them, and each field costs memory.
    login: Login | None = None
    null_tokens = 0
    endpoint = ""
    program: str | None = None

    def __init__(
        self,
        service: ServiceView,
        peer: tuple[str, int],
        now: float,
        wake: Callable[[], object],
        identities: list[records.Id],
    ) -> None:
        self.service = service
        self.engine = service.engine
        self.peer = peer
        self.wake = wake
        self.identities = identities
        self.session: Session | None = None
        self.session_id = 0
        self.close_expected = False
        self.session_over = False
        self.aborted = False
        self.is_foreign = False
        self.unwelcome = False
        self.stats = ConnectionStats(self.engine.stats, service.wall_clock(now))
        self.fast_session: Session | None = None
        self.input = FrameBuffer(service.settings.max_buffer)
        self.more = False
        self.frames: list[bytes] = []
        self.unfinished: Steps | None = None
        self.arrived = now
        self.output: list[bytes] = []
        self.waiting = 0
        self._word_answer: Iterator[bytes] | None = None  # the rest of the answer to a four-letter word
        self.frozen = False

    def __repr__(self) -> str:
        session = f" session={session_text(self.session.id)}" if self.session else ""
        return f"<Connection {self.peer[0]}:{self.peer[1]}{session}>"

    # --- bytes in ----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> None:
        """Handle bytes that have arrived at ``now``, in monotonic seconds."""
        if self.close_expected:
            return
        self.engine.stats.bytes_received += len(data)
        if self.frames:
            self.more = True  # the new bytes come after the frames that wait
        elif not self.more:
            self.arrived = now
        self.input.feed(data)
        self.proceed(now)

    exchange = exchange

    def receive_eof(self) -> None:
        """Close, because the client will send nothing more. Waiting replies are still sent, if the client
        keeps reading."""
        if not self.close_expected:
            self.engine.stats.connections_dropped += 1
            logger.debug("%s: closed by the client", self)
            self._close("closed by the client")

    def proceed(self, now: float) -> None:
        """Handle the received input, as far as a turn and the waiting output allow."""
        if self.session is None:
            word = self.input.peek(_FIRST_BYTES)
            if (word in self.service.foreign or self.unwelcome) and self._turns_away(word):
                return
        if self.frozen or self.close_expected:
            return
        try:
            if self.session is None and not self._shake_hands(now):
                return
            frames = self.frames
            if not frames:
                frames = self.input.take(MAX_REQUESTS if self.engine.log is None else MAX_LOGGED)
                self.more = self.input.more
        except FrameLengthError as error:
            self.refuse(self._explain(error))
            return
        if frames and self.session is not None:
            serve_requests(self, self.session, frames, now)
        if self.frames or not self.input.empty:
            self.fast_session = None
        elif self.fast_session is None and not (self.frozen or self.close_expected):
            self.fast_session = None if self.service.has_request_checks else self.session

    @property
    def has_work(self) -> bool:
        """Whether :meth:`proceed` has whole requests to handle, and more output may wait."""
        return (self.more or bool(self.frames)) and not self.close_expected and not self.frozen

    @property
    def may_read(self) -> bool:
        """Whether the transport may receive more input."""
        if self.more or self.frames or self.close_expected or self.waiting > HIGH_WATER:
            return False
        return not self.frozen or (
            self.session is None and self.service.is_controlled and len(self.input) < _FIRST_BYTES
        )

    @property
    def is_full(self) -> bool:
        """Whether too much output waits. Then no more requests are handled until the client takes some
        output."""
        return self.waiting > HIGH_WATER

    # --- bytes out ---------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """Return the bytes that wait to be sent, and remove them from the output."""
        output = self.output
        if not output or self.frozen:
            return b""
        if self.engine.log is not None:
            self.engine.log.write()
        data = b"".join(output)
        output.clear()
        self.waiting = 0
        self.engine.stats.bytes_sent += len(data)
        return data

    def send(self, data: bytes) -> None:
        """Queue bytes to be sent."""
        self.output.append(data)
        self.waiting += len(data)

    def reply(self, op: int, frame: bytes, result: tuple[int, int, bytes]) -> None:
        """Queue the reply to a request that had to wait longer than its turn."""
        (xid,) = _XID(frame)
        self.send(reply_frame(PING_XID if op == PING else xid, *result))
        self.wake()
        if op == CLOSE_SESSION:
            self.end_session()

    def notify(self, events: Sequence[Notification], frames: bytes) -> None:
        """Queue watch events.

        :param frames: the same events, encoded, each with its frame length.
        """
        if self.close_expected:
            return
        self.stats.sent_events(len(events))
        gate = self.service.gate
        if gate is not None:
            passed = gate.events(self, events)
            if not passed or self.close_expected:
                return
            if passed is not events:
                frames = b"".join([event.frame for event in passed])
        if not self.output:
            self.wake()
        self.send(frames)
        if self.waiting > HIGH_WATER:
            self.service.unread.grew(self, len(frames))
        if self.waiting > self.service.settings.max_unsent:
            self.reject(f"it does not read its events: {self.waiting:,} bytes wait for it")

    # --- the end -----------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Close the connection because of the client's input. Waiting replies are still sent."""
        logger.warning("%s: closed, %s", self, reason, stacklevel=2)
        self._close(reason)

    def end_session(self) -> None:
        """Close the connection after the last request of a session. The reply to it is still sent."""
        self.session_over = True
        self._close("its session is closed")

    def abort(self, reason: str) -> None:
        """Close the connection without sending anything more. The reason is not a fault of the client."""
        if not self.aborted:
            logger.info("%s: closed, %s", self, reason, stacklevel=2)
            self._abort(reason)

    def reject(self, reason: str) -> None:
        """Close the connection without sending anything more, because of a fault of the client."""
        if not self.aborted:
            logger.warning("%s: closed, %s", self, reason, stacklevel=2)
            self._abort(reason)

    def fail(self) -> None:
        """Abort the connection because of the present exception. This method raises nothing."""
        report("%s: closed", self)
        reason = "an error of the server"
        with suppress(Exception):
            self._abort(reason)
        with suppress(Exception):  # perhaps the same method has raised the exception
            self.service.closed(self, reason)

    def _abort(self, reason: str) -> None:
        self.aborted = True
        self.output.clear()
        self.waiting = 0
        self.frozen = False
        self._close(reason)
        self.wake()

    def _close(self, reason: str) -> None:
        if not self.close_expected:
            self.close_expected = True
            self.fast_session = None
            self.frames = []
            self.unfinished = self._word_answer = None
            self.service.closed(self, reason)
            self.wake()

    # --- for gates ---------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stop the connection: it handles and sends nothing until :meth:`thaw`."""
        self.frozen = True
        self.fast_session = None
        self.wake()

    def thaw(self, now: float) -> None:
        """Continue after :meth:`freeze`."""
        self.frozen = False
        self.proceed(now)
        self.wake()

    def put_back(self, request: bytes, ahead: int, now: float) -> None:
        """Handle a request that a gate has taken.

        :param ahead: the number of waiting requests before this request.
        """
        if self.unfinished is not None:
            ahead += 1
        self.frames = [*self.frames[:ahead], request, *self.frames[ahead:]]
        self.proceed(now)
        self.wake()

    # --- turns -------------------------------------------------------------------------------------------

    def start_turn(self) -> float:
        """Start a turn.

        :returns: the end of the turn, in seconds of the service's stopwatch.
        """
        service = self.service
        service.turn_end = end = service.stopwatch() + service.slice
        return end

    def turn_is_over(self, ahead: float = 0.0) -> bool:
        """Return whether other clients are served before a long request or answer continues.

        The result is False while a gate wants whole replies.

        :param ahead: the time in seconds that the next step will take.
        """
        service = self.service
        if service.gate is not None and service.gate.wants_whole:
            return False
        return service.stopwatch() + ahead > service.turn_end

    # --- the handshake -----------------------------------------------------------------------------------

    def _turns_away(self, word: bytes) -> bool:
        """Close a connection whose first bytes are HTTP or TLS. Refuse an unwelcome connection if its first
        bytes are not HTTP.

        HTTP clients must be able to control a test that freezes or refuses all connections.
        """
        if self.close_expected or len(word) < _FIRST_BYTES:
            return self.close_expected
        if word.startswith(TLS_HELLO) and self.service.settings.port_unification and not self.unwelcome:
            self.is_foreign = True
            self._close("it speaks TLS")
        elif self.service.serves_http:
            if word in HTTP_METHODS:
                self.is_foreign = True
                self._close("it speaks HTTP")
            elif self.unwelcome:
                is_cut = self.endpoint and not self.service.refusing
                who = f"the endpoint {self.endpoint} is cut" if is_cut else "connections are refused"
                self._close(f"{who} for now")
        return self.close_expected

    def _shake_hands(self, now: float) -> bool:
        """Read a four-letter word or a ConnectRequest (wire.md sections 3 and 4).

        Four letters with a blank after them are not a word, because they may be the method of an HTTP request
        from a web page (semantics.md section 16). The exception is ``stmk``, whose argument follows directly.

        :returns: True if the client has its session now.
        """
        payloads = self.frames  # a ConnectRequest that a gate has stopped
        if not payloads:
            start = self.input.peek(_FIRST_BYTES + 1)
            word = start[:_FIRST_BYTES]
            if (word in FOUR_LETTER_WORDS or word == TELNET_CLOSE) and (start[-1:] != b" " or word == _STMK):
                if word != _STMK or len(self.input) >= _STMK_SIZE:
                    self._answer_word(word, now)
                return False
            payloads = self.input.take(1)
            if not payloads:
                return False
            self.stats.received_no_request()
            self.engine.stats.connect_requests += 1
        try:
            request, end = records.ConnectRequest.read(payloads[0])
        except JuteError as error:
            self.refuse(f"its first message is not a ConnectRequest: {error}")
            return False
        gate = self.service.gate
        if gate is not None and not gate.handshake(self, request):
            self.frames = payloads
            return False
        self.frames = []
        if request.lastZxidSeen > self.engine.zxid:
            # wire.md section 4.2, step 4: there is no answer, and the session is not looked up
            if gate is not None:
                gate.refused(self, request.sessionId, request.lastZxidSeen)
            self.refuse(
                f"it has seen zxid 0x{request.lastZxidSeen:x}, this server is at 0x{self.engine.zxid:x}: "
                f"{self.behind}"
            )
            return False
        return self._attach(request, payloads[0][end : end + 1], now)

    def _attach(self, request: records.ConnectRequest, read_only: bytes, now: float) -> bool:
        """Answer a ConnectRequest.

        :param read_only: the last byte of the request, which says whether the client accepts a read-only
            server; empty if the request has no such byte.
        :returns: True if the client has its session now.
        """
        # If the request has no last byte, the answer has none. This server is never read-only.
        flag = b"\0" if read_only else self.engine.flag_by_default
        return self._welcome(self.engine.connect(self, request, self.service.at(now)), request, flag, now)

    def _welcome(
        self, session: Session | None, request: records.ConnectRequest, flag: bytes, now: float
    ) -> bool:
        """Send the answer to a ConnectRequest.

        :param session: the session; None if the client is refused.
        :param flag: the last byte of the answer; empty if the answer has no such byte.
        """
        self.session = session
        granted = (0, 0, bytes(16)) if session is None else (session.timeout, session.id, session.password)
        timeout, session_id, password = granted
        self.send(_WELCOME(36 + len(flag), 0, timeout, session_id, 16, password) + flag)
        self.stats.sent_welcome(now)
        if session is None:
            if self.service.gate is not None:
                self.service.gate.refused(self, request.sessionId)
            self._close("its session was refused: unknown, expired, or wrong password")
            return False
        self.service.connected(self, resumed=request.sessionId != 0)
        return True

    def _answer_word(self, word: bytes, now: float) -> None:
        if self.is_full:
            return
        self.start_turn()
        if self._word_answer is None:
            self.stats.received_no_request()
            rest = self.input.peek(_STMK_SIZE)[len(word) :]
            self._word_answer = self.service.answer_word(word, self.service, self, now, rest)
        for piece in self._word_answer:
            self.send(piece)
            if self.is_full or self.turn_is_over():
                self.more = True  # the word stays in the input
                return
        self._close(f"answered {word.decode(errors='backslashreplace')}")

    def _explain(self, error: FrameLengthError) -> str:
        if self.session is None:
            return f"it does not speak the ZooKeeper protocol: it began with {self.input.peek(4)!r}"
        if error.length < 0:
            return str(error)
        return f"{error}; raise it with jute.maxbuffer={error.length} or more, here and in the clients"

    # --- for operators -----------------------------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """The number of requests that have arrived and wait for a turn."""
        return len(self.frames)

    @property
    def interest(self) -> int:
        """The events that the socket waits for, in Java's numbers: 1 to read, 4 to write."""
        return 1 if self.may_read else 4
