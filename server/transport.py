"""The server on the network: listeners, their clients, and the clock that drives it all.

Plain clients are served by the :class:`.hub.Hub` where there is epoll, TLS clients by a pair of tasks each.
"""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import trio

from ..protocol.records import Id
from .clock import Clock
from .service import Service
from .settings import Settings
from .streams import serve_stream

logger = logging.getLogger("pyzk.server")

_BACKLOG = 2048
_HAS_HUB = hasattr(select, "epoll")


class Server:
    """A server that runs.

    :ivar service: the server without its sockets.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        now = clock.now()
        self.clock = clock
        self.service = Service(settings, now=now, epoch=now + clock.epoch_offset())
        self._hub: Any = None
        if _HAS_HUB:
            from .hub import Hub

            self._hub = Hub(self.service, clock.now)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the plain listener."""
        assert self.service.address is not None
        return self.service.address

    @property
    def secure_address(self) -> tuple[str, int] | None:
        """Host and port of the TLS listener, if there is one."""
        return self.service.secure_address

    async def run(self, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve until cancelled. Raises :class:`OSError` if an address cannot be had."""
        settings = self.service.settings
        with ExitStack() as sockets:
            listener = sockets.enter_context(_listen(settings.host, settings.port, settings.listen_backlog))
            self.service.address = listener.getsockname()[:2]
            secure: socket.socket | None = None
            if settings.secure_port is not None:
                host = settings.secure_host or settings.host
                secure = sockets.enter_context(_listen(host, settings.secure_port, settings.listen_backlog))
                self.service.secure_address = secure.getsockname()[:2]
            if self._hub is not None:
                sockets.callback(self._hub.close)
            async with trio.open_nursery() as nursery:
                if secure is not None:
                    nursery.start_soon(self._serve_tasks, secure)
                if self._hub is not None:
                    self._hub.listen(listener)
                    nursery.start_soon(self._hub.run)
                else:
                    nursery.start_soon(self._serve_tasks, listener)
                nursery.start_soon(self._keep_time)
                task_status.started(self)

    def flush(self) -> None:
        """Send what has come to wait on any connection, after a change from outside."""
        if self._hub is not None:
            self._hub.flush()

    def receive(self) -> None:
        """Handle what has arrived already."""
        if self._hub is not None:
            self._hub.turn()
            self._hub.tidy(self.clock.now())

    def advance(self) -> None:
        """Do what has fallen due by the clock."""
        self.service.engine.epoch_offset = self.clock.epoch_offset()
        self.service.advance(self.clock.now())
        self.flush()

    async def _keep_time(self) -> None:
        tick = self.service.settings.tick_time / 1000
        while True:
            # A new deadline may come into being meanwhile, but none that lies before the next tick.
            next_tick = (self.clock.now() // tick + 1) * tick
            await self.clock.sleep_until(min(self.service.next_deadline(), next_tick))
            self.receive()  # what has arrived already counts as a sign of life
            self.advance()

    # --- a task per client -------------------------------------------------------------------------------

    async def _serve_tasks(self, listener: socket.socket) -> None:
        await trio.serve_listeners(
            self._serve_client, [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
        )

    async def _serve_client(self, stream: trio.SocketStream) -> None:
        peer = stream.socket.getpeername()[:2]
        settings = self.service.settings
        if stream.socket.getsockname()[:2] != self.secure_address:
            await serve_stream(self.service, stream, peer, self.clock.now, self.flush)
            return
        assert settings.ssl_context is not None
        secure = trio.SSLStream(stream, settings.ssl_context, server_side=True, https_compatible=True)

        def identities() -> Iterable[Id]:
            certificate = secure.getpeercert()
            if not certificate:
                return ()
            return self.service.engine.access.certificate_identities(subject_text(certificate))

        await serve_stream(self.service, secure, peer, self.clock.now, self.flush, identities)


async def serve(
    settings: Settings, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; what the command runs. Raises :class:`OSError` if an address cannot be had."""
    await Server(settings, Clock(follow_wall_clock=True)).run(task_status=task_status)


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(backlog if backlog > 0 else _BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


_RDN = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def subject_text(certificate: dict[str, Any]) -> str:
    """The subject of a certificate, as :meth:`ssl.SSLSocket.getpeercert` gives it, as RFC 2253 text: the
    identity of scheme x509."""
    parts = []
    for rdn in reversed(certificate.get("subject", ())):
        pairs = []
        for name, value in rdn:
            escaped = "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in value)
            pairs.append(f"{_RDN.get(name, name)}={escaped}")
        parts.append("+".join(pairs))
    return ",".join(parts)
