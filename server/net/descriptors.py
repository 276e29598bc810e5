"""Raises the limit of file descriptors, and reserves some descriptors. The process may have as many
descriptors as the system allows, but clients do not get the reserved descriptors.

The server itself may need some file descriptors at any time, for example to import a module, to read /dev/fd
for an operator, or to write a traceback.
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
"""The least number of file descriptors with which a server can serve clients."""
_SAFE: Final = LEAST // 2
"""A descriptor with a lower number is never reserved, so the limit need not be read for each new client."""
SHORTAGE: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""The errors of accept() and similar calls if the system has no more descriptors or no more memory."""
REMEDY: Final = "close other clients first, or raise the limit of open files (ulimit -n)"


def limit() -> int:
    """Return the number of file descriptors that the process may have."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the limit as far as the system allows. A JVM does the same when it starts."""
    # Windows has no limit. The limit may already be higher than the limit of the kernel.
    with suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check(sock: socket.socket | trio.socket.SocketType) -> None:
    """Close the socket of a new client if its file descriptor is reserved.

    :raises OSError: EMFILE; the socket is closed.
    """
    if sock.fileno() < _SAFE:
        return
    most = limit()
    if sock.fileno() >= most - min(_RESERVE, most // 4):  # the system uses the lowest free number first
        sock.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
