"""The server in the caller's own trio run. Tests in trio use this server, and :class:`.EmbeddedServer` runs
it in a thread."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import trio

from ..config.arguments import check_type
from ..config.settings import Settings
from ..monitoring.server import MonitoredServer
from ..net.clock import Clock
from ..net.server import HttpFactory, Server
from ..net.service import Service
from . import shown, virtual
from .clock import CLOCK_MODES, ClockMode
from .controls import Controls
from .running import HISTORY_LIMIT, Running

if TYPE_CHECKING:
    from ..storage.storage import Storage
    from .advisor.finding import Finding
    from .running_ensemble import RunningEnsemble

T = TypeVar("T")

at_end: Final[list[Callable[[Callable[[], list[Finding]]], object]]] = []
"""The functions of the pytest plugin for the end of a server or an ensemble. They are called in its thread,
with a function that returns the findings. Raises nothing."""


class LocalServer(Controls):
    """A server in the caller's own trio run."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running

    @property
    def running(self) -> Running:
        return self._running

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def _wait(self, wait: Callable[[], Awaitable[None]]) -> Any:
        return wait()

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket, and return the client's end."""
        return self.running.open_stream()

    async def connector(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        """Connect without a socket, so that a client needs no real time. Pass ``connector=server.connector``
        and ``server.hosts`` to :func:`pyzk.client.connect`.

        :param host: any name, as there is one server.
        :param port: any number.
        """
        return self.open_stream()


def take_over(server: Server, hostile: int | None = None) -> LocalServer:
    """Return the parts of a running server for a test. The history is recorded from the first use of a
    control that needs the history.

    :param hostile: as for :class:`Launch`.
    """
    running = Running(server, server.clock, record=None, history_limit=HISTORY_LIMIT, hostile=hostile)
    return LocalServer(running)


def known_clock(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Raise :class:`ValueError` if the mode of the clock does not exist."""
    if value not in CLOCK_MODES:
        raise ValueError(f"clock must be {' or '.join(map(repr, CLOCK_MODES))}, not {value!r}")


def known_history(instance: Any, limit: attrs.Attribute[Any], value: int) -> None:
    """Check ``record`` and ``history_limit``. Raises :class:`TypeError` or :class:`ValueError`."""
    if type(value) is not int:
        check_type(instance, limit, value)
    if value < 1:
        raise ValueError(f"{limit.name} must be at least 1, not {value}")
    if instance.record is not None and type(instance.record) is not bool:
        check_type(instance, attrs.fields_dict(type(instance))["record"], instance.record)


def send_spans(running: Running | RunningEnsemble, url: str, stack: ExitStack) -> None:
    """Send a span for each request from now on.

    :param stack: sends the last spans at the end of the server.
    :raises ValueError: the URL is not the URL of a collector.
    """
    from .spans import Exporter, Spans

    exporter = Exporter(url)
    stack.callback(exporter.close)
    Spans(running, exporter)


@attrs.frozen
class Launch:
    """The arguments with which a server is started.

    :ivar http: the factory of the HTTP server on the port for clients.
    :ivar otlp: the URL to which spans are sent (:mod:`.spans`).
    :ivar patience: the number of seconds of virtual time in which clients can do nothing but ping
        (:mod:`.virtual`).
    """

    clock: ClockMode = attrs.field(validator=known_clock)
    record: bool | None  # None: once somebody asks for the history
    history_limit: int = attrs.field(validator=known_history)
    settings: Settings
    hostile: int | None = attrs.field(default=None, validator=check_type)
    data: str | os.PathLike[str] | None = attrs.field(default=None, validator=check_type)
    http: HttpFactory | None = None
    patience: float = virtual.PATIENCE
    otlp: str | None = attrs.field(default=None, validator=check_type)

    def _storage(self, stack: ExitStack) -> Storage | None:
        """Read the data with which the server starts.

        :param stack: closes the files at its end.
        :raises StorageError: if that is impossible.
        """
        if self.data is None:
            return None
        from ..storage.storage import Storage

        storage = Storage(self.data, self.settings)
        storage.load()
        stack.callback(storage.close)
        return storage

    @asynccontextmanager
    async def open(self, ended: Callable[[], None] = lambda: None) -> AsyncIterator[LocalServer]:
        """Run the server inside the ``async with``.

        :param ended: called at once when the server has closed its sockets, for any reason.
        """

        clock = Clock(frozen=self.clock == "frozen")
        with ExitStack() as stack:
            make_service = partial(Service, storage=self._storage(stack))
            server = MonitoredServer(self.settings, clock, make_service, http=self.http)
            async with hosted(server.run, clock, ended):
                running = Running(
                    server,
                    clock,
                    record=self.record,
                    history_limit=self.history_limit,
                    hostile=self.hostile,
                )
                server.controls = LocalServer(running)
                if self.otlp is not None:
                    send_spans(running, self.otlp, stack)
                shown.note(server.controls)
                try:
                    with shown.interruptible(), virtual.ended(server.controls, self.patience):
                        yield server.controls
                finally:
                    for tell in at_end:
                        tell(running.advice)


@asynccontextmanager
async def hosted(
    serve: Callable[..., Awaitable[None]], clock: Clock, ended: Callable[[], None]
) -> AsyncIterator[None]:
    """Run a server inside the ``async with``.

    :param serve: takes a ``task_status``.
    :param clock: the parts of the server. After the block the server is frozen, so that a test can inspect
        it.
    :param ended: called immediately when the server ends, for whatever reason.
    """

    async def run(*, task_status: trio.TaskStatus[Any]) -> None:
        try:
            await serve(task_status=task_status)
        finally:
            clock.freeze(True)
            ended()

    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            try:
                yield
            except BaseException as error:
                if nursery.cancel_scope.cancel_called or isinstance(error, trio.Cancelled):
                    raise
                failure = error  # the body's own is not to come out as a group
            nursery.cancel_scope.cancel()
    except* OSError as group:
        # an address cannot be bound: nothing else here raises it, and the body's is put aside
        found: BaseException = group
        while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
            found = found.exceptions[0]
        if failure is not None or isinstance(found, BaseExceptionGroup):
            raise
        failure = found
    if failure is not None:
        raise failure
