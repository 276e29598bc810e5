"""One server without its sockets: the engine, and the connections it serves.

What surrounds it (a TCP listener, an in-memory stream, a test) opens connections here, moves bytes between
them and the world, and calls :meth:`Service.advance` when :meth:`Service.next_deadline` has come.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable

from ..protocol.records import Id
from .connection import Connection
from .engine import Engine
from .settings import Settings

logger = logging.getLogger("pyzk.server")

_SILENT_BUCKET = 10.0  # seconds: connections without a session are closed in steps of this


class Service:
    """
    :param now: the monotonic time in seconds.
    :param epoch: the same moment as seconds since the epoch.
    :ivar connections: every open connection, in the order of their arrival.
    :ivar guarded: whether requests must pass checks that are off by default.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        now: float,
        epoch: float,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.settings = settings
        self.engine = Engine(settings, now=now, epoch=epoch, random_bytes=random_bytes)
        self.connections: dict[Connection, None] = {}
        self.guarded = bool(
            settings.required_auth_schemes
            or settings.throttled_op_wait_time > 0
            or settings.large_request_threshold >= 0
        )
        self._per_host: Counter[str] = Counter()
        self._silent: dict[Connection, float] = {}  # when those without a session are closed, in that order
        self._refusals: set[str] = set()

    def accept(
        self,
        peer: tuple[str, int],
        now: float,
        wake: Callable[[], object],
        identities: Iterable[Id] = (),
    ) -> Connection | None:
        """A client has connected; None if it is one too many, to be closed at once.

        :param peer: its address and port.
        :param wake: called when output comes to wait although nothing was received, and on closing.
        :param identities: what is known of the client beside its address, such as a TLS certificate.
        """
        host = java_address(peer[0])
        reason = self._surplus(host)
        if reason:
            self.engine.stats.connections_rejected += 1
            if host not in self._refusals:
                self._refusals.add(host)
                logger.warning("refusing connections from %s: %s", host, reason)
            return None
        self._refusals.discard(host)
        self.engine.stats.connections_accepted += 1
        connection = Connection(self, (host, peer[1]), now, wake, [Id("ip", host), *identities])
        self.connections[connection] = None
        self._per_host[host] += 1
        patience = self.settings.sessionless_timeout / 1000
        self._silent[connection] = ((now + patience) // _SILENT_BUCKET + 1) * _SILENT_BUCKET
        return connection

    def _surplus(self, host: str) -> str | None:
        most, total = self.settings.max_client_connections, self.settings.max_connections
        if 0 < most <= self._per_host[host]:
            return f"it has {most} already; maxClientCnxns raises the limit"
        if 0 < total <= len(self.connections):
            return f"there are {total} connections already; maxCnxns raises the limit"
        return None

    def connected(self, connection: Connection) -> None:
        """A connection has its session."""
        self._silent.pop(connection, None)

    def closed(self, connection: Connection) -> None:
        """A connection is over."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._silent.pop(connection, None)
        host = connection.peer[0]
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        self.engine.disconnected(connection)

    def next_deadline(self) -> float:
        """When :meth:`advance` has something to do: seconds of the monotonic clock, or infinity."""
        silent = next(iter(self._silent.values()), math.inf)
        return min(silent, self.engine.next_deadline())

    def advance(self, now: float) -> None:
        """Do what has fallen due until ``now``."""
        self.engine.advance(now)
        for connection, deadline in list(self._silent.items()):
            if deadline > now:
                break
            self.engine.stats.sessionless_expired += 1
            connection.abort("it has not said a word of ZooKeeper's protocol in time")


def java_address(host: str) -> str:
    """A literal address as Java prints it: IPv6 uncompressed, IPv4-mapped as plain IPv4."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
