"""A pretend ensemble inside a test: several servers in one process, that lag, part and lose their leader on
command.

It shows what clients see of several servers. Nothing is replicated, nothing outlives the process.

    with EmbeddedEnsemble(3) as ensemble:
        client = KazooClient(ensemble.hosts)            # all three; ensemble[1].hosts is one of them
        ensemble.lag(1)                                 # server 1 shows old data until release(1)
        ensemble.kill(ensemble.leader())

The rules: a verb has its effect when it returns. It comes after everything that clients had sent before it.
What servers need time for (to notice a silent link, to elect a leader) happens when that time has passed on
the clock: by itself while the clock runs, by :meth:`EnsembleControls.advance` at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import attrs

from ..config.members import Member as Address
from ..config.members import made_up
from ..config.settings import Settings
from ..ensemble.ensemble import Timing
from ..ensemble.errors import EnsembleError
from ..ensemble.member import Member
from ..net.clock import Clock
from ..serve import Server
from ..together import Servers
from .clock import CLOCK_MODES, ClockMode
from .ensemble_controls import EnsembleControls
from .ensemble_history import EnsembleHistory
from .history import Recorder
from .host import HISTORY_LIMIT, at_end, hosted
from .in_thread import InThread
from .running import Running

_WHOLE = 60
"""Seconds: a clock that stands still starts at a multiple of it, where most ticks begin too."""

T = TypeVar("T")

__all__ = [
    "EmbeddedEnsemble",
    "EnsembleControls",
    "EnsembleError",
    "LocalEnsemble",
    "Timing",
    "open_ensemble",
]


class _Part(Running):
    """One server of an ensemble, in parts."""

    def __init__(
        self, ensemble: LocalEnsemble, number: int, server: Server, record: bool | None, history_limit: int
    ) -> None:
        self._ensemble = ensemble
        self._number = number
        super().__init__(server, server.clock, record=record, history_limit=history_limit)

    def begin_history(self) -> None:
        """Record the history of all servers from now on."""
        super().begin_history()
        for part in self._ensemble.parts.values():
            if not part.records:
                part.begin_history()

    def _new_recorder(self, limit: int) -> Recorder:
        return self._ensemble.recorded.recorder(
            self._number, self.service, self.clock.now, self._ensemble.started, limit
        )


class LocalEnsemble(EnsembleControls):
    """A pretend ensemble in the caller's own trio run.

    :param record: whether the history is recorded; None: once somebody asks for that.
    :ivar servers: the servers with their sockets.
    :ivar parts: what each server consists of, by number.
    :ivar recorded: the history.
    :ivar started: the clock at the start, in seconds.
    """

    def __init__(self, servers: Servers, *, record: bool | None, history_limit: int) -> None:
        super().__init__()
        self.servers = servers
        self.started = servers.clock.now()
        self.recorded = EnsembleHistory(0 if record is False else history_limit, servers.ensemble.epoch << 32)
        self.parts: dict[int, _Part] = {}
        for number, server in servers.servers.items():
            self.parts[number] = _Part(self, number, server, record, history_limit)
            server.controls = self[number]
        servers.ensemble.on_change = self._note_role

    def __repr__(self) -> str:
        return f"<LocalEnsemble {self.hosts}>"

    def _note_role(self, member: Member, text: str) -> None:
        self.parts[member.number].enter(text, kind="role")

    @property
    def _local(self) -> LocalEnsemble:
        return self

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def now_ms(self) -> int:
        """Return the time of the clock in whole ms."""
        return next(iter(self.parts.values())).service.at(self.servers.clock.now())


def take_over(servers: Servers) -> LocalEnsemble:
    """Put an ensemble that runs into a test's hands; its history is recorded once somebody asks for that."""
    return LocalEnsemble(servers, record=None, history_limit=HISTORY_LIMIT)


@attrs.frozen
class EnsembleLaunch:
    """The arguments with which an ensemble is started."""

    members: Sequence[Address]
    clock: ClockMode = attrs.field(validator=attrs.validators.in_(CLOCK_MODES))
    record: bool
    history_limit: int = attrs.field(validator=attrs.validators.ge(1))
    timing: Timing | None
    settings: Settings

    @asynccontextmanager
    async def open(self, ended: Callable[[], None] = lambda: None) -> AsyncIterator[LocalEnsemble]:
        """Run the servers inside the ``async with``.

        :param ended: called at once when they have closed their sockets, for any reason.
        """
        clock = Clock(frozen=self.clock == "frozen")
        if clock.frozen:  # ticks begin at the start: a test finds the same moments in each run
            clock.jump(-clock.now() % _WHOLE)
        servers = Servers(self.settings, clock, self.members, self.timing)
        async with hosted(servers.run, ended):
            ensemble = LocalEnsemble(servers, record=self.record, history_limit=self.history_limit)
            try:
                yield ensemble
            finally:
                for tell in at_end:
                    tell(partial(ensemble.recorded.advice, self.settings.max_buffer))


def open_ensemble(
    participants: int = 3,
    observers: int = 0,
    *,
    clock: ClockMode = "running",
    record: bool = True,
    history_limit: int = HISTORY_LIMIT,
    timing: Timing | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[LocalEnsemble]:
    """Run a pretend ensemble in the caller's trio run: an async context manager that yields its controls.

    :param participants: how many servers vote, numbered from 1; the last one leads at first.
    :param observers: how many do not; their numbers follow.
    :param clock: ``"running"``: with trio's clock; ``"frozen"``: time passes by ``advance`` alone.
    :param record: whether the history is recorded.
    :param history_limit: how many entries are kept for each server.
    :param timing: how long servers need to notice a silent link, and to elect a leader.
    :param settings: the fields of :class:`pyzk.server.config.settings.Settings`, of all servers. Where a port
        is named, the first server has it, the second the next, and so on; by default the kernel chooses.
    :raises TypeError: for a setting that does not exist.
    :raises ValueError: for one out of range, or a number of servers that is none.
    :raises OSError: on entering, if an address cannot be bound.
    """
    members, given = made_up(participants, observers), Settings(**{"port": 0, **settings})
    return EnsembleLaunch(members, clock, record, history_limit, timing, given).open()


class EmbeddedEnsemble(InThread[LocalEnsemble], EnsembleControls):
    """A pretend ensemble in a daemon thread, for tests with any client.

    Use it with ``with``. All methods may be called from any thread; they raise :class:`ServerStopped` where
    it does not run, :class:`ServerDied` if its thread has ended with an error. The arguments are those of
    :func:`open_ensemble`.

    :raises TypeError: for a setting that does not exist.
    :raises ValueError: for one out of range.
    """

    def __init__(
        self,
        participants: int = 3,
        observers: int = 0,
        *,
        clock: ClockMode = "running",
        record: bool = True,
        history_limit: int = HISTORY_LIMIT,
        timing: Timing | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        members, given = made_up(participants, observers), Settings(**{"port": 0, **settings})
        self._launch = EnsembleLaunch(members, clock, record, history_limit, timing, given)

    def __repr__(self) -> str:
        where = self.hosts if self._inside is not None else "not running"
        return f"<EmbeddedEnsemble {where}>"

    def start(self, server: int | None = None) -> Any:
        """Start the ensemble, and return it; or, with a number, a server that was killed.

        :raises RuntimeError: if it runs.
        :raises OSError: if an address cannot be bound.
        """
        return InThread.start(self) if server is None else EnsembleControls.start(self, server)

    def _open(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[LocalEnsemble]:
        return self._launch.open(ended)
