"""Clients that must close their connection, and their time to do this.

When a connection ends, the server closes its side first. Then the server waits some seconds for the client to
close its side. If the server closed the socket while there is unread input, the kernel would reset the
connection, and the last output could be lost (wire.md, trap 13). Before the server closes its side, a client
has the same time to read the rest of the output.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

_LINGER = 2.0
"""The time in seconds in which a client must read the rest of the output. After that the client has the same
time to close its side."""
_MOST, _MOST_PER_HOST = 256, 64
"""The largest number of clients that may have this time: for all addresses together, and for one address."""
_PIECES, _PIECE = 16, 64 * 1024
"""The limits for the input that one turn drops for one client: the largest number of pieces, and the largest
size of a piece in bytes."""


class Leaving:
    """The clients that must close their side, by the file descriptors of their sockets.

    :ivar sockets: the sockets whose server side is closed and whose client side is still open.
    :ivar deadlines: the deadline of each client in seconds, and its host.
    """

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.deadlines: dict[int, tuple[float, str]] = {}

    def give_time(self, fd: int, host: str, now: float) -> int | None:
        """Give a client its time. The limits of connections do not count these clients any more. So if there
        are too many clients, the oldest client is returned, and the caller must close its socket.

        :param now: the present time in seconds.
        """
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
        """Yield the clients whose time is over. The caller may close them meanwhile.

        :param now: the present time in seconds.
        """
        return (fd for fd, (deadline, _) in list(self.deadlines.items()) if deadline <= now)

    def drain(self, fd: int) -> bool:
        """Drop further input of a client.

        :returns: True if the client has closed its side.
        """
        sock = self.sockets[fd]
        try:
            return any(not sock.recv(_PIECE) for _ in range(_PIECES))
        except BlockingIOError:
            return False
        except OSError:
            return True

    def forget(self, fd: int) -> socket.socket | None:
        """Stop waiting for a client.

        :returns: the socket of the client if the server's side is closed; otherwise None.
        """
        self.deadlines.pop(fd, None)
        return self.sockets.pop(fd, None)
