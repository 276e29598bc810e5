"""What a test can do to its server, as plain calls in the server's own thread.

Each control first lets the server handle what has reached it, and returns when its effects have been sent:
so a call comes after everything that a client had sent before it, and before everything sent later.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import trio

from ..core.engine import Engine
from ..core.sessions import Session
from ..core.watches import Notification
from ..net.connection import Connection
from ..net.service import Observer
from ..serve import Server
from .clock import JumpingClock, ServerClock
from .faults import Action, ErrorSpec, Fault, Faults, Run, When
from .history import Recorder
from .history_controls import HistoryControls
from .memory import MemoryStream
from .sessions import SessionInfo, SessionRef, UnknownSessionError, session_id_of
from .tree_controls import TreeControls

T = TypeVar("T")

_MEMORY_HOST = "127.0.0.1"  # what clients without a socket are said to come from


class Controls(TreeControls, HistoryControls, Observer):
    """A running server in a test's hands.

    :ivar clock: the server's time.
    :ivar run: how other threads get functions called in this one.
    """

    def __init__(self, server: Server, clock: JumpingClock, *, record: bool, history_limit: int) -> None:
        recorder = Recorder(server.service, clock.now, history_limit) if record else None
        super().__init__(server, clock, recorder)
        self._started = clock.now()
        self.clock = ServerClock(self.now, self.advance)
        self.thread = threading.get_ident()
        self.run: Run = _call
        self._paused = False
        self._held: dict[Connection, int] = {}  # by pause; 0, or the session that is paused
        self._cut_off: set[int] = set()  # sessions whose clients get through by no connection
        self._streams: dict[Connection, MemoryStream] = {}
        self._memory_ports = 0
        self._restarts = 0
        self._faults = Faults(
            self._service, self._recorder, self._settle, self._schedule, self._go_on, self._wire
        )
        if self._recorder is not None:
            self._recorder.attach(self._engine)
        self._wire()

    def _wire(self) -> None:
        """Stand only in those ways that are needed now."""
        handle = self._engine.handle if self._recorder is None else self._recorder.handle
        self._faults.inner = handle
        self._service.handle = self._faults.handle if self._faults.needed else handle
        listening = self._recorder is not None or self._paused or self._cut_off or self._streams
        self._service.observer = self if listening else None

    def _schedule(self, when: float, callback: Callable[[], object]) -> None:
        self._service.call_at(when, callback)
        self._jumping_clock.wake()

    def _settle(self, connection: Connection) -> None:
        """Send what a connection has said so far."""
        connection.wake()
        self._server.flush()
        stream = self._streams.get(connection)
        if stream is not None:
            stream.settle()

    def _go_on(self) -> None:
        """After a hold: send what waits, handle what came meanwhile."""
        self._server.flush()
        for stream in list(self._streams.values()):
            stream.pump()

    # --- what happens to connections ---------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        if self._recorder is not None:
            self._recorder.opened(connection)
        if self._paused:
            self._hold(connection)

    def asked(self, connection: Connection, session_id: int) -> None:
        if session_id in self._cut_off and self._engine.sessions.get(session_id) is not None:
            self._hold(connection, session_id)

    def attached(self, connection: Connection, resumed: bool) -> None:
        if self._recorder is not None:
            self._recorder.attached(connection, resumed)

    def event(self, connection: Connection, notification: Notification) -> None:
        if self._recorder is not None:
            self._recorder.event(connection, notification)

    def closed(self, connection: Connection, reason: str) -> None:
        self._held.pop(connection, None)
        self._streams.pop(connection, None)
        if self._recorder is not None:
            self._recorder.closed(connection, reason)

    # --- where it is -------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address that clients of this machine connect to."""
        host = self._server.address[0]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)

    @property
    def port(self) -> int:
        """The port that was asked for, or that the kernel chose."""
        return self._server.address[1]

    @property
    def hosts(self) -> str:
        """The connect string."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def secure_port(self) -> int | None:
        """The port for TLS clients, if ``secure_port`` and ``ssl_context`` were given."""
        address = self._server.secure_address
        return None if address is None else address[1]

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """A client's end of a new connection, without a socket."""
        self._memory_ports += 1
        peer = (_MEMORY_HOST, self._memory_ports)
        stream = MemoryStream(self._service, peer, self._jumping_clock.now, self._server.flush)
        if stream.connection is not None:
            self._streams[stream.connection] = stream
            self._wire()
        return stream

    # --- sessions ----------------------------------------------------------------------------------------

    def sessions(self) -> list[SessionInfo]:
        """Every live session, the oldest first."""
        self._server.receive()
        return [self._info(session) for session in self._engine.sessions]

    def _info(self, session: Session) -> SessionInfo:
        client = self._engine.client_of(session)
        peer = client.peer if isinstance(client, Connection) else None
        ephemerals = tuple(self._engine.tree.ephemerals.get(session.id, ()))
        watches = tuple(self._engine.watches.paths_of(client)) if client is not None else ()
        return SessionInfo(session.id, session.timeout, peer, ephemerals, watches)

    def _find(self, session: SessionRef) -> Session:
        session_id = session_id_of(session)
        self._server.receive()
        found = self._engine.sessions.get(session_id)
        if found is None:
            live = ", ".join(f"0x{s.id:x}" for s in self._engine.sessions) or "none"
            raise UnknownSessionError(f"there is no session 0x{session_id:x}; live sessions: {live}")
        return found

    def expire(self, session: SessionRef) -> None:
        """The server ends a session now, as if its time had run out.

        Its ephemerals go in one transaction, watches fire, its connection is closed without a word, and when
        its client reconnects it is told that the session is gone.

        :raises UnknownSessionError: if there is no such session.
        """
        found = self._find(session)
        self._note(f"expire 0x{found.id:x}", found.id)
        self._engine.expire(found, self._jumping_clock.now())
        self._server.flush()

    def disconnect(self, session: SessionRef) -> None:
        """Close a session's connection without a word; the session lives on, its watches do not.

        Does nothing if it is not connected. Raises :class:`UnknownSessionError`.
        """
        found = self._find(session)
        client = self._engine.client_of(found)
        if client is not None:
            self._note(f"disconnect 0x{found.id:x}", found.id)
            client.abort("the test has disconnected it")
            self._server.flush()

    def disconnect_all(self) -> None:
        """Close every connection without a word; the sessions live on."""
        self._server.receive()
        self._note("disconnect all")
        self._abort_all("the test has disconnected everybody")

    def _abort_all(self, reason: str) -> None:
        for connection in list(self._service.connections):
            connection.abort(reason)
        self._server.flush()

    def refuse_connections(self) -> None:
        """Close every new connection at once. Those that are there stay; see :meth:`disconnect_all`."""
        self._server.receive()
        self._note("refuse connections")
        self._service.refusing = True

    def accept_connections(self) -> None:
        """The end of :meth:`refuse_connections`."""
        self._server.receive()
        self._note("accept connections")
        self._service.refusing = False

    def pause(self, session: SessionRef | None = None) -> None:
        """Be a server that hangs: connections are accepted and bytes taken, but nothing is handled or
        answered, no event is sent, and nothing counts as a sign of life.

        The clock goes on, so sessions may expire meanwhile.

        :param session: cut off one client only, without its noticing: the connection that serves this session
            is paused, and so is every later one that asks for it, until :meth:`resume` or until the session
            is over. Raises :class:`UnknownSessionError`.
        """
        if session is not None:
            found = self._find(session)
            client = self._engine.client_of(found)
            self._note(f"pause 0x{found.id:x}", found.id)
            self._cut_off.add(found.id)
            self._wire()
            if isinstance(client, Connection):
                self._hold(client, found.id)
            return
        self._server.receive()
        self._note("pause")
        self._paused = True
        self._wire()
        for connection in list(self._service.connections):  # of which some may turn out to be gone
            self._hold(connection)

    def _hold(self, connection: Connection, session_id: int = 0) -> None:
        if connection not in self._held:
            self._settle(connection)
            if not connection.close_expected:
                self._held[connection] = session_id
                connection.hold()

    def resume(self, session: SessionRef | None = None) -> None:
        """The end of every :meth:`pause`: what has arrived meanwhile is handled now.

        :param session: let this one client through only. Does nothing if its session is not paused, or over.
        """
        if session is None:
            self._note("resume")
            self._paused = False
            self._cut_off.clear()
        else:
            session_id = session_id_of(session)
            self._note(f"resume 0x{session_id:x}", session_id)
            self._cut_off.discard(session_id)
        now = self._jumping_clock.now()
        for connection, held_for in list(self._held.items()):
            if self._paused or held_for in self._cut_off:
                continue
            if self._held.pop(connection, None) is not None:  # one that was released may have closed it
                connection.release(now)
        self._wire()
        self._go_on()
        self._server.receive()

    # --- time --------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds on the server's clock since it was started."""
        return self._jumping_clock.now() - self._started

    def advance(self, seconds: float, keep_alive: bool = False) -> None:
        """See :meth:`.clock.ServerClock.advance`."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"time can be advanced by a number of seconds of at least 0, not {seconds}")
        self._server.receive()  # what arrived before the jump has happened before it
        self._note(f"clock advanced by {seconds:g} s" + (", clients kept alive" if keep_alive else ""))
        clock = self._jumping_clock
        until = clock.now() + seconds
        while keep_alive:
            due = min(max(self._service.next_deadline(), clock.now()), until)
            for session in self._engine.sessions:
                client = self._engine.client_of(session)
                if isinstance(client, Connection) and client not in self._held:
                    self._engine.sessions.touch(session, due)
            clock.jump(max(0.0, due - clock.now()))
            self._server.advance(clock.now())
            if due >= until:
                break
        clock.jump(max(0.0, until - clock.now()))
        self._server.advance(clock.now())
        clock.wake()  # deadlines are nearer than was thought

    # --- faults ------------------------------------------------------------------------------------------

    def fault(
        self,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
        nth: int = 1,
        times: int | None = 1,
        when: When = "before",
        action: Action = "disconnect",
        error: ErrorSpec | None = None,
        seconds: float | None = None,
        required: bool = True,
    ) -> Fault:
        """Plan what goes wrong with certain requests; a context manager, in force inside its ``with``.

        :param op: the operation, such as ``"create"`` (every kind of create), ``"get_data"``, ``"multi"``; or
            several. None is any but ping.
        :param path: a glob for the path in the request, in which ``*`` is any text without a slash and ``**``
            any text. A sequential create is asked for without its number. A multi matches by each path in it.
        :param session: only requests of this session.
        :param nth: the first matching request to spoil, from 1.
        :param times: how many from there on; None is all.
        :param when: ``"before"`` the request is applied, and instead of that; or ``"after"``.
        :param action: ``"disconnect"``: the connection is cut without a reply. ``"drop_reply"``: no reply,
            and the connection stays open but hears and says nothing any more. ``"error"``: answered with
            ``error``. ``"delay"``: for ``seconds`` nothing on this connection is handled (before) or sent
            (after).
        :param error: a class of :mod:`pyzk.protocol.errors`, or a code.
        :param seconds: on the server's clock.
        :param required: whether leaving the ``with`` raises :class:`.faults.FaultNeverFired` where it never
            fired.
        :raises ValueError: for an unknown operation or a combination that makes no sense.
        :raises UnknownSessionError: if there is no such session.
        """
        return Fault(
            self._faults,
            op=op,
            path=path,
            session=None if session is None else self._find(session).id,
            nth=nth,
            times=times,
            when=when,
            action=action,
            error=error,
            seconds=seconds,
            required=required,
            run=self.run,
        )

    # --- restart -----------------------------------------------------------------------------------------

    def restart(self, *, keep_data: bool) -> None:
        """What clients see of a restart: every connection is closed, and the server is there again.

        Pauses and refusals end with it; faults and the history go on.

        :param keep_data: whether tree and sessions survive, as they do with a real server that has its data
            on disk; sessions then have their whole timeout again. Otherwise the server is empty, and clients
            are told that their sessions are gone.
        """
        self._server.receive()
        self._note(f"restart, data {'kept' if keep_data else 'lost'}")
        self._abort_all("the server restarts")
        self._service.refusing = False
        self._paused = False
        self._cut_off.clear()
        now = self._jumping_clock.now()
        if keep_data:
            for session in self._engine.sessions:
                self._engine.sessions.touch(session, now)
            self._engine.stats.reset()
        else:
            self._replace_engine(now)
        self._wire()
        self._jumping_clock.wake()

    def _replace_engine(self, now: float) -> None:
        before = self._engine
        self._restarts += 1
        # Session ids are made of the time, which may not have moved since the last start.
        epoch = before.wall_clock(now) + self._restarts
        engine = Engine(self._service.settings, now=now, epoch=epoch)
        engine.epoch_offset = before.epoch_offset
        # A client that has seen a later zxid would be dropped without a word (wire.md, trap 17).
        engine.zxid = before.zxid
        before.on_txn = None
        self._service.engine = engine
        if self._recorder is not None:
            self._recorder.attach(engine)

    # --- leaks -------------------------------------------------------------------------------------------

    def leaks(self) -> list[str]:
        """What clients have left behind: a line for each session that is still there, with its ephemerals
        and the watches that have not fired. Empty if every client has closed its session."""
        lines = []
        for session in self.sessions():
            state = "is still connected" if session.connected else "was never closed"
            line = f"session 0x{session.id:x} {state}"
            if session.ephemerals:
                line += f"; ephemerals left: {', '.join(session.ephemerals)}"
            if session.watches:
                line += f"; watches not fired: {', '.join(session.watches)}"
            lines.append(line)
        return lines


def _call(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)
