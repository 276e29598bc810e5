"""The argument of a scenario with threads: a server in memory, clients by name, and a way to start them."""

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
    "switches between greenlets, and the sweep cannot see these switches: sweep the program from outside, "
    "with pyzk-sweep (docs/sweep-commands.md)"
)


class ThreadLab(BaseLab):
    """The argument of a scenario with threads: a server in memory, and its clients.

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

        :param name: the client's name in reports: lower-case letters.
        :param options: options of :class:`kazoo.client.KazooClient`. By default the session timeout is 10 s.
        :raises ValueError: the name is taken, or has characters other than lower-case letters.
        :raises ImportError: kazoo is not installed.
        :raises NotControlled: the ``handler`` in the options uses greenlets.
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

        :param name: the client's name in reports: lower-case letters.
        :param options: options of :func:`pyzk.blocking.connect`. By default the session timeout is 10 s, and
            a new session replaces an expired session.
        :raises ValueError: the name is taken, or has characters other than lower-case letters.
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
        """Return the connect string for a function that makes its own client in a thread or an event loop.

        :param name: the client's name in reports, as for :meth:`client`.
        :raises ValueError: as for :meth:`client`.
        """
        self._check_name(name)
        self._clients[id(name)] = name
        return self._addresses.add(name)

    def stop_clients(self) -> None:
        """Stop the clients that the lab has made."""
        with suppress(Exception):
            self._closing.close()

    def together(self, *functions: Callable[[], object]) -> None:
        """Run functions at the same time, each in a thread, and wait for all.

        Each of their requests is a step of the sweep.

        A fault may cut a client off until its session has ended. Then the client's function may end with an
        error that says so, and the run ends here: the scenario's later checks do not run.

        :param functions: the functions. The first function belongs to the first client, and so on. A
            :func:`functools.partial` belongs to the client among its arguments.
        :raises ValueError: there are more functions than clients, or two functions belong to the same client.
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
        """Make a step without a request: in some runs, other clients act first here.

        :raises RuntimeError: the caller is not a function of :meth:`together`.
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

        :param what: the name of the block in reports.
        :param most: how many clients may be inside.
        :raises AssertionError: more clients are inside.
        :raises RuntimeError: the caller is not a function of :meth:`together`.
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
        raise NotImplementedError("a scenario must wait with its clients: a wait of the server would not end")


def _errors_of_kazoo() -> tuple[type[Exception], ...]:
    """Return the exception classes of kazoo which say that a session has ended."""
    if find_spec("kazoo") is None:
        return ()
    from kazoo.exceptions import CancelledError, ConnectionClosedError, ConnectionLoss, SessionExpiredError

    return CancelledError, ConnectionClosedError, ConnectionLoss, SessionExpiredError
