"""A pretend ensemble with the methods of a real one, for tests that run on both."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import attrs

from pyzk.server.testing import EmbeddedEnsemble

from ..support.real import TICK
from ..support.waiting import wait_until

MEANWHILE = 0.05  # seconds


@attrs.frozen
class Server:
    """One server; see :class:`..support.real.Node`."""

    _ensemble: EmbeddedEnsemble
    number: int
    port: int

    def kill(self) -> None:
        """The process dies. A leader dies with writes under way, if clients send any meanwhile: between two
        writes of clients there is hardly a moment on a real ensemble, but a long one here."""
        if self._ensemble.leader() == self.number:
            self._ensemble.hold_acks()
            end = time.monotonic() + MEANWHILE
            while time.monotonic() < end and not any(map(self._ensemble.outstanding, self._ensemble.numbers)):
                time.sleep(0.001)
        self._ensemble.kill(self.number)

    def start(self) -> None:
        self._ensemble.start(self.number)

    def pause(self) -> None:
        self._ensemble.freeze(self.number)

    def resume(self) -> None:
        self._ensemble.thaw(self.number)


class Pretended:
    """Three servers, on a clock that runs; see :class:`..support.real.Ensemble`.

    :param settings: of each server.
    """

    def __init__(self, **settings: Any) -> None:
        given = {"tick_time": TICK, "max_session_timeout": 60_000, "extended_types": True} | settings
        self._ensemble = EmbeddedEnsemble(3, **given)
        self.nodes: list[Server] = []

    def __enter__(self) -> Self:
        self._ensemble.start()
        self.nodes = [Server(self._ensemble, server.number, server.port) for server in self._ensemble]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._ensemble.stop()

    @property
    def hosts(self) -> str:
        return self._ensemble.hosts

    def leader(self) -> Server:
        """The leader, once there is one."""
        number: int = wait_until(self._ensemble.leader)
        return self.nodes[number - 1]

    def wait_until_whole(self) -> None:
        """Wait until every running server serves."""
        wait_until(lambda: "looking" not in map(self._ensemble.role, self._ensemble.numbers))
