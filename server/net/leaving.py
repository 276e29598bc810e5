"""Clients that are to close their connection, and how long they may take.

A connection that has ended has our side closed first. Then it waits some seconds for the client to close its
own: closing with unread input would make the kernel reset the connection, and could destroy what was sent
last (wire.md, trap 13). A client that is to take what is left, before our side is closed, has as long.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

_LINGER = 2.0
"""Seconds that a client has to take what is left, and to close its side after we have closed ours."""
_MOST, _MOST_PER_HOST = 256, 64
"""Clients that have these seconds at a time: in all, and of one address."""
_PIECES, _PIECE = 16, 64 * 1024
"""How much input is thrown away per turn of one client: pieces, and the bytes of each."""


class Leaving:
    """Clients that are to close, by the file descriptors of their sockets.

    :ivar sockets: those whose other side is awaited: ours is closed.
    :ivar deadlines: until when each may take, and its host.
    """

    def __init__(self) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self.deadlines: dict[int, tuple[float, str]] = {}

    def give_time(self, fd: int, host: str, now: float) -> int | None:
        """Give a client its seconds. Of too many the oldest is given up, as the limits of connections no
        longer count them; it is returned for the caller to close."""
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
        """Go through the clients whose seconds are over; they may be closed meanwhile."""
        return (fd for fd, (deadline, _) in list(self.deadlines.items()) if deadline <= now)

    def drain(self, fd: int) -> bool:
        """Throw away what a client still sends; True if it has closed its side."""
        sock = self.sockets[fd]
        try:
            return any(not sock.recv(_PIECE) for _ in range(_PIECES))
        except BlockingIOError:
            return False
        except OSError:
            return True

    def forget(self, fd: int) -> socket.socket | None:
        """Wait for this client no longer. Returns its socket if our side is closed."""
        self.deadlines.pop(fd, None)
        return self.sockets.pop(fd, None)
