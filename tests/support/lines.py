"""Connections that a test cuts."""

from __future__ import annotations

import socket
from contextlib import suppress

import trio

from pyzk.client.tcp import TcpStream


def cut(stream: trio.abc.Stream) -> None:
    """What the server was asked for is done, and no reply comes."""
    assert isinstance(stream, TcpStream)
    with suppress(OSError):  # it is broken already
        twin = socket.fromfd(stream.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        with twin:
            twin.shutdown(socket.SHUT_RDWR)
