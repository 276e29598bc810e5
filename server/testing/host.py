"""The server in the caller's own trio run: for tests in trio, and within the embedded one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import trio

from ..config.settings import Settings
from ..net.clock import Clock
from ..serve import Server
from .clock import CLOCK_MODES, ClockMode
from .controls import Controls, Running
from .memory import MemoryStream

if TYPE_CHECKING:
    from ..storage.storage import Storage

T = TypeVar("T")

HISTORY_LIMIT = 20_000
"""Entries of the history that are kept by default; a request makes two."""


_MEMORY_HOST = "127.0.0.1"
"""The address that clients without a socket are said to come from; their ports count from 1."""


class LocalServer(Controls):
    """A server in the caller's own trio run."""

    def __init__(self, running: Running) -> None:
        super().__init__()
        self._running = running
        self._memory_ports = 0

    @property
    def running(self) -> Running:
        return self._running

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def open_stream(self) -> trio.abc.HalfCloseableStream:
        """Connect without a socket; returns the client's end."""
        self._memory_ports += 1
        running = self._running
        peer = (_MEMORY_HOST, self._memory_ports)
        stream = MemoryStream(running.service, peer, running.clock.now, running.server.flush)
        running.streams.add(stream)
        return stream


def take_over(server: Server) -> LocalServer:
    """Put a server that runs into a test's hands; from now on its history is recorded."""
    return LocalServer(Running(server, server.clock, record=True, history_limit=HISTORY_LIMIT))


def open_server(
    *,
    clock: ClockMode = "running",
    record: bool = True,
    history_limit: int = HISTORY_LIMIT,
    data: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> AbstractAsyncContextManager[LocalServer]:
    """Run a server in the caller's trio run: an async context manager that yields its controls.

    It lives on trio's clock, so under ``autojump_clock`` its sessions expire in no real time. It listens on a
    port of the kernel's choosing; :meth:`.LocalServer.open_stream` connects without a socket.

    :param clock: ``"running"``: with trio's clock; ``"frozen"``: time passes by ``clock.advance`` alone.
    :param record: whether the history is recorded.
    :param history_limit: how many entries are kept.
    :param data: a directory that keeps the data, in the files of Apache ZooKeeper; the server starts with
        them.
    :param settings: the fields of :class:`pyzk.server.config.settings.Settings`; ``port`` is 0 by default.
    :raises TypeError: for a setting that does not exist.
    :raises ValueError: for one out of range.
    :raises OSError: on entering, if the address cannot be bound.
    :raises StorageError: on entering, if the data cannot be used.
    """
    return Launch(clock, record, history_limit, settings, data).open()


def _as_settings(given: Mapping[str, Any]) -> Settings:
    return Settings(**{"port": 0, **given})


@attrs.frozen
class Launch:
    """The arguments with which a server is started."""

    clock: ClockMode = attrs.field(validator=attrs.validators.in_(CLOCK_MODES))
    record: bool
    history_limit: int = attrs.field(validator=attrs.validators.ge(1))
    settings: Settings = attrs.field(converter=_as_settings)
    data: str | os.PathLike[str] | None = None

    def _storage(self, stack: AsyncExitStack) -> Storage | None:
        """Read the data that the server starts with.

        :param stack: closes them at its end.
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

        async def run(server: Server, *, task_status: trio.TaskStatus[Server]) -> None:
            try:
                await server.run(task_status=task_status)
            finally:
                ended()

        failure: BaseException | None = None
        try:
            async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
                clock = Clock(frozen=self.clock == "frozen")
                server = Server(self.settings, clock, self._storage(stack))
                await nursery.start(run, server)
                running = Running(server, clock, record=self.record, history_limit=self.history_limit)
                server.controls = LocalServer(running)
                try:
                    yield server.controls
                except BaseException as error:
                    if nursery.cancel_scope.cancel_called or isinstance(error, trio.Cancelled):
                        raise
                    failure = error  # the body's own is not to come out as a group
                nursery.cancel_scope.cancel()
        except* OSError as group:
            # the address cannot be bound: nothing else here raises it, and the body's is put aside
            if failure is None and len(group.exceptions) == 1:
                failure = group.exceptions[0]
            else:
                raise
        if failure is not None:
            raise failure
