"""The controls of sessions, and of the connections that serve them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from ....protocol.text import printable, session_text
from ...core.sessions import Session
from ...net.connection import Connection
from ..finding import find
from ..origin import mark
from ..running import Running
from ..sessions import SessionInfo, SessionRef
from .base import ServerBase, control

_ENTRY = 50
"""The number of bytes that are counted for each path in addition to its length."""
MOST_PATHS = 2**18
"""The largest number of bytes of the ephemerals' paths of one session in an answer over HTTP. The limit for
the watched paths is the same."""
_SHOWN = 20
"""For a leaked session, at most this number of ephemerals and this number of watches are shown."""


class SessionControls(ServerBase):
    """The controls of sessions and connections."""

    @control
    def sessions(self) -> list[SessionInfo]:
        """List the live sessions, the oldest first."""
        return [self._info(session) for session in self.running.engine.sessions]

    def _info(self, session: Session) -> SessionInfo:
        return info_of(self.running, session)

    @control
    def expire(self, session: SessionRef) -> None:
        """End a session now, as if its timeout had passed.

        The server deletes the session's ephemerals in one transaction, fires their watches, and closes the
        session's connection without a reply. When the client reconnects, the server answers that the session
        has expired.

        :raises UnknownSessionError: there is no such session.
        """
        found = self._find(session)
        self._enter(f"expire {session_text(found.id)}", found.id)
        self.running.engine.expire(found, self.running.service.at(self.running.clock.now()))

    @control
    def disconnect(self, session: SessionRef) -> None:
        """Close a session's connection without a reply. The session stays alive; its watches are lost.

        Does nothing if the session is not connected.

        :raises UnknownSessionError: there is no such session.
        """
        found = self._find(session)
        client = self.running.engine.client_of(found)
        if client is not None:
            self._enter(f"disconnect {session_text(found.id)}", found.id)
            client.abort(f"a control has disconnected it{mark()}")

    @control
    def ghost(self, session: SessionRef, *, swap: bool = False) -> None:
        """Make a session a ghost: its client is disconnected, and must then begin a new session.

        The server keeps the old session and its ephemerals until its timeout. The same happens to a program
        that restarts, or that loses the password of its session: the ephemerals of the old session block the
        new ephemerals, and disappear later.

        :param swap: whether to give a new session to the client that asks for its old session, as ClickHouse
            Keeper does. A client that does not compare the ids believes that it has its old session.
        :raises UnknownSessionError: there is no such session.
        """
        found = self._find(session)
        self._enter(f"ghost {session_text(found.id)}{' swapped' if swap else ''}", found.id)
        gate = self.running.gate
        (gate.swapped if swap else gate.ghosts).add(found.id)
        gate.update()
        client = self.running.engine.client_of(found)
        if client is not None:
            client.abort(f"a control has made its session a ghost{mark()}")

    @control
    def disconnect_all(self) -> None:
        """Close every connection without a reply. The sessions stay alive."""
        self._enter("disconnect all")
        self._abort_all(f"a control has disconnected everybody{mark()}")

    def _abort_all(self, reason: str) -> None:
        for connection in list(self.running.service.connections):
            connection.abort(reason)

    @control
    def refuse_connections(self) -> None:
        """Close every new connection at once. Open connections stay open: see :meth:`disconnect_all`."""
        self._enter("refuse connections")
        self.running.service.refusing = True

    @control
    def accept_connections(self) -> None:
        """End :meth:`refuse_connections`."""
        self._enter("accept connections")
        self.running.service.refusing = False

    @control
    def pause(self, session: SessionRef | None = None) -> None:
        """Let the server hang. It still accepts connections and bytes, but handles no request and sends
        nothing.

        The clock keeps running, and pings do not count, so sessions may expire meanwhile.

        :param session: pause only the connection of this session, and every later connection that asks for
            this session, until :meth:`resume` or the end of the session. The client does not notice the pause
            at once. None pauses all connections.
        :raises UnknownSessionError: there is no such session.
        """
        if session is None:
            self._enter("pause")
            self.running.gate.pause()
        else:
            found = self._find(session)
            self._enter(f"pause {session_text(found.id)}", found.id)
            self.running.gate.pause(found.id)

    @control
    def resume(self, session: SessionRef | None = None) -> None:
        """End every :meth:`pause`, and handle the requests that arrived meanwhile.

        :param session: end only the pause of this session. The call does nothing if the session is not paused
            or is over.
        """
        if session is None:
            self._enter("resume")
            self.running.gate.resume()
        else:
            session_id = find((self.running,), session)
            self._enter(f"resume {session_text(session_id)}", session_id)
            self.running.gate.resume(session_id)
        self.running.server.receive()

    @control
    def name_session(
        self, name: str, session: SessionRef | None = None, *, address: str | None = None
    ) -> None:
        """Give a session a name. Timelines then show this name.

        :param session: a live session; None names the next new session.
        :param address: name the next new session from this address, such as ``"127.0.0.1"`` or
            ``"127.0.0.1:40000"``.
        :raises ValueError: the name is malformed, or there are too many names.
        :raises UnknownSessionError: there is no such session.
        """
        running = self.running
        if session is not None:
            running.names.give(self._find(session).id, name)
            running.gate.happened()  # a test may wait for a session with this name
        else:
            running.expect_name(name, address)

    # --- leaks -------------------------------------------------------------------------------------------

    @control
    def leaks(self) -> list[str]:
        """Describe the sessions that clients have not closed.

        Each line is for a session, with its ephemerals and the watches that have not fired.
        """
        return [leak_of(self.running, session) for session in self.running.engine.sessions]


def info_of(
    running: Running, session: Session, size: int | None = None, others: Iterable[Running] = ()
) -> SessionInfo:
    """Return a session's :class:`SessionInfo`.

    :param size: the approximate largest number of bytes of the ephemerals' paths, and of the watched paths.
        Only the first paths are returned. None means that all paths are returned.
    :param others: the other servers of the ensemble, because the client may be connected to one of
        them.
    """
    at, client = client_of(running, session, others)
    peer = client.peer if isinstance(client, Connection) else None
    ephemerals = _cut(running.engine.tree.ephemerals.get(session.id, ()), size)
    watches = _cut(at.engine.watches.watchers.get(client, ()), size) if client is not None else ()
    server = at.service.server_id if peer is not None else 0
    return SessionInfo(session.id, session.timeout, peer, ephemerals, watches, server)


def client_of(running: Running, session: Session, others: Iterable[Running]) -> tuple[Running, Any]:
    """Return the connection of a session, and the server that has this connection.

    :param others: the other servers of the ensemble, which are searched if the first server has no
        connection.
    """
    client = running.engine.client_of(session)
    if isinstance(client, Connection):
        return running, client
    for other in others:
        known = other.engine.sessions.get(session.id)
        found = None if known is None else other.engine.client_of(known)
        if isinstance(found, Connection):
            return other, found
    return running, client


def _cut(paths: Iterable[str], size: int | None) -> tuple[str, ...]:
    """Return the first paths, until they have ``size`` bytes or more together."""
    if size is None:
        return tuple(paths)
    found = []
    for path in paths:
        if size <= 0:
            break
        found.append(path)
        size -= _ENTRY + len(path)
    return tuple(found)


def leak_of(running: Running, session: Session, others: Iterable[Running] = ()) -> str:
    """Describe a session that a client has not closed. The cost does not grow with the znodes and the watches
    of the session.

    :param others: the other servers of the ensemble, because the client may be connected to one of
        them.
    """
    at, client = client_of(running, session, others)
    ephemerals: Collection[str] = running.engine.tree.ephemerals.get(session.id, {})
    watches: Collection[str] = at.engine.watches.watchers.get(client, {}) if client is not None else ()
    state = "is still connected" if isinstance(client, Connection) else "was never closed"
    line = f"session {session_text(session.id)} {state}"
    if ephemerals:
        line += f"; ephemerals left: {_first(ephemerals)}"
    if watches:
        line += f"; watches not fired: {_first(watches)}"
    return printable(line)


def _first(paths: Collection[str]) -> str:
    more = len(paths) - _SHOWN
    return ", ".join(islice(paths, _SHOWN)) + (f", and {more:,} more" if more > 0 else "")
