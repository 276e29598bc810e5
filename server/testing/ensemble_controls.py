"""The controls of a pretend ensemble in a test: one class for all servers, one for each.

A verb is called in the servers' thread, like the controls of a single server (:mod:`.controls`): it comes
after what clients had sent before it, and its effects have been sent when it returns.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import trio

from ..core.engine import Engine
from ..ensemble.ensemble import Ensemble, Pending
from ..ensemble.errors import EnsembleError
from ..ensemble.member import Member
from ..ensemble.nemesis import Nemesis, calm
from . import contents
from .clock import ServerClock
from .controls import FURTHEST, Controls
from .history import Entry, EntryKind, select
from .running import Running
from .sessions import SessionInfo, SessionRef, session_id_of
from .snapshots import Snapshot
from .timeline import format_timeline

if TYPE_CHECKING:
    from .advisor.finding import Finding
    from .ensemble import LocalEnsemble

P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    method: Callable[Concatenate[EnsembleControls, P], T],
) -> Callable[Concatenate[EnsembleControls, P], T]:
    """Make a method a control of all servers: it acts after what has arrived, and its effects are sent."""

    @functools.wraps(method)
    def call(self: EnsembleControls, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def act() -> T:
            servers = self._local.servers
            servers.receive()
            servers.ensemble.now = max(servers.ensemble.now, self._local.now_ms())
            try:
                return method(self, *args, **kwargs)
            finally:
                servers.clock.wake()
                servers.flush()

        return self.run(act)

    return call


class EnsembleControls(ABC):
    """A pretend ensemble in a test's hands. Servers are named by their number, from 1.

    :ivar clock: the time of all servers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ServerClock(self._now, self._advance, self._freeze_clock, self._is_frozen)
        self._members: dict[int, MemberControls] = {}

    @property
    @abstractmethod
    def _local(self) -> LocalEnsemble:
        """What runs, for use in its thread."""

    @abstractmethod
    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the servers' thread."""

    # --- the servers -------------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        """The connect string, with all servers."""
        return self._local.servers.hosts

    @property
    def url(self) -> str | None:
        """Where the first server answers HTTP, for all of them; None with ``http_on_client_port=False``."""
        return self[self.numbers[0]].url

    @property
    def numbers(self) -> list[int]:
        """The numbers of all servers."""
        return list(self._local.parts)

    def __getitem__(self, number: int) -> MemberControls:
        """Return the controls of one server: faults, holds, pauses, its own connect string ...

        :raises ValueError: if there is no such server.
        """
        self._member(number)
        if number not in self._members:
            self._members[number] = MemberControls(self, number)
        return self._members[number]

    def __iter__(self) -> Iterator[MemberControls]:
        return iter([self[number] for number in self.numbers])

    def __len__(self) -> int:
        return len(self._local.parts)

    @property
    def _ensemble(self) -> Ensemble:
        return self._local.servers.ensemble

    def _member(self, number: int) -> Member:
        return self._ensemble.member(number)

    def _some(self, numbers: Iterable[int]) -> list[Member]:
        """Return these servers, or all if none is named."""
        return [self._member(number) for number in numbers] or list(self._ensemble.members.values())

    # --- questions ---------------------------------------------------------------------------------------

    @_verb
    def leader(self) -> int | None:
        """Return the number of the server that leads; None while there is none. Of two, the later."""
        leaders = self._ensemble.leaders()
        return leaders[0].member.number if leaders else None

    @_verb
    def role(self, server: int) -> str:
        """Return ``leader``, ``follower`` or ``observer``; ``looking`` without a leader, ``down`` after
        kill."""
        return self._member(server).role

    @_verb
    def applied(self, server: int) -> int:
        """Return the last zxid that a server has applied: what its reads show."""
        return self._member(server).engine.zxid

    @_verb
    def troubles(self, server: int) -> list[str]:
        """List what a test has done to a server and not ended: ``lags``, ``cut off``, ``frozen``."""
        member = self._member(server)
        return [
            text
            for text, holds in (
                ("lags", member.stands_at is not None),
                ("cut off", self._ensemble.links.is_apart(member)),
                ("frozen", member.frozen),
            )
            if holds
        ]

    @_verb
    def outstanding(self, server: int) -> int:
        """Return how many requests wait at a server, most of them for the log."""
        return self._member(server).service.outstanding()

    @_verb
    def zxid(self) -> int:
        """Return the last zxid that is committed.

        :raises EnsembleError: if nobody leads.
        """
        return max(self._ensemble.log.last_zxid, self._ensemble.leader().number << 32)

    @_verb
    def sessions(self, server: int | None = None) -> list[SessionInfo]:
        """List the live sessions, as a server knows them; without a number as the leader's server does.

        :raises EnsembleError: if nobody leads.
        """
        number = self._ensemble.leader().member.number if server is None else server
        return self[number].sessions()

    # --- links and processes -----------------------------------------------------------------------------

    @_verb
    def lag(self, server: int, upto: int | None = None) -> None:
        """Let a server stand still in the log until :meth:`release`: it answers reads with old data, and what
        needs the log not at all.

        :param upto: the zxid at which it stands; by default the one that it has applied.
        """
        self._note(f"server {server} lags")
        self._ensemble.lag(self._member(server), upto)

    @_verb
    def release(self, *servers: int) -> None:
        """End :meth:`lag`, of all servers if none is named: what waits is applied."""
        self._note(f"release {' '.join(map(str, servers)) or 'all'}")
        self._ensemble.release(self._some(servers))

    @_verb
    def isolate(self, server: int, *, silent: bool = True) -> None:
        """Cut a server off from all others; its clients stay connected.

        :param silent: whether its links stay open and nothing comes over them, so that both sides notice
            after ``sync_limit`` ticks only. Otherwise they are reset, and the server closes its clients at
            once.
        """
        self._note(f"server {server} is cut off, {'silently' if silent else 'by resets'}")
        self._ensemble.partition([[self._member(server)]], silent)

    @_verb
    def partition(self, *groups: Iterable[int], silent: bool = True) -> None:
        """Cut all links between servers of different groups. Servers that are not named are one more group.

        :param silent: as for :meth:`isolate`.
        :raises ValueError: if a server is in two groups.
        """
        parts = [[self._member(number) for number in group] for group in groups]
        self._note(f"partition {' | '.join(str([m.number for m in part]) for part in parts)}")
        self._ensemble.partition(parts, silent)

    @_verb
    def heal(self, *servers: int) -> None:
        """Join what was cut: the links of these servers, or all."""
        self._note(f"heal {' '.join(map(str, servers)) or 'all'}")
        self._ensemble.heal(self._some(servers))

    @_verb
    def freeze(self, server: int) -> None:
        """Stop a process: it reads and writes no socket, and its clocks stand, until :meth:`thaw`."""
        self._note(f"server {server} is frozen")
        self._ensemble.freeze(self._member(server))

    @_verb
    def thaw(self, server: int) -> None:
        """End :meth:`freeze`. A leader that was replaced meanwhile goes on leading for a tick."""
        self._note(f"server {server} goes on")
        self._ensemble.thaw(self._member(server))

    @_verb
    def kill(self, server: int, pending: Pending | None = None) -> None:
        """End a process: its connections are closed, and its port refuses new ones.

        :param pending: for a leader, what becomes of the writes that are proposed and not committed:
            ``"applied"``, they are logged elsewhere and the next leader commits them; or ``"lost"``. By
            default it depends on who has them (:meth:`hold_acks`, :meth:`hold_proposals`).
        :raises ValueError: if ``pending`` is given for a server that does not lead.
        """
        self._note(f"kill server {server}" + (f", what is pending is {pending}" if pending else ""))
        self._ensemble.kill(self._member(server), pending)

    @_verb
    def start(self, server: int) -> None:
        """Start a process that was killed, at the same port: without connections, its log brought up to date.

        :raises EnsembleError: if it runs.
        """
        self._note(f"start server {server}")
        self._ensemble.start(self._member(server))

    @_verb
    def elect(self, to: int | None = None) -> int:
        """Let the leader resign, if there is one, and the next epoch begin at once. All connections are
        closed.

        :param to: who leads it; by default another than before, if one has the whole log.
        :returns: the number of the new leader.
        :raises EnsembleError: if there is no quorum, or this server cannot lead it.
        """
        self._note("elect" if to is None else f"elect server {to}")
        self._ensemble.elect(None if to is None else self._member(to))
        return self._ensemble.leader().member.number

    @_verb
    def roll(self) -> None:
        """Restart each server, one after the other, the leader last; the next leader is there on return."""
        self._note("rolling restart")
        leader = self._ensemble.leader().member
        for member in sorted(self._ensemble.members.values(), key=lambda member: member is leader):
            if member.up:
                self._ensemble.kill(member)
                self._ensemble.start(member)
        if not self._ensemble.leaders():
            self._ensemble.elect()

    @contextmanager
    def nemesis(self, seed: int, rate: float = 1.0) -> Iterator[Nemesis]:
        """Let trouble come by chance inside the ``with``: servers lag, are cut off, freeze, die and lose
        their leader, and recover. At its end all trouble is over.

        :param seed: the same seed makes the same trouble.
        :param rate: how often something happens, per second of the servers' clock, on average.
        :raises ValueError: for a rate that is not above 0.
        """
        yield self._begin_nemesis(seed, rate)
        self._end_nemesis()

    @_verb
    def _begin_nemesis(self, seed: int, rate: float) -> Nemesis:
        self._note(f"nemesis of seed {seed}")
        nemesis = self._ensemble.nemesis = Nemesis(self._ensemble, seed, rate)
        return nemesis

    @_verb
    def _end_nemesis(self) -> None:
        self._note("the nemesis ends")
        self._ensemble.nemesis = None
        calm(self._ensemble)

    # --- proposals ---------------------------------------------------------------------------------------

    @_verb
    def hold_proposals(self) -> None:
        """Let writes stay in the leader: no other server has them, so they are lost if it is.

        It ends with :meth:`release_acks`, and with another leader.

        :raises EnsembleError: if nobody leads.
        """
        self._note("hold proposals")
        self._ensemble.hold("proposals")

    @_verb
    def hold_acks(self) -> None:
        """Let writes stay proposals that all servers have logged, and that nobody sees: the next leader
        commits them.

        It ends with :meth:`release_acks`, and with another leader.

        :raises EnsembleError: if nobody leads.
        """
        self._note("hold acks")
        self._ensemble.hold("acks")

    @_verb
    def release_acks(self) -> None:
        """End :meth:`hold_proposals` or :meth:`hold_acks`: what was proposed is committed."""
        self._note("release acks")
        self._ensemble.release_acks()

    # --- sessions ----------------------------------------------------------------------------------------

    @_verb
    def expire(self, session: SessionRef) -> None:
        """End a session at the leader, as if its timeout had passed; the others follow by the log.

        :raises LookupError: if the leader knows no such session.
        :raises EnsembleError: if nobody leads.
        """
        session_id = session_id_of(session)
        self._note(f"expire 0x{session_id:x}")
        self._ensemble.expire(session_id, self._ensemble.now)

    @_verb
    def disconnect(self, session: SessionRef) -> None:
        """Close every connection of a session without a reply. The session lives on."""
        session_id = session_id_of(session)
        self._note(f"disconnect 0x{session_id:x}")
        for part in self._local.parts.values():
            for connection in list(part.service.connections):
                if connection.session_id == session_id:
                    connection.abort("the test has disconnected it")

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

    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Let the time of all servers jump ahead; what falls due on the way has happened on return.

        :param keep_alive: whether connected clients count as having sent their pings on time.
        :raises ValueError: for a negative number, or one of more than 30 years.
        """
        self.clock.advance(seconds, keep_alive=keep_alive)

    def _now(self) -> float:
        return self.run(lambda: self._local.servers.clock.now() - self._local.started)

    @_verb
    def _advance(self, seconds: float, keep_alive: bool) -> None:
        if not 0 <= seconds <= FURTHEST:
            raise ValueError(f"time advances by at most {FURTHEST:,} s and at least 0, not {seconds}")
        self._note(f"clock advanced by {seconds:g} s" + (", clients kept alive" if keep_alive else ""))
        servers, clock = self._local.servers, self._local.servers.clock
        until = clock.now() + seconds
        while True:
            due = min(max(servers.next_deadline(), clock.now()), until)
            clock.jump(max(0.0, due - clock.now()))
            if keep_alive:
                self._keep_alive()
            servers.advance(clock.now())
            if due >= until:
                return

    def _keep_alive(self) -> None:
        now = self._local.now_ms()
        for number, part in self._local.parts.items():
            for connection in part.service.connections:
                session = connection.session
                if session is not None and not connection.frozen and not part.gate.is_paused(connection):
                    part.engine.sessions.touch(session, now)
            self._member(number).report(now)

    @_verb
    def _freeze_clock(self, frozen: bool) -> None:
        self._note(f"clock {'frozen' if frozen else 'running'}")
        self._local.servers.clock.freeze(frozen)

    def _is_frozen(self) -> bool:
        return self.run(lambda: self._local.servers.clock.frozen)

    # --- the history -------------------------------------------------------------------------------------

    @_verb
    def history(
        self,
        *,
        session: SessionRef | None = None,
        kind: EntryKind | Iterable[EntryKind] | None = None,
        op: str | None = None,
        path: str | None = None,
        since: float = 0.0,
    ) -> list[Entry]:
        """List what has happened at all servers, the oldest first; the arguments are those of
        :meth:`.Controls.history`. ``server`` of an entry says where it happened.

        :raises ValueError: for an unknown kind or operation.
        """
        entries = self._local.recorded.entries()
        return select(entries, session=session, kind=kind, op=op, path=path, since=since)

    @_verb
    def advice(self) -> list[Finding]:
        """List what clients do wrong, as :meth:`.Controls.advice` does, at all servers together.

        Each call looks at all that the history keeps.
        """
        return self._local.recorded.advice(self._local.parts[1].service.settings.max_buffer)

    @_verb
    def note(self, text: str) -> None:
        """Write a line into the history, as a mark in the timeline."""
        self._note(text)

    def format_timeline(
        self,
        *,
        sessions: Iterable[SessionRef] | None = None,
        pings: bool = False,
        width: int = 120,
        limit: int | None = None,
        since: float = 0.0,
    ) -> str:
        """Show the history as text, one column for each session, with the number of the server in each line.

        The arguments are those of :meth:`.Controls.format_timeline`.
        """
        recorded = self._local.recorded
        return format_timeline(
            self.history(since=since),
            title=f"Timeline of {self.hosts}",
            zxid_base=recorded.zxid_base,
            sessions=None if sessions is None else [session_id_of(session) for session in sessions],
            pings=pings,
            width=width,
            limit=limit,
            by_epoch=True,
        )

    def _note(self, text: str) -> None:
        for part in self._local.parts.values():
            part.enter(text)


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
        return self.ensemble._local.parts[self.number]

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return self.ensemble.run(function, *arguments)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket, in the trio run of :func:`open_ensemble`; returns the client's end."""
        return self.running.open_stream()

    def writer(self) -> Engine:
        return self.ensemble._local.servers.ensemble.leader()

    def _advance(self, seconds: float, keep_alive: bool) -> None:
        self.ensemble.clock.advance(seconds, keep_alive=keep_alive)

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
