"""The argument of a scenario: its own server in memory, clients by name, and a way to start them."""

from __future__ import annotations

import contextvars
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..testing.controls import Controls
from ..testing.ensemble import LocalEnsemble
from .servers import Servers
from .stage import Stage

if TYPE_CHECKING:
    from ...client import ZooKeeper

_acting: contextvars.ContextVar[str] = contextvars.ContextVar("the client that runs this function")


class GaveUp(Exception):
    """A client has learned that its session has ended, and its function ended with an allowed error."""


class BaseLab:
    """The common part of the labs for all kinds of clients.

    :param excused: the client whose session the fault of this run ends; None if there is no such client.
    :ivar gave_up: whether a client's function has ended with an error that says that its session has ended.
    :ivar is_over: whether :meth:`together` has ended.
    """

    def __init__(self, excused: str | None) -> None:
        self._excused = excused
        self._clients: dict[int, str] = {}  # by id()
        self._inside: dict[str, list[str]] = {}
        self.gave_up = False
        self.is_over = False

    def says_that_it_ended(self, error: BaseException) -> bool:
        """Return whether an error says that a session has ended, or that a lock ended with its session."""
        raise NotImplementedError

    def may_end_with(self, name: str, error: BaseException) -> bool:
        """Return whether the function of a client may end with this error, because the fault ended a session.

        :param name: the client's name.
        """
        from ...recipes import BarrierBroken

        if self._excused is None:
            return False
        return isinstance(error, BarrierBroken) or (name == self._excused and self.says_that_it_ended(error))

    def forgives(self, error: BaseException) -> bool:
        """Return whether the scenario may end with this error, because the fault has ended a session."""
        return self._excused is not None and self.is_over and self.says_that_it_ended(error)

    def _check_name(self, name: str) -> None:
        if not (name.isalpha() and name.islower() and name.isascii()) or name in self._clients.values():
            raise ValueError(
                f"{name!r} cannot be a client's name: use lower-case letters, and one name for one client"
            )

    def _by_client(self, functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Return the functions by the names of their clients.

        :raises ValueError: there are more functions than clients, or two functions belong to the same client.
        """
        names = list(self._clients.values())
        found: dict[str, Callable[..., Any]] = {}
        for n, function in enumerate(functions):
            name = self._owner(function) or (names[n] if n < len(names) else "")
            if not name or name in found:
                raise ValueError(
                    "each function of together() needs its own client: make as many clients with client()"
                )
            found[name] = function
        return found

    def _owner(self, function: Callable[..., Any]) -> str | None:
        if not isinstance(function, partial):
            return None
        given = (*function.args, *function.keywords.values())
        return next((self._clients[id(each)] for each in given if id(each) in self._clients), None)

    def inside_of(self, what: str) -> list[str]:
        """Return the names of the clients that are inside of a block. The caller may change the list."""
        return self._inside.setdefault(what, [])

    def enter(self, what: str, most: int, name: str) -> list[str]:
        """Note that a client is inside of a block; return the names of all clients inside.

        :param what: the name of the block.
        :param most: how many clients may be inside.
        :param name: the client's name.
        :raises AssertionError: more than ``most`` clients are inside.
        """
        there = self.inside_of(what)
        there.append(name)
        if len(there) > most:
            there.remove(name)
            raise AssertionError(f"{' and '.join(sorted([*there, name]))} are inside of {what!r} at once")
        return there


class Lab(BaseLab):
    """The argument of a scenario: a server in memory, and its clients.

    :ivar server: the controls of the server, for example to look at its tree. In an ensemble, these are the
        controls of the server that has applied the most transactions.
    :ivar ensemble: the controls of the ensemble; None for a single server.
    :ivar tasks: the tasks of the running functions, by client.
    """

    def __init__(
        self,
        servers: Servers,
        stage: Stage,
        nursery: trio.Nursery,
        excused: str | None,
    ) -> None:
        super().__init__(excused)
        self.server: Controls = servers.whole
        self.ensemble: LocalEnsemble | None = servers.ensemble
        self._servers = servers
        self._stage = stage
        self._nursery = nursery
        self.tasks: dict[str, trio.lowlevel.Task] = {}

    def says_that_it_ended(self, error: BaseException) -> bool:
        return says_that_it_ended(error)

    async def client(self, name: str, **options: Any) -> ZooKeeper:
        """Connect a client of :mod:`pyzk.client`, for as long as the run lasts.

        :param name: the client's name in reports: lower-case letters.
        :param options: options of :func:`pyzk.client.connect`. By default the session timeout is 10 s, and a
            new session replaces an expired session.
        :raises ValueError: the name is taken, or has characters other than lower-case letters.
        """
        self._check_name(name)
        zk: ZooKeeper = await self._nursery.start(self._live, name, options)
        self._clients[id(zk)] = name
        return zk

    async def _live(
        self, name: str, options: dict[str, Any], *, task_status: trio.TaskStatus[ZooKeeper]
    ) -> None:
        from ...client import connect

        async def connector(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            return self._servers.open_stream(name, host)

        defaults: dict[str, Any] = {
            "session_timeout": 10.0,
            "on_expired": "new_session",
            "rng": random.Random(name),
        }
        hosts = ",".join(f"server{n + 1}" for n in range(len(self._servers.each)))
        async with connect(hosts, connector=connector, **(defaults | options)) as zk:
            task_status.started(zk)
            await trio.sleep_forever()

    async def together(self, *functions: Callable[[], Awaitable[object]]) -> None:
        """Run functions at the same time, and wait for all. Each request of these functions is a step of the
        sweep.

        A fault may cut a client off until its session has ended. Then the client's function may end with an
        error that says so, and the run ends here: the scenario's later checks do not run.

        :param functions: the functions. The first function belongs to the first client, and so on. A
            :func:`functools.partial` belongs to the client among its arguments.
        :raises ValueError: there are more functions than clients, or two functions belong to the same client.
        """
        acting = self._by_client(functions)
        self._stage.open()
        async with trio.open_nursery() as nursery:
            for name, function in acting.items():
                nursery.start_soon(self._act, name, function)
        self._stage.close()
        self.is_over = True
        if self.gave_up:
            raise GaveUp

    async def _act(self, name: str, function: Callable[[], Awaitable[object]]) -> None:
        _acting.set(name)
        self.tasks[name] = trio.lowlevel.current_task()
        try:
            await function()
        except Exception as error:
            if not self.may_end_with(name, error):
                raise
            self.gave_up = True
        finally:
            del self.tasks[name]

    async def point(self) -> None:
        """Make a step without a request: in some runs, other clients act first here.

        :raises RuntimeError: the caller is not a function of :meth:`together`.
        """
        name = _acting.get(None)
        if name is None:
            raise RuntimeError("point() and inside() are for the functions that together() runs")
        await self._stage.point(name)

    @asynccontextmanager
    async def inside(self, what: str = "it", most: int = 1) -> AsyncIterator[None]:
        """Assert that at most ``most`` clients are inside this block at once.

        :param what: the name of the block in reports.
        :param most: how many clients may be inside.
        :raises AssertionError: more clients are inside.
        :raises RuntimeError: the caller is not a function of :meth:`together`.
        """
        await self.point()
        name = _acting.get()
        there = self.enter(what, most, name)
        try:
            await self.point()
            yield
        finally:
            there.remove(name)


def says_that_it_ended(error: BaseException) -> bool:
    """Return whether an error says that a session has ended, or that a lock ended with its session."""
    from ...client import ConnectionLossError, SessionExpiredError
    from ...recipes import AmbiguousResult, LockLost, UndecidedItem

    if isinstance(error, BaseExceptionGroup):
        return all(map(says_that_it_ended, error.exceptions))
    return isinstance(
        error, (ConnectionLossError, SessionExpiredError, LockLost, AmbiguousResult, UndecidedItem)
    )
