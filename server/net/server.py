"""The server on the network: its listeners, its clients, and its clock.

* On systems with epoll the :class:`.hub.Hub` serves the plain clients. Two tasks serve each TLS client.
* This package does not import the packages above it. A subclass,
  :class:`pyzk.server.monitoring.server.MonitoredServer`, adds four-letter words and further ports. The code
  that makes the server passes the function ``http``, for HTTP on the port for clients. This function is
  called for the first HTTP client, so that an idle server does not load it.
"""

from __future__ import annotations

import math
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import trio

from ...protocol.constants import TLS_HELLO
from ...protocol.records import Id
from ..config.settings import Settings
from ..config.tls import subject_text
from ..core.failures import report
from ..logger import logger
from .clock import Clock
from .listening import Listener, serve_clients
from .service import SLICE, Service, milliseconds
from .streams import Begun, hang_up, serve_stream

if TYPE_CHECKING:
    from .http import HttpServer

Task: TypeAlias = Callable[[], Awaitable[None]]
"""A function that runs as long as the server. Its modules are imported before the
first client is accepted."""
Listen: TypeAlias = Callable[[str, int], tuple[socket.socket, tuple[str, int]]]
"""A function that opens a listener at a host and port, and returns the listener and its address."""
HttpFactory: TypeAlias = "Callable[[Server, trio.Nursery], Awaitable[HttpServer]]"
"""A function that makes the HTTP server on the port for clients, for a server and the nursery of its
tasks."""

_BACKLOG = 2048
_LOOK_AT_LOG = 0.5
"""The time in seconds between two checks whether a snapshot is due."""
_PATIENCE = 0.001
"""The time in seconds for which a hub waits for requests before other tasks of its process run."""
_QUIET_ROUNDS = 5
"""The number of rounds without a received byte after which no input waits at the sockets of TLS clients."""
_ROUNDS = 100
"""The number of rounds after which due sessions expire, also if bytes still arrive."""
_HAS_HUB = hasattr(select, "epoll") and not os.environ.get("PYZK_WITHOUT_EPOLL")
"""Whether a hub serves plain clients. With the variable ``PYZK_WITHOUT_EPOLL`` tests serve clients as on
platforms without epoll."""


