"""Ports for servers that start later, or again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .links import HOST


@contextmanager
def kept_ports(count: int) -> Iterator[list[int]]:
    """Ports of the kernel's choosing, which it gives to nobody else while the block runs. A server that sets
    SO_REUSEADDR, as ours and those in Java do, can listen at them: on Linux many may bind, one listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, 0))
        yield [sock.getsockname()[1] for sock in sockets]
