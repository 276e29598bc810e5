"""The service and the connections of one server of an ensemble.

The differences from a single server (ensemble.md sections 1 and 6):

* A handshake may have to wait for the log. A server without a leader closes the connection, or serves the
  client read-only.
* While too many requests or bytes wait for the log, nothing more is read from a connection that has a
  waiting request.
* A frozen server reads and writes nothing.
* ``srvr`` and ``stat`` show the role of the server. :mod:`.status` has the words and commands that depend on
  the role.
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
"""``globalOutstandingLimit``: the largest number of waiting requests. All voting servers except the leader
share this number (6.6)."""
MOST_BYTES = 16 * 2**20
"""The largest number of bytes of the waiting requests at one server. The server keeps writes, and reads that
wait for earlier writes."""
_EARLY = 64 * 1024
"""The number of bytes that a client may send after a ConnectRequest that waits for the log."""


class MemberConnection(Connection):
    """The connection of one client to one server."""

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
        """Whether a gate has stopped the connection, or the server is frozen."""
        return self._is_frozen or self.member.frozen

    @frozen.setter
    def frozen(self, value: bool) -> None:
        """Set whether a gate stops the connection."""
        self._is_frozen = value

    def thaw_with_server(self, now: float) -> None:
        """Continue after the server was frozen."""
        if not self._is_frozen:
            self.proceed(now)
            self.wake()

    def finish(self, reason: str) -> None:
        """Close the connection after its waiting output is sent."""
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
        """Close the connection if a test moves the session to another server.

        :returns: True if a test does this.
        """
        target = self.member.ensemble.redirects.elsewhere(session_id, self.member)
        if target is not None:
            self._close(f"its session moves to server {target.number}")
        return target is not None

    def _attach_read_only(self, request: ConnectRequest) -> bool:
        """Answer as a read-only server (ensemble.md 7.2). Such a server has only local sessions. By default
        local sessions are switched off. Then a server without a leader can serve no client."""
        session_id = request.sessionId
        if attach_locally(self, request, b"\1"):
            return self.session is not None
        if session_id == 0:  # the client gets a reply in place of the answer to its handshake
            self._is_attaching = True
            self.send(reply_frame(0, self.engine.zxid, NotReadOnlyError.code, b""))
        elif any(session.id == session_id for session in self.engine.tracker.known_to_all()):
            self._close("this server is read-only, but the session belongs to the ensemble")
        else:
            self._welcome(None, request, b"\1", self.member.ensemble.now / 1000)
        return False

    def attached(self, session: Session | None, request: ConnectRequest, flag: bytes) -> None:
        """Answer the ConnectRequest, because it need not wait for the log any more.

        :param session: the session of the client; None if the client is refused.
        :param flag: the last byte of the answer; empty if the answer has no such byte.
        """
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
        """Do the same as for a single server, but a request may wait for the log."""
        if self._is_stalled:
            self.receive_data(data, now)
            return b""
        try:
            return super().exchange(data, now)
        except Withheld:  # the short way has forwarded the request
            self.engine.stats.bytes_received += len(data)
            return b""

    def proceed(self, now: float) -> None:
        """Handle the received input, unless the connection must wait for the log."""
        if self._is_attaching:
            return
        if self._is_stalled:
            self.more = self.more or not self.input.empty  # continues when some requests are answered
        else:
            super().proceed(now)

    @property
    def _is_stalled(self) -> bool:
        engine = self.engine
        too_many = engine.outstanding > self.member.ensemble.most_outstanding
        return (too_many or engine.waiting_bytes > MOST_BYTES) and self.session_id in engine.waiting

    @property
    def has_work(self) -> bool:
        """Whether the connection has requests to handle, and need not wait for the log."""
        return super().has_work and not self._is_attaching and not self._is_stalled

    @property
    def may_read(self) -> bool:
        """Whether the transport may receive more input."""
        if self._is_attaching:
            return not self.close_expected and not self.frozen and len(self.input) < _EARLY
        return super().may_read and not self._is_stalled

    @property
    def outstanding(self) -> int:
        """The number of requests that wait for a turn or for the log."""
        waiting = self.engine.waiting.get(self.session_id, ())
        return super().outstanding + sum(request.connection is self for request in waiting)


def attach_locally(connection: MemberConnection, request: ConnectRequest, flag: bytes) -> bool:
    """Attach a client to a new local session, or to a local session of this server, without asking another
    server.

    :param flag: the last byte of the answer; empty if the answer has no such byte.
    :returns: False if the client needs a global session.
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
                    # The log keeps the first timeout, and a new leader uses that one.
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
        """Make the engine of this server."""
        now = self.now_ms
        return MemberEngine(self.member, self.settings, now=now, epoch=epoch, random_bytes=random_bytes)

    @property
    def is_controlled(self) -> bool:
        """Whether a test controls any server of the ensemble over HTTP."""
        return self.member.ensemble.is_controlled

    @is_controlled.setter
    def is_controlled(self, value: bool) -> None:
        """Note that a test controls the servers over HTTP."""
        self.member.ensemble.is_controlled |= value

    @property
    def server_id(self) -> int:  # type: ignore[override]
        """The number of the server."""
        return self.member.number

    @property
    def mode(self) -> str:
        """The role of the server, for operators."""
        return self.member.role

    @property
    def serves(self) -> bool:
        """Whether clients are served."""
        return self.member.leader is not None or self.member.is_read_only

    @property
    def is_read_only(self) -> bool:
        """Whether the server serves only reads, because there is no leader."""
        return self.member.is_read_only

    def next_deadline(self) -> float:
        """Return the time at which to call :meth:`advance`, in monotonic seconds; infinity while frozen."""
        return math.inf if self.member.frozen else super().next_deadline()

    def advance(self, now: float, within: float = math.inf) -> None:
        """Do everything that is due, unless the server is frozen."""
        if not self.member.frozen:
            super().advance(now, within)


def most_outstanding(voters: int) -> int:
    """Return the largest number of waiting requests at a server. Above this number the server does not read
    from the clients that wait.

    :param voters: the number of voting servers.
    """
    return _OUTSTANDING // max(1, voters - 1)
