"""The sockets: one trio task serves all plain TCP clients.

Every client socket is registered with one epoll (kqueue elsewhere) object of our own, and the task waits for
that object's file descriptor. A wake-up then handles all sockets that are ready, with no task switch and no
await for each of them.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from functools import partial

import trio

from .connection import Connection
from .service import Service
from .settings import Settings

logger = logging.getLogger("pyzk.server")

_RECEIVE = 64 * 1024
_LISTEN_BACKLOG = 2048
_ROUNDS = 16
"""How often the sockets are looked at before trio gets to run its other tasks."""


class _Link:
    """A client's socket and its connection."""

    __slots__ = ("connection", "fd", "interest", "sock", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.connection: Connection
        self.unsent = memoryview(b"")
        self.interest = 0


class Hub:
    """All client sockets of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._poller = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._links: dict[int, _Link] = {}
        self._dirty: list[_Link] = []  # output waits, or the connection is over
        self._busy: dict[_Link, None] = {}  # input is left over from an earlier turn

    def listen(self, sock: socket.socket) -> None:
        self._listeners[sock.fileno()] = sock
        self._poller.register(sock.fileno(), select.EPOLLIN)

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for link in list(self._links.values()):
            link.sock.close()
        self._links.clear()
        self._poller.close()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            if not self._busy:
                await trio.lowlevel.wait_readable(self._poller.fileno())
            else:
                await trio.lowlevel.checkpoint()
            for _ in range(_ROUNDS):
                if not self.turn():
                    break

    def turn(self) -> bool:
        """Handle every socket that is ready, once; False if there was nothing to do."""
        events = self._poller.poll(0)
        busy = list(self._busy)
        if not events and not busy:
            return False
        now = trio.current_time()
        for link in busy:
            self._proceed(link, now)
        for fd, event in events:
            link_or_none = self._links.get(fd)
            if link_or_none is None:
                if fd in self._listeners:
                    self._accept(self._listeners[fd], now)
                continue
            link = link_or_none
            if event & select.EPOLLOUT:
                self._flush(link)
                self._proceed(link, now)
            if event & ~select.EPOLLOUT and link.fd in self._links:
                self._receive(link, now)
        return True

    def flush(self) -> None:
        """Send what waits, on all connections."""
        dirty = self._dirty
        while dirty:
            self._flush(dirty.pop())

    # --- one socket --------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, now: float) -> None:
        for _ in range(64):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                logger.warning("a connection could not be accepted: %s", error)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._service.settings.tcp_keepalive:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            link = _Link(sock)
            connection = self._service.accept(address[:2], now, partial(self._dirty.append, link))
            if connection is None:
                _reset(sock)
                continue
            link.connection = connection
            self._links[link.fd] = link
            link.interest = select.EPOLLIN
            self._poller.register(link.fd, select.EPOLLIN)

    def _receive(self, link: _Link, now: float) -> None:
        try:
            data = link.sock.recv(_RECEIVE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection = link.connection
        if data:
            connection.receive_data(data, now)
        else:
            connection.receive_eof()
        if connection.has_work:
            self._busy[link] = None
        self.flush()

    def _proceed(self, link: _Link, now: float) -> None:
        connection = link.connection
        if connection.has_work and not link.unsent:
            connection.proceed(now)
        self._flush(link)
        self.flush()
        if not connection.has_work or link.unsent:
            self._busy.pop(link, None)

    def _flush(self, link: _Link) -> None:
        if link.fd not in self._links:
            return
        connection = link.connection
        try:
            while True:
                data = link.unsent or connection.data_to_send()
                if not data:
                    break
                sent = link.sock.send(data)
                if sent < len(data):
                    link.unsent = memoryview(data)[sent:]
                    break
                link.unsent = memoryview(b"")
        except BlockingIOError:
            link.unsent = memoryview(data)
        except OSError:
            link.unsent = memoryview(b"")
            connection.receive_eof()
            self._drop(link)
            return
        if connection.close_expected and not link.unsent:
            self._drop(link)
            return
        interest = select.EPOLLOUT if link.unsent else select.EPOLLIN if connection.may_read else 0
        if interest != link.interest:
            link.interest = interest
            self._poller.modify(link.fd, interest)

    def _drop(self, link: _Link) -> None:
        del self._links[link.fd]
        self._busy.pop(link, None)
        self._poller.unregister(link.fd)
        link.sock.close()


def _reset(sock: socket.socket) -> None:
    """Close at once, as the real server turns away surplus connections."""
    sock.close()


class Server:
    """A server that listens.

    :ivar address: (host, port) of the plain listener.
    :ivar secure_address: the same of the TLS listener, or None.
    """

    def __init__(self, service: Service, address: tuple[str, int]) -> None:
        self.service = service
        self.address = address
        self.secure_address: tuple[str, int] | None = None


def _listen(settings: Settings) -> socket.socket:
    infos = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = infos[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(settings.listen_backlog if settings.listen_backlog > 0 else _LISTEN_BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def serve(
    settings: Settings, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled. Raises :class:`OSError` if the address cannot be had."""
    listener = _listen(settings)
    service = Service(settings, now=trio.current_time(), epoch=time.time())
    hub = Hub(service)
    hub.listen(listener)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_time, service, hub)
            task_status.started(Server(service, listener.getsockname()[:2]))
            await hub.run()
    finally:
        hub.close()


async def _keep_time(service: Service, hub: Hub) -> None:
    """Call the service whenever something falls due."""
    tick = service.settings.tick_time / 1000
    while True:
        now = trio.current_time()
        service.engine.epoch_offset = time.time() - now
        # A deadline may come into being while this sleeps, but none that lies before the next tick.
        await trio.sleep_until(min(service.next_deadline(), (now // tick + 1) * tick))
        hub.turn()  # what has arrived already counts as a sign of life
        service.advance(trio.current_time())
        hub.flush()
