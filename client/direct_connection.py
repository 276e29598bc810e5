"""A connection that is handed over to one thread, so that a call costs no switch to another thread.

If a thread makes one call after another, each call costs two switches of threads: to the client's loop, and
back. Therefore the loop hands over its connection to such a thread. The thread then sends its requests and
reads the replies itself.

The rules:

* A connection is handed over only while its loop waits for I/O, and only if nothing is in flight and nothing
  must be sent. When the loop wakes, for example for a timer, another caller or a cancelled block, the loop
  first takes the connection back (:meth:`DirectConnection.take`). Therefore no other part of the client
  depends on direct connections.
* The thread makes one exchange at a time, in two steps: it sends the request, and it reads the reply. If a
  handler of a signal calls the client between the two steps, the loop makes that call.
* The connection is in the *cell*, a list of at most one item. A step removes the item, makes its system call,
  notes the outcome, and puts the item back. The loop removes the item and keeps it. A step is a single call
  into C, so a signal's handler or KeyboardInterrupt can come before or after the step, but not inside it.
  Therefore the loop can take the connection back at any moment, whether the thread runs, waits, or was
  stopped. The outcomes of the steps show how far the exchange is.
* The thread and the loop use the same outcomes to decide which side must conclude the exchange
  (:attr:`Exchange.answered`):

  ==============================  ===========================  ==============================================
  outcomes                        the thread                   the loop, if it has taken the connection
  ==============================  ===========================  ==============================================
  none                            asks the loop to do it       has nothing to do with it
  bytes sent, or none of them     reads, or waits for the loop sends the rest, if any, and reads the reply
  and the whole reply, no more    settles the request          counts it
  and other bytes, or none        waits for the loop           handles the bytes: an event, a part, the end
  an OSError                      waits for the loop           ends the connection
  ==============================  ===========================  ==============================================
* A step ends within microseconds if a processor runs its thread. The loop waits for the step until the lease
  of the session ends, and then ends the connection. Only the side that first takes the claim of the exchange
  concludes the exchange. While the loop waits, it serves no client of the process.
* A hand-off is short (``HANDOFF_TIME``), because nobody reads the socket while the thread makes no call.
  Therefore an event of the server is unread for at most this time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from itertools import compress
from typing import Any, Protocol

from ..protocol.constants import INT_MAX
from .request import REQUEST_HEADER_SIZE, Request

HANDOFF_TIME = 0.01
"""The length of a hand-off in seconds. A hand-off costs two wake-ups of the loop. In this time a thread makes
many calls. Therefore the cost for each call is small."""
_LARGEST = 64 * 1024
"""The size in bytes of the largest request over a direct connection, and of one read. The kernel accepts and
returns this many bytes at once."""
_LEAST_LOOKS = 2000
"""The loop checks at least this many times whether a step has ended, even if the lease is over. When a
stopped process continues, its lease is over, but its thread still needs time to end the step."""
_STEP_PAUSE = 0.0001
"""The pause between the first two checks of a step, in seconds. The later pauses grow to
``_LONGEST_PAUSE``."""
_LONGEST_PAUSE = 0.01

_HEADER = struct.Struct(">iii")  # the length of the frame, xid, op code
_REPLY = struct.Struct(">iiqi")  # the length of the frame, xid, zxid, error


class ConnectionSource(Protocol):
    """A client that can hand over its connection to a thread. Its methods are called in its loop."""

    def hand_over(self) -> bool:
        """Hand over the connection, because the loop is about to wait. Returns False if the loop needs the
        connection."""

    def take_back(self) -> None:
        """Take the connection back, because the loop continues."""

    def end_connection(self, reason: str) -> None:
        """End the connection, because an error happened while a thread had the connection."""


class DirectCaller(Protocol):
    """A thread that makes calls. Its methods are called in the loop of the source."""

    def offer(self, source: ConnectionSource) -> None:
        """Offer a connection: the loop hands the connection over when the loop waits next."""

    def withdraw(self, source: ConnectionSource) -> None:
        """Forget an offer."""

    def ended(self, direct: DirectConnection, under_way: bool) -> None:
        """Learn that the loop has taken its connection back.

        :param under_way: whether the loop continues an exchange.
        """


class TakenError(Exception):
    """The loop has taken the connection back."""


class Exchange:
    """A request over a direct connection, and its reply.

    :ivar outcomes: the outcomes of the steps: the number of bytes that were sent, then the bytes that came.
        If a step fails, its OSError is the last outcome.
    :ivar adopt: called in the loop when the loop continues the exchange.
    :ivar claim: a list that is empty after the thread or the loop has concluded the exchange.
    :ivar sent_at: the time of the last sent bytes, in seconds by ``time.monotonic()``; ``received_at`` is the
        time of the last received bytes.
    :ivar code: the error code of the reply; ``zxid`` is the zxid of the reply.
    """

    __slots__ = (
        "adopt",
        "claim",
        "code",
        "frame",
        "outcomes",
        "received_at",
        "request",
        "sent_at",
        "xid",
        "zxid",
    )

    def __init__(self, request: Request[Any], xid: int, adopt: Callable[[], object]) -> None:
        self.request = request
        self.adopt = adopt
        self.xid = xid
        self.frame = _HEADER.pack(len(request.body) + REQUEST_HEADER_SIZE, xid, request.opcode) + request.body
        self.outcomes: list[Any] = []
        self.claim: list[None] = [None]
        self.sent_at = self.received_at = time.monotonic()
        self.zxid = self.code = 0

    @property
    def is_sent(self) -> bool:
        """True if the whole request was sent."""
        return bool(self.outcomes[0] == len(self.frame))

    @property
    def answered(self) -> bool:
        """True if the bytes that have come are exactly the reply."""
        outcomes = self.outcomes
        if len(outcomes) != 2 or type(outcomes[1]) is not bytes or len(outcomes[1]) < _REPLY.size:
            return False
        length, xid, self.zxid, self.code = _REPLY.unpack_from(outcomes[1])
        return bool(length == len(outcomes[1]) - 4 and xid == self.xid)

    @property
    def unsent(self) -> bytes:
        """The part of the request that the kernel has not accepted."""
        return b"" if self.failed else self.frame[self.outcomes[0] :]

    @property
    def received(self) -> bytes:
        """What came; ``b""`` for nothing."""
        return self.outcomes[-1] if self.outcomes and isinstance(self.outcomes[-1], bytes) else b""

    @property
    def failed(self) -> bool:
        """True if a step has failed."""
        return bool(self.outcomes) and isinstance(self.outcomes[-1], OSError)

    def take_claim(self) -> bool:
        """Take the claim. Returns False if the other side has taken the claim before."""
        try:
            self.claim.pop()
        except IndexError:
            return False
        return True


class DirectConnection:
    """A connection that a thread uses itself.

    :param sock: the socket of the connection, which is non-blocking.
    :param xid: the number of the last request.
    :param request_limit: the size of the largest request, in bytes; ``reply_limit`` is the size of the
        largest reply, in bytes.
    :ivar fileno: the file descriptor of the socket.
    :ivar direct_caller: the thread that has the connection.
    :ivar reader: the object with which the direct caller waits for bytes; set by the direct caller.
    """

    def __init__(
        self, sock: socket.socket, xid: int, request_limit: int, reply_limit: int, direct_caller: DirectCaller
    ) -> None:
        self.direct_caller = direct_caller
        self.fileno = sock.fileno()
        self.reader: Any = None
        self._send, self._receive = sock.send, sock.recv
        self._xid = xid
        self._request_limit = min(request_limit, _LARGEST)
        self._read_size = min(reply_limit + 4, _LARGEST)  # a larger reply does not come as a whole
        self._done: list[Exchange] = []
        self._open: Exchange | None = None
        self._cell: list[Any] = [(None, None)]

    # --- the thread --------------------------------------------------------------------------------------

    def send(self, request: Request[Any], adopt: Callable[[], object]) -> Exchange:
        """Send a request.

        :param adopt: called in the loop if the loop continues the exchange.
        :raises TakenError: nothing was sent, and the loop must send the request.
        """
        if len(request.body) + REQUEST_HEADER_SIZE > self._request_limit or self._open is not None:
            raise TakenError
        xid = self._xid + 1 if self._xid < INT_MAX else 1
        exchange = self._open = Exchange(request, xid, adopt)
        request.sent, request.sent_at = True, exchange.sent_at  # before another thread can settle it
        self._step(exchange, self._send, exchange.frame)
        if not exchange.outcomes:
            request.sent = False
            raise TakenError
        self._xid = xid
        return exchange

    def receive(self, exchange: Exchange) -> bytes | None:
        """Read what has arrived. Returns the reply without its length; None if the loop must continue."""
        if not exchange.is_sent:
            return None
        self._step(exchange, self._receive, self._read_size)
        if not exchange.answered or not exchange.take_claim():
            return None
        exchange.received_at = time.monotonic()
        self._done.append(exchange)
        self._open = None
        return exchange.outcomes[1][4:]  # type: ignore[no-any-return]

    def _step(self, exchange: Exchange, function: Callable[[Any], object], argument: object) -> None:
        """Call a function and note its outcome, if the loop has not taken the connection back."""
        cell, once = self._cell, (argument,)
        try:
            deque(
                map(
                    cell.append,
                    zip(
                        (exchange,),
                        map(exchange.outcomes.append, map(function, compress(once, map(cell.pop, (-1,))))),
                        strict=False,
                    ),
                ),
                maxlen=0,
            )
        except IndexError:
            pass  # taken
        except BlockingIOError:  # the loop goes on with the exchange
            if not exchange.outcomes:
                exchange.outcomes.append(0)
            cell.append((exchange, None))
        except OSError as error:
            # Its traceback holds this frame, and so the exchange, this object and the wake-up of its caller.
            exchange.outcomes.append(error.with_traceback(None))

    @property
    def is_here(self) -> bool:
        """True if the loop has not taken the connection. Called by the thread, between its steps."""
        return bool(self._cell)

    # --- the loop ----------------------------------------------------------------------------------------

    def take(self, lease: float) -> tuple[list[Exchange], Exchange | None]:
        """Take the connection back. Returns the exchanges that have a reply, and the open exchange or None.

        :param lease: when the lease of the session ends, in seconds of ``time.monotonic()``.
        """
        looks = 0
        while True:
            try:
                exchange: Exchange | None = self._cell.pop()[0]
            except IndexError:  # the thread is in a step
                exchange = self._open
                if exchange is None:  # the last step of an exchange has ended since
                    continue
                if not exchange.failed:
                    looks += 1
                    if looks < _LEAST_LOOKS or time.monotonic() < lease or not exchange.take_claim():
                        time.sleep(min(_STEP_PAUSE * (1 + looks // 100), _LONGEST_PAUSE))
                        continue
                    exchange.outcomes = [OSError("a system call did not end")]
            break
        done = list(self._done)
        if exchange is None or (done and done[-1] is exchange):
            return done, None
        if not exchange.answered:
            return done, exchange
        exchange.received_at = time.monotonic()  # the thread is about to note it
        return [*done, exchange], None
