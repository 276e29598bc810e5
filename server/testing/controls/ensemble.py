"""The controls of a pretend ensemble as a whole, and those of each of its servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
import trio

from ....protocol.control_verbs import ServerRef
from ....protocol.text import session_text
from ...core.engine import Engine
from ...ensemble.errors import EnsembleError
from ...net.clock import Clock
from .. import contents
from ..origin import mark
from ..running import Running
from ..sessions import SessionInfo, SessionRef, UnknownSessionError, session_id_of
from ..snapshots import Snapshot
from .base import control, control_verb, verb
from .history import HistoryControls
from .server import Controls
from .servers import ServersControls
from .sessions import leak_text

T = TypeVar("T")


class EnsembleControls(ServersControls, HistoryControls):
    """A pretend ensemble in a test's hands.

    :ivar clock: the time of all servers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[int, MemberControls] = {}

    # --- the servers -------------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The connect string, with all servers."""
        return self.running.host.hosts

    @property
    def url(self) -> str | None:
        """Where a server that runs answers HTTP, for all of them; None with ``http_on_client_port=False``."""
        return self.running.host.url

    @property
    def numbers(self) -> list[int]:
        """The numbers of all servers."""
        return list(self.running.parts)

    def __getitem__(self, server: ServerRef) -> MemberControls:
        """Return the controls of one server: faults, holds, pauses, its own connect string ...

        :raises ValueError: if there is no such server.
        """
        number = self._member(server).number
        if number not in self._members:
            self._members[number] = MemberControls(self, number)
        return self._members[number]

    def __iter__(self) -> Iterator[MemberControls]:
        return iter([self[number] for number in self.numbers])

    def __len__(self) -> int:
        return len(self.running.parts)

    # --- questions ---------------------------------------------------------------------------------------

    @control
    def leader(self) -> int | None:
        """Return the number of the server that leads; None while there is none. Of two, the later."""
        leaders = self._ensemble.leaders()
        return leaders[0].member.number if leaders else None

    @control
    def role(self, server: ServerRef) -> str:
        """Return ``leader``, ``follower`` or ``observer``; ``looking`` or ``read-only`` without a leader,
        ``down`` after kill."""
        return self._member(server).role

    @control
    def applied(self, server: ServerRef) -> int:
        """Return the last zxid that a server has applied: what its reads show."""
        return self._member(server).engine.zxid

    @control
    def troubles(self, server: ServerRef) -> list[str]:
        """List what a test has done to a server and not ended: ``lags``, ``cut off``, ``held up``,
        ``frozen``."""
        member = self._member(server)
        return [
            text
            for text, holds in (
                ("lags", member.lags),
                ("cut off", self._ensemble.links.is_apart(member)),
                ("held up", member.is_held_up),
                ("frozen", member.frozen),
            )
            if holds
        ]

    @control
    def outstanding(self, server: ServerRef) -> int:
        """Return how many requests wait at a server, most of them for the log."""
        return self._member(server).service.outstanding()

    @control
    def zxid(self) -> int:
        """Return the last zxid that is committed.

        :raises EnsembleError: if nobody leads.
        """
        return max(self._ensemble.log.last_zxid, self._ensemble.leader().number << 32)

    @control
    def sessions(self, server: ServerRef | None = None) -> list[SessionInfo]:
        """List the live sessions, as a server knows them; without a number as the leader's server does, with
        the connections of all servers.

        :raises EnsembleError: if nobody leads.
        """
        if server is not None:
            return self[server].sessions()
        found = {info.id: info for info in self._leading().sessions()}
        for each in self:
            for info in each.sessions():
                known = found.get(info.id)
                if info.connected and known is not None and not known.connected:
                    found[info.id] = attrs.evolve(info, ephemerals=known.ephemerals)
        return list(found.values())

    @control
    def leaks(self) -> list[str]:
        """Describe the sessions that clients have not closed, as :meth:`.Controls.leaks` does.

        :raises EnsembleError: if nobody leads.
        """
        return [leak_text(session) for session in self.sessions()]

    # --- sessions ----------------------------------------------------------------------------------------

    @control_verb
    def expire(self, session: SessionRef) -> None:
        """End a session at the leader, as if its timeout had passed; the others follow by the log.

        :raises UnknownSessionError: if the leader knows no such session.
        :raises EnsembleError: if nobody leads.
        """
        session_id = session_id_of(session)
        self._enter(f"expire {session_text(session_id)}", session_id)
        try:
            self._ensemble.expire(session_id, self._ensemble.now)
        except LookupError as error:
            raise UnknownSessionError(f"{error} at the leader") from None

    @control_verb
    def disconnect(self, session: SessionRef) -> None:
        """Close every connection of a session without a reply. The session lives on.

        :raises UnknownSessionError: if no server knows such a session.
        """
        session_id = self._known(session)
        self._enter(f"disconnect {session_text(session_id)}", session_id)
        self._ensemble.disconnect(session_id, f"a control has disconnected it{mark()}")

    @control_verb
    def move(self, session: SessionRef, server: ServerRef) -> None:
        """Let a client go on at another server: its connection is closed, and all servers but this one refuse
        it until it has come here. Does nothing if it is here.

        The client needs this server in its connect string, and waits if this server lags behind what the
        client has seen. Once this server serves nobody any more, the others take the client in again.

        :raises UnknownSessionError: if no server knows such a session.
        :raises EnsembleError: if this server serves nobody.
        """
        session_id, member = self._known(session), self._member(server)
        self._enter(f"move {session_text(session_id)} to server {member.number}", session_id)
        self._ensemble.move(session_id, member)

    def _known(self, session: SessionRef) -> int:
        session_id = session_id_of(session)
        if all(part.engine.sessions.get(session_id) is None for part in self.running.each()):
            raise UnknownSessionError(f"there is no session {session_text(session_id)} at any server")
        return session_id

    # --- the tree ----------------------------------------------------------------------------------------

    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes through the leader, as :meth:`.Controls.load` does."""
        self._leading().load(tree)

    def dump(self, path: str = "/") -> dict[str, bytes | None]:
        """Return the znodes at and below ``path`` as the leader's server has them; ``ensemble[2].dump()``
        those of another."""
        return self._leading().dump(path)

    def format_tree(self) -> str:
        """Show the tree of the server that has applied most as indented text."""
        return self.run(lambda: contents.format_tree(contents.read(self._ensemble.newest_tree())))

    def snapshot(self) -> Snapshot:
        """Take a copy of the leader's tree."""
        return self._leading().snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a copy of a tree, through the log."""
        self._leading().restore(snapshot)

    def _leading(self) -> MemberControls:
        return self[self.run(lambda: self._ensemble.leader().member.number)]

    # --- time --------------------------------------------------------------------------------------------

    @verb
    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Let the time of all servers jump ahead; what falls due on the way has happened on return.

        :param keep_alive: whether connected clients count as having sent their pings on time.
        :raises ValueError: for a negative number, or one of more than 30 years.
        """
        self.clock.advance(seconds, keep_alive=keep_alive)

    @property
    def _time(self) -> tuple[Clock, float]:
        return self.running.host.clock, self.running.started

    def _jump(self, until: float, keep_alive: bool) -> None:
        servers, clock = self.running.host, self.running.host.clock
        while True:
            due = min(max(servers.next_deadline(), clock.now()), until)
            clock.jump(max(0.0, due - clock.now()))
            if keep_alive:
                self._keep_alive()
            servers.advance(clock.now())
            if due >= until:
                return

    def _keep_alive(self) -> None:
        now = self.running.now_ms()
        for number, part in self.running.parts.items():
            for connection in part.service.connections:
                session = connection.session
                if session is not None and not connection.frozen and not part.gate.is_paused(connection):
                    part.engine.sessions.touch(session, now)
            self._member(number).report(now)