class Server:
    """One service with its listeners.

    :param make_service: the function that makes the service, with the arguments of
        :class:`.service.Service`.
    :param http: the function that makes the HTTP server on the port for clients; None: there is no HTTP.
    :cvar in_ensemble: whether this is one server of a pretend ensemble.
    :ivar service: the server without its sockets.
    :ivar started: the time of the clock at the start, in seconds.
    :ivar controls: the test kit's controls of this server; None without a test kit.
    """

    in_ensemble: ClassVar[bool] = False

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        make_service: Callable[..., Service] = Service,
        *,
        http: HttpFactory | None = None,
    ) -> None:
        now = clock.now()
        self.clock = clock
        self.started = now
        self.service = make_service(
            settings,
            now=now,
            epoch=now + clock.epoch_offset(),
            stopwatch=time.monotonic,
        )
        self._set_wall_clock()
        self.controls: Any = None
        self.service.serves_http = http is not None and settings.http_on_client_port
        self.http_factory = http
        self._http: HttpServer | None = None  # on the ports of clients
        self._nursery: trio.Nursery | None = None
        self._bound: socket.socket | None = None  # the bound port while no client is accepted
        self._listeners: list[socket.socket] = []  # the listeners that have a task each
        self._hub: Any = None
        if _HAS_HUB:
            from .hub import Hub

            self._hub = Hub(self.service, clock.now, self._take_foreign)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of the listener for plain clients."""
        assert self.service.address is not None
        return self.service.address

    @property
    def host(self) -> str:
        """The address for plain clients on this machine."""
        host = self.address[0]
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)

    @property
    def hosts(self) -> str:
        """The connect string of plain clients on this machine."""
        return f"[{self.host}]:{self.address[1]}" if ":" in self.host else f"{self.host}:{self.address[1]}"

    @property
    def url(self) -> str | None:
        """The URL of HTTP on the port for plain clients; None if there is no HTTP."""
        return f"http://{self.hosts}/" if self.service.serves_http else None

    @property
    def secure_address(self) -> tuple[str, int] | None:
        """The host and the port of the listener for TLS clients; None if there is no such listener."""
        return self.service.secure_address

    async def run(self, *, task_status: trio.TaskStatus[Self] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve until cancelled. A server can run only once.

        :raises OSError: an address cannot be bound.
        """
        assert self._nursery is None, "a server runs once"
        settings = self.service.settings
        with ExitStack() as sockets:

            def listen(host: str, port: int) -> tuple[socket.socket, tuple[str, int]]:
                listener = _bind(host, port, _backlog(settings))
                sockets.callback(hang_up, listener)
                return listener, listener.getsockname()[:2]

            tasks: list[Task] = [self._keep_time]
            if self.service.storage is not None:
                self.service.storage.touch_sessions(self.service.at(self.clock.now()))
                tasks.append(self._keep_snapshots)
            sockets.callback(self._close_sockets)
            if self.service.address is None:
                self.bind()
            if settings.secure_port is not None:
                secure, self.service.secure_address = listen(
                    settings.secure_host or settings.host, settings.secure_port
                )
                tasks.append(partial(self._serve_tasks, secure, self._serve_secure_client))
            tasks += self.further_ports(listen)
            if self._hub is not None:
                tasks.append(self._hub.run)
            async with trio.open_nursery() as self._nursery:
                self.open_port()
                for task in tasks:
                    self._nursery.start_soon(task)
                task_status.started(self)

    def further_ports(self, listen: Listen) -> Iterable[Task]:
        """Open further ports of the settings, and return the tasks that serve them."""
        return ()

    def _close_sockets(self) -> None:
        for listener in (*self._listeners, *([self._bound] if self._bound else [])):
            hang_up(listener)
        if self._hub is not None:
            self._hub.close()
            self._hub = None  # nothing more arrives, but the history can still be read

    def close_port(self) -> None:
        """Refuse plain clients from now on. The port stays bound, but the server does not listen."""
        self.service.refusing = True
        if self._hub is not None:
            self._hub.stop_listening()
            self._bound = _bind(*self.address)

    @property
    def is_listening(self) -> bool:
        """Whether the server listens at the port for plain clients."""
        return self._bound is None

    def open_port(self) -> None:
        """Accept plain clients again after :meth:`close_port`."""
        self.service.refusing = False
        if self._bound is not None and self._nursery is not None:
            self._listen()

    def _let_in(self, listener: socket.socket) -> None:
        """Let the hub serve the clients of a listening socket. The socket object is detached."""
        self._hub.listen(Listener(fileno=listener.detach()))

    def open_endpoint(self, name: str) -> tuple[str, int]:
        """Accept plain clients at one more port of this machine, until the server ends.

        :param name: the ``endpoint`` of the clients' connections.
        :returns: the host and the port, which the kernel has chosen.
        :raises OSError: no port can be bound.
        """
        assert self._nursery is not None
        host = self.host if self.host == "::1" or self.host.startswith("127.") else "127.0.0.1"
        bound = _bind(host, 0, _backlog(self.service.settings))
        address: tuple[str, int] = bound.getsockname()[:2]
        if self._hub is not None:
            listener = Listener(fileno=bound.detach())
            listener.endpoint = name
            self._hub.listen(listener)
        else:
            self._listeners.append(bound)
            serve = partial(self._serve_client, endpoint=name)
            self._nursery.start_soon(self._serve_tasks, bound, serve)
        return address

    def share_the_loop(self, seconds: float) -> None:
        """Let the other servers of this process have their turns after a time in seconds."""
        if self._hub is not None:
            self._hub.share = seconds

    def own_the_process(self) -> None:
        """Let the hub wait for requests, because this process has no other work than this server."""
        if self._hub is not None:
            self._hub.patience = _PATIENCE

    def bind(self) -> None:
        """Bind the port for plain clients. New clients wait until :meth:`run` accepts them.

        :raises OSError: the address cannot be bound.
        """
        settings = self.service.settings
        self._bound = _bind(settings.host, settings.port, _backlog(settings))
        self.service.address = self._bound.getsockname()[:2]

    def move(self, port: int) -> None:
        """Accept plain clients at another port of the same address. Connected clients stay.

        If the port cannot be bound, no client is accepted any more, as in the real server. Without epoll the
        old port still accepts clients. Before the first port is bound this method does nothing, because the
        settings name the first port.
        """
        if self.service.address is None or self.address[1] == port:
            return
        host = self.address[0]
        was_closed = self._bound is not None
        if self._bound is not None:
            self._bound.close()
            self._bound = None
        elif self._hub is not None:
            self._hub.stop_listening()
        self.service.address = host, port
        try:
            self._bound = _bind(host, port)
        except OSError as error:
            logger.error("cannot listen on port %d: %s; choose another port", port, error)
            return
        self.service.address = self._bound.getsockname()[:2]
        if not was_closed:
            self._listen()

    def _listen(self) -> None:
        """Accept plain clients at the bound port."""
        assert self._bound is not None
        listener, self._bound = self._bound, None
        listener.listen(_backlog(self.service.settings))
        if self._hub is not None:
            self._let_in(listener)
        else:
            assert self._nursery is not None
            self._listeners.append(listener)
            self._nursery.start_soon(self._serve_tasks, listener, self._serve_client)

    def flush(self) -> None:
        """Send the waiting output of all connections, after a change that no client has caused."""
        if self._hub is not None:
            self._hub.flush()

    def receive(self, whole: bool = True) -> None:
        """Handle the input that has already arrived at the sockets.

        :param whole: serve all clients, as for :meth:`.hub.Hub.look`.
        """
        if self._hub is not None:
            self._hub.look(whole)
            self._hub.tidy(self.clock.now())

    @property
    def is_idle(self) -> bool:
        """Whether all input that the hub can see is handled and answered."""
        return self._hub is None or self._hub.is_idle

    def advance(self, now: float, within: float = math.inf) -> None:
        """Do everything that is due at ``now``, in seconds of the clock.

        :param within: the time in seconds after which the rest is left to the next call.
        """
        self._set_wall_clock()
        self.service.advance(now, within)
        self.flush()

    def _set_wall_clock(self) -> None:
        self.service.engine.epoch_offset = milliseconds(self.clock.epoch_offset())

    async def _keep_time(self) -> None:
        tick = self.service.settings.tick_time / 1000
        deadline = self.service.next_deadline()
        while True:
            # Clients may cause new deadlines meanwhile, but no new deadline is before the next tick.
            now = self.clock.now()
            next_tick = (now // tick + 1) * tick
            if next_tick <= now:  # because of rounding; in virtual time the clock would stop forever
                next_tick += tick
            await self.clock.sleep_until(min(deadline, next_tick))
            try:
                now = self.clock.now()
                self.receive(whole=False)  # all input that has arrived counts as a sign of life
                await self._receive_in_tasks(now)
                self.advance(now, SLICE)
                deadline = self.service.next_deadline()
            except Exception:
                report("some due work was not done; it follows at the next tick")
                deadline = math.inf  # the rest is done at the next tick, not immediately

    async def _receive_in_tasks(self, now: float) -> None:
        """Let the tasks of clients handle their input, if something is due at ``now``.

        In one round trio finds the readable sockets. In the next round their tasks read. A large request
        takes a round for each TLS record.
        """
        service, stats = self.service, self.service.engine.stats
        rounds = quiet = 0
        while (service.secure or self._hub is None) and service.next_deadline() <= now:
            if rounds == _ROUNDS or quiet == _QUIET_ROUNDS:
                return
            received = stats.bytes_received
            await trio.lowlevel.checkpoint()
            rounds += 1
            quiet = quiet + 1 if stats.bytes_received == received else 0

    async def _keep_snapshots(self) -> None:
        """Write each snapshot that is due, step by step, and delete old files."""
        storage = self.service.storage
        assert storage is not None
        while True:
            await trio.sleep(_LOOK_AT_LOG)
            try:
                if storage.is_due:
                    for _ in storage.snapshot_steps():
                        await trio.lowlevel.checkpoint()
                storage.purge()
            except OSError as error:
                logger.error(
                    "a snapshot failed: %s; the logs continue, and the next snapshot is tried later", error
                )
            except Exception:
                report("a snapshot failed; the logs continue, and the next snapshot is tried later")

    # --- a task for each client --------------------------------------------------------------------------

    async def _serve_tasks(
        self, listener: socket.socket, serve: Callable[[trio.SocketStream, Any], Awaitable[None]]
    ) -> None:
        async def handle(stream: trio.SocketStream) -> None:
            try:
                peer = stream.socket.getpeername()[:2]
            except OSError:  # the client has already closed the connection
                await trio.aclose_forcefully(stream)
            else:
                await serve(stream, peer)

        await serve_clients(listener, handle)

    async def _serve_client(
        self, stream: trio.SocketStream, peer: tuple[str, int], endpoint: str = ""
    ) -> None:
        await serve_stream(
            self.service,
            stream,
            peer,
            self.clock.now,
            self.flush,
            self._serve_foreign,
            endpoint=endpoint,
        )

    async def _serve_secure_client(self, stream: trio.SocketStream | Begun, peer: tuple[str, int]) -> None:
        settings = self.service.settings
        assert settings.ssl_context is not None
        secure = trio.SSLStream(stream, settings.ssl_context, server_side=True, https_compatible=True)

        async def identities() -> Iterable[Id]:
            certificate = secure.getpeercert()
            if not certificate:
                return ()
            if settings.verify_client_host:
                from .hostnames import check  # loaded only if needed

                await check(certificate, peer[0], settings.reverse_dns)
            return self.service.engine.access.certificate_identities(subject_text(certificate))

        try:
            await serve_stream(
                self.service, secure, peer, self.clock.now, self.flush, self._serve_http, identities
            )
        finally:
            vars(secure).clear()  # trio's stream refers to itself, and the cycle would be garbage

    # --- other protocols on the port of clients ----------------------------------------------------------

    def _take_foreign(self, sock: socket.socket, peer: str, received: bytes) -> None:
        """Serve a client of the hub that speaks HTTP or TLS."""
        assert self._nursery is not None
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._nursery.start_soon(self._serve_foreign, stream, peer, received)

    async def _serve_foreign(self, stream: trio.SocketStream, peer: str, received: bytes) -> None:
        if not received.startswith(TLS_HELLO):
            await self._serve_http(stream, peer, received)
            return
        try:
            address = stream.socket.getpeername()[:2]
        except OSError:  # the client has already closed the connection
            await trio.aclose_forcefully(stream)
        else:
            await self._serve_secure_client(Begun(stream, received), address)

    async def _serve_http(self, stream: trio.abc.Stream, peer: str, received: bytes) -> None:
        try:
            http = self._http or await self._load_http()
        except Exception:  # for example a lack of memory or file descriptors; the next client tries again
            report("an HTTP client was closed")
            await trio.aclose_forcefully(stream)
        else:
            await http.serve(stream, peer, received)

    async def _load_http(self) -> HttpServer:
        """Make the HTTP server if this is the first HTTP client."""
        assert self.http_factory is not None
        assert self._nursery is not None
        http = await self.http_factory(self, self._nursery)
        if self._http is None:  # no other client has made it meanwhile
            self._http = http
        return self._http


def _backlog(settings: Settings) -> int:
    return settings.listen_backlog if settings.listen_backlog > 0 else _BACKLOG


def _bind(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Bind a socket.

    :param backlog: the number of clients that may wait; None: the socket does not listen.
    """
    # ASCII names are passed as bytes, because the codec for other names takes long to load.
    name = host.encode() if host.isascii() else host
    family, kind, protocol, _, address = socket.getaddrinfo(
        name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        if os.name != "nt":  # on Windows this option would allow two servers to have the same port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        if backlog is not None:
            sock.listen(backlog)
        sock.setblocking(False)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            error.filename = (host, port)  # so that the message names the address that could not be bound
        raise
    return sock
