"""A pretend ensemble on the network: several servers in one trio run, and the time that they share.

Nothing is replicated: all servers are in this process, and their data ends with it.
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
"""Seconds of turns of one server before the other servers have their turns."""
_PORTS = ("port", "secure_port", "admin_port", "metrics_port")


class MemberServer(MonitoredServer):
    """One server of an ensemble.

    :ivar ensemble_host: the host of all servers.
    """

    in_ensemble: ClassVar[bool] = True
    ensemble_host: EnsembleHost

    def close_port(self) -> None:
        """Refuse clients. If the servers are controlled over HTTP, the last one keeps listening and answers
        only HTTP. Otherwise nobody could start a server again."""
        self.service.refusing = True
        if self.ensemble_host.any_runs or not self.service.is_controlled:
            super().close_port()

    def open_port(self) -> None:
        super().open_port()
        self.ensemble_host.close_ports()


class EnsembleHost:
    """The servers of an ensemble, with their sockets.

    :param settings: the settings of all servers. The first server gets a named port, the second the next
        port, and so on.
    :param members: their lines in the configuration. If each has another port for clients, these count.
    :param http: as for :class:`pyzk.server.net.server.Server`.
    :ivar servers: the servers by number, from 1.
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
        """Whether any server is up."""
        return any(member.up for member in self.ensemble.members.values())

    def close_ports(self) -> None:
        """Close the ports of servers that are down. One of them may have been the last."""
        for number, server in self.servers.items():
            if server.is_listening and not self.ensemble.members[number].up:
                server.close_port()

    @property
    def url(self) -> str | None:
        """The URL of HTTP for all servers, at the first one that listens; None if none does."""
        servers = list(self.servers.values())
        return next((server for server in servers if server.is_listening), servers[0]).url

    @property
    def hosts(self) -> str:
        """The connect string."""
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
        """Make a further server. It listens, and does not run yet.

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
        """Do everything that is due for the ensemble. Each server keeps its own time besides."""
        half = max(1, self._settings.tick_time // 2) / 1000
        while True:
            now = self.clock.now()
            # A sign of life makes a new deadline, at a multiple of half a tick at the earliest
            step = (now // half + 1) * half
            if step <= now:  # rounding
                step += half
            due = self.ensemble.next_deadline()
            if (delay := self.ensemble.least_delay) < NEVER:
                step = min(step, now + delay / 1000)  # nothing that comes meanwhile is due earlier
            await self.clock.sleep_until(min(step, due / 1000) if due < NEVER else step)
            try:
                self.receive()  # what has arrived already counts as a sign of life
                self.ensemble.advance(milliseconds(self.clock.now()))
            except Exception:
                report("some due work of the ensemble was not done; it follows later")


def _each(settings: Settings, members: Sequence[ServerAddress]) -> Iterator[Settings]:
    """Yield the settings of each server. All are on one machine, so each needs its own ports."""
    written = {member.client_port for member in members}
    for index, member in enumerate(members):
        ports = {name: getattr(settings, name) for name in _PORTS}
        own = {name: port + index for name, port in ports.items() if port}
        if settings.port and len(written) == len(members) and member.client_port:
            own["port"] = member.client_port
        yield attrs.evolve(settings, **own)
