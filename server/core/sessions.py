"""The SessionTracker: which sessions live, and until when (semantics.md section 12).

All times are whole ms of the server's monotonic clock. The rules:

* A session is over when there was no sign of life for its timeout. Its deadline is the first multiple of the
  tick after the last sign of life plus the timeout. So it ends at most one tick late, and never early.
* Callers pass times that are rounded down. The deadline is at least 1 ms after the sign of life plus the
  timeout, so rounding ends no session early.
* All sessions with the same deadline share a bucket. A sign of life that does not move the deadline costs
  nothing: hot paths compare the time with ``fresh_until``, and call :meth:`SessionTracker.touch` from then
  on.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator
from itertools import islice

import attrs
from sortedcontainers import SortedDict

from ...protocol.text import session_text

SERVER_ID = 1  # the top byte of every session id, in standalone
NEVER = 2**63 - 1
"""The time, in ms, of a thing that will not happen."""


@attrs.define(eq=False)
class Session:
    """
    :ivar timeout: the negotiated timeout in ms, of the connection that serves the session now.
    :ivar deadline: when it expires without a sign of life, in ms.
    :ivar fresh_until: the time, in ms, before which a sign of life does not move the deadline.
    :ivar password: 16 bytes that prove a reconnecting client owns the session.
    """

    id: int
    timeout: int
    password: bytes = attrs.field(repr=False)
    deadline: int = 0
    fresh_until: int = 0
    closed: bool = False

    def __str__(self) -> str:
        return f"session {session_text(self.id)}"

    def check_password(self, password: bytes | None) -> bool:
        return password is not None and hmac.compare_digest(self.password, password)


class SessionTracker:
    """
    :ivar local: the ids of sessions that no other server of the ensemble knows.
    :param tick: the tick in ms.
    :param first_id_ms: a time in ms for making session ids, so that a restarted server does not use the ids
        of its predecessor.
    :param password_of: makes the password of a new session from its id.
    """

    def __init__(self, tick: int, first_id_ms: int, password_of: Callable[[int], bytes]) -> None:
        self._tick = tick
        self._next_id = SERVER_ID << 56 | (first_id_ms & (2**40 - 1)) << 16
        self._password_of = password_of
        self._sessions: dict[int, Session] = {}
        self.local: set[int] = set()
        self._buckets: SortedDict[int, dict[int, Session]] = SortedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def create(self, timeout: int, now: int) -> Session:
        """Open a session at ``now``."""
        session = Session(self._next_id, timeout, self._password_of(self._next_id))
        self._next_id += 1
        self.add(session, now)
        return session

    def add(self, session: Session, now: int) -> None:
        """Add a session that begins, or continues, at ``now``."""
        self._sessions[session.id] = session
        self.touch(session, now)

    def restore(self, session_id: int, timeout: int, now: int) -> Session:
        """Continue a session of an earlier server, with its whole timeout from ``now`` on, and with the
        password of the real server. No other session gets its id."""
        session = Session(session_id, timeout, computed_password(session_id))
        if self._next_id <= session_id < (SERVER_ID + 1) << 56:
            self._next_id = session_id + 1
        self._sessions[session_id] = session
        self.touch(session, now)
        return session

    def touch(self, session: Session, now: int) -> None:
        """Note a sign of life of a session at ``now``."""
        tick = self._tick
        deadline = ((now + session.timeout) // tick + 1) * tick
        session.fresh_until = deadline - session.timeout
        if deadline == session.deadline:
            return
        self._leave_bucket(session)
        session.deadline = deadline
        bucket = self._buckets.get(deadline)
        if bucket is None:
            bucket = self._buckets[deadline] = {}
        bucket[session.id] = session

    def remove(self, session: Session) -> None:
        """End a session."""
        session.closed = True
        self._leave_bucket(session)
        del self._sessions[session.id]

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.deadline)
        if bucket is not None:
            bucket.pop(session.id, None)

    def due(self, now: int, most: int | None = None) -> list[Session]:
        """Return the sessions whose deadline has come, the earliest first, or the first ``most`` of them.
        They stay here until they are removed."""
        buckets = map(self._buckets.__getitem__, self._buckets.irange(None, now))
        return list(islice((session for bucket in buckets for session in bucket.values()), most))

    def next_deadline(self) -> int:
        """Return the time at which the next session expires; :data:`NEVER` if there is none."""
        buckets = self._buckets
        while buckets:
            deadline: int
            deadline, bucket = buckets.peekitem(0)
            if bucket:
                return deadline
            del buckets[deadline]  # not when it became empty: the next session often has the same deadline
        return NEVER

    def by_deadline(self) -> Iterator[tuple[int, list[Session]]]:
        for deadline, bucket in self._buckets.items():
            if bucket:
                yield deadline, list(bucket.values())


def computed_password(session_id: int) -> bytes:
    """Compute the password that the real server gives a session (semantics.md section 12.2). Anybody who
    knows the id can compute it."""
    state = (session_id ^ 0xB3415C00 ^ 0x5DEECE66D) % 2**48
    words = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        words += (state >> 16).to_bytes(4, "little")
    return words


class RandomPool:
    """The system's randomness, drawn 1,024 bytes at a time: a system call costs more than the bytes do."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, size: int) -> bytes:
        """Return ``size`` bytes that no other caller gets."""
        if len(self._left) < size:
            self._left = os.urandom(max(1024, size))
        taken, self._left = self._left[:size], self._left[size:]
        return taken
