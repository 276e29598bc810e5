"""Connections to one server, without a session."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ..client import Host

LONGEST = 64 * 2**20
"""The largest number of bytes of an answer."""
ERRORS = (OSError, ssl.SSLError, trio.TooSlowError, trio.BrokenResourceError)
"""The errors of a connection."""


@asynccontextmanager
async def stream_to(host: Host, ssl_context: ssl.SSLContext | None) -> AsyncIterator[trio.abc.Stream]:
    """Connect, over TLS if there is a context.

    :raises OSError: the connection fails.
    """
    stream: trio.abc.Stream = await trio.open_tcp_stream(host.address or host.name, host.port)
    if ssl_context is not None:
        stream = trio.SSLStream(stream, ssl_context, server_hostname=host.name, https_compatible=True)
    async with stream:
        yield stream


def reason(error: BaseException, patience: float) -> str:
    """Return the reason why a server does not answer.

    :param error: one of :data:`ERRORS`.
    :param patience: the seconds of the wait.
    """
    while isinstance(error.__cause__, OSError):  # trio's own error says less
        error = error.__cause__
    if isinstance(error.__cause__, ExceptionGroup):  # one for each address
        error = error.__cause__.exceptions[0]
    if isinstance(error, trio.TooSlowError):
        return f"nothing within {patience:g} s"
    if isinstance(error, ssl.SSLError):  # its errno is no number of the system
        return error.reason or str(error)
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
