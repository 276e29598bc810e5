"""One server without its sockets: the engine and its connections.

A transport (a TCP listener, a stream in memory, a test) opens connections here, and moves bytes between the
connections and the clients. At the time of :meth:`Service.next_deadline` the transport calls
:meth:`Service.advance`.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from sortedcontainers import SortedKeyList

from ...protocol.constants import HTTP_METHODS, TLS_HELLO
from ...protocol.records import Id
from ..config.settings import Settings
from ..core.engine import Engine
from ..core.failures import report
from ..core.sessions import NEVER
from ..logger import logger
from .connection import Connection
from .gate import Gate
from .unread import UnreadOutput

if TYPE_CHECKING:
    from ..storage.storage import Storage

AnswerWord: TypeAlias = "Callable[[bytes, Service, Connection, float, bytes], Iterator[bytes]]"
"""A function that answers a four-letter word, piece by piece. Its arguments are the word, the service, the
connection that asks, the time in monotonic seconds, and the bytes after the word."""

_Timer = tuple[float, Callable[[], object]]

SLICE = 0.005
"""The time in seconds after which other clients are served. It limits the work for one client, and work for
which no client waits."""
_TRACE_MASK = 306
"""The answer of ``gtmk`` until an operator sets another number. The real server starts with the same
number."""
_REFUSALS = 1000
"""The largest number of refused addresses that are remembered, so that the log has one line for each."""
_BUCKET = 10.0
"""Operators see the idle deadlines of connections, rounded up to multiples of this time in seconds."""


class Service:
    """The engine, its connections, and its timers.

    :param now: the monotonic time in seconds.
    :param epoch: the present wall-clock time, in seconds since the epoch.
    :param stopwatch: a function that returns real seconds, by which turns end. The default always returns the
        same time, so turns do not end early.
    :param answer_word: the function that answers four-letter words; by default all answers are empty.
    :param storage: the object that keeps the data in files; None: the data is only in memory.
    :cvar connection_type: the type of connections.
    :cvar words: the functions, by word, that answer four-letter words in place of the functions of a single
        server.
    :cvar commands: the functions, by command, that answer commands of the admin server in place of the
        functions of a single server.
    :ivar slice: the seconds of work after which the turn of a connection ends.
    :ivar turn_end: the time of the stopwatch at which the present turn ends.
    :ivar now: a recent time in monotonic seconds; ``now_ms`` is the same time in ms.
    :ivar connections: all open connections, in the order of their arrival.
    :ivar secure: the open connections over TLS.
    :ivar address: the address for plain clients; None until a listener has one.
    :ivar secure_address: the address for TLS clients; None until a listener has one.
    :ivar trace_mask: a number that operators may set and read. It has no effect.
    :ivar asked_at: the time, in monotonic seconds, of the last call of each admin command with a limited
        rate.
    :ivar shaking_hands: the number of clients in a TLS handshake.
    :ivar gate: the gate between the clients and the engine, in tests; None otherwise.
    :ivar unread: the counter of output that clients do not read.
    :ivar foreign: the first bytes of clients that are served although they do not speak ZooKeeper's protocol.
    :ivar serves_http: whether clients that speak HTTP are served.
    :ivar is_controlled: whether a test controls this service over HTTP, also while clients are refused.
    :ivar refusing: whether new connections are refused.
    :ivar has_request_checks: whether the settings ask for a check of each request; by default they do not.
    """

    connection_type: ClassVar[type[Connection]] = Connection
    server_id = 0
    words: ClassVar[Mapping[str, Callable[..., str | Iterator[str]]]] = {}
    commands: ClassVar[Mapping[str, Callable[..., dict[str, Any]]]] = {}

    def __init__(
        self,
        settings: Settings,
        *,
        storage: Storage | None = None,
        now: float,
        epoch: float,
        random_bytes: Callable[[int], bytes] | None = None,
        stopwatch: Callable[[], float] = float,
        answer_word: AnswerWord = lambda word, service, asker, now, rest: iter(()),
    ) -> None:
        self.settings = settings
        self.storage = storage
        self.answer_word = answer_word
        self.stopwatch = stopwatch
        self.slice = SLICE
        self.turn_end = 0.0
        self.now, self.now_ms = now, milliseconds(now)
        self.engine = self.start_engine(milliseconds(epoch), random_bytes)
        self.connections: dict[Connection, None] = {}
        self.secure: set[Connection] = set()
        self.address: tuple[str, int] | None = None
        self.secure_address: tuple[str, int] | None = None
        self.trace_mask: int = _TRACE_MASK
        self.asked_at: dict[str, float] = {}
        self.shaking_hands = 0
        self.gate: Gate | None = None
        self.refusing = False
        self.serves_http = False
        self.foreign: Container[bytes] = _HttpOrTls() if settings.port_unification else HTTP_METHODS
        self.is_controlled = False
        self.unread = UnreadOutput(settings.max_unread)
        self.has_request_checks = bool(
            settings.required_auth_schemes
            or settings.throttled_op_wait_time > 0
            or settings.large_request_threshold >= 0
            or not settings.release.has("who-am-i")  # the release may not know all op codes
        )
        self._per_host: dict[str, int] = {}
        self._no_session_yet: dict[Connection, float] = {}  # with the time at which it is closed, in order
        self._refusals: set[str] = set()
        self._timers: SortedKeyList[_Timer, float] = SortedKeyList(key=itemgetter(0))

    def start_engine(self, epoch: int, random_bytes: Callable[[int], bytes] | None = None) -> Engine:
        """Make an engine of the emulated release, without clients.

        With a storage, the first engine has the data of the files, and later engines are empty.

        :param epoch: the time of ``now_ms`` in ms since the epoch.
        """
        kind = Engine
        if not self.settings.release.is_default:
            from .emulation import OtherEngine  # loaded only if needed

            kind = OtherEngine
        make = kind if self.storage is None else partial(self.storage.make_engine, kind=kind)
        return make(self.settings, now=self.now_ms, epoch=epoch, random_bytes=random_bytes)

    def accept(
        self,
        peer: tuple[str, int],
        now: float,
        wake: Callable[[], object],
        identities: Iterable[Id] = (),
        *,
        secure: bool = False,
        endpoint: str = "",
    ) -> Connection | None:
        """Make a connection for a client that has connected.

        :param peer: the client's address and port.
        :param wake: a function that is called when there is output although nothing was received, and on
            closing.
        :param identities: the identities that the client has proved, for example by a TLS certificate. Its
            address is not among them.
        :param secure: whether the client uses TLS.
        :param endpoint: the name of the client's endpoint; empty for the port of all clients.
        :returns: the connection; None if a limit is exceeded. Then the caller must close the client's socket
            immediately.
        """
        host = java_address(peer[0])
        reason = self._limit_exceeded(host)
        if reason:
            self.engine.stats.connections_rejected += 1
            if host not in self._refusals:
                if len(self._refusals) == _REFUSALS:
                    self._refusals.clear()
                self._refusals.add(host)
                logger.warning("refusing connections from %s: %s", host, reason)
            return None
        self._refusals.discard(host)
        connection = self.connection_type(self, (host, peer[1]), now, wake, [Id("ip", host), *identities])
        connection.unwelcome = self.refusing
        if endpoint:
            connection.endpoint = endpoint
        self.connections[connection] = None
        if secure:
            self.secure.add(connection)
        self._per_host[host] = self._per_host.get(host, 0) + 1
        timeout = self.settings.sessionless_timeout / 1000
        # The time is rounded up to a multiple of the timeout, so that no connection is closed early.
        self._no_session_yet[connection] = (now // timeout + 2) * timeout
        if self.gate is not None:
            self.gate.opened(connection)
        return connection

    def _limit_exceeded(self, host: str) -> str | None:
        """Return the reason to accept no further connection from a host; None if there is no such reason."""
        if self.refusing and not self.is_controlled:
            return "connections are refused for now"
        settings, total = self.settings, self.settings.max_connections
        most = settings.max_loopback_connections if _is_loopback(host) else settings.max_client_connections
        if 0 < most <= self._per_host.get(host, 0):
            return f"it has {most} already; maxClientCnxns raises the limit"
        if 0 < total <= len(self.connections):
            return f"there are {total} connections already; maxCnxns raises the limit"
        return None

    def connected(self, connection: Connection, resumed: bool) -> None:
        """Note that a connection has its session."""
        self._no_session_yet.pop(connection, None)
        if self.gate is not None:
            self.gate.attached(connection, resumed)

    def closed(self, connection: Connection, reason: str) -> None:
        """Forget a connection that is over."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.secure.discard(connection)
        self._no_session_yet.pop(connection, None)
        host = connection.peer[0]
        left = self._per_host.pop(host) - 1
        if left:
            self._per_host[host] = left
        self.engine.disconnected(connection)
        if self.gate is not None:
            self.gate.closed(connection, reason)

    def at(self, now: float) -> int:
        """Convert a time in monotonic seconds to ms for the engine.

        The last result is remembered, because all requests of a turn have the same time.
        """
        if now != self.now:
            self.now = now
            self.now_ms = milliseconds(now)
        return self.now_ms

    def wall_clock(self, now: float) -> float:
        """Convert a time in monotonic seconds to seconds since the epoch."""
        return self.engine.wall_clock(self.at(now)) / 1000

    @property
    def mode(self) -> str:
        """The role of the server, for operators."""
        return "standalone"

    @property
    def serves(self) -> bool:
        """Whether clients are served. While clients are not served, most commands of operators are not
        answered either."""
        return True

    @property
    def is_read_only(self) -> bool:
        """Whether the server serves only reads, because there is no leader."""
        return False

    def totals_of_role(self) -> Iterator[str]:
        """Yield the last lines of ``srvr`` and ``stat``."""
        return iter(())

    def role_figures(self) -> Iterator[tuple[str, int]]:
        """Yield the figures of the server's role, for ``mntr``."""
        return iter(())

    def outstanding(self) -> int:
        """Count the requests of all connections that wait for a turn."""
        return sum(connection.outstanding for connection in self.connections)

    def idle_deadline(self, connection: Connection) -> float:
        """Return the time, in monotonic seconds and rounded up, at which a connection is closed if nothing
        arrives."""
        if connection in self._no_session_yet:
            return self._no_session_yet[connection]
        timeout = connection.session.timeout / 1000 if connection.session else 0.0
        return ((connection.stats.last_response + timeout) // _BUCKET + 1) * _BUCKET

    def next_deadline(self) -> float:
        """Return the time at which to call :meth:`advance`, in monotonic seconds. Infinity means that no call
        is needed.

        The time is in the past if the last call has not done everything.
        """
        handshake = next(iter(self._no_session_yet.values()), math.inf)
        due = self.engine.next_deadline()
        return min(handshake, self.next_timer(), due / 1000 if due < NEVER else math.inf)

    def next_timer(self) -> float:
        """Return the time, in monotonic seconds, of the next call that :meth:`call_at` has planned; infinity
        if no call is planned."""
        return self._timers[0][0] if self._timers else math.inf

    def call_at(self, when: float, callback: Callable[[], object]) -> None:
        """Let :meth:`advance` call a function at the time ``when``, in monotonic seconds."""
        self._timers.add((when, callback))

    def advance(self, now: float, within: float = math.inf) -> None:
        """Do everything that is due at ``now``, in monotonic seconds: call timers, expire sessions, and close
        connections without a handshake.

        :param within: the time in seconds after which the rest is left to the next call.
        """
        stopwatch = self.stopwatch
        end = stopwatch() + within

        def is_over() -> bool:
            return stopwatch() > end

        while self._timers and self._timers[0][0] <= now:
            due = milliseconds(self._timers[0][0])
            self.engine.advance(due, is_over)
            if (
                self.engine.next_deadline() <= due
            ):  # the engine has not done all that is due before this timer
                return
            _, callback = self._timers.pop(0)
            try:
                callback()
            except Exception:
                report("a timer has failed; its work may be half done")
        self.engine.advance(milliseconds(now), is_over)
        for connection, deadline in list(self._no_session_yet.items()):
            if deadline > now or is_over():
                break
            del self._no_session_yet[connection]
            self.engine.stats.sessionless_expired += 1
            try:
                connection.abort(f"no handshake within {self.settings.sessionless_timeout} ms")
            except Exception:
                connection.fail()


class _HttpOrTls:
    """The first bytes of clients that speak HTTP or TLS."""

    def __contains__(self, word: object) -> bool:
        return word in HTTP_METHODS or (isinstance(word, bytes) and word.startswith(TLS_HELLO))


def milliseconds(seconds: float) -> int:
    """Convert seconds to ms for the engine, rounded down.

    A time that is less than 1 ns before a whole ms counts as this ms. A deadline as a float may have
    an error of this size, and must count as reached.
    """
    return int(seconds * 1000 + 1e-6)


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "0:0:0:0:0:0:0:1"


def java_address(host: str) -> str:
    """Return an address in Java's notation. An IPv6 address is not compressed, and an IPv4-mapped address
    becomes a plain IPv4 address."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
