"""The lease: the time until which the session cannot have ended. Pure arithmetic: no I/O and no clock.

The end of a session. Only the leader of the ensemble ends a session. The leader ends a session after it has
heard nothing of the session for the session timeout ``T``. A new leader gives every session the full timeout
that it was created with, from the moment at which it begins to serve. The leader hears directly of its own
clients. The leader hears of the clients of a follower through the follower. The leader pings its followers
every half tick. Each follower answers with a *report*: the sessions that the follower has heard of since its
last report.

What an answer proves:

* The answer to a ping or a read proves that *this server* has heard from us. A follower that is cut off from
  its leader still answers pings and reads, while the leader hears nothing of the session and ends it.
* The answer to a handshake proves that the leader has heard from us. A new session is a transaction. A known
  session is looked up at the leader, which counts as a sign of life.
* The answer to a successful write or a ``sync`` proves that the request has reached the leader. This answer
  does not prove that the session was reported. At the leader a request is no sign of life, and a ``sync``
  does not check whether the session is alive.

The rule: the lease ends at ``m + T``. ``m`` is the time at which the handshake was sent. ``m`` can also be
the time at which a later message was sent, if two answers have come over the same connection. The first is
the answer to this message; it comes at the time ``a``. The second is the answer to a write or a ``sync`` that
was sent at ``a + REPORTED`` or later.

Why. The answer to the write comes down the stream in which the leader also sends its pings to the follower.
``REPORTED`` is longer than 0.5 ticks, so the leader has put a ping into that stream after ``a`` and before
the answer. The follower had received the client's message by ``a``. Therefore the report that answers that
ping names our session, and the follower sends the report before it sends the answer to us. (If the ping took
less than 1/12 of ``T``, the follower sent the report even before our request, in the same stream. So the
leader had the report when the leader answered. A slow link changes nothing if all messages take equally
long.) The leader takes the report at or after ``m``, and waits for ``T`` from then on. A new leader's
deadline is later still.

``T`` is the shortest timeout that servers have granted the session. Servers with other limits may grant a
longer timeout at the next handshake, but a new leader has not heard of this timeout.

Faults, one at a time:

* A follower is killed, stopped, or cut off from its leader in one or both directions; or a client is cut off
  or stopped. The client then gets no more answers to writes, so the lease does not move. The follower
  reported the answered requests before the fault.
* A follower or a leader continues after a stop. The delayed pings are answered at once. Their reports reach
  the leader some ms after the first answer to the client. The session was alive when that answer came;
  otherwise the lease would have been over too. The margin that users of the lease subtract covers these ms.
* A leader is cut off from its followers, or was replaced during a stop and continues. This leader still
  answers each ``sync`` and handshake of its own clients, for at most ``syncLimit`` + 1 ticks after the cut,
  or for 1 tick after the stop. The new leader begins ``syncLimit`` - 0.5 ticks after the cut or later. Then
  it waits for ``T``, which is at least 2 ticks. Therefore the client is disconnected before the session can
  end, and attaches to the new leader.

``T`` must be at least 2 ticks, which is the default of ``minSessionTimeout``. Then half a tick is at most 1/4
of ``T``. ``REPORTED`` is 1/3 of ``T``, so 1/12 of ``T`` is left for a leader that pings late. (With
``observerMasterPort`` an observer can follow a follower. The observer reports to the follower, and the
follower reports to the leader. Both reports take up to 1 tick together, so ``T`` must then be at least 4
ticks.) All clocks must run at the same rate. The clock of a suspended machine stops.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ..protocol.framing import frame
from ..protocol.operations import CLOSE_SESSION, Flags, OpCode, with_flags
from ..protocol.records import RequestHeader, SyncRequest
from .request import Request

PROOFS = with_flags(Flags.TAKES_ZXID | Flags.IN_MULTI) - {CLOSE_SESSION} | {OpCode.SYNC.value}
"""The op codes of requests whose answer proves that the leader has received the request."""

# Parts of the session timeout:
REPORTED = 1 / 3
"""The time after which the leader has received the report of an answered request."""
PROOF_PERIOD = 1 / 5
"""The longest time between two answers of the leader, as long as the lease is kept."""
PROOF_GAIN = 1 / 8
"""If an earlier answer of the leader extends the deadline by this time, the client requests the answer
earlier."""
PROOF_PAUSE = 1 / 24
"""The pause after a refused ``sync``. An overloaded server therefore gets at most 24 ``sync`` requests in a
session timeout."""
PROOF_LIMIT = 1 / 4
"""The time for which a server can leave a ``sync`` unanswered. Then there is still time to find another
server."""
_SHORT = 1 / 5
"""The user is informed when the rest of the lease is shorter than this time. This happens only if the leader
does not answer. With the usual margin, a lock is lost 1/10 of the timeout later."""
_SPACING = 1 / 24
"""The time after a noted answer in which no other answer is noted. This limits the number of noted
answers."""


class Lease:
    """The lease of one session. Times are in seconds of the caller's clock.

    :ivar timeout: the shortest session timeout that servers have granted the session.
    :ivar deadline: the time before which the session cannot have ended; minus infinity without a session.
    :ivar acknowledged: the time at which the latest answered message was sent.
    :ivar proof_due: the time at which to send the next ``sync``, if the lease is kept.
    :ivar warned: whether the user was informed that this lease is nearly over.
    """

    def __init__(self) -> None:
        self.timeout = math.inf
        self.deadline = self.acknowledged = self._proved = -math.inf
        self.proof_due = math.inf
        self.warned = False
        self._answered: deque[tuple[float, float]] = deque()  # (sent, answered by the present server at)
        self._keepers: dict[Callable[[], object], None] = {}

    # --- who keeps it ------------------------------------------------------------------------------------

    @property
    def kept(self) -> bool:
        """True if the client must keep the lease from ending."""
        return bool(self._keepers)

    def keep(self, moved: Callable[[], object], now: float) -> None:
        """Keep the lease from ending, as far as the servers allow, until :meth:`release`. If the lease is
        short now, no warning is logged, because the lease was not kept before.

        :param moved: called after each change of ``deadline``; it must not raise.
        """
        self._keepers[moved] = None
        self.warned = self.warned or now >= self.short_at

    def release(self, moved: Callable[[], object]) -> None:
        """Take :meth:`keep` back. A second call does nothing."""
        self._keepers.pop(moved, None)

    @property
    def short_at(self) -> float:
        """The time at which to inform the user that the lease is nearly over; infinity for never."""
        if self.warned or not self._keepers or self.deadline == -math.inf:
            return math.inf
        return self.deadline - _SHORT * self.timeout

    # --- what is known -----------------------------------------------------------------------------------

    def attached(self, sent: float, now: float, timeout: float) -> None:
        """Note that a handshake has succeeded.

        A shorter timeout than before counts at once, even if it moves the deadline back. A longer one never
        counts: a new leader uses the timeout with which the session was created, and a late report of the
        last server tells the leader the timeout that that server has granted.

        :param sent: when the handshake was sent.
        :param timeout: the timeout that the server has granted, in seconds.
        """
        self.timeout = min(self.timeout, timeout)
        self.acknowledged = self._proved = sent
        self._answered.clear()
        self._answered.append((sent, now))
        self._move(sent + self.timeout)
        self._plan()

    def answered(self, sent: float, now: float) -> None:
        """Note that the present server has answered a message that was sent at the time ``sent``."""
        if sent > self.acknowledged:
            self.acknowledged = sent
        answered = self._answered
        if not answered or now >= answered[-1][1] + _SPACING * self.timeout:
            answered.append((sent, now))
            while len(answered) > 1 and answered[1][1] < now - 2 * REPORTED * self.timeout:
                answered.popleft()
            self._plan()

    def prove(self, sent: float) -> None:
        """Note that the leader has answered a message that was sent at the time ``sent``."""
        if sent > self._proved:
            self._proved = sent
        answered, reported = self._answered, sent - REPORTED * self.timeout
        while len(answered) > 1 and answered[1][1] <= reported:
            answered.popleft()
        if answered and answered[0][1] <= reported and answered[0][0] + self.timeout > self.deadline:
            self._move(answered[0][0] + self.timeout)
        self._plan()

    def disconnected(self) -> None:
        """Note that the connection is gone. The answers of this server prove nothing about the reports of the
        next server."""
        self._answered.clear()

    def ended(self) -> None:
        """Note that the session has ended: the next one begins without a lease."""
        self._answered.clear()
        self.timeout = math.inf
        self.acknowledged = self._proved = -math.inf
        self._move(-math.inf)

    def _plan(self) -> None:
        """Set the time at which the next answer of the leader is due: as soon as the answer proves that a
        later message was reported."""
        timeout = self.timeout
        self.proof_due = self._proved + PROOF_PERIOD * timeout
        for sent, answered in self._answered:
            if sent + timeout >= self.deadline + PROOF_GAIN * timeout:
                self.proof_due = min(self.proof_due, answered + REPORTED * timeout)
                break

    def _move(self, deadline: float) -> None:
        self.deadline = deadline
        self.warned = False
        for moved in list(self._keepers):
            moved()


class LeaderSync:
    """The ``sync`` requests of one connection that keep a lease. Times are in seconds of the caller's clock.

    :ivar unsent: whether a ``sync`` waits to be sent.
    :ivar asked_at: the time at which the last ``sync`` was requested. Before the first ``sync`` it is the
        time at which the connection began to serve.
    """

    def __init__(self, now: float) -> None:
        self.unsent = False
        self.asked_at = now
        self._last: Request[None] | None = None

    @property
    def _wanted(self) -> bool:
        """True if no ``sync`` is in flight."""
        return self._last is None or self._last.settled

    def due(self, lease_due: float, timeout: float) -> float:
        """Return the time at which to send a ``sync``; infinity while a ``sync`` is in flight.

        :param lease_due: when the lease needs the next answer.
        """
        return max(lease_due, self.asked_at + timeout * PROOF_PAUSE) if self._wanted else math.inf

    def overdue(self, last_received: float, timeout: float) -> float:
        """Return the time at which the server has been silent for too long with a ``sync`` unanswered."""
        return math.inf if self._wanted else max(self.asked_at, last_received) + timeout * PROOF_LIMIT

    def ask(self, now: float) -> None:
        """Have a ``sync`` sent."""
        self._last = Request(OpCode.SYNC, SyncRequest("/").encode(), "/")
        self.asked_at = now
        self.unsent = True

    def send(self, xid: int, now: float) -> tuple[Request[Any], bytes]:
        """Return the requested ``sync`` and its frame."""
        proof = self._last
        assert proof is not None
        self.unsent = False
        proof.xid, proof.sent, proof.sent_at = xid, True, now
        return proof, frame(RequestHeader(xid, proof.opcode).encode() + proof.body)
