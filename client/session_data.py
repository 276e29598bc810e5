"""The state of a session that one connection leaves to the next one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import attrs

from ..protocol.constants import INT_MAX, JUTE_MAXBUFFER
from .auth import Credential, SaslUser
from .lease import Lease
from .registry import MissedReason, WatchRegistry
from .request import Request

DEFAULT_REPLY_LIMIT = 64 * 2**20
"""The default of ``reply_limit``, in bytes. No setting of a server limits its replies: a list of children can
be larger than any request."""
NO_PASSWORD = bytes(16)
"""The password that a client without a session sends: 16 zero bytes (wire.md section 4.1)."""


@attrs.define
class Metrics:
    """Counters of the client since it was made.

    :ivar requests: the number of sent requests, by op code. Pings and the ``sync`` requests that keep a lease
        are not counted.
    :ivar connections: the number of times that a session was attached to a server.
    :ivar suspended: seconds during which the client had a session and no connection. The present
        interruption is not counted yet.
    """

    requests: Counter[int] = attrs.Factory(Counter)
    connections: int = 0
    suspended: float = 0.0


def _unique(credentials: Iterable[Credential]) -> list[Credential]:
    return list(dict.fromkeys(credentials))


@attrs.define(on_setattr=attrs.setters.NO_OP)  # without this, a converter makes every assignment slow
class SessionData:
    """The state that outlives a connection. Times are in seconds.

    :ivar wanted_timeout: the session timeout to request. The server can choose another timeout.
    :ivar connect_budget: the time in seconds in which a server must complete the handshake and the
        authentication. A change takes effect with the next connection.
    :ivar session_id: 0 without a session. Pass an id and a password to take over a session.
    :ivar sasl: the user who logs in by SASL on each connection; None without a SASL login.
    :ivar read_only: whether read-only servers can serve the client too.
    :ivar request_limit: the largest request in bytes, the ``jute.maxbuffer`` of the servers.
    :ivar reply_limit: the largest reply in bytes that is accepted.
    :ivar timeout: the negotiated session timeout; before the negotiation, the requested timeout.
    :ivar last_zxid: the highest zxid seen in a reply.
    :ivar lease: the time until which the session cannot have ended.
    :ivar outbox: requests that no connection has sent yet, in the order of their submission.
    :ivar missed: the reason why persistent watches may have missed events before they are armed again.
    :ivar xid: the number of the last request.
    """

    watches: WatchRegistry
    wanted_timeout: float
    connect_budget: float
    credentials: list[Credential] = attrs.field(factory=list, converter=_unique)
    sasl: SaslUser | None = None
    session_id: int = 0
    password: bytes = NO_PASSWORD
    read_only: bool = False
    request_limit: int = JUTE_MAXBUFFER
    reply_limit: int = DEFAULT_REPLY_LIMIT
    timeout: float = attrs.Factory(lambda self: self.wanted_timeout, takes_self=True)
    last_zxid: int = 0
    lease: Lease = attrs.Factory(Lease)
    outbox: deque[Request[Any]] = attrs.Factory(deque)
    metrics: Metrics = attrs.Factory(Metrics)
    missed: MissedReason = MissedReason.RECONNECTED
    xid: int = 0

    def next_xid(self) -> int:
        """Return the number of the next request. Numbers begin with 1. After the largest int of 32 bits they
        begin with 1 again."""
        self.xid = self.xid + 1 if self.xid < INT_MAX else 1
        return self.xid

    def reset(self) -> None:
        """Forget the session: the next handshake requests a new session."""
        self.session_id, self.password, self.last_zxid = 0, NO_PASSWORD, 0
        self.lease.ended()

    @property
    def acknowledgement_due(self) -> float:
        """The time (by the caller's clock) at which the client gives up the connection, unless the server
        answers another message before."""
        return self.lease.acknowledged + self.timeout
