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
from typing import Any, TypeVar

import attrs
import trio

from ...protocol.control_verbs import ServerRef
from ..config.arguments import check_type, settings_of
from ..config.members import Member as Address
from ..config.members import made_up
from ..config.settings import Settings
from ..ensemble.ensemble import Timing
from ..ensemble.errors import EnsembleError
from ..net.clock import Clock
from ..together import Servers
from . import shown
from .clock import ClockMode
from .controls.ensemble import EnsembleControls
from .host import HISTORY_LIMIT, at_end, hosted, known_clock, known_limit
from .in_thread import InThread
from .running_ensemble import RunningEnsemble

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


class LocalEnsemble(EnsembleControls):
    """A pretend ensemble in the caller's own trio run."""

    def __init__(self, running: RunningEnsemble) -> None:
        super().__init__()
        self._running = running
        running.hand_over(self.__getitem__)

    def __repr__(self) -> str:
        return f"<LocalEnsemble {self.hosts}>"

    @property
    def running(self) -> RunningEnsemble:
        return self._running

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    async def connector(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        """Connect without a socket to the server with this address, so that a client needs no real time: pass
        ``connector=ensemble.connector`` to :func:`pyzk.client.connect`, with ``ensemble.hosts``.

        :raises ConnectionRefusedError: if no server that runs has this address.
        """
        for server in self:
            if (server.host, server.port) == (host, port) and self.role(server.number) != "down":
                return server.open_stream()
        raise ConnectionRefusedError(f"no server of the ensemble listens at {host}:{port}")


def take_over(servers: Servers) -> LocalEnsemble:
    """Put an ensemble that runs into a test's hands; its history is recorded once somebody asks for that."""
    return LocalEnsemble(RunningEnsemble(servers, record=None, history_limit=HISTORY_LIMIT))


@attrs.frozen
class EnsembleLaunch:
    """The arguments with which an ensemble is started."""

    members: Sequence[Address]
    clock: ClockMode = attrs.field(validator=known_clock)
    record: bool | None = attrs.field(validator=check_type)
    history_limit: int = attrs.field(validator=known_limit)
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
        async with hosted(servers.run, clock, ended):
            running = RunningEnsemble(servers, record=self.record, history_limit=self.history_limit)
            local = LocalEnsemble(running)
            shown.note(local)
            try:
                yield local
            finally:
                for tell in at_end:
                    tell(running.advice)


def _launch(
    participants: int,
    observers: int,
    clock: ClockMode,
    record: bool,
    history_limit: int,
    timing: Timing | None,
    settings: dict[str, Any],
) -> EnsembleLaunch:
    for name in settings.keys() & attrs.fields_dict(Timing).keys():
        raise TypeError(f"{name} is a time of an ensemble: timing=Timing({name}={settings[name]!r})")
    if timing is not None and not isinstance(timing, Timing):
        raise TypeError(
            f"timing must be a Timing, such as Timing(sync_limit=5, election=200), not {timing!r}"
        )
    members, given = made_up(participants, observers), settings_of(settings)
    return EnsembleLaunch(members, clock, record, history_limit, timing, given)


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
    :raises TypeError: for a setting that does not exist, or an argument of another type.
    :raises ValueError: for one out of range, or a number of servers that is none.
    :raises OSError: on entering, if an address cannot be bound.
    """
    return _launch(participants, observers, clock, record, history_limit, timing, settings).open()


class EmbeddedEnsemble(InThread[LocalEnsemble], EnsembleControls):
    """A pretend ensemble in a daemon thread, for tests with any client.

    Use it with ``with``. All methods may be called from any thread; they raise :class:`ServerStopped` where
    it does not run, :class:`ServerDied` if its thread has ended with an error. The arguments are those of
    :func:`open_ensemble`.

    :raises TypeError: for a setting that does not exist, or an argument of another type.
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
        self._launch = _launch(participants, observers, clock, record, history_limit, timing, settings)

    def __repr__(self) -> str:
        where = self.hosts if self._inside is not None else "not running"
        return f"<EmbeddedEnsemble {where}>"

    def start(self, server: ServerRef | None = None, *, observer: bool = False) -> Any:
        """Start the ensemble, and return it; or, with a number, a server that was killed, or a further one.

        :raises RuntimeError: if it runs.
        :raises OSError: if an address cannot be bound.
        """
        if server is None:
            return InThread.start(self)
        return EnsembleControls.start(self, server, observer=observer)

    def _open(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[LocalEnsemble]:
        return self._launch.open(ended)

    @property
    def running(self) -> RunningEnsemble:
        return self._local.running
