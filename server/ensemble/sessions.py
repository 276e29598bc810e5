"""The sessions that a server knows: global sessions, and its own local sessions (ensemble.md section 8).

The rules:

* A global session begins and ends with an entry of the log. The leader keeps the clock of a global session,
  and the servers report signs of life.
* A local session (``localSessionsEnabled``) begins without a transaction. Only one server knows a local
  session and keeps its clock. A local session ends when its server loses the leader, or when its server is
  not read-only any more.
* A local session can do everything except own an ephemeral znode. With ``localSessionsUpgradingEnabled`` the
  first create of an ephemeral znode makes a local session global. Then the leader adds the session to the log
  before the create. Until the server applies this entry, the session is *moving*, and the server keeps no
  clock for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ...protocol.constants import CreateMode
from ...protocol.jute import JuteError
from ...protocol.multi import decode_fields
from ...protocol.operations import OpCode
from ...protocol.records import CreateRequest
from ..core.sessions import Session, SessionTracker

_CREATES = frozenset((OpCode.CREATE.value, OpCode.CREATE2.value))
_EPHEMERAL = frozenset((CreateMode.EPHEMERAL.value, CreateMode.EPHEMERAL_SEQUENTIAL.value))


class Passwords(Protocol):
    """The part of the ensemble that sessions use."""

    def password_of(self, session_id: int) -> bytes:
        """Return the password of a session."""


class Place(Protocol):
    """The part of the server that sessions use."""

    @property
    def ensemble(self) -> Passwords:
        """The ensemble of the server."""

    def heard_of(self, session: Session, now: int) -> object:
        """Note a sign of life of a session."""


class MemberSessions(SessionTracker):
    """All sessions that a server knows. It keeps clocks only for local sessions."""

    def __init__(self, member: Place, tick: int) -> None:
        super().__init__(tick, 0, member.ensemble.password_of)
        self._member = member
        self._moving: set[int] = set()

    def learn(self, session_id: int, timeout: int) -> Session:
        """Add a session from the log."""
        self._moving.discard(session_id)
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = Session(session_id, timeout, self._password_of(session_id))
        return session

    def open_local(self, session_id: int, timeout: int, now: int) -> Session:
        """Begin a local session.

        :param timeout: the timeout in ms.
        :param now: the present time in ms.
        """
        session = Session(session_id, timeout, self._password_of(session_id))
        self.local.add(session_id)
        self.add(session, now)
        return session

    def move(self, session_id: int) -> Session:
        """Stop the clock of a local session that becomes global."""
        session = self._sessions[session_id]
        self.local.remove(session_id)
        self._moving.add(session_id)
        self._leave_bucket(session)
        return session

    def known_to_all(self) -> Iterator[Session]:
        """Yield the global sessions that the log has."""
        return (s for s in self if s.id not in self.local and s.id not in self._moving)

    def forget_own(self) -> None:
        """End the local sessions, and the sessions that are moving."""
        for session_id in (*self.local, *self._moving):
            self.remove(self._sessions[session_id])

    def remove(self, session: Session) -> None:
        """Remove a session."""
        super().remove(session)
        self.local.discard(session.id)
        self._moving.discard(session.id)

    def touch(self, session: Session, now: int) -> None:
        """Note a sign of life. For a global session the leader gets a report."""
        if session.id in self.local:
            super().touch(session, now)
        else:
            self._member.heard_of(session, now)


def place_of_ephemeral(op: int, frame: bytes) -> int | None:
    """Return the place of the first create of an ephemeral znode in a request: the index in a multi, or 0 for
    a single create. The result is None if there is no such create."""
    try:
        if op in _CREATES:
            return 0 if CreateRequest.read(frame, 8)[0].flags in _EPHEMERAL else None
        if op == OpCode.MULTI:
            parts = enumerate(decode_fields(frame, 8))
            return next((i for i, (kind, f) in parts if kind in _CREATES and f[3] in _EPHEMERAL), None)
    except JuteError:
        pass  # the leader refuses the request
    return None
