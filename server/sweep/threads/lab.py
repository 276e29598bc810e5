"""The argument of a scenario with threads: its own server, clients by name, and a way to start them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...core.engine import Engine
from ...testing.controls import Controls
from ...testing.running import Running
from ..lab import BaseLab, GaveUp, says_that_it_ended
from ..model import NotControlled
from ..servers import Servers
from ..stage import Stage
from .sockets import Addresses
from .turns import Turn, Turns

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from ....blocking import ZooKeeper as BlockingZooKeeper

T = TypeVar("T")
NO_GREENLETS: Final = (
    "switches between greenlets where the sweep does not see it: sweep the program from outside, with "
    "pyzk-sweep (docs/sweep-commands.md)"
)


class ThreadLab(BaseLab):
    """
    :ivar server: the controls of the server, without the controls that wait.
    """

    def __init__(
        self,
        servers: Servers,
        turns: Turns,
        stage: Stage,
        addresses: Addresses,
        excused: str | None,
    ) -> None:
        super().__init__(excused)
        self.server: Controls = _Server(servers.whole, turns)
        self._turns = turns
        self._stage = stage
        self._addresses = addresses
        self._closing = ExitStack()

    def says_that_it_ended(self, error: BaseException) -> bool:
        return isinstance(error, _errors_of_kazoo()) or says_that_it_ended(error)

    def client(self, name: str, **options: Any) -> KazooClient:
        """Start a client of kazoo, for as long as the run lasts.

        :param name: what reports call it: lower-case letters.
        :param options: of :class:`kazoo.client.KazooClient`. By default its session lasts 10 s.
        :raises ValueError: the name is taken, or not of lower-case letters.
        :raises ImportError: kazoo is not installed.
        :raises NotControlled: its handler is one of greenlets.
        """
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import SequentialThreadingHandler

        if not isinstance(options.get("handler") or SequentialThreadingHandler(), SequentialThreadingHandler):
            raise NotControlled(f"kazoo's {type(options['handler']).__name__} {NO_GREENLETS}")
        zk = KazooClient(self.hosts(name), **({"timeout": 10.0} | options))
        self._belongs(name, zk)
        self._closing.callback(zk.close)
        self._closing.callback(zk.stop)
        zk.start()
        return zk

    def blocking(self, name: str, **options: Any) -> BlockingZooKeeper:
        """Connect a client of :mod:`pyzk.blocking`, for as long as the run lasts.

        :param name: what reports call it: lower-case letters.
        :param options: of :func:`pyzk.blocking.connect`. By default its session lasts 10 s, and it gets a new
            one if that expires.
        :raises ValueError: the name is taken, or not of lower-case letters.
        """
        from ....blocking import connect

        defaults: dict[str, Any] = {
            "session_timeout": 10.0,
            "on_expired": "new_session",
            "rng": random.Random(name),
        }
        zk = self._closing.enter_context(connect(self.hosts(name), **(defaults | options)))
        self._belongs(name, zk)
        return zk

    def _belongs(self, name: str, client: object) -> None:
        self._clients[id(client)] = self._clients.pop(id(name))

    def hosts(self, name: str) -> str:
        """Return the connect string for a program that makes its client itself, in a thread or in an event
        loop.

        :param name: as for :meth:`client`.
        :raises ValueError: likewise.
        """
        self._check_name(name)
        self._clients[id(name)] = name
        return self._addresses.add(name)

    def stop_clients(self) -> None:
        """Stop the clients that the lab has made."""
        with suppress(Exception):
            self._closing.close()

    def together(self, *functions: Callable[[], object]) -> None:
        """Run functions at once, each in a thread, and wait for all. Every request of theirs is a step of the
        sweep.

        A client that a fault has cut off until its session had ended may end with an error that says so.
        Then the run is over here: what the scenario checks afterwards does not count.

        :param functions: the first belongs to the first client, and so on; or to the one among the arguments
            of a :func:`functools.partial`.
        :raises ValueError: there are more functions than clients, or two belong to the same one.
        """
        acting = self._by_client(functions)
        me = self._turns.current()
        assert me is not None, "together() is for the scenario's own thread"
        left, errors = set(acting), list[Exception]()
        self._turns.call(self._stage.open)
        for name, function in acting.items():
            self._turns.begin(partial(self._act, name, function, left, errors, me), name)
        while left:
            self._turns.wait(me)
        self._turns.call(self._stage.close)
        self.is_over = True
        if errors:
            raise next((error for error in errors if isinstance(error, AssertionError)), errors[0])
        if self.gave_up:
            raise GaveUp

    def _act(
        self, name: str, function: Callable[[], object], left: set[str], errors: list[Exception], whole: Turn
    ) -> None:
        try:
            function()
        except Exception as error:
            if self.may_end_with(name, error):
                self.gave_up = True
            else:
                errors.append(error)
        finally:
            left.discard(name)
            self._turns.wake(whole)

    def point(self) -> None:
        """Let the other clients act first here, in some runs. This is a separate step.

        :raises RuntimeError: outside of the functions of :meth:`together`.
        """
        turn = self._acting()
        passed: list[bool] = []

        def proceed() -> None:
            passed.append(True)
            self._turns.wake(turn)

        self._turns.call(partial(self._stage.arrive, turn.name, proceed))
        if not passed:
            self._turns.wait(turn)

    @contextmanager
    def inside(self, what: str = "it", most: int = 1) -> Iterator[None]:
        """Assert that at most ``most`` clients are inside this block at once.

        :raises AssertionError: if there are more.
        :raises RuntimeError: outside of the functions of :meth:`together`.
        """
        self.point()
        name = self._acting().name
        there = self.enter(what, most, name)
        try:
            self.point()
            yield
        finally:
            there.remove(name)

    def _acting(self) -> Turn:
        turn = self._turns.current()
        if turn is None or turn.name not in self._clients.values():
            raise RuntimeError("point() and inside() are for the functions that together() runs")
        return turn


class _Server(Controls):
    """The controls of the run's server, for its threads."""

    def __init__(self, server: Controls, turns: Turns) -> None:
        super().__init__()
        self._server = server
        self._turns = turns

    @property
    def running(self) -> Running:
        return self._server.running

    def writer(self) -> Engine:
        return self._server.writer()

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return self._turns.call(partial(function, *arguments))

    def _wait(self, wait: Callable[[], Any]) -> Any:
        raise NotImplementedError("a scenario waits by its clients: a wait of the server's would not end")


def _errors_of_kazoo() -> tuple[type[Exception], ...]:
    """Return its errors that say that a session has ended."""
    if find_spec("kazoo") is None:
        return ()
    from kazoo.exceptions import CancelledError, ConnectionClosedError, ConnectionLoss, SessionExpiredError

    return CancelledError, ConnectionClosedError, ConnectionLoss, SessionExpiredError
