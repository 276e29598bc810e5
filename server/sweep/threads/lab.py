"""What a scenario with threads gets: a server of its own, kazoo's clients by name, and a place to start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    CancelledError,
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
)

from ...app.embedded import EmbeddedServer
from ..lab import BaseLab, GaveUp
from .stage import ThreadStage
from .virtual import RunOver

_ENDED = (CancelledError, ConnectionClosedError, ConnectionLoss, SessionExpiredError)


class ThreadLab(BaseLab):
    """
    :ivar server: the controls of the server, to look at its tree, for instance.
    :ivar acting: the threads of the functions that run, by client.
    """

    def __init__(self, server: EmbeddedServer, stage: ThreadStage, excused: str | None) -> None:
        super().__init__(excused)
        self.server = server
        self._stage = stage
        self.acting: dict[str, threading.Thread] = {}
        self.clients: list[KazooClient] = []

    def says_that_it_ended(self, error: BaseException) -> bool:
        return isinstance(error, _ENDED)

    def client(self, name: str, **options: Any) -> KazooClient:
        """Start a client of kazoo, for as long as the run lasts.

        :param name: what reports call it: lower-case letters.
        :param options: of :class:`kazoo.client.KazooClient`. By default its session lasts 10 s.
        :raises ValueError: the name is taken, or not of lower-case letters.
        """
        zk = KazooClient(self.hosts(name), **({"timeout": 10.0} | options))
        self.clients.append(zk)
        zk.start()
        self._clients[id(zk)] = self._clients.pop(id(name))
        return zk

    def hosts(self, name: str) -> str:
        """Return ``host:port`` for a program that makes its client itself. It must connect next, and close
        the client before the scenario ends.

        :param name: as for :meth:`client`.
        :raises ValueError: likewise.
        """
        self._check_name(name)
        self._clients[id(name)] = name
        self.server.run(self._stage.expect, name)
        return self.server.hosts

    def together(self, *functions: Callable[[], object]) -> None:
        """Run functions at once, each in a thread, and wait for all. Every request of theirs is a step of the
        sweep.

        A client that a fault has cut off until its session had ended may end with an error that says so.
        Then the run is over here: what the scenario checks afterwards does not count.

        :param functions: the first belongs to the first client, and so on; or to the one among the arguments
            of a :func:`functools.partial`.
        :raises ValueError: there are more functions than clients, or two belong to the same one.
        """
        errors: list[BaseException] = []
        for name, function in self._by_client(functions).items():
            self.acting[name] = threading.Thread(
                target=self._act, args=(name, function, errors), name=f"client {name}", daemon=True
            )
        self.server.run(self._stage.open)
        for thread in self.acting.values():
            thread.start()
        for thread in self.acting.values():
            thread.join()
        self.server.run(self._stage.close)
        self.is_over = True
        if errors:
            raise next((error for error in errors if isinstance(error, AssertionError)), errors[0])
        if self.gave_up:
            raise GaveUp

    def _act(self, name: str, function: Callable[[], object], errors: list[BaseException]) -> None:
        try:
            function()
        except Exception as error:
            if name == self._excused and self.says_that_it_ended(error):
                self.gave_up = True
            else:
                errors.append(error)
        except RunOver:
            pass

    def point(self) -> None:
        """Let the other clients come first here, in some runs: a step of its own.

        :raises RuntimeError: outside of the functions of :meth:`together`.
        """
        passed = threading.Event()
        self.server.run(self._stage.arrive, self._acting(), passed.set)
        passed.wait()

    @contextmanager
    def inside(self, what: str = "it", most: int = 1) -> Iterator[None]:
        """Assert that at most so many clients are inside of this block at once.

        :raises AssertionError: if there are more.
        :raises RuntimeError: outside of the functions of :meth:`together`.
        """
        self.point()
        name = self._acting()
        there = self._enter(what, most, name)
        try:
            self.point()
            yield
        finally:
            there.remove(name)

    def _acting(self) -> str:
        current = threading.current_thread()
        for name, thread in self.acting.items():
            if thread is current:
                return name
        raise RuntimeError("point() and inside() are for the functions that together() runs")
