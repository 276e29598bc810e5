"""The service and the connections of one server of an ensemble.

The differences from a single server (ensemble.md sections 1 and 6):

* A handshake may have to wait for the log. A server without a leader closes the connection instead, or is
  read-only.
* While too many requests or bytes wait for the log, nothing more is read from a connection that has a
  waiting request.
* A server that is frozen neither reads nor writes.
* ``srvr`` and ``stat`` show the role; :mod:`.status` has the words and commands that depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...protocol.errors import NotReadOnlyError
from ...protocol.records import ConnectRequest
from ..config.settings import Settings
from ..core.sessions import Session
from ..logger import logger
from ..net.connection import Connection
from ..net.gate import Withheld
from ..net.requests import reply_frame
from ..net.service import Service
from .engine import MemberEngine
from .log import Proposal

if TYPE_CHECKING:
    from .leader import Leader
    from .member import Member

_OUTSTANDING = 1000
"""``globalOutstandingLimit``: the largest number of waiting requests, shared by the voters without the
leader (6.6)."""
MOST_BYTES = 16 * 2**20
"""The limit for the bytes of these requests at one server. The server keeps writes, and reads that wait for
earlier writes."""
_EARLY = 64 * 1024
"""The number of bytes that a client may send after a ConnectRequest that waits for the log."""


class MemberConnection(Connection):
    """One client of one server."""

    behind = "this server lags behind, or has no transaction of the last epoch yet"
    service: MemberService
    engine: MemberEngine

    def __init__(self, service: MemberService, *arguments: Any) -> None:
        self.member = member = service.member
        super().__init__(service, *arguments)
        self._is_attaching = False
        wake = self.wake

        def wake_member() -> None:
            wake()
            member.has_output = True

        self.wake = wake_member

    @property
    def frozen(self) -> bool:
        return self._is_frozen or self.member.frozen

    @frozen.setter
    def frozen(self, value: bool) -> None:
        self._is_frozen = value

    def thaw_with_server(self, now: float) -> None:
        if not self._is_frozen:
            self.proceed(now)
            self.wake()

    def finish(self, reason: str) -> None:
        """Close after sending the waiting output."""
        logger.info("%s: closed, %s", self, reason)
        self._close(reason)

    # --- the handshake -----------------------------------------------------------------------------------

    def _attach(self, request: ConnectRequest, read_only: bytes, now: float) -> bool:
        if self.member.leader is None:
            if self.member.is_read_only and read_only > b"\0":
                return self._attach_read_only(request)
            self._close("this server has no leader")
            return False
        if self._is_moved_away(request.sessionId):
            return False
        self._is_attaching = True
        _Attachment(self, request, b"\0" if read_only else b"").begin()
        return self.session is not None and not self.close_expected

    def _is_moved_away(self, session_id: int) -> bool:
        """Close the connection if a test moves the session to another server; returns whether it does."""
        target = self.member.ensemble.redirects.elsewhere(session_id, self.member)
        if target is not None:
            self._close(f"its session moves to server {target.number}")
        return target is not None

    def _attach_read_only(self, request: ConnectRequest) -> bool:
        """Answer as a read-only server (ensemble.md 7.2). It has only local sessions. By default these are
        off, and then it can serve nobody."""
        session_id = request.sessionId
        if attach_locally(self, request, b"\1"):
            return self.session is not None
        if session_id == 0:  # a reply instead of the answer to a handshake, and nothing more
            self._is_attaching = True
            self.send(reply_frame(0, self.engine.zxid, NotReadOnlyError.code, b""))
        elif any(session.id == session_id for session in self.engine.tracker.known_to_all()):
            self._close("this server is read-only, and the session is one of the ensemble")
        else:
            self._welcome(None, request, b"\1", self.member.ensemble.now / 1000)
        return False

    def attached(self, session: Session | None, request: ConnectRequest, flag: bytes) -> None:
        """Answer the ConnectRequest, because the log has come far enough."""
        self._is_attaching = False
        if self.close_expected or (session is not None and self._is_moved_away(session.id)):
            return
        if session is not None:
            self.member.ensemble.redirects.end(session.id)
            self.engine.bind(self, session)
            self.engine.tracker.touch(session, self.member.ensemble.now)
        self._welcome(session, request, flag, self.member.ensemble.now / 1000)
        self.more = not self.input.empty
        self.wake()

    # --- requests ----------------------------------------------------------------------------------------

    def exchange(self, data: bytes, now: float) -> bytes:
        if self._is_stalled:
            self.receive_data(data, now)
            return b""
        try:
            return super().exchange(data, now)
        except Withheld:  # by the short way
            self.engine.stats.bytes_received += len(data)
            return b""

    def proceed(self, now: float) -> None:
        if self._is_attaching:
            return
        if self._is_stalled:
            self.more = self.more or not self.input.empty  # it goes on once some are answered
        else:
            super().proceed(now)

    @property
    def _is_stalled(self) -> bool:
        engine = self.engine
        too_many = engine.outstanding > self.member.ensemble.most_outstanding
        return (too_many or engine.waiting_bytes > MOST_BYTES) and self.session_id in engine.waiting

    @property
    def has_work(self) -> bool:
        return super().has_work and not self._is_attaching and not self._is_stalled

    @property
    def may_read(self) -> bool:
        if self._is_attaching:
            return not self.close_expected and not self.frozen and len(self.input) < _EARLY
        return super().may_read and not self._is_stalled

    @property
    def outstanding(self) -> int:
        """The number of requests, with those that wait for the log."""
        waiting = self.engine.waiting.get(self.session_id, ())
        return super().outstanding + sum(request.connection is self for request in waiting)


def attach_locally(connection: MemberConnection, request: ConnectRequest, flag: bytes) -> bool:
    """Attach a client to a new local session, or to a local session of this server; False if it needs a
    global session.

    No other server is asked.
    """
    member, tracker = connection.member, connection.engine.tracker
    timeout = member.timeout_for(request)
    if request.sessionId == 0:
        if not member.settings.local_sessions:
            return False
        session = tracker.open_local(member.new_session_id(), timeout, member.ensemble.now)
    else:
        known = tracker.get(request.sessionId) if request.sessionId in tracker.local else None
        if known is None or not known.check_password(request.passwd):
            return False
        session = known
        session.timeout = timeout
    connection.attached(session, request, flag)
    return True


class _Attachment:
    """A ConnectRequest on its way to the leader and back."""

    def __init__(self, connection: MemberConnection, request: ConnectRequest, flag: bytes) -> None:
        self.connection = connection
        self.request = request
        self.flag = flag
        self.member = connection.member

    def begin(self) -> None:
        request, member = self.request, self.member
        timeout = member.timeout_for(request)
        session_id = request.sessionId
        if attach_locally(self.connection, request, self.flag):
            return
        if session_id == 0:
            new = member.new_session_id()
            member.forward(lambda leader: leader.open_session(new, timeout, self))
        elif not member.ensemble.knows(session_id, request.passwd):
            self.connection.attached(None, request, self.flag)
        else:

            def answer(lives: bool) -> None:
                session = None
                if lives:
                    sessions = member.engine.tracker
                    known = sessions.get(session_id) or sessions.learn(session_id, timeout)
                    # A new leader counts with what the log says, not with what was negotiated since
                    session = attrs.evolve(known, timeout=timeout)
                self.connection.attached(session, request, self.flag)

            def ask(leader: Leader) -> None:
                leader.resume_session(session_id, timeout, member, answer)

            member.forward(ask)

    def applied(self, proposal: Proposal) -> None:
        session = self.member.engine.sessions.get(proposal.txn.session)
        self.connection.attached(session, self.request, self.flag)


class MemberService(Service):
    """One server without its sockets."""

    connection_type: ClassVar[type[Connection]] = MemberConnection
    connections: dict[MemberConnection, None]  # type: ignore[assignment]
    engine: MemberEngine

    def __init__(self, member: Member, settings: Settings, **arguments: Any) -> None:
        self.member = member
        super().__init__(settings, **arguments)

    def start_engine(self, epoch: int, random_bytes: Callable[[int], bytes] | None = None) -> MemberEngine:
        now = self.now_ms
        return MemberEngine(self.member, self.settings, now=now, epoch=epoch, random_bytes=random_bytes)

    @property
    def is_controlled(self) -> bool:
        """Whether a test controls any server of the ensemble over HTTP."""
        return self.member.ensemble.is_controlled

    @is_controlled.setter
    def is_controlled(self, value: bool) -> None:
        self.member.ensemble.is_controlled |= value

    @property
    def server_id(self) -> int:  # type: ignore[override]
        return self.member.number

    @property
    def mode(self) -> str:
        return self.member.role

    @property
    def serves(self) -> bool:
        return self.member.leader is not None or self.member.is_read_only

    @property
    def is_read_only(self) -> bool:
        return self.member.is_read_only

    def next_deadline(self) -> float:
        return math.inf if self.member.frozen else super().next_deadline()

    def advance(self, now: float, within: float = math.inf) -> None:
        if not self.member.frozen:
            super().advance(now, within)


def most_outstanding(voters: int) -> int:
    """Return how many requests may wait at a server before it stops reading from their clients."""
    return _OUTSTANDING // max(1, voters - 1)
