"""Clients of kazoo, unmodified: in threads that take turns, with the run's server in memory.

The rules:

1. A client has an address of its own, so its name survives each of its connections and sessions.
2. Its sockets are pairs of AF_UNIX: what one side sends is there at once, not when the kernel comes to it.
3. At the end each client is stopped. What still waits then, waits for ever, and is ended.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final
from unittest import mock

import trio
import trio.testing
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry

from ...net.connection import Connection
from ...testing.host import LocalServer
from ..driver import Driver
from ..judging import place
from ..stage import Stage
from .lab import ThreadLab
from .replaced import replaced, wait_for_sockets
from .turns import Turns

_PORT: Final = 2181
_MOST: Final = 64 * 1024  # bytes
_LEAVING: Final = 60.0
"""Seconds of virtual time for clients to stop."""


class ThreadDriver(Driver):
    """
    :ivar turns: the threads of the run.
    """

    longest = 300.0

    def __init__(self, server: LocalServer) -> None:
        super().__init__(server)
        self.turns = Turns()
        self._addresses: dict[str, str] = {}  # by the name of a client
        self._sockets: list[socket.socket] = []
        self._nursery: trio.Nursery
        self._stage: Stage
        self._lab: ThreadLab

    # --- what a run asks for -----------------------------------------------------------------------------

    def make_lab(self, stage: Stage, nursery: trio.Nursery, excused: str | None) -> ThreadLab:
        self._stage, self._nursery = stage, nursery
        self._lab = ThreadLab(self.server, self.turns, stage, self.hosts, excused)
        return self._lab

    async def act(self, scenario: Any) -> None:
        await self._in_thread(partial(scenario, self._lab), "scenario")

    async def leave(self) -> None:
        with trio.move_on_after(_LEAVING):
            await self._in_thread(self._lab.stop_clients, "the end of the scenario")

    async def _in_thread(self, function: Callable[[], object], name: str) -> None:
        done = trio.Event()
        errors: list[Exception] = []

        def act() -> None:
            try:
                function()
            except Exception as error:
                errors.append(error)
            self.turns.call(done.set)

        self.turns.begin(act, name)
        self._stage.happened()
        await done.wait()
        if errors:
            raise errors[0]

    def end(self) -> list[BaseException]:
        self.turns.end()
        for sock in self._sockets:  # those of a client that has not come to it
            sock.close()
        return self.turns.errors

    async def settle(self) -> None:
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if not self.turns.run(trio.current_time()):
                return

    @property
    def deadline(self) -> float:
        return self.turns.deadline

    def places(self) -> dict[str, str]:
        found = self.turns.places()
        return {name: place(found[name]) for name in sorted(self._addresses) if name in found}

    # --- connections -------------------------------------------------------------------------------------

    def hosts(self, name: str) -> str:
        """Return the address of a client, as ``host:port``."""
        return f"{self._addresses.setdefault(name, f'127.0.1.{len(self._addresses) + 1}')}:{_PORT}"

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        """Return the client's end of a new connection; called by a thread."""
        name = next((name for name, host in self._addresses.items() if host == address[0]), "other")
        mine, its = self._socket_pair()
        its.setblocking(False)
        end = trio.socket.from_stdlib_socket(its)
        self.turns.call(partial(self._nursery.start_soon, self._serve, end, name))
        return mine

    def _socket_pair(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        self._sockets += pair
        return pair

    async def _serve(self, sock: trio.socket.SocketType, name: str) -> None:
        stream = self.server.open_stream()
        connection: Connection | None = getattr(stream, "connection", None)
        if connection is not None:
            self.names[connection] = name
        with sock:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_receive, sock, stream)
                while data := await stream.receive_some(_MOST):
                    with suppress(OSError):
                        while data:
                            data = data[await sock.send(data) :]
                    self._stage.happened()
                nursery.cancel_scope.cancel()
        await stream.aclose()
        self._stage.happened()

    @contextmanager
    def replaced(self) -> Iterator[None]:
        handler, turns = SequentialThreadingHandler, self.turns
        real_select, real_connect, real_sleep = handler.select, handler.create_connection, handler.sleep_func
        real_pair = handler.create_socket_pair

        def select(self: Any, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
            if turns.current() is None:
                return real_select(self, readers, writers, others, timeout)
            wait_for_sockets(turns, readers, writers, timeout)
            return real_select(self, readers, writers, others, 0)

        def create_connection(handler: Any, address: tuple[str, int], *args: Any, **options: Any) -> Any:
            if turns.current() is None:
                return real_connect(handler, address, *args, **options)
            return self._connect(address)

        def create_socket_pair(handler: Any) -> tuple[socket.socket, socket.socket]:
            return real_pair(handler) if turns.current() is None else self._socket_pair()

        init: Any = KazooRetry.__init__
        with ExitStack() as stack:
            stack.enter_context(replaced(turns))
            sleep = time.sleep  # kazoo has taken the real one when it was imported
            defaults = tuple(sleep if each is real_sleep else each for each in init.__defaults__)
            for name, new in (
                ("select", select),
                ("create_connection", create_connection),
                ("create_socket_pair", create_socket_pair),
                ("sleep_func", staticmethod(sleep)),
            ):
                stack.enter_context(mock.patch.object(handler, name, new))
            stack.enter_context(mock.patch.object(init, "__defaults__", defaults))
            yield


async def _receive(sock: trio.socket.SocketType, stream: trio.abc.HalfCloseableStream) -> None:
    with suppress(OSError, trio.BrokenResourceError):
        while data := await sock.recv(_MOST):
            await stream.send_all(data)
        await stream.send_eof()
