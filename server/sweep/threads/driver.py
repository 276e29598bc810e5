"""Clients in threads that take turns. The server of the run is in memory.

The rules:

1. Each client has its own address, so its name stays the same for all its connections and sessions.
2. At the end, each client is stopped. Threads that still wait then would wait for ever, so these threads are
   interrupted. Threads that continue after the interrupt are ended at their next wait.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import trio
import trio.testing

from ....bridge import loop
from ....bridge.direct import threads
from ..driver import Driver
from ..judging import place
from ..model import NotControlled
from ..relay import relay
from ..servers import Servers
from ..stage import Stage
from .lab import NO_GREENLETS, ThreadLab
from .replacing import replacing
from .sockets import Addresses, sockets_replaced
from .turns import Turns
from .waits import waits_replaced

_LEAVING: Final = 60.0
"""The seconds of virtual time in which clients must stop, and in which interrupted threads must end."""


class ThreadDriver(Driver):
    """The clients of a run as threads.

    :ivar turns: the threads of the run.
    """

    longest = 300.0

    def __init__(self, servers: Servers) -> None:
        """Prepare the threads of a run.

        :raises NotControlled: greenlets have replaced threads in this process.
        """
        _check_threads()
        super().__init__(servers)
        self.turns = Turns()
        self._addresses = Addresses(len(servers.each))
        self._nursery: trio.Nursery
        self._stage: Stage
        self._lab: ThreadLab

    # --- what a run calls --------------------------------------------------------------------------------

    def make_lab(self, stage: Stage, nursery: trio.Nursery, excused: str | None) -> ThreadLab:
        self._stage, self._nursery = stage, nursery
        self._lab = ThreadLab(self.servers, self.turns, stage, self._addresses, excused)
        return self._lab

    async def act(self, scenario: Any) -> None:
        await self._in_thread(partial(scenario, self._lab), "scenario")

    async def leave(self) -> None:
        with trio.move_on_after(_LEAVING):
            await self._in_thread(self._lab.stop_clients, "the end of the scenario")
        self.turns.interrupt()
        self._stage.happened()
        with trio.move_on_after(_LEAVING):
            while not self.turns.are_over:
                await trio.sleep(1)

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
        return {name: place(found[name]) for name in self._addresses.names if name in found}

    # --- connections -------------------------------------------------------------------------------------

    def _connect(self, name: str, address: object) -> socket.socket:
        """Return the client's end of a new connection. A thread of the run calls this."""
        stream = self.turns.call(partial(self.servers.open_stream, name, address))
        mine, its = socket.socketpair()
        its.setblocking(False)
        end = trio.socket.from_stdlib_socket(its)
        self.turns.call(partial(self._nursery.start_soon, relay, end, stream, self._stage.happened))
        return mine

    @contextmanager
    def replaced(self) -> Iterator[None]:
        with (
            waits_replaced(self.turns),
            sockets_replaced(self.turns, self._addresses, self._connect),
            replacing(list(_taken_at_import())),
        ):
            yield


def _check_threads() -> None:
    gevent, eventlet = (sys.modules.get(name) for name in ("gevent.monkey", "eventlet.patcher"))
    if (gevent is not None and gevent.is_module_patched("threading")) or (
        eventlet is not None and eventlet.is_monkey_patched("thread")
    ):
        raise NotControlled(f"this process is patched so that it {NO_GREENLETS}")


def _taken_at_import() -> Iterator[tuple[Any, str, Any]]:
    """List the names under which other modules keep a function of the standard library, each with its
    replacement.

    The event loop that the whole process shares is also listed, because each run must make its own event
    loop.
    """
    yield loop, "_shared", {}
    yield threads, "_poll", getattr(select, "poll", None)
    if find_spec("kazoo") is not None:
        from kazoo.handlers.threading import SequentialThreadingHandler
        from kazoo.retry import KazooRetry

        real = SequentialThreadingHandler.sleep_func
        init: Any = KazooRetry.__init__
        yield SequentialThreadingHandler, "sleep_func", staticmethod(time.sleep)
        yield init, "__defaults__", tuple(time.sleep if it is real else it for it in init.__defaults__)
