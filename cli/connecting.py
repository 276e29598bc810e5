"""Connects the clients of the commands, and turns errors into messages for users."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from ..client import (
    AuthFailedError,
    ConnectionLossError,
    InvalidACLError,
    NoAuthError,
    ZooKeeper,
    ZooKeeperError,
    connect,
)
from ..client.hosts import ConnectString, list_servers
from .status import Failure, Status, say
from .streams import ERRORS, reason, stream_to

_SILENT = 1.0
"""The seconds of failed attempts after which a message is printed."""


@asynccontextmanager
async def client(
    program: str,
    hosts: str,
    *,
    session_timeout: float,
    connect_timeout: float,
    auth: tuple[tuple[str, str], ...],
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[ZooKeeper]:
    """Open a client. Times are in seconds. If no server accepts a connection, a message says so after a
    second.

    :raises Failure: the block ends with an error of the client or of the servers.
    """
    # In the protocol SASL is no scheme of an auth packet: such a line is the user to log in as.
    users = [text.partition(":") for scheme, text in auth if scheme == "sasl"]
    with explained(), _saying_what_refuses(program, hosts, connect_timeout) as connected:
        async with connect(
            hosts,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            auth=[identity for identity in auth if identity[0] != "sasl"],
            sasl=users[-1][::2] if users else None,
            on_expired="new_session",
            ssl_context=ssl_context,
        ) as zk:
            connected()
            yield zk


@contextmanager
def _saying_what_refuses(program: str, hosts: str, patience: float) -> Iterator[Callable[[], None]]:
    """Print a message after one second if no server accepts a connection. Yields a function that must be
    called when there is a session."""
    scope = trio.CancelScope()

    async def look() -> None:
        with scope:
            await trio.sleep(_SILENT)
            reasons, servers = [], []
            try:
                servers = await list_servers(ConnectString.parse(hosts).hosts)
            except OSError as error:
                reasons.append(f"{hosts}: {error}")
            for host in servers:
                try:
                    with trio.fail_after(_SILENT):
                        async with stream_to(host, None):
                            return
                except ERRORS as error:
                    reasons.append(f"{host}: {reason(error, _SILENT)}")
            say(program, f"no server yet ({'; '.join(reasons)}); trying for {patience:g} s in all")

    if patience > _SILENT:
        trio.lowlevel.spawn_system_task(look)  # a nursery here would put failures into groups
    try:
        yield scope.cancel
    finally:
        scope.cancel()


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the client and of the servers into failures that say what to do."""
    try:
        yield
    except ConnectionLossError as error:
        raise Failure(Status.UNAVAILABLE, f"{error}; check --hosts or PYZK_HOSTS") from None
    except (AuthFailedError, NoAuthError, InvalidACLError) as error:
        raise Failure(Status.FORBIDDEN, f"{error}; check --auth-file or PYZK_AUTH") from None
    except ZooKeeperError as error:
        raise Failure(Status.REFUSED, str(error)) from None
