"""Listeners with a task for each client: TLS, HTTP, and plain clients without epoll."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from ..core.failures import report
from ..logger import logger
from . import descriptors

_REST: Final = 1.0
"""The time in seconds between two attempts to accept a client if there are no resources for more clients."""


class Listener(socket.socket):
    """A listening socket whose family and type are plain ints. For each client ``accept`` reads the family
    and the type. To convert them to enums would take 5 % of the time of a session.

    :ivar endpoint: the name of the endpoint; empty for the port of all clients.
    """

    endpoint = ""

    family = socket.SocketType.family  # type: ignore[assignment]
    type = socket.SocketType.type  # type: ignore[assignment]


async def serve_clients(
    listener: socket.socket, serve: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    """Accept clients until cancelled.

    :param serve: serves one client, and closes its stream. An exception ends only that client.
    """

    async def guarded(stream: trio.SocketStream) -> None:
        try:
            await serve(stream)
        except Exception:
            report("a client was closed")
            await trio.aclose_forcefully(stream)

    source = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    waiting = False
    async with trio.open_nursery() as nursery:
        while True:
            try:
                stream = await source.accept()
                descriptors.check(stream.socket)
                nursery.start_soon(guarded, stream)
                waiting = False
                continue
            except OSError as error:
                if not waiting:
                    logger.warning("new clients must wait: %s; %s", error, descriptors.REMEDY)
            except Exception:
                report("new clients must wait")
            waiting = True
            await trio.sleep(_REST)
