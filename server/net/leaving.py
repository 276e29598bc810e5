"""Clients that must close their connection, and the time that they have.

When a connection ends, the server closes its side first. Then it waits some seconds for the client to close
its own side: closing with unread input would make the kernel reset the connection, and could destroy the
last output (wire.md, trap 13). A client has the same time to take the rest of the output before the server
closes its side.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

_LINGER = 2.0
"""Seconds that a client has to take the rest of the output, and then to close its side."""
_MOST, _MOST_PER_HOST = 256, 64
"""The largest number of clients that have this time: in all, and of one address."""
_PIECES, _PIECE = 16, 64 * 1024
"""The amount of input that is dropped per turn of one client: the number of pieces, and the bytes of each."""


class Leaving:
    """Clients that must close, by the file descriptors of their sockets.

    :ivar sockets: the sockets whose server side is closed, and whose client side is awaited.
    :ivar deadlines: the deadline of each client, and its host.
    """

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.deadlines: dict[int, tuple[float, str]] = {}

    def give_time(self, fd: int, host: str, now: float) -> int | None:
        """Give a client its seconds. The limits of connections no longer count these clients, so if there
        are too many, the oldest is returned for the caller to close."""
        deadlines = self.deadlines
        given_up = None
        if fd not in deadlines:
            same = [other for other, (_, of) in deadlines.items() if of == host]
            if len(same) >= _MOST_PER_HOST:
                given_up = same[0]
            elif len(deadlines) >= _MOST:
                given_up = next(iter(deadlines))
        deadlines[fd] = (now + _LINGER, host)
        return given_up

    def late(self, now: float) -> Iterator[int]:
        """Yield the clients whose seconds are over; they may be closed meanwhile."""
        return (fd for fd, (deadline, _) in list(self.deadlines.items()) if deadline <= now)

    def drain(self, fd: int) -> bool:
        """Drop further input of a client; True if it has closed its side."""
        sock = self.sockets[fd]
        try:
            return any(not sock.recv(_PIECE) for _ in range(_PIECES))
        except BlockingIOError:
            return False
        except OSError:
            return True

    def forget(self, fd: int) -> socket.socket | None:
        """Stop waiting for this client. Returns its socket if the server's side is closed."""
        self.deadlines.pop(fd, None)
        return self.sockets.pop(fd, None)
