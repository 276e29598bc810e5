"""Servers on real sockets, and a client that sends bytes and reads until the server closes."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from pyzk.server.app.serve import make_server
from pyzk.server.config.settings import Settings
from pyzk.server.monitoring.server import MonitoredServer
from pyzk.server.net.clock import Clock

from .waiting import wait_until


def wait_for_delivery(*sockets: socket.socket) -> None:
    """Wait until all that was sent has arrived: a busy kernel may need some ms. Nobody has to read it."""
    wait_until(lambda: not any(map(_not_delivered, sockets)))


def _not_delivered(sock: socket.socket) -> int:
    """Return how many bytes the other side has not acknowledged; it may take 40 ms for that."""
    count: int = struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]
    return count


@asynccontextmanager
async def served(*, clock: Clock | None = None, **settings: Any) -> AsyncIterator[MonitoredServer]:
    """A server with these settings, at a free port."""
    server = make_server(Settings(**{"port": 0, **settings}), clock or Clock())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        nursery.cancel_scope.cancel()


async def talk(address: tuple[str, int], *chunks: bytes, half_close: bool = False) -> bytes:
    """Send bytes; gives back all that the server answers until it closes the connection."""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream(*address) as stream:
            for chunk in chunks:
                await stream.send_all(chunk)
            if half_close:
                await stream.send_eof()
            answered = b""
            while data := await stream.receive_some(65536):
                answered += data
            return answered
