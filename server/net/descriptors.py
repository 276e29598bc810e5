"""File descriptors: as many as the process may have, except a few that no client gets.

The server itself needs some at any time: to import a module, to read /dev/fd for an operator, to write a
traceback. So clients may not take the last ones.
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
"""The server needs at least this many, so that some are left for clients."""
_SAFE: Final = LEAST // 2
"""Lower numbers are never reserved, because reading the limit for each new client would take time."""
SHORTAGE: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""The errors of accept() and similar calls while the system has no more descriptors or memory."""
REMEDY: Final = "other clients must leave first, or raise the limit of open files (ulimit -n)"


def limit() -> int:
    """Return the number of file descriptors that the process may have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the limit as far as the system allows, as a JVM does at its start."""
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
