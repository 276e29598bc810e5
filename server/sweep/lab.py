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

_acting: contextvars.ContextVar[str] = contextvars.ContextVar("the client whose function this is")


class GaveUp(Exception):
    """A client has learned that its session has ended, and its function ended with an error, as it may."""


class BaseLab:
    """The common part of the labs for all kinds of clients.

    :param excused: the client whose session does not survive the fault of this run.
    :ivar gave_up: whether a client has ended with an error that says that its session has ended.
    :ivar is_over: whether :meth:`together` has ended.
    """

    def __init__(self, excused: str | None) -> None:
        self._excused = excused
        self._clients: dict[int, str] = {}  # by id()
        self._inside: dict[str, list[str]] = {}
        self.gave_up = False
        self.is_over = False

    def says_that_it_ended(self, error: BaseException) -> bool:
        """Whether an error says that a session has ended, or what was held with it."""
        raise NotImplementedError

    def may_end_with(self, name: str, error: BaseException) -> bool:
        """Whether the function of a client may end with this error, as the fault of this run has ended a
        session."""
        from ...recipes import BarrierBroken

        if self._excused is None:
            return False
        return isinstance(error, BarrierBroken) or (name == self._excused and self.says_that_it_ended(error))

    def forgives(self, error: BaseException) -> bool:
        """Whether the scenario may end with this error, as the fault of this run has ended a session."""
        return self._excused is not None and self.is_over and self.says_that_it_ended(error)

    def _check_name(self, name: str) -> None:
        if not (name.isalpha() and name.islower() and name.isascii()) or name in self._clients.values():
            raise ValueError(f"a client's name is of lower-case letters, and no other client's: not {name!r}")

    def _by_client(self, functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Say which client each function belongs to.

        :raises ValueError: there are more functions than clients, or two belong to the same one.
        """
        names = list(self._clients.values())
        found: dict[str, Callable[..., Any]] = {}
        for n, function in enumerate(functions):
            name = self._owner(function) or (names[n] if n < len(names) else "")
            if not name or name in found:
                raise ValueError(
                    "each function of together() belongs to another client: make as many with client()"
                )
            found[name] = function
        return found

    def _owner(self, function: Callable[..., Any]) -> str | None:
        if not isinstance(function, partial):
            return None
        given = (*function.args, *function.keywords.values())
        return next((self._clients[id(each)] for each in given if id(each) in self._clients), None)

    def inside_of(self, what: str) -> list[str]:
        """Return the names of the clients that are inside of a block; the list may be changed."""
        return self._inside.setdefault(what, [])

    def enter(self, what: str, most: int, name: str) -> list[str]:
        """Note that a client is inside of a block; returns all that are.

        :raises AssertionError: there are more than may be.
        """
        there = self.inside_of(what)
        there.append(name)
        if len(there) > most:
            there.remove(name)
            raise AssertionError(f"{' and '.join(sorted([*there, name]))} are inside of {what!r} at once")
        return there


class Lab(BaseLab):
    """
    :ivar server: the controls of the server, to look at its tree, for instance. In an ensemble, the controls
        of the server that has applied the most transactions.
    :ivar ensemble: the controls of the ensemble; None without one.
    :ivar tasks: the tasks of running functions, by client.
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

        :param name: what reports call it: lower-case letters.
        :param options: of :func:`pyzk.client.connect`. By default its session lasts 10 s, and is replaced by
            a new one if it expires.
        :raises ValueError: the name is taken, or not of lower-case letters.
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
        """Run functions at once, and wait for all. Every request of theirs is a step of the sweep.

        A client that a fault has cut off until its session had ended may end with an error that says so.
        Then the run is over here: what the scenario checks afterwards does not count.

        :param functions: the first belongs to the first client, and so on; or to the one among the arguments
            of a :func:`functools.partial`.
        :raises ValueError: there are more functions than clients, or two belong to the same one.
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
        """Let the other clients act first here, in some runs. This is a separate step.

        :raises RuntimeError: outside of the functions of :meth:`together`.
        """
        name = _acting.get(None)
        if name is None:
            raise RuntimeError("point() and inside() are for the functions that together() runs")
        await self._stage.point(name)

    @asynccontextmanager
    async def inside(self, what: str = "it", most: int = 1) -> AsyncIterator[None]:
        """Assert that at most ``most`` clients are inside this block at once.

        :raises AssertionError: if there are more.
        :raises RuntimeError: outside of the functions of :meth:`together`.
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
    """Whether an error says that a session has ended, or what was held with it."""
    from ...client import ConnectionLossError, SessionExpiredError
    from ...recipes import AmbiguousResult, LockLost, UndecidedItem

    if isinstance(error, BaseExceptionGroup):
        return all(map(says_that_it_ended, error.exceptions))
    return isinstance(
        error, (ConnectionLossError, SessionExpiredError, LockLost, AmbiguousResult, UndecidedItem)
    )
