"""The SessionTracker: who is alive and until when (semantics.md section 12).

Deadlines are ms on the server's monotonic clock, and fall on tick boundaries: all sessions of a tick
expire together, at most one tick late and never early.
"""

from __future__ import annotations

import hmac
import math
import os
from collections.abc import Callable, Iterator
from itertools import islice

import attrs
from sortedcontainers import SortedDict

SERVER_ID = 1  # the top byte of every session id, in standalone


@attrs.define(eq=False)
class Session:
    """
    :ivar timeout: the negotiated timeout in ms, of the connection that serves the session now.
    :ivar deadline: when it expires unless touched, in ms of the server's clock.
    :ivar fresh_until: until then, in seconds, a touch would not move the deadline; hot paths compare this
        instead of calling :meth:`SessionTracker.touch`.
    :ivar password: 16 bytes that prove a reconnecting client owns the session.
    """

    id: int
    timeout: int
    password: bytes = attrs.field(repr=False)
    deadline: int = 0
    fresh_until: float = 0.0
    closed: bool = False

    def check_password(self, password: bytes | None) -> bool:
        return password is not None and hmac.compare_digest(self.password, password)


class SessionTracker:
    """
    :param tick: the tick in ms.
    :param first_id_ms: a clock reading in ms that session ids are made of, so that a restarted server
        does not hand out those of its predecessor.
    :param random_bytes: the source of passwords.
    """

    def __init__(self, tick: int, first_id_ms: int, random_bytes: Callable[[int], bytes]) -> None:
        self._tick = tick
        self._next_id = SERVER_ID << 56 | (first_id_ms & (2**40 - 1)) << 16
        self._random_bytes = random_bytes
        self._sessions: dict[int, Session] = {}
        self._buckets: SortedDict[int, dict[int, Session]] = SortedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def create(self, timeout: int, now: float) -> Session:
        """Open a session at ``now``, in seconds."""
        session = Session(self._next_id, timeout, self._random_bytes(16))
        self._next_id += 1
        self._sessions[session.id] = session
        self.touch(session, now)
        return session

    def touch(self, session: Session, now: float) -> None:
        """The session has shown a sign of life at ``now``, in seconds."""
        tick = self._tick
        deadline = ((int(now * 1000) + session.timeout) // tick + 1) * tick
        session.fresh_until = (deadline - session.timeout) / 1000
        if deadline == session.deadline:
            return
        self._leave_bucket(session)
        session.deadline = deadline
        bucket = self._buckets.get(deadline)
        if bucket is None:
            bucket = self._buckets[deadline] = {}
        bucket[session.id] = session

    def remove(self, session: Session) -> None:
        """The session is over."""
        session.closed = True
        self._leave_bucket(session)
        del self._sessions[session.id]

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.deadline)
        if bucket is not None:
            bucket.pop(session.id, None)

    def due(self, now: int, most: int | None = None) -> list[Session]:
        """The sessions whose deadline has come, the earliest first, or only so many of them. They stay until
        removed."""
        buckets = map(self._buckets.__getitem__, self._buckets.irange(None, now))
        return list(islice((session for bucket in buckets for session in bucket.values()), most))

    def next_deadline(self) -> float:
        """When the next session expires, in ms; infinity if none is there."""
        buckets = self._buckets
        while buckets:
            deadline: int
            deadline, bucket = buckets.peekitem(0)
            if bucket:
                return deadline
            del buckets[deadline]  # not before its time is near: the next session may well have the same
        return math.inf

    def by_deadline(self) -> Iterator[tuple[int, list[Session]]]:
        for deadline, bucket in self._buckets.items():
            if bucket:
                yield deadline, list(bucket.values())


class RandomPool:
    """The system's randomness, drawn in pieces of a kilobyte: asking costs more than the bytes do."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, size: int) -> bytes:
        """Some bytes that nobody else gets."""
        if len(self._left) < size:
            self._left = os.urandom(max(1024, size))
        taken, self._left = self._left[:size], self._left[size:]
        return taken
