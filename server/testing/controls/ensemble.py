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
    """A nemesis at work; with ``with`` all its faults are over at the end of the block.

    :ivar done: what it has done, in words.
    """

    done: Sequence[str]
    _heal_all: Callable[[], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._heal_all()


def _delay(seconds: float) -> int:
    if not 0 < seconds <= FURTHEST:
        raise ValueError(f"a server lags by more than 0 s and at most {FURTHEST:,}, not by {seconds}")
    return max(1, round(1000 * seconds))


def _named(members: Iterable[Member]) -> str:
    return " ".join(str(member.number) for member in members) or "all"


class EnsembleControls(WaitControls):
    """A pretend ensemble in a test's hands.

    Its servers are named by their numbers, from 1; ``leader`` is the one that leads. The methods that take a
    server raise :class:`TypeError` for an argument of another type, :class:`ValueError` for a server that
    does not exist, and :class:`EnsembleError` if ``leader`` is named and nobody leads.

    :ivar clock: the time of all servers.
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
        """Return these servers, or all if none is named."""
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
        leading, *others = self.running.leader_first()
        return [info_of(leading, session, others=others) for session in leading.engine.sessions]

    @control
    def leaks(self) -> list[str]:
        """Describe the sessions that clients have not closed, as :meth:`.Controls.leaks` does.

        :raises EnsembleError: if nobody leads.
        """
        leading, *others = self.running.leader_first()
        return [leak_of(leading, session, others) for session in leading.engine.sessions]

    # --- sessions ----------------------------------------------------------------------------------------

    @control_verb
    def expire(self, session: SessionRef) -> None:
        """End a session at the leader, as if its timeout had passed; the others follow by the log.

        :raises UnknownSessionError: if the leader knows no such session.
        :raises EnsembleError: if nobody leads.
        """
        session_id = find(self.running.each(), session)
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
        """Return the znodes at and below ``path`` as the leader's server has them, in the forms of
        :meth:`.Controls.dump`; ``ensemble[2].dump()`` returns those of another server.

        :raises ValueError: for another form.
        :raises EnsembleError: if nobody leads.
        """
        # mypy picks no overload for a union of literals
        dump: Callable[..., dict[str, Any]] = self._leading().dump
        return dump(path, form=form)

    def format_tree(self) -> str:
        """Show the tree of the server that has applied most as indented text."""
        return self.run(lambda: tree_io.format_tree(tree_io.read(self._ensemble.newest_tree())))

    def snapshot(self) -> Snapshot:
        """Take a copy of the leader's tree."""
        return self._leading().snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back a copy of a tree, through the log."""
        self._leading().restore(snapshot)

    def _leading(self) -> MemberControls:
        return self[self.run(lambda: self._ensemble.leader().member.number)]

    # --- links and processes -----------------------------------------------------------------------------

    @control_verb
    def lag(self, server: ServerRef, seconds: float | None = None, *, upto: int | None = None) -> None:
        """Stop a server in the log until :meth:`catch_up`: it answers reads with old data, and it does not
        answer what needs the log. Or delay what it takes from the log.

        :param seconds: it does not stand, but takes whatever the leader sends so much later, in whole ms.
        :param upto: the zxid at which it stands; by default the one that it has applied, unless it is late.
        :raises ValueError: for a delay that is not above 0.
        """
        member = self._member(server)
        delay = 0 if seconds is None else _delay(seconds)
        self._enter(f"server {member.number} lags" + (f" by {seconds:g} s" if seconds else ""))
        self._ensemble.lag(member, upto, delay)

    @control_verb
    def catch_up(self, *servers: ServerRef) -> None:
        """End :meth:`lag`, of all servers if none is named: what waits is applied."""
        members = self._some(servers)
        self._enter(f"catch up {_named(members if servers else ())}")
        self._ensemble.catch_up(members)

    @control_verb
    def isolate(self, server: ServerRef, *, silent: bool = True) -> None:
        """Cut a server off from all others; its clients stay connected.

        :param silent: whether its links stay open and nothing comes over them, so that both sides notice
            after ``sync_limit`` ticks only. Otherwise they are reset, and the server closes its clients at
            once.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is cut off, {'silently' if silent else 'by resets'}")
        self._ensemble.partition([[member]], silent)

    @control_verb
    def partition(self, *groups: Iterable[ServerRef], silent: bool = True) -> None:
        """Cut all links between servers of different groups. Servers that are not named are one more group.

        :param silent: as for :meth:`isolate`.
        :raises ValueError: if a server is in two groups, or none is named.
        """
        parts = [[self._member(number) for number in group] for group in groups]
        if not any(parts):
            raise ValueError("partition needs a group of servers, such as [1, 2]: nothing would be cut")
        self._enter(f"partition {' | '.join(str([m.number for m in part]) for part in parts)}")
        self._ensemble.partition(parts, silent)

    @control_verb
    def heal(self, *servers: ServerRef) -> None:
        """Join what was cut: the links of these servers, or all."""
        members = self._some(servers)
        self._enter(f"heal {_named(members if servers else ())}")
        self._ensemble.heal(members)

    @control_verb
    def holdup(self, server: ServerRef) -> None:
        """Hold up what a follower or an observer sends, until :meth:`releaseup`: its acks, its reports of
        clients, and the writes and syncs of its own clients. What the leader sends goes on arriving, so that
        the server applies the log and answers reads.

        After ``sync_limit`` ticks the leader gives the server up and closes the link. Then the server closes
        its clients, and can neither follow nor lead others.

        :raises EnsembleError: if it leads: isolate it instead.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is held up")
        self._ensemble.hold_up(member)

    @control_verb
    def releaseup(self, *servers: ServerRef) -> None:
        """End :meth:`holdup`, of all servers if none is named: what was held up arrives, unless the link was
        given up meanwhile."""
        members = self._some(servers)
        self._enter(f"release up {_named(members if servers else ())}")
        self._ensemble.release_up(members)

    @control_verb
    def freeze(self, server: ServerRef) -> None:
        """Stop a process: it reads and writes no socket, and its clocks stand, until :meth:`thaw`.

        :raises EnsembleError: if it does not run.
        """
        member = self._member(server)
        self._enter(f"server {member.number} is frozen")
        self._ensemble.freeze(member)

    @control_verb
    def thaw(self, server: ServerRef) -> None:
        """End :meth:`freeze`. A leader that was replaced meanwhile goes on leading for a tick."""
        member = self._member(server)
        self._enter(f"server {member.number} goes on")
        self._ensemble.thaw(member)

    @control_verb
    def kill(self, server: ServerRef, pending: Pending | None = None) -> None:
        """End a process: its connections are closed, and its port refuses new ones.

        :param pending: for a leader, what becomes of the writes that are proposed and not committed:
            ``"applied"``, they are logged elsewhere and the next leader commits them; or ``"lost"``. By
            default it depends on who has them (:meth:`hold_acks`, :meth:`hold_proposals`).
        :raises ValueError: if ``pending`` is given for a server that does not lead.
        """
        member = self._member(server)
        self._enter(f"kill server {member.number}" + (f", what is pending is {pending}" if pending else ""))
        self._ensemble.kill(member, pending)

    @control_verb
    def start(self, server: ServerRef, *, observer: bool = False) -> None:
        """Start a process that was killed, at the same port: without connections, its log brought up to date.

        It hears and answers clients: pauses and refusals ended with the process. Faults and holds go on.

        Or start a further server, with a new number. Its address is that of its line in the configuration.
        Without a line it follows and does not vote, until :meth:`reconfig` lets it join.

        :param observer: whether a further server without a line is an observer.
        :raises EnsembleError: if it runs.
        :raises ValueError: for a number that no server can have, or if ``observer`` is given for a server
            that has a line, or was there before.
        :raises OSError: if the address of a further server cannot be bound.
        """
        if observer and (
            server == LEADER or server in self._ensemble.config.members or server in self.running.parts
        ):
            raise ValueError(
                "observer is for a further server without a line in the configuration: leave it out"
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
        """Change the members through the leader, as a client that may do everything would.

        It needs ``reconfig_enabled=True``. The leader may resign by it.

        :param joining: lines as ``server.4=host:2888:3888:participant;2181``, separated by commas: of servers
            that join, or change. Of the address for clients the port counts.
        :param leaving: numbers of servers, separated by commas.
        :param new_members: the lines of all servers, instead of the other two.
        :param from_config: the version that the configuration must have; -1: any.
        :returns: the new configuration.
        :raises ZooKeeperError: what a client would have been answered.
        :raises EnsembleError: if nobody leads.
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
        """Let the leader resign, if there is one, and the next epoch begin at once. All connections are
        closed.

        :param to: who leads it; by default another than before, if one has the whole log.
        :returns: the number of the new leader.
        :raises EnsembleError: if there is no quorum, or this server cannot lead it.
        """
        member = None if to is None else self._member(to)
        self._enter("elect" if member is None else f"elect server {member.number}")
        self._ensemble.elect(member)
        return self._ensemble.leader().member.number

    @control_verb
    def roll(self) -> None:
        """Restart each server, one after the other, the leader last; the next leader is there on return."""
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
        """Let trouble come by chance from now on, until :meth:`calm`: servers lag, are cut off, freeze, die
        and lose their leader, and recover.

        :param seed: the same seed makes the same trouble.
        :param rate: how often something happens, per second of the servers' clock, on average.
        :returns: what has been done; a context manager, too, that calms the ensemble at its end.
        :raises ValueError: for a rate that is not above 0.
        """
        nemesis = Nemesis(self._ensemble, seed, rate, mark())
        self._enter(f"nemesis of seed {seed}")
        self._ensemble.nemesis = nemesis
        return NemesisRun(nemesis.done, self.calm)

    @control_verb
    def calm(self) -> None:
        """End a nemesis and all other trouble: all servers run, reach each other and follow a leader.

        If there is a leader it goes on leading. Otherwise the next epoch begins at once, as by :meth:`elect`.
        """
        self._enter("calm")
        self._ensemble.nemesis = None
        heal_all(self._ensemble)

    # --- proposals ---------------------------------------------------------------------------------------

    @control_verb
    def hold_proposals(self) -> None:
        """Let writes stay in the leader: no other server has them, so they are lost if it is.

        It ends with :meth:`release_acks`, and with another leader.

        :raises EnsembleError: if nobody leads.
        """
        self._enter("hold proposals")
        self._ensemble.hold("proposals")

    @control_verb
    def hold_acks(self) -> None:
        """Let writes stay proposals that all servers have logged, and that nobody sees: the next leader
        commits them.

        It ends with :meth:`release_acks`, and with another leader.

        :raises EnsembleError: if nobody leads.
        """
        self._enter("hold acks")
        self._ensemble.hold("acks")

    @control_verb
    def release_acks(self) -> None:
        """End :meth:`hold_proposals` or :meth:`hold_acks`: what was proposed is committed."""
        self._enter("release acks")
        self._ensemble.release_acks()

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

    def _next_stop(self, until: float, keep_alive: bool) -> float:
        """With ``keep_alive`` pings need no steps, as at a single server."""
        host, now = self.running.host, self.running.host.clock.now()
        if not keep_alive:
            return min(max(host.next_deadline(), now), until)
        for number in self.running.parts:  # who is gone by now was not heard of later
            self._member(number).report(self.running.now_ms())
        self._keep_alive(until)
        stop = min(max(host.next_deadline(), now), until)
        self._keep_alive(stop)  # who is gone by then sends nothing after that
        return stop

    def _do_what_is_due(self, within: float) -> bool:
        host = self.running.host
        host.advance(host.clock.now())
        return True

    def _keep_alive(self, until: float) -> None:
        """Have the clients that are connected be heard of at a time of the clock, in seconds."""
        now = milliseconds(until)
        for number, part in self.running.parts.items():
            for connection in part.service.connections:
                session = connection.session
                if session is not None and not connection.frozen and not part.gate.is_paused(connection):
                    part.engine.sessions.touch(session, now)
            self._member(number).report(now)
