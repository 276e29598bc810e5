"""Asking the leader for the answers that a lease needs (lease.py), on one connection. No I/O and no clock."""

from __future__ import annotations

import math
from typing import Any

from ..protocol.framing import frame
from ..protocol.operations import OpCode
from ..protocol.records import RequestHeader, SyncRequest
from .lease import PROOF_LIMIT, PROOF_PAUSE
from .request import Request


class Proofs:
    """The ``sync`` requests of one connection that keep a lease. Times are in seconds of the caller's clock.

    :ivar unsent: whether a ``sync`` waits to be sent.
    :ivar asked_at: when the last one was asked for; at first, when the connection began to serve.
    """

    def __init__(self, now: float) -> None:
        self.unsent = False
        self.asked_at = now
        self._last: Request[None] | None = None

    @property
    def _wanted(self) -> bool:
        """True if none is on its way."""
        return self._last is None or self._last.settled

    def due(self, lease_due: float, timeout: float) -> float:
        """Return the time at which to ask; infinity while a ``sync`` is on its way.

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
        """Return the ``sync`` that was asked for, and its frame."""
        proof = self._last
        assert proof is not None
        self.unsent = False
        proof.xid, proof.sent, proof.sent_at = xid, True, now
        return proof, frame(RequestHeader(xid, proof.opcode).encode() + proof.body)
