"""Clients whose errors are told in the user's words."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from ..client import (
    AuthFailedError,
    ConnectionLossError,
    InvalidACLError,
    NoAuthError,
    ZooKeeper,
    ZooKeeperError,
    connect,
)
from .status import Failure, Status


@asynccontextmanager
async def client(
    hosts: str,
    *,
    session_timeout: float,
    connect_timeout: float,
    auth: tuple[tuple[str, str], ...],
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[ZooKeeper]:
    """A client; times are in seconds.

    :raises Failure: for every error of the client and of the servers that leaves the block.
    """
    # In the protocol SASL is no scheme of an auth packet: such a line is the user to log in as.
    users = [text.partition(":") for scheme, text in auth if scheme == "sasl"]
    with explained():
        async with connect(
            hosts,
            session_timeout=session_timeout,
            connect_timeout=connect_timeout,
            auth=[identity for identity in auth if identity[0] != "sasl"],
            sasl=users[-1][::2] if users else None,
            on_expired="new_session",
            ssl_context=ssl_context,
        ) as zk:
            yield zk


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
