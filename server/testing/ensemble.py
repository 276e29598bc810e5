"""A pretend ensemble inside a test: several servers in one process. The test can let servers lag, cut servers
off, and remove the leader.

Its clients see what clients of several servers see. The ensemble replicates nothing, and no data survives the
process.

    with EmbeddedEnsemble(3) as ensemble:
        client = KazooClient(ensemble.hosts)            # all three; ensemble[1].hosts is one of them
        ensemble.lag(1)                                 # server 1 shows old data until catch_up(1)
        ensemble.kill(ensemble.leader())

The rules: when a verb returns, the verb has taken effect. A verb runs after everything that clients have sent
before it. Some events take time on the servers' clock. These are the discovery of a silent link and the
election of a leader. These events happen by themselves while the clock runs, and at once with
:meth:`EnsembleControls.advance`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from ..config.arguments import check_type
from ..config.members import ServerAddress
from ..config.settings import Settings
from ..ensemble.host import EnsembleHost
from ..ensemble.timing import Timing
from ..net.clock import Clock
from ..net.server import HttpFactory
from . import shown, virtual
from .clock import ClockMode
from .controls.ensemble import EnsembleControls
from .host import at_end, hosted, known_clock, known_history, send_spans
from .running import HISTORY_LIMIT
from .running_ensemble import RunningEnsemble

_WHOLE = 60
"""A frozen clock starts at a multiple of this number of seconds. It is a whole number of ticks for most tick
times, so each test begins at the beginning of a tick."""

T = TypeVar("T")


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

    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        return wait()

    async def connector(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        """Connect without a socket to the server with this address, so that a client needs no real time. Pass
        ``connector=ensemble.connector`` and ``ensemble.hosts`` to :func:`pyzk.client.connect`.

        :raises ConnectionRefusedError: no running server has this address.
        """
        for server in self:
            if (server.host, server.port) == (host, port) and self.role(server.number) != "down":
                return server.open_stream()
        raise ConnectionRefusedError(f"no server of the ensemble listens at {host}:{port}")


def take_over(host: EnsembleHost) -> LocalEnsemble:
    """Return the parts of a running ensemble for a test. The history is recorded from the first use of a
    control that needs the history."""
    return LocalEnsemble(RunningEnsemble(host, record=None, history_limit=HISTORY_LIMIT))


@attrs.frozen
class EnsembleLaunch:
    """The arguments with which an ensemble is started.

    :ivar http: makes the HTTP server on the ports for clients.
    :ivar patience: the number of seconds of virtual time in which clients can do nothing but ping
        (:mod:`.virtual`).
    :ivar otlp: the URL to which spans are sent (:mod:`.spans`).
    """

    members: Sequence[ServerAddress]
    clock: ClockMode = attrs.field(validator=known_clock)
    record: bool | None
    history_limit: int = attrs.field(validator=known_history)
    timing: Timing | None
    settings: Settings
    http: HttpFactory | None = None
    patience: float = virtual.PATIENCE
    otlp: str | None = attrs.field(default=None, validator=check_type)

    @asynccontextmanager
    async def open(self, ended: Callable[[], None] = lambda: None) -> AsyncIterator[LocalEnsemble]:
        """Run the servers inside the ``async with``.

        :param ended: called at once when they have closed their sockets, for any reason.
        """
        clock = Clock(frozen=self.clock == "frozen")
        if clock.frozen:  # ticks begin at the start: a test finds the same moments in each run
            clock.jump(-clock.now() % _WHOLE)
        host = EnsembleHost(self.settings, clock, self.members, self.timing, http=self.http)
        with ExitStack() as stack:
            async with hosted(host.run, clock, ended):
                running = RunningEnsemble(host, record=self.record, history_limit=self.history_limit)
                local = LocalEnsemble(running)
                if self.otlp is not None:
                    send_spans(running, self.otlp, stack)
                shown.note(local)
                try:
                    with shown.interruptible(), virtual.ended(local, self.patience):
                        yield local
                finally:
                    for tell in at_end:
                        tell(running.advice)