class MemberControls(Controls):
    """One server of an ensemble in a test's hands: all that a single server's controls do, on its own port.

    Writes go through the leader: ``load``, ``restore`` and ``expire`` have their effect here when this server
    applies them.
    """

    def __init__(self, ensemble: EnsembleControls, number: int) -> None:
        super().__init__()
        self._all = ensemble
        self.number = number

    def __repr__(self) -> str:
        return f"<server {self.number} of {self.ensemble!r}>"

    @property
    def ensemble(self) -> EnsembleControls:
        return self._all

    @property
    def running(self) -> Running:
        return self.ensemble.running.parts[self.number]

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.ensemble.run(function, *arguments)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket, in the trio run of :func:`open_ensemble`; returns the client's end."""
        return self.running.open_stream()

    def writer(self) -> Engine:
        return self.ensemble.running.host.ensemble.leader()

    def _receive(self) -> None:
        self.ensemble._receive()

    def _flush(self) -> None:
        self.ensemble._flush()

    def _advance(self, seconds: float, keep_alive: bool) -> None:
        self.ensemble.clock.advance(seconds, keep_alive=keep_alive)

    def expire(self, session: SessionRef) -> None:
        self.ensemble.expire(session)

    def accept_connections(self) -> None:
        """End :meth:`refuse_connections`; a server that is down goes on refusing."""
        if self.ensemble.role(self.number) != "down":
            super().accept_connections()

    def restart(self, *, keep_data: bool = True) -> None:
        """Kill the process and start it again.

        :raises ValueError: unless data is kept: the other servers have it.
        """
        if not keep_data:
            raise ValueError("a server of an ensemble gets its data from the others: leave keep_data=True")
        self.ensemble.kill(self.number)
        self.ensemble.start(self.number)

    def reset(self) -> None:
        """
        :raises EnsembleError: always.
        """
        raise EnsembleError("one server cannot be reset alone: start another ensemble, which takes some ms")
