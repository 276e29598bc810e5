"""A pretend ensemble on the network: several servers in one trio run, and the time that they share.

Data is not replicated: all servers are in this process, and their data ends with the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import attrs
import trio

from ..config.members import ServerAddress
from ..config.settings import Settings
from ..core.failures import report
from ..core.sessions import NEVER
from ..monitoring.server import MonitoredServer
from ..net.clock import Clock
from ..net.server import HttpFactory
from ..net.service import milliseconds
from .ensemble import Ensemble
from .member import Member
from .status import ReportingService
from .timing import Timing

_SHARE = 0.0005
"""The time in seconds that turns of one server may take before the other servers have their turns."""
_PORTS = ("port", "secure_port", "admin_port", "metrics_port")


class MemberServer(MonitoredServer):
    """One server of an ensemble.

    :ivar ensemble_host: the host of all servers.
    """

    in_ensemble: ClassVar[bool] = True
    ensemble_host: EnsembleHost

    def close_port(self) -> None:
        """Refuse clients. If a test controls the servers over HTTP, the last server still listens, and
        answers only HTTP. Otherwise the test could not start a server again."""
        self.service.refusing = True
        if self.ensemble_host.any_runs or not self.service.is_controlled:
            super().close_port()

    def open_port(self) -> None:
        """Accept clients again."""
        super().open_port()
        self.ensemble_host.close_ports()


class EnsembleHost:
    """The servers of an ensemble, with their sockets.

    :param settings: the settings of all servers. The first server gets a port of the settings. The second
        server gets the next port, and so on.
    :param members: the lines of the servers in the configuration. If all their ports for clients differ, the
        servers get these ports.
    :param http: the function that makes the HTTP server, as for :class:`pyzk.server.net.server.Server`.
    :ivar servers: the servers, by number.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        members: Sequence[ServerAddress],
        timing: Timing | None = None,
        *,
        http: HttpFactory | None = None,
    ) -> None:
        self.clock = clock
        self._http = http
        now = milliseconds(clock.now())
        epoch = now + milliseconds(clock.epoch_offset())
        self.ensemble = Ensemble(settings, members, now=now, epoch=epoch, timing=timing)
        self.servers: dict[int, MemberServer] = {}
        for member, own in zip(self.ensemble.members.values(), _each(settings, members), strict=True):
            self._make(member, own)
        self.ensemble.begin()
        self._settings = settings
        self._nursery: trio.Nursery | None = None

    @property
    def any_runs(self) -> bool:
        """Whether any server runs."""
        return any(member.up for member in self.ensemble.members.values())

    def close_ports(self) -> None:
        """Close the ports of servers that are down. One of these ports may still be open, because its server
        was the last that ran."""
        for number, server in self.servers.items():
            if server.is_listening and not self.ensemble.members[number].up:
                server.close_port()

    @property
    def url(self) -> str | None:
        """The URL of HTTP for all servers, at the first server that listens; None if no server listens."""
        servers = list(self.servers.values())
        return next((server for server in servers if server.is_listening), servers[0]).url

    @property
    def hosts(self) -> str:
        """The connect string of all servers."""
        return ",".join(server.hosts for server in self.servers.values())

    async def run(self, *, task_status: trio.TaskStatus[EnsembleHost] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve until cancelled.

        :raises OSError: an address cannot be bound.
        """
        async with trio.open_nursery() as self._nursery:
            for server in self.servers.values():
                await self._nursery.start(server.run)
            if self._settings.reconfig_enabled:
                self.ensemble.name_clients()
            self._nursery.start_soon(self._keep_time)
            task_status.started(self)

    def add(self, address: ServerAddress) -> MemberServer:
        """Make a further server. It listens, but does not yet run.

        :raises OSError: its address cannot be bound.
        """
        assert self._nursery is not None
        port = address.client_port or (self._settings.port and self._settings.port + address.number - 1)
        member = self.ensemble.add(address)
        ports: dict[str, Any] = {**dict.fromkeys(_PORTS), "port": port}
        settings = attrs.evolve(self._settings, **ports)
        server = self._make(member, settings)
        try:
            server.bind()
        except BaseException:
            del self.ensemble.members[address.number], self.servers[address.number]
            raise
        self.ensemble.bring_in(member)
        self._nursery.start_soon(server.run)
        return server

    def _make(self, member: Member, settings: Settings) -> MemberServer:
        server = MemberServer(
            settings, self.clock, partial(member.make_service, ReportingService), http=self._http
        )
        server.share_the_loop(_SHARE)
        server.ensemble_host = self
        member.port = self.servers[member.number] = server
        return server

    def receive(self) -> None:
        """Handle the input that has already arrived at the sockets of all servers."""
        for server in self.servers.values():
            server.receive()

    def flush(self) -> None:
        """Send the waiting output of all connections."""
        for server in self.servers.values():
            server.flush()

    def next_deadline(self) -> float:
        """Return the time at which :meth:`advance` has something to do, in seconds of the clock."""
        due = self.ensemble.next_deadline()
        services = min(server.service.next_deadline() for server in self.servers.values())
        return min(services, due / 1000) if due < NEVER else services

    def advance(self, now: float) -> None:
        """Do everything that is due at ``now``, in seconds of the clock."""
        self.ensemble.advance(milliseconds(now))
        for server in self.servers.values():
            server.advance(now)

    async def _keep_time(self) -> None:
        """Do everything that is due for the ensemble. Each server does its own due work itself."""
        half = max(1, self._settings.tick_time // 2) / 1000
        while True:
            now = self.clock.now()
            # A sign of life makes a new deadline. The earliest one is at the next multiple of half a tick.
            step = (now // half + 1) * half
            if step <= now:  # because of rounding
                step += half
            due = self.ensemble.next_deadline()
            if (delay := self.ensemble.least_delay) < NEVER:
                step = min(step, now + delay / 1000)  # messages that come meanwhile are not due earlier
            await self.clock.sleep_until(min(step, due / 1000) if due < NEVER else step)
            try:
                self.receive()  # all input that has arrived counts as a sign of life
                self.ensemble.advance(milliseconds(self.clock.now()))
            except Exception:
                report("some due work of the ensemble was not done; it follows later")


def _each(settings: Settings, members: Sequence[ServerAddress]) -> Iterator[Settings]:
    """Yield the settings of each server. All servers are on one machine, so each server needs its own
    ports."""
    written = {member.client_port for member in members}
    for index, member in enumerate(members):
        ports = {name: getattr(settings, name) for name in _PORTS}
        own = {name: port + index for name, port in ports.items() if port}
        if settings.port and len(written) == len(members) and member.client_port:
            own["port"] = member.client_port
        yield attrs.evolve(settings, **own)
