"""One server without its sockets: the engine, and the connections it serves.

What surrounds it (a TCP listener, an in-memory stream, a test) opens connections here, moves bytes between
them and the world, and calls :meth:`Service.advance` when :meth:`Service.next_deadline` has come.
"""

from __future__ import annotations

import ipaddress
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TypeAlias

from sortedcontainers import SortedKeyList

from ...protocol.records import Id
from ..config.settings import Settings
from ..core.engine import Engine
from ..core.failures import report
from ..core.memory import reserve
from ..core.watches import Notification
from .connection import Connection
from .unread import UnreadOutput

logger = logging.getLogger("pyzk.server")

Handler: TypeAlias = Callable[[Connection, int, bytes, float], tuple[int, int, bytes]]
"""What processes a request: as :meth:`.engine.Engine.handle` does."""

_Timer = tuple[float, Callable[[], object]]

SLICE = 0.005
"""Seconds of work for one client, or of work that no client waits for, before others are served."""
_REFUSALS = 1000  # addresses: of how many it is remembered that a refusal was logged
_BUCKET = 10.0  # seconds: the steps in which connections are shown to be given up


class Observer:
    """What happens to connections, for whoever wants to know; each method does nothing by default."""

    def opened(self, connection: Connection) -> None:
        """A client has connected."""

    def asked(self, connection: Connection, session_id: int) -> None:
        """It asks for a session, 0 being a new one; if it is held now, this comes again after its release."""

    def attached(self, connection: Connection, resumed: bool) -> None:
        """It has its session: a new one, or one ``resumed``."""

    def event(self, connection: Connection, notification: Notification) -> None:
        """It is sent a watch event."""

    def closed(self, connection: Connection, reason: str) -> None:
        """The connection is over."""


