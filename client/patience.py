"""When a connection that serves sends a ping, and when it gives its server up. No I/O and no clock.

The rules (wire.md section 16):

* A ping goes out when nothing was sent for 1/3 of the session timeout.
* The server is given up when nothing came for 2/3 of it, or when nothing that was sent during the whole
  timeout has been answered.
* While the lease is kept (lease.py), a ``sync`` goes out whenever an answer of the leader is due. If the
  server is then silent for 1/4 of the timeout, it is given up: it may be cut off from the leader.
"""

from __future__ import annotations

import math

from .lease import Lease
from .proofs import Proofs

_PING_AFTER = 1 / 3
"""Of the session timeout, as in the C client."""
_SILENCE_LIMIT = 2 / 3
"""Of the session timeout, as in all clients. 1/3 is left to find another server before the session ends."""


class Patience:
    """What is known of the traffic with one server. Times are in seconds of the caller's clock.

    :ivar lease: of the session that this connection serves; ``timeout``: its session timeout, in seconds.
    :ivar sent_at: when anything was sent last; ``received_at``: when anything came last.
    :ivar pings: whether a ping waits to be sent.
    """

    def __init__(self, lease: Lease, proofs: Proofs, timeout: float, now: float) -> None:
        self.lease = lease
        self.timeout = timeout
        self.sent_at = self.received_at = now
        self.pings = False
        self._proofs = proofs
        self._pinged_at: float | None = None  # if that is not answered

    def deadline(self) -> float:
        """Return the time at which to call :meth:`complaint`."""
        deadline = min(self._silence_limit, self._acknowledgement_due, self._ping_due)
        if self.lease.kept:
            return min(deadline, self._proof_due, self._proof_overdue)
        return deadline

    def complaint(self, now: float) -> str | None:
        """Return why the server is to be given up; None if it is not. Then what is due is to be sent."""
        if now >= self._silence_limit:
            return f"the server was silent for {now - self.received_at:.1f} s"
        if now >= self._acknowledgement_due:
            return f"the server acknowledged nothing for {self.timeout:.1f} s"
        if self.lease.kept and now >= self._proof_overdue:
            return (
                f"the server left a sync unanswered for {now - self._proofs.asked_at:.1f} s: "
                "it may be cut off from the leader"
            )
        if self.lease.kept and now >= self._proof_due:
            self._proofs.ask(now)
        elif now >= self._ping_due:
            self.pings = True
        return None

    def ping_sent(self, now: float) -> None:
        """Note that the ping goes out."""
        self.pings, self._pinged_at = False, now

    def ping_answered(self, now: float) -> None:
        """Note that the server has answered it."""
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
        """The time at which to send a ping; infinity while one is on its way."""
        if self.pings or self._pinged_at is not None:
            return math.inf
        return self.sent_at + self.timeout * _PING_AFTER

    @property
    def _proof_due(self) -> float:
        """The time at which to send a ``sync`` for the lease."""
        return self._proofs.due(self.lease.proof_due, self.timeout)

    @property
    def _proof_overdue(self) -> float:
        """The time at which a ``sync`` for the lease has been unanswered for too long."""
        return self._proofs.overdue(self.received_at, self.timeout)
