"""The SessionTracker: which sessions live, and when they expire (semantics.md section 12).

All times are whole ms of the server's monotonic clock. The rules:

* A session expires if its client gives no sign of life for the timeout. The deadline of the session is the
  first multiple of the tick after the last sign of life plus the timeout. So a session expires at most one
  tick late, and never early.
* Callers pass times that are rounded down. The deadline is at least 1 ms after the sign of life plus the
  timeout, so rounding ends no session early.
* All sessions with the same deadline share a bucket. A sign of life that does not move the deadline costs
  nothing: hot paths call :meth:`SessionTracker.touch` only if the time is not before ``fresh_until``.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Iterator
from itertools import islice

import attrs
from sortedcontainers import SortedDict

from ...protocol.text import session_text

SERVER_ID = 1  # the top byte of every session id of a single server
NEVER = 2**63 - 1
"""The time in ms of an event that will never happen."""


@attrs.define(eq=False)
class Session:
    """A session that is open.

    :ivar timeout: the timeout in ms that the present connection has negotiated.
    :ivar deadline: the time in ms at which the session expires if its client gives no sign of life.
    :ivar fresh_until: the time in ms before which a sign of life does not move the deadline.
    :ivar password: 16 bytes with which a client that reconnects proves that the session is its own.
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
        """Return whether a password is the password of this session."""
        return password is not None and hmac.compare_digest(self.password, password)


class SessionTracker:
    """All sessions of a server, with their deadlines.

    :ivar local: the ids of sessions that no other server of the ensemble knows.
    :param tick: the tick in ms.
    :param first_id_ms: the time in ms from which session ids are made. So a restarted server never uses an id
        from before its restart.
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
        """Return the session with an id; None if it is unknown or over."""
        return self._sessions.get(session_id)

    def create(self, timeout: int, now: int) -> Session:
        """Open a session.

        :param timeout: the timeout in ms.
        :param now: the present time in ms.
        """
        session = Session(self._next_id, timeout, self._password_of(self._next_id))
        self._next_id += 1
        self.add(session, now)
        return session

    def add(self, session: Session, now: int) -> None:
        """Add a session that begins or continues at ``now``, in ms."""
        self._sessions[session.id] = session
        self.touch(session, now)

    def restore(self, session_id: int, timeout: int, now: int) -> Session:
        """Continue a session from before a restart of the server. The whole timeout of the session begins at
        ``now``. The password is the password that the real server would compute. No new session gets the same
        id.

        :param timeout: the timeout in ms.
        :param now: the present time in ms.
        """
        session = Session(session_id, timeout, computed_password(session_id))
        if self._next_id <= session_id < (SERVER_ID + 1) << 56:
            self._next_id = session_id + 1
        self._sessions[session_id] = session
        self.touch(session, now)
        return session

    def touch(self, session: Session, now: int) -> None:
        """Note a sign of life of a session at ``now``, in ms."""
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
        """Return at most ``most`` sessions whose deadline has come, the earliest first. The tracker keeps
        these sessions until :meth:`remove`."""
        buckets = map(self._buckets.__getitem__, self._buckets.irange(None, now))
        return list(islice((session for bucket in buckets for session in bucket.values()), most))

    def next_deadline(self) -> int:
        """Return the time in ms at which the next session expires; :data:`NEVER` if there is no session."""
        buckets = self._buckets
        while buckets:
            deadline: int
            deadline, bucket = buckets.peekitem(0)
            if bucket:
                return deadline
            del buckets[deadline]  # not already when it became empty: new sessions often need the same bucket
        return NEVER

    def by_deadline(self) -> Iterator[tuple[int, list[Session]]]:
        """Yield each deadline in ms with its sessions, the earliest first."""
        for deadline, bucket in self._buckets.items():
            if bucket:
                yield deadline, list(bucket.values())


def computed_password(session_id: int) -> bytes:
    """Compute the password that the real server gives a session (semantics.md section 12.2). Anybody who has
    the id of the session can compute it."""
    state = (session_id ^ 0xB3415C00 ^ 0x5DEECE66D) % 2**48
    words = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) % 2**48
        words += (state >> 16).to_bytes(4, "little")
    return words


class RandomPool:
    """Random bytes of the system. One system call reads 1,024 bytes, because a call takes more time than the
    bytes."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, size: int) -> bytes:
        """Return ``size`` bytes that no other caller gets."""
        if len(self._left) < size:
            self._left = os.urandom(max(1024, size))
        taken, self._left = self._left[:size], self._left[size:]
        return taken