class Service:
    """
    :param now: the monotonic time in seconds.
    :param epoch: the same moment as seconds since the epoch.
    :param stopwatch: real seconds, by which turns end; as it is, it stands still, and work is never cut off.
    :ivar slice: the seconds of work after which the turn of a connection ends.
    :ivar turn_end: when by the stopwatch the turn of the connection that is served now is over.
    :ivar connections: every open connection, in the order of their arrival.
    :ivar secure: those of them that came over TLS.
    :ivar address: where plain clients connect, once somebody listens for this service.
    :ivar secure_address: the same for TLS clients.
    :ivar trace_mask: a number that operators may set and read; nothing depends on it.
    :ivar handle: what processes a request: the engine, or whatever a test puts before it, which is given
        whole replies. Besides what :meth:`.engine.Engine.handle` does it may raise
        :class:`.connection.NoReply` or ``NotYet``.
    :ivar direct: whether that is the engine; if so, lone requests go to it without asking here.
    :ivar observer: told of connections and events, if set.
    :ivar unread: what transports hold for clients that do not read.
    :ivar refusing: whether new connections are turned away.
    :ivar guarded: whether requests must pass checks that are off by default.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        now: float,
        epoch: float,
        random_bytes: Callable[[int], bytes] | None = None,
        stopwatch: Callable[[], float] = float,
    ) -> None:
        self.settings = settings
        self.stopwatch = stopwatch
        self.slice = SLICE
        self.turn_end = 0.0
        self.engine = Engine(settings, now=now, epoch=epoch, random_bytes=random_bytes)
        self.connections: dict[Connection, None] = {}
        self.secure: set[Connection] = set()
        self.address: tuple[str, int] | None = None
        self.secure_address: tuple[str, int] | None = None
        self.trace_mask: int = 306
        self.handle = self.engine.handle
        self.observer: Observer | None = None
        self.refusing = False
        self.unread = UnreadOutput(settings.max_unread)
        self.guarded = bool(
            settings.required_auth_schemes
            or settings.throttled_op_wait_time > 0
            or settings.large_request_threshold >= 0
        )
        self._per_host: Counter[str] = Counter()
        self._silent: dict[Connection, float] = {}  # when those without a session are closed, in that order
        self._refusals: set[str] = set()
        self._timers: SortedKeyList[_Timer, float] = SortedKeyList(key=itemgetter(0))

    @property
    def handle(self) -> Handler:
        return self._handle

    @handle.setter
    def handle(self, handle: Handler) -> None:
        self._handle = handle
        self.direct = handle == self.engine.handle

    def accept(
        self,
        peer: tuple[str, int],
        now: float,
        wake: Callable[[], object],
        identities: Iterable[Id] = (),
        *,
        secure: bool = False,
    ) -> Connection | None:
        """A client has connected; None if it is one too many, to be closed at once.

        :param peer: its address and port.
        :param wake: called when output comes to wait although nothing was received, and on closing.
        :param identities: what is known of the client beside its address, such as a TLS certificate.
        :param secure: it came over TLS.
        """
        host = java_address(peer[0])
        reason = self._surplus(host)
        if reason:
            self.engine.stats.connections_rejected += 1
            if host not in self._refusals:
                if len(self._refusals) == _REFUSALS:
                    self._refusals.clear()
                self._refusals.add(host)
                logger.warning("refusing connections from %s: %s", host, reason)
            return None
        self._refusals.discard(host)
        self.engine.stats.connections_accepted += 1
        connection = Connection(self, (host, peer[1]), now, wake, [Id("ip", host), *identities])
        self.connections[connection] = None
        if secure:
            self.secure.add(connection)
        self._per_host[host] += 1
        patience = self.settings.sessionless_timeout / 1000
        # nobody is given up early: times are rounded up to a multiple of the patience itself
        self._silent[connection] = (now // patience + 2) * patience
        if self.observer is not None:
            self.observer.opened(connection)
        return connection

    def _surplus(self, host: str) -> str | None:
        if self.refusing:
            return "connections are refused for now"
        most, total = self.settings.max_client_connections, self.settings.max_connections
        if 0 < most <= self._per_host[host]:
            return f"it has {most} already; maxClientCnxns raises the limit"
        if 0 < total <= len(self.connections):
            return f"there are {total} connections already; maxCnxns raises the limit"
        if not reserve.has_room():
            return "memory is short"
        return None

    def connected(self, connection: Connection, resumed: bool) -> None:
        """A connection has its session."""
        self._silent.pop(connection, None)
        if self.observer is not None:
            self.observer.attached(connection, resumed)

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection is over."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.secure.discard(connection)
        self._silent.pop(connection, None)
        host = connection.peer[0]
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        self.engine.disconnected(connection)
        if self.observer is not None:
            self.observer.closed(connection, reason)

    def outstanding(self) -> int:
        """How many requests have arrived and wait for their turn, on all connections."""
        return sum(connection.outstanding for connection in self.connections)

    def patience_with(self, connection: Connection) -> float:
        """When a connection is given up if it stays silent, in seconds of the monotonic clock."""
        if connection in self._silent:
            return self._silent[connection]
        timeout = connection.session.timeout / 1000 if connection.session else 0.0
        return ((connection.last_response + timeout) // _BUCKET + 1) * _BUCKET

    def next_deadline(self) -> float:
        """When :meth:`advance` has something to do: seconds of the monotonic clock, or infinity. It may have
        passed already, where something was left over."""
        silent = next(iter(self._silent.values()), math.inf)
        timer = self._timers[0][0] if self._timers else math.inf
        return min(silent, timer, self.engine.next_deadline())

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        """Have :meth:`advance` call something once ``when`` has come (seconds, monotonic)."""
        self._timers.add((when, callback))

    def advance(self, now: float, within: float = math.inf) -> None:
        """Do what has fallen due until ``now``.

        :param within: seconds of work after which the rest is left to the next call.
        """
        stopwatch = self.stopwatch
        end = stopwatch() + within

        def is_over() -> bool:
            return stopwatch() > end

        while self._timers and self._timers[0][0] <= now:
            when, callback = self._timers.pop(0)
            self.engine.advance(when)
            try:
                callback()
            except Exception:
                report("a timer has done nothing, or half of what it should")
        self.engine.advance(now, is_over)
        for connection, deadline in list(self._silent.items()):
            if deadline > now or is_over():
                break
            del self._silent[connection]
            self.engine.stats.sessionless_expired += 1
            try:
                connection.abort("it has not said a word of ZooKeeper's protocol in time")
            except Exception:
                connection.fail()


def java_address(host: str) -> str:
    """A literal address as Java prints it: IPv6 uncompressed, IPv4-mapped as plain IPv4."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
