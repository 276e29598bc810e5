"""Connections that a test cuts."""

from __future__ import annotations

import socket
from contextlib import suppress

import trio


def cut(stream: trio.abc.Stream) -> None:
    """What the server was asked for is done, and no reply comes."""
    assert isinstance(stream, trio.SocketStream)
    with suppress(OSError):  # it is broken already
        # By another descriptor: trio would remember that nothing can be sent any more.
        twin = socket.fromfd(stream.socket.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        with twin:
            twin.shutdown(socket.SHUT_RDWR)
