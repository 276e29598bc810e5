"""The controls of a pretend ensemble as a whole: its servers, links, processes, leaders and proposals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, overload

import attrs

from ....protocol.control_verbs import LEADER, SERVER, ServerRef
from ....protocol.errors import ZooKeeperError
from ....protocol.operations import OpCode
from ....protocol.records import GetDataResponse, ReconfigRequest
from ....protocol.text import session_text
from ...config.members import joiner
from ...ensemble.ensemble import Ensemble, Pending
from ...ensemble.member import Member
from ...ensemble.nemesis import Nemesis, heal_all
from ...net.clock import Clock
from ...net.service import milliseconds
from .. import tree_io
from ..finding import find
from ..history import EntryKind
from ..origin import mark
from ..running_ensemble import RunningEnsemble
from ..sessions import SessionInfo, SessionRef, UnknownSessionError
from ..snapshots import Snapshot
from ..tree_io import Loader
from .base import FURTHEST, control, control_verb, verb
from .member import MemberControls
from .sessions import info_of, leak_of
from .waits import WaitControls


@attrs.frozen(eq=False)
class NemesisRun:
    """A running nemesis. As a context manager, the result ends the nemesis and heals all faults at the end of
    the block.

    :ivar done: the faults so far, in words.
    """

    done: Sequence[str]
    _heal_all: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._heal_all()


def _delay(seconds: float) -> int:
    if not 0 < seconds <= FURTHEST:
        raise ValueError(f"seconds must be above 0 and at most {FURTHEST:,}, not {seconds}")
    return max(1, round(1000 * seconds))


def _named(members: Iterable[Member]) -> str:
    return " ".join(str(member.number) for member in members) or "all"


class EnsembleControls(WaitControls):
    """The controls of a pretend ensemble.

    A server is named by its number, from 1. ``"leader"`` names the server that leads. Each method with a
    server as its argument raises :class:`TypeError` for an argument of another type, :class:`ValueError` for
    a server that does not exist, and :class:`EnsembleError` for ``"leader"`` while no server leads.

    :ivar clock: the clock of all servers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[int, MemberControls] = {}

    @property
    @abstractmethod
    def running(self) -> RunningEnsemble:
        """The parts of the ensemble."""

    @property
    def _ensemble(self) -> Ensemble:
        return self.running.host.ensemble

    def _member(self, server: ServerRef) -> Member:
        SERVER.check("server", server)
        return self._ensemble.leader().member if server == LEADER else self._ensemble.member(server)

    def _some(self, numbers: Iterable[ServerRef]) -> list[Member]:
        """Return the servers with these numbers. If no number is given, return all servers."""
        return [self._member(number) for number in numbers] or list(self._ensemble.members.values())

    def _receive(self) -> None:
        self.running.receive()

    def _flush(self) -> None:
        servers = self.running.host
        servers.clock.wake()
        servers.flush()

    def _enter(self, text: str, session: int = 0, kind: EntryKind = "control") -> None:
        with self.running.history.once():
            for part in self.running.parts.values():
                part.enter(text, session, kind)

    # --- the servers -------------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The connect string with the addresses of all servers."""
        return self.running.host.hosts

    @property
    def url(self) -> str | None:
        """The URL of the HTTP API. One of the running servers answers for the whole ensemble.

        It is None with ``http_on_client_port=False``.
        """
        return self.running.host.url

    @property
    def numbers(self) -> list[int]:
        """The numbers of all servers."""
        return list(self.running.parts)

    def __getitem__(self, server: ServerRef) -> MemberControls:
        """Return the controls of one server: its faults, holds, pauses, connect string and more.

        :raises ValueError: there is no such server.
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
        """Return the number of the leader; None if no server leads.

        If two servers lead, this is the server that was elected later.
        """
        leaders = self._ensemble.leaders()
        return leaders[0].member.number if leaders else None

    @control
    def role(self, server: ServerRef) -> str:
        """Return the role of a server. The role is ``leader``, ``follower`` or ``observer``. Without a leader
        the role is ``looking`` or ``read-only``. After :meth:`kill` the role is ``down``."""
        return self._member(server).role

    @control
    def applied(self, server: ServerRef) -> int:
        """Return the last zxid that a server has applied. Reads at this server show the tree at this zxid."""
        return self._member(server).engine.zxid

    @control
    def troubles(self, server: ServerRef) -> list[str]:
        """List the faults of a server that a test has begun and not ended. The faults are ``lags``, ``cut
        off``, ``held up`` and ``frozen``."""
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
        """Return how many requests wait at a server. Most of these requests wait for the log."""
        return self._member(server).service.outstanding()

    @control
    def zxid(self) -> int:
        """Return the last committed zxid.

        :raises EnsembleError: no server leads.
        """
        return max(self._ensemble.log.last_zxid, self._ensemble.leader().number << 32)

    @control
    def sessions(self, server: ServerRef | None = None) -> list[SessionInfo]:
        """List the live sessions.

        :param server: list the sessions that this server knows, with its own connections. None lists the
            sessions that the leader knows, with the connections of all servers.
        :raises EnsembleError: no server leads.
        """
        if server is not None:
            return self[server].sessions()
        leading, *others = self.running.leader_first()
        return [info_of(leading, session, others=others) for session in leading.engine.sessions]

    @control
    def leaks(self) -> list[str]:
        """Describe the sessions that clients have not closed, as :meth:`.Controls.leaks` does.

        :raises EnsembleError: no server leads.
        """
        leading, *others = self.running.leader_first()
        return [leak_of(leading, session, others) for session in leading.engine.sessions]

    # --- sessions ----------------------------------------------------------------------------------------

    @control_verb
    def expire(self, session: SessionRef) -> None:
        """End a session at the leader, as if its timeout had passed. The other servers apply the end of the
        session from the log.

        :raises UnknownSessionError: the leader knows no such session.
        :raises EnsembleError: no server leads.
        """
        session_id = find(self.running.each(), session)
        self._enter(f"expire {session_text(session_id)}", session_id)
        try:
            self._ensemble.expire(session_id, self._ensemble.now)
        except LookupError as error:
            raise UnknownSessionError(f"{error} at the leader") from None

    @control_verb
    def disconnect(self, session: SessionRef) -> None:
        """Close every connection of a session without a reply. The session stays alive.

        :raises UnknownSessionError: no server knows such a session.
        """
        session_id = self._known(session)
        self._enter(f"disconnect {session_text(session_id)}", session_id)
        self._ensemble.disconnect(session_id, f"a control has disconnected it{mark()}")

    @control_verb
    def move(self, session: SessionRef, server: ServerRef) -> None:
        """Move a client to another server, the target. Do nothing if the client is connected to the target.
        Close the client's connection, and let all other servers refuse the client until it has connected to
        the target. The connect string of the client must name the target. As long as the target lags behind
        the state that the client has seen, the client waits. If the target stops serving clients, the other
        servers accept the client again.

        :param server: the target.
        :raises UnknownSessionError: no server knows such a session.
        :raises EnsembleError: the target does not serve clients now.
        """
        session_id, member = self._known(session), self._member(server)
        self._enter(f"move {session_text(session_id)} to server {member.number}", session_id)
        self._ensemble.move(session_id, member)

    def _known(self, session: SessionRef) -> int:
        session_id = find(self.running.each(), session)
        if all(part.engine.sessions.get(session_id) is None for part in self.running.each()):
            raise UnknownSessionError(f"there is no session {session_text(session_id)} at any server")
        return session_id

    # --- the tree ----------------------------------------------------------------------------------------

    def load(self, tree: Mapping[str, Any]) -> None:
        """Create znodes through the leader, as :meth:`.Controls.load` does."""
        self._leading().load(tree)

    @overload
    def dump(self, path: str = "/", *, form: Literal["flat"] = "flat") -> dict[str, bytes | None]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nested"]) -> dict[str, Any]: ...
    @overload
    def dump(self, path: str = "/", *, form: Literal["nodes"]) -> dict[str, tree_io.Node]: ...

    def dump(self, path: str = "/", *, form: Literal["flat", "nested", "nodes"] = "flat") -> dict[str, Any]:
        """Return the leader's znodes at and below ``path``, in a form of :meth:`.Controls.dump`. For the
        znodes of another server, use for example ``ensemble[2].dump()``.

        :raises ValueError: unknown form.
        :raises EnsembleError: no server leads.
        """
        # mypy picks no overload for a union of literals
        dump: Callable[..., dict[str, Any]] = self._leading().dump
        return dump(path, form=form)

    def format_tree(self) -> str:
        """Return the tree of the server with the highest applied zxid, as indented text."""
        return self.run(lambda: tree_io.format_tree(tree_io.read(self._ensemble.newest_tree())))

    def snapshot(self) -> Snapshot:
        """Take a copy of the leader's tree."""
        return self._leading().snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the tree by the tree of a snapshot, through the log: see :meth:`.Controls.restore`."""
        self._leading().restore(snapshot)

    def _leading(self) -> MemberControls:
        return self[self.run(lambda: self._ensemble.leader().member.number)]

    # --- links and processes -----------------------------------------------------------------------------

    @control_verb
    def lag(self, server: ServerRef, seconds: float | None = None, *, upto: int | None = None) -> None:
        """Let a server lag behind the log until :meth:`catch_up`. The server answers reads with old data, and
        does not answer requests that need the log.

        :param seconds: how long after the leader the server applies each entry of the log, rounded to whole
            ms. None: the server applies no further entry.
        :param upto: the last zxid that the server applies. The default is the last zxid that the server has
            applied. With ``seconds``, the default is no limit.
        :raises ValueError: the delay is not above 0.
        """
        member = self._member(server)
        delay = 0 if seconds is None else _delay(seconds)
        self._enter(f"server {member.number} lags" + (f" by {seconds:g} s" if seconds else ""))
        self._ensemble.lag(member, upto, delay)

    @control_verb
    def catch_up(self, *servers: ServerRef) -> None:
        """End :meth:`lag` of these servers, or of all servers. The servers apply the entries that wait."""
        members = self._some(servers)
        self._enter(f"catch up {_named(members if servers else ())}")
        self._ensemble.catch_up(members)

    @control_verb
    def isolate(self, server: ServerRef, *, silent: bool = True) -> None:
        """Cut a server off from all other servers. Its clients stay connected.

        :param silent: True: the links of the server stay open but carry nothing, so both sides notice the cut
            only after ``sync_limit`` ticks. False: the links are reset, and the server closes its clients'
            connections at once.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is cut off, {'silently' if silent else 'by resets'}")
        self._ensemble.partition([[member]], silent)

    @control_verb
    def partition(self, *groups: Iterable[ServerRef], silent: bool = True) -> None:
        """Cut all links between servers of different groups. The servers that are in no group form one more
        group.

        :param silent: whether the links stay open but carry nothing; see :meth:`isolate`.
        :raises ValueError: a server is in two groups, or no server is named.
        """
        parts = [[self._member(number) for number in group] for group in groups]
        if not any(parts):
            raise ValueError(
                "partition needs a group of servers, such as [1, 2]; otherwise it would cut nothing"
            )
        self._enter(f"partition {' | '.join(str([m.number for m in part]) for part in parts)}")
        self._ensemble.partition(parts, silent)

    @control_verb
    def heal(self, *servers: ServerRef) -> None:
        """Restore the cut links of these servers, or all cut links."""
        members = self._some(servers)
        self._enter(f"heal {_named(members if servers else ())}")
        self._ensemble.heal(members)

    @control_verb
    def holdup(self, server: ServerRef) -> None:
        """Hold up everything that a follower or an observer sends to the leader, until :meth:`releaseup`.
        These messages are the acks of the server, its reports of connected clients, and the writes and syncs
        of its own clients. Messages from the leader still arrive, so the server applies the log and answers
        reads. After ``sync_limit`` ticks the leader closes the link. Then the server closes its clients'
        connections, and can neither follow nor lead.

        :raises EnsembleError: the server leads; use :meth:`isolate` instead.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is held up")
        self._ensemble.hold_up(member)

    @control_verb
    def releaseup(self, *servers: ServerRef) -> None:
        """End :meth:`holdup` of these servers, or of all servers. The held messages arrive, unless the leader
        has closed the link meanwhile."""
        members = self._some(servers)
        self._enter(f"release up {_named(members if servers else ())}")
        self._ensemble.release_up(members)

    @control_verb
    def freeze(self, server: ServerRef) -> None:
        """Freeze a process until :meth:`thaw`: it reads and writes no socket, and its clocks stop.

        :raises EnsembleError: the server does not run.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is frozen")
        self._ensemble.freeze(member)

    @control_verb
    def thaw(self, server: ServerRef) -> None:
        """End :meth:`freeze`. A leader that was replaced while it was frozen still leads for one tick."""
        member = self._member(server)
        self._enter(f"server {member.number} goes on")
        self._ensemble.thaw(member)

    @control_verb
    def kill(self, server: ServerRef, pending: Pending | None = None) -> None:
        """Kill a process: its connections are closed, and its port refuses new connections.

        :param pending: for a leader: the fate of the writes that are proposed and not committed.
            ``"applied"``: other servers have logged these writes, and the next leader commits them.
            ``"lost"``: no other server has these writes. None: the fate depends on which servers have these
            writes (:meth:`hold_acks`,
            :meth:`hold_proposals`).
        :raises ValueError: ``pending`` is given, but the server does not lead.
        """
        member = self._member(server)
        self._enter(f"kill server {member.number}" + (f", what is pending is {pending}" if pending else ""))
        self._ensemble.kill(member, pending)

    @control_verb
    def start(self, server: ServerRef, *, observer: bool = False) -> None:
        """Start a killed process on the same port, or start a further server. A restarted process brings its
        log up to date, and has no connections. Pauses and refusals have ended with the old process. Faults
        and holds remain.

        A new number starts a further server. The address of this server comes from its line in the
        configuration. A server without a line follows without a vote, until :meth:`reconfig` lets it join.

        :param observer: whether a further server without a line is an observer.
        :raises EnsembleError: the server already runs.
        :raises ValueError: no server can have this number; or ``observer`` is given, but the server has a
            line in the configuration or existed before.
        :raises OSError: the address of a further server cannot be bound.
        """
        if observer and (
            server == LEADER or server in self._ensemble.config.members or server in self.running.parts
        ):
            raise ValueError(
                "observer is only for a further server without a line in the configuration: leave it out"
            )
        if server != LEADER and server not in self.running.parts:
            self.running.add(self._ensemble.config.members.get(server) or joiner(server, observer))
        member = self._member(server)
        self._enter(f"start server {member.number}")
        self._start(member)

    def _start(self, member: Member) -> None:
        self.running.parts[member.number].gate.resume()
        self._ensemble.start(member)

    @control_verb
    def reconfig(
        self,
        joining: str | None = None,
        leaving: str | None = None,
        new_members: str | None = None,
        *,
        from_config: int = -1,
    ) -> str:
        """Change the members through the leader, like a client that has all permissions. The ensemble must
        have ``reconfig_enabled=True``. The leader may resign because of the change.

        :param joining: the lines of servers that join or change, such as
            ``server.4=host:2888:3888:participant;2181``, separated by commas. Only the port of the address
            for clients is used.
        :param leaving: the numbers of servers that leave, separated by commas.
        :param new_members: the lines of all servers, instead of ``joining`` and ``leaving``.
        :param from_config: the version that the configuration must have; -1 for any.
        :returns: the new configuration.
        :raises ZooKeeperError: the error that a client would get.
        :raises EnsembleError: no server leads.
        """
        parts = {"joining": joining, "leaving": leaving, "new_members": new_members}
        self._enter(" ".join(["reconfig", *(f"{name}={text}" for name, text in parts.items() if text)]))
        request = ReconfigRequest(joining, leaving, new_members, from_config)
        refused: list[ZooKeeperError] = []
        leader = self._ensemble.leader()
        leader.on_refusal = refused.append
        frame = bytes(8) + request.encode()
        _, _, body = leader.handle(Loader(0), OpCode.RECONFIG, frame, self._ensemble.now)
        if refused:
            raise refused[0]
        return (GetDataResponse.decode(body).data or b"").decode()

    @control_verb
    def elect(self, to: ServerRef | None = None) -> int:
        """Elect a new leader at once: the present leader resigns, and the next epoch begins. All connections
        are closed.

        :param to: the new leader. None takes another server than before, if such a server has the whole log.
        :returns: the number of the new leader.
        :raises EnsembleError: there is no quorum, or the server ``to`` cannot lead the quorum.
        """
        member = None if to is None else self._member(to)
        self._enter("elect" if member is None else f"elect server {member.number}")
        self._ensemble.elect(member)
        return self._ensemble.leader().member.number

    @control_verb
    def roll(self) -> None:
        """Restart all servers, one after the other, the leader last. When the call returns, a server
        leads."""
        self._enter("rolling restart")
        leader = self._ensemble.leader().member
        for member in sorted(self._ensemble.members.values(), key=lambda member: member is leader):
            if member.up:
                self._ensemble.kill(member)
                self._start(member)
        if not self._ensemble.leaders():
            self._ensemble.elect()

    @control_verb
    def nemesis(self, seed: int, rate: float = 1.0) -> NemesisRun:
        """Inject random faults from now on, until :meth:`calm`. Servers lag, are cut off, freeze, die, lose
        their leader, and recover.

        :param seed: the seed of the random decisions. The same seed gives the same faults.
        :param rate: the average number of faults per second of the servers' clock.
        :returns: the running nemesis, with the list of faults so far. As a context manager, it calls
            :meth:`calm` at the end of the block.
        :raises ValueError: the rate is not above 0.
        """
        nemesis = Nemesis(self._ensemble, seed, rate, mark())
        self._enter(f"nemesis of seed {seed}")
        self._ensemble.nemesis = nemesis
        return NemesisRun(nemesis.done, self.calm)

    @control_verb
    def calm(self) -> None:
        """End a nemesis and all other faults: all servers run, reach each other and follow a leader. A server
        that leads remains the leader. If no server leads, the servers elect a leader at once."""
        self._enter("calm")
        self._ensemble.nemesis = None
        heal_all(self._ensemble)

    # --- proposals ---------------------------------------------------------------------------------------

    @control_verb
    def hold_proposals(self) -> None:
        """Keep the proposals of writes in the leader until :meth:`release_acks`, or until another server
        leads. No other server has these writes, so the writes are lost if the leader is lost.

        :raises EnsembleError: no server leads.
        """
        self._enter("hold proposals")
        self._ensemble.hold("proposals")

    @control_verb
    def hold_acks(self) -> None:
        """Keep the acks of writes from the leader until :meth:`release_acks`, or until another server leads.
        The writes are then in the logs of all servers, but no client sees them yet. The next leader commits
        these writes.

        :raises EnsembleError: no server leads.
        """
        self._enter("hold acks")
        self._ensemble.hold("acks")

    @control_verb
    def release_acks(self) -> None:
        """End :meth:`hold_proposals` and :meth:`hold_acks`: the leader commits the proposed writes."""
        self._enter("release acks")
        self._ensemble.release_acks()

    # --- time --------------------------------------------------------------------------------------------

    @verb
    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Advance the clock of all servers. At the return, everything that was due by then has happened.

        :param keep_alive: whether to treat connected clients as if they had sent their pings on time.
        :raises ValueError: ``seconds`` is negative or longer than 30 years.
        """
        self.clock.advance(seconds, keep_alive=keep_alive)

    @property
    def _time(self) -> tuple[Clock, float]:
        return self.running.host.clock, self.running.started

    def _next_stop(self, until: float, keep_alive: bool) -> float:
        """Return the time of the next step. With ``keep_alive`` no steps are needed for pings."""
        host, now = self.running.host, self.running.host.clock.now()
        if not keep_alive:
            return min(max(host.next_deadline(), now), until)
        for number in self.running.parts:  # a client that is gone by now has sent no later ping
            self._member(number).report(self.running.now_ms())
        self._keep_alive(until)
        stop = min(max(host.next_deadline(), now), until)
        self._keep_alive(stop)  # a client that is gone by then sends no later ping
        return stop

    def _do_what_is_due(self, within: float) -> bool:
        host = self.running.host
        host.advance(host.clock.now())
        return True

    def _keep_alive(self, until: float) -> None:
        """Treat the connected clients as if they had sent a ping at this time of the clock, in seconds."""
        now = milliseconds(until)
        for number, part in self.running.parts.items():
            for connection in part.service.connections:
                session = connection.session
                if session is not None and not connection.frozen and not part.gate.is_paused(connection):
                    part.engine.sessions.touch(session, now)
            self._member(number).report(now)
