"""Moves the bytes of a client between its socket and a connection of the server in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

_MOST: Final = 64 * 1024  # bytes


async def relay(
    sock: trio.socket.SocketType, stream: trio.abc.HalfCloseableStream, happened: Callable[[], object]
) -> None:
    """Move bytes in both directions until the connection is over, then close both ends.

    :param sock: the socket on which the client's bytes arrive.
    :param stream: the client's end of a connection of the server.
    :param happened: a function that is called after bytes went to the client, and at the end.
    """
    with sock:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive, sock, stream)
            while data := await stream.receive_some(_MOST):
                with suppress(OSError):
                    while data:
                        data = data[await sock.send(data) :]
                happened()
            nursery.cancel_scope.cancel()
    await stream.aclose()
    happened()


async def _receive(sock: trio.socket.SocketType, stream: trio.abc.HalfCloseableStream) -> None:
    with suppress(OSError, trio.BrokenResourceError):
        while data := await sock.recv(_MOST):
            await stream.send_all(data)
        await stream.send_eof()
