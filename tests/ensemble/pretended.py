"""A pretend ensemble with the methods of a real one, for tests that run on both."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import attrs

from pyzk.server.config.members import Member
from pyzk.server.testing import EmbeddedEnsemble

from ..support.links import HOST
from ..support.real import ATTEMPTS, TICK, free_ports
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

    :param addresses: the configuration names the addresses for clients.
    :param settings: of each server.
    """

    def __init__(self, *, addresses: bool = False, **settings: Any) -> None:
        self._addresses = addresses
        self._settings = {"tick_time": TICK, "max_session_timeout": 60_000, "extended_types": True} | settings
        self._ensemble = self._new()
        self.nodes: list[Server] = []

    def _new(self) -> EmbeddedEnsemble:
        made = EmbeddedEnsemble(3, **self._settings)
        if self._addresses:
            members = [
                Member.parse(str(number), f"{HOST}:{2887 + number}:{3887 + number};{HOST}:{port}")
                for number, port in enumerate(free_ports(3), 1)
            ]
            settings = attrs.evolve(made._launch.settings, port=members[0].client_port)
            made._launch = attrs.evolve(made._launch, members=members, settings=settings)
        return made

    def __enter__(self) -> Self:
        for _ in range(ATTEMPTS):
            with suppress(OSError):  # somebody else may take a port between our look and the bind
                self._ensemble.start()
                break
            self._ensemble = self._new()
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
