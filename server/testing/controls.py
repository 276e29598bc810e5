"""The controls of a server in a test: one class, whose methods may be called from any thread.

Each control is called in the server's thread. It first lets the server handle what has reached it, and
returns when its effects have been sent: so it comes after everything that a client had sent before it, and
before everything sent later. The decorator ``_control`` does all of that.
"""

from __future__ import annotations

import functools
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from ..core.engine import Engine
from ..core.sessions import Session
from ..net.connection import Connection
from . import contents
from .clock import ServerClock
from .contents import Node
from .describe import some
from .faults import Action, ErrorSpec, Fault, When
from .history import Entry, EntryKind, select
from .holding import MESSAGE_KINDS, HeldMessage, MessageKind
from .operations import Selection
from .running import Running
from .sessions import SessionInfo, SessionRef, UnknownSessionError, session_id_of
from .snapshots import Snapshot
from .timeline import format_timeline

if TYPE_CHECKING:
    from .advisor.finding import Finding
    from .chaos import Chaos
    from .ensemble import EnsembleControls

P = ParamSpec("P")
T = TypeVar("T")


FURTHEST = 1_000_000_000
"""Seconds that time may jump ahead at once, 30 years: the times of znodes are numbers of 64 bits."""


def _control(method: Callable[Concatenate[Controls, P], T]) -> Callable[Concatenate[Controls, P], T]:
    """Make a method a control, by the rules at the head of this module."""

    @functools.wraps(method)
    def call(self: Controls, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def act() -> T:
            server = self.running.server
            server.receive()
            try:
                return method(self, *args, **kwargs)
            finally:
                server.flush()

        return self.run(act)

    return call


class Controls(ABC):
    """A running server in a test's hands.

    :ivar clock: the server's time.
    """

    @property
    def ensemble(self) -> EnsembleControls | None:
        """The controls of all servers, if this is one of an ensemble."""
        return None

    def __init__(self) -> None:
        self.clock = ServerClock(self._now, self._advance, self._freeze, self._is_frozen)

    @property
    @abstractmethod
    def running(self) -> Running:
        """The parts of the server."""

    @abstractmethod
    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the server's thread."""

    # --- where it is -------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address for clients on this machine."""
        return self.running.server.host

    @property
    def port(self) -> int:
        """The port that was asked for, or that the kernel chose."""
        return self.running.server.address[1]

    @property
    def hosts(self) -> str:
        """The connect string."""
        return self.running.server.hosts

    @property
    def url(self) -> str | None:
        """Where the server answers HTTP: ``http://127.0.0.1:PORT/``; None with
        ``http_on_client_port=False``."""
        return self.running.server.url

    @property
    def secure_port(self) -> int | None:
        """The port for TLS clients, if ``secure_port`` and ``ssl_context`` were given."""
        address = self.running.server.secure_address
        return None if address is None else address[1]

    # --- sessions ----------------------------------------------------------------------------------------

    @_control
    def sessions(self) -> list[SessionInfo]:
        """List the live sessions, the oldest first."""
        return [self._info(session) for session in self.running.engine.sessions]

    def _info(self, session: Session) -> SessionInfo:
        client = self.running.engine.client_of(session)
        peer = client.peer if isinstance(client, Connection) else None
        ephemerals = tuple(self.running.engine.tree.ephemerals.get(session.id, ()))
        watches = tuple(self.running.engine.watches.paths_of(client)) if client is not None else ()
        return SessionInfo(session.id, session.timeout, peer, ephemerals, watches)

    def _find(self, session: SessionRef) -> Session:
        session_id = session_id_of(session)
        found = self.running.engine.sessions.get(session_id)
        if found is None:
            live = ", ".join(f"0x{s.id:x}" for s in self.running.engine.sessions) or "none"
            raise UnknownSessionError(f"there is no session 0x{session_id:x}; live sessions: {live}")
        return found

    @_control
    def expire(self, session: SessionRef) -> None:
        """End a session now, as if its timeout had passed.

        Its ephemerals go in one transaction, watches fire, its connection is closed without a word, and when
        its client reconnects it is told that the session is gone.

        :raises UnknownSessionError: if there is no such session.
        """
        found = self._find(session)
        self.running.enter(f"expire 0x{found.id:x}", found.id)
        self.running.engine.expire(found, self.running.service.at(self.running.clock.now()))

    @_control
    def disconnect(self, session: SessionRef) -> None:
        """Close a session's connection without a reply. The session lives on, its watches do not.

        Does nothing if the session is not connected.

        :raises UnknownSessionError: if there is no such session.
        """
        found = self._find(session)
        client = self.running.engine.client_of(found)
        if client is not None:
            self.running.enter(f"disconnect 0x{found.id:x}", found.id)
            client.abort("the test has disconnected it")

    @_control
    def disconnect_all(self) -> None:
        """Close every connection without a reply; the sessions live on."""
        self.running.enter("disconnect all")
        self._abort_all("the test has disconnected everybody")

    def _abort_all(self, reason: str) -> None:
        for connection in list(self.running.service.connections):
            connection.abort(reason)

    @_control
    def refuse_connections(self) -> None:
        """Close every new connection at once. Those that exist stay open; see :meth:`disconnect_all`."""
        self.running.enter("refuse connections")
        self.running.service.refusing = True

    @_control
    def accept_connections(self) -> None:
        """End :meth:`refuse_connections`."""
        self.running.enter("accept connections")
        self.running.service.refusing = False

    @_control
    def pause(self, session: SessionRef | None = None) -> None:
        """Hang: accept connections and take bytes, but handle and answer nothing and send no event.

        Nothing that clients send counts as a sign of life.

        The clock goes on, so sessions may expire meanwhile.

        :param session: cut off one client only, without its noticing: the connection that serves this session
            is paused, and so is every later one that asks for it, until :meth:`resume` or until the session
            is over.
        :raises UnknownSessionError: there is no such session.
        """
        if session is None:
            self.running.enter("pause")
            self.running.gate.pause()
        else:
            found = self._find(session)
            self.running.enter(f"pause 0x{found.id:x}", found.id)
            self.running.gate.pause(found.id)

    @_control
    def resume(self, session: SessionRef | None = None) -> None:
        """End every :meth:`pause`, and handle what has arrived meanwhile.

        :param session: let this one client through only. Does nothing if its session is not paused, or over.
        """
        if session is None:
            self.running.enter("resume")
            self.running.gate.resume()
        else:
            session_id = session_id_of(session)
            self.running.enter(f"resume 0x{session_id:x}", session_id)
            self.running.gate.resume(session_id)
        self.running.server.receive()

    # --- time --------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self.run(lambda: self.running.clock.now() - self.running.started)

    @_control
    def _advance(self, seconds: float, keep_alive: bool) -> None:
        if not 0 <= seconds <= FURTHEST:
            raise ValueError(f"time advances by at most {FURTHEST:,} s and at least 0, not {seconds}")
        running = self.running
        running.enter(f"clock advanced by {seconds:g} s" + (", clients kept alive" if keep_alive else ""))
        server, engine, clock = running.server, running.engine, running.clock
        until = clock.now() + seconds
        while keep_alive:
            due = min(max(running.service.next_deadline(), clock.now()), until)
            for session in engine.sessions:
                client = engine.client_of(session)
                if isinstance(client, Connection) and not running.gate.is_paused(client):
                    engine.sessions.touch(session, running.service.at(due))
            clock.jump(max(0.0, due - clock.now()))
            server.advance(clock.now())
            if due >= until:
                break
        clock.jump(max(0.0, until - clock.now()))
        server.advance(clock.now())
        clock.wake()  # deadlines are nearer than was thought

    @_control
    def _freeze(self, frozen: bool) -> None:
        self.running.enter(f"clock {'frozen' if frozen else 'running'}")
        self.running.clock.freeze(frozen)

    def _is_frozen(self) -> bool:
        return self.run(lambda: self.running.clock.frozen)

    # --- faults ------------------------------------------------------------------------------------------

    @_control
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
        """Spoil certain requests; a context manager, in force inside its ``with``.

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
            (after). ``"expire"``: the session ends, without a reply.
        :param error: a class of :mod:`pyzk.protocol.errors`, or a code.
        :param seconds: on the server's clock.
        :param required: whether leaving the ``with`` raises :class:`.faults.FaultNeverFired` where it never
            fired.
        :raises ValueError: for an unknown operation or a combination that makes no sense.
        :raises UnknownSessionError: if there is no such session.
        """
        return Fault(
            self.running.gate,
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

    @_control
    def chaos(
        self,
        seed: int,
        *,
        disconnect: float = 0.0,
        lose_reply: float = 0.0,
        silence: float = 0.0,
        delay_request: float = 0.0,
        delay_reply: float = 0.0,
        expire: float = 0.0,
        delay_event: float = 0.0,
        refuse: float = 0.0,
        lose_session: float = 0.0,
        longest: float = 0.1,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
    ) -> Chaos:
        """Spoil messages by chance from now on, until ``end()`` of the result, which is a context manager,
        too. The same seed and the same requests give the same faults; :mod:`.chaos` has the rules.

        :param seed: from which all is drawn.
        :param disconnect: the probability that a request is lost, and its connection cut.
        :param lose_reply: that it is applied, and the connection cut before its reply.
        :param silence: that it is applied, and its connection hears and says nothing from then on.
        :param delay_request: that it is handled later, and what comes behind it.
        :param delay_reply: that it is answered later.
        :param expire: that it is lost, and its session ends.
        :param delay_event: the probability that a watch event is sent later, and what comes behind it.
        :param refuse: that a handshake is lost, and its connection cut.
        :param lose_session: that a session is granted, or resumed, and the connection cut before the answer.
        :param longest: seconds on the server's clock that a delay takes at most.
        :param op: only requests of these operations, as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`: only requests and events with such a path, no handshakes.
        :param session: only messages of this session.
        :raises ValueError: for a probability that is not from 0 to 1, if there is none above 0, or for an
            unknown operation.
        :raises UnknownSessionError: if there is no such session.
        """
        from .chaos import Chaos

        running = self.running
        probabilities = {
            "disconnect": disconnect,
            "lose_reply": lose_reply,
            "silence": silence,
            "delay_request": delay_request,
            "delay_reply": delay_reply,
            "expire": expire,
            "delay_event": delay_event,
            "refuse": refuse,
            "lose_session": lose_session,
        }
        chaos = Chaos(
            seed,
            probabilities,
            longest=longest,
            selection=Selection.of(op, path, None if session is None else self._find(session).id),
            names=running.names,
            sessions=[each.id for each in running.engine.sessions],
            gate=running.gate,
            run=self.run,
        )
        running.enter(f"chaos {seed}: {', '.join(f'{n}={p:g}' for n, p in chaos.probabilities.items())}")
        running.gate.add_spoiler(chaos)
        return chaos

    # --- holding messages --------------------------------------------------------------------------------

    @_control
    def hold(
        self,
        kind: MessageKind = "request",
        *,
        op: str | Iterable[str] | None = None,
        path: str | None = None,
        session: SessionRef | None = None,
        times: int | None = None,
        seconds: float | None = None,
    ) -> int:
        """Hold messages back from now on, as a slow network does, until they are released or lost.

        Later messages of the same connection wait behind a held request or reply, pings excepted:
        clients count on that order. Messages of a connection that ends are gone.

        :param kind: ``"request"``: it has not arrived yet. ``"reply"``: the request was handled, the reply is
            not sent yet. ``"event"``: a watch has fired, the event is not sent yet. ``"handshake"``: a client
            asks for a session, and is not answered yet.
        :param op: for requests and replies: as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`; for events the path of the event.
        :param session: only messages of this session.
        :param times: how many messages are held at most; None is all.
        :param seconds: for how long each is held, on the server's clock; None is until it is released.
        :returns: the number of this hold, for :meth:`stop_holding`.
        :raises ValueError: for an unknown kind or operation, a number out of range, or a filter that makes no
            sense for this kind.
        :raises UnknownSessionError: if there is no such session.
        """
        if kind not in MESSAGE_KINDS:
            raise ValueError(f"kind is one of {', '.join(MESSAGE_KINDS)}, not {kind!r}")
        if op is not None and kind not in ("request", "reply"):
            raise ValueError(f"op= selects requests and replies; leave it out for kind={kind!r}")
        if path is not None and kind == "handshake":
            raise ValueError("a handshake has no path; leave path= out, or name its session")
        if times is not None and times < 1:
            raise ValueError(f"times counts from 1, not {times}")
        if seconds is not None and not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be a number of at least 0, not {seconds}")
        session_id = None if session is None else self._find(session).id
        selection = Selection.of(op, path, session_id)
        number = self.running.gate.hold(kind, selection, times, seconds)
        self.running.enter(f"hold {number}: each {kind}", session_id or 0)
        return number

    @_control
    def holds(self) -> list[int]:
        """List the numbers of the holds in force."""
        return self.running.gate.holds()

    @_control
    def held(self) -> list[HeldMessage]:
        """List the messages that are held now, the oldest first."""
        return self.running.gate.held()

    @_control
    def release(self, *numbers: int) -> None:
        """Let held messages go on, in the order given: another order than theirs is how a test reorders.

        Each is followed by those that only waited behind it.

        :param numbers: of messages from :meth:`held`; without any, all of them, the oldest first.
        :raises ValueError: for a number that is not held; then nothing is released.
        """
        gate = self.running.gate
        self.running.enter(f"release {', '.join(map(str, numbers)) or 'everything'}")
        gate.release(numbers or [message.number for message in gate.held()])

    @_control
    def lose(self, *numbers: int) -> None:
        """Throw held messages away, as if the network had lost them; what waited behind them goes on.

        A lost handshake leaves its connection without an answer for ever.

        :param numbers: of messages from :meth:`held`.
        :raises ValueError: for a number that is not held; then nothing is lost.
        """
        self.running.gate.lose(numbers)

    @_control
    def stop_holding(self, hold: int | None = None) -> None:
        """End a hold, and release what it holds; without a number, do so with every hold.

        :raises ValueError: for a number that is no hold's.
        """
        gate = self.running.gate
        for number in gate.holds() if hold is None else [hold]:
            self.running.enter(f"stop hold {number}")
            gate.stop_holding(number)

    # --- restart -----------------------------------------------------------------------------------------

    @_control
    def restart(self, *, keep_data: bool) -> None:
        """Restart, as clients see it: every connection is closed, and the server is there again.

        Pauses and refusals end with it; faults and the history go on.

        :param keep_data: whether tree and sessions survive, as they do with a real server that has its data
            on disk; sessions then have their whole timeout again. Otherwise the server is empty, and clients
            are told that their sessions are gone.
        """
        self.running.enter(f"restart, data {'kept' if keep_data else 'lost'}")
        self._abort_all("the server restarts")
        running = self.running
        running.service.refusing = False
        running.gate.resume()
        now = running.clock.now()
        if keep_data:
            for session in running.engine.sessions:
                running.engine.sessions.touch(session, running.service.at(now))
            running.engine.stats.reset()
        else:
            running.replace_engine(now)
        running.clock.wake()

    @_control
    def reset(self) -> None:
        """Be as a fresh server, at the same port: no znodes, sessions, connections, faults, holds, pauses,
        names of sessions and history; time counts from 0."""
        self._abort_all("the test resets the server")
        self.running.reset()
        self.running.clock.wake()

    # --- names -------------------------------------------------------------------------------------------

    @_control
    def name_session(
        self, name: str, session: SessionRef | None = None, *, address: str | None = None
    ) -> None:
        """Give a session a name, by which timelines call it.

        :param session: one that lives; without it, the next new one.
        :param address: for the next new session that comes from here: ``"127.0.0.1"``, or with a port.
        :raises ValueError: if this is no name, or there are too many.
        :raises UnknownSessionError: if there is no such session.
        """
        running = self.running
        if session is not None:
            running.names.give(self._find(session).id, name)
        else:
            running.names.expect(name, address)
            running.observe(running.names)

    # --- leaks -------------------------------------------------------------------------------------------

    @_control
    def leaks(self) -> list[str]:
        """Describe the sessions that clients have not closed: a line for each, with its ephemerals and the
        watches that have not fired."""
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

    # --- advice ------------------------------------------------------------------------------------------

    @_control
    def advice(self) -> list[Finding]:
        """List what clients do wrong and how to do it right, as far as the history shows it: docs/advisor.md.

        Nothing is looked at before the first call. A later call adds what has happened since; entries that
        the history has lost between the calls are not looked at. Empty with ``record=False``.
        """
        return self.running.advice()

    # --- the tree ----

    @_control
    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes, parents included, or replace the data of those that exist; watches fire.

        :param tree: a nested dict by name, or a flat one by path, or a mixture. Data is bytes, str (UTF-8) or
            None; a :class:`.contents.Node` says more.
        :raises ZooKeeperError: what a client would have been answered; then nothing is loaded.
        :raises ValueError: for an ephemeral without a live owner, or a znode that is there as another kind.
        """
        flat = contents.flatten(tree)
        self.running.enter(f"load {some(list(tree))}")
        contents.load(self.writer(), flat, self.running.service.at(self.running.clock.now()))

    def writer(self) -> Engine:
        """Return the engine that takes writes."""
        return self.running.engine

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """Return the znodes at and below ``path``, without the server's own. :meth:`load` takes each form.

        :param form: ``"flat"``: path to data. ``"nodes"``: path to :class:`.contents.Node`, with ACL and
            kind. ``"nested"``: dicts by name, data at the leaves.
        :raises ValueError: for another form.
        """
        if form not in ("flat", "nested", "nodes"):
            raise ValueError(f"form is 'flat', 'nested' or 'nodes', not {form!r}")
        nodes = self._nodes(path)
        if form == "nodes":
            return nodes
        if form == "nested":
            return contents.nested(nodes)
        return {path: node.data for path, node in nodes.items()}

    @_control
    def _nodes(self, path: str = "/") -> dict[str, Node]:
        return contents.read(self.running.engine.tree, path)

    def assert_tree(self, expected: Mapping[str, Any], path: str = "/") -> None:
        """Compare the tree at and below ``path`` with what it should be.

        :param expected: as for :meth:`load`, where ``...`` is a znode with any data, and so is a parent of
            which nothing else is said. Of a plain value only the data is compared, of a
            :class:`.contents.Node` the kind and ACL too.
        :raises AssertionError: with a line for each znode that differs.
        """
        flat = contents.flatten(expected, path)
        actual = contents.read(self.running.engine.tree, path)
        if path != "/":
            flat.setdefault(path, ...)
        lines = contents.differences(flat, actual)
        if lines:
            head = f"the tree is not as expected (- missing, + not expected, ! different), below {path}:"
            raise AssertionError("\n".join([head, *(f"  {line}" for line in lines)]))

    def format_tree(self) -> str:
        """Show the tree as indented text."""
        return contents.format_tree(self._nodes())

    @_control
    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write tree and sessions into a data directory that holds no data yet, as a snapshot of Apache
        ZooKeeper: a real server starts from it, and so does ours with ``data=``.

        :returns: the snapshot.
        :raises StorageError: if that is impossible.
        """
        from ..storage.snapshots import export

        return export(self.running.engine, path)

    @_control
    def snapshot(self) -> Snapshot:
        """Take a copy of the whole tree."""
        return Snapshot.of(self.running.engine)

    @_control
    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a copy of a tree, of this server or of another.

        It takes one zxid, so clients see no time running backwards; watches fire for what differs; sessions
        stay, and ephemerals of those that are over do not come back.
        """
        self.running.enter(f"restore {snapshot!r}")
        snapshot.restore(self.writer())

    # --- the history ----

    @_control
    def history(
        self,
        *,
        session: SessionRef | None = None,
        kind: EntryKind | Iterable[EntryKind] | None = None,
        op: str | None = None,
        path: str | None = None,
        since: float = 0.0,
    ) -> list[Entry]:
        """List what has happened, the oldest first; empty with ``record=False``. All conditions must be met.

        :param session: a session that need not be alive any more.
        :param kind: one or several kinds; see :class:`.history.Entry`.
        :param op: as for :meth:`fault`.
        :param path: a glob, as for :meth:`fault`.
        :param since: seconds on the server's clock since its start.
        :raises ValueError: for an unknown kind or operation.
        """
        recorder = self.running.recorder
        entries = () if recorder is None else recorder.entries()
        return select(entries, session=session, kind=kind, op=op, path=path, since=since)

    @_control
    def note(self, text: str) -> None:
        """Write a line into the history, as a mark in the timeline."""
        self.running.enter(text, kind="note")

    @_control
    def format_timeline(
        self,
        *,
        sessions: Iterable[SessionRef] | None = None,
        pings: bool = False,
        width: int = 120,
        limit: int | None = None,
        since: float = 0.0,
    ) -> str:
        """Show the history as text, one column for each session.

        :param sessions: those that get a column; all by default.
        :param pings: whether pings are shown.
        :param width: in characters.
        :param limit: at most so many lines, the last ones.
        :param since: seconds on the server's clock since its start.
        """
        recorder = self.running.recorder
        if recorder is None or not self.running.records:
            return "Nothing was recorded: record=False."
        title = "Timeline of {}:{}".format(*self.running.server.address)
        if recorder.dropped:
            title += f"; the oldest {recorder.dropped:,} entries are gone"
        return format_timeline(
            self.history(since=since),
            title=title,
            zxid_base=recorder.zxid_base,
            named=self.running.names.all,
            sessions=None if sessions is None else [session_id_of(session) for session in sessions],
            pings=pings,
            width=width,
            limit=limit,
        )
