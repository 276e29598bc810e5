"""File descriptors: as many as the process may have, but for a few that no client gets.

The server needs some for itself at any time: to import a module that was not needed before, to read /dev/fd
for an operator, to write a traceback. So clients may not take the last ones.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import trio

_RESERVE: Final = 32
LEAST: Final = 64
"""With fewer than these there would be hardly any for clients."""
_SAFE: Final = LEAST // 2
"""Lower numbers are never in reserve: to ask for the limit at each new client would take time."""
SHORTAGE: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""The errors of accept() and the like while the system has no more descriptors or memory."""
REMEDY: Final = "some must leave first, or the limit of open files (ulimit -n) be raised"


def limit() -> int:
    """Return the number of file descriptors that the process may have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the limit as far as the system lets this user, as a JVM does at its start."""
    with suppress(
        ImportError, OSError, ValueError
    ):  # Windows has none; or it is higher than the kernel's own
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check(sock: socket.socket | trio.socket.SocketType) -> None:
    """Close the socket of a new client if its descriptor is one of the reserve.

    :raises OSError: EMFILE; the socket is closed.
    """
    if sock.fileno() < _SAFE:
        return
    most = limit()
    if sock.fileno() >= most - min(_RESERVE, most // 4):  # the lowest number that is free is given out first
        sock.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
