"""Clients of a server in memory: ``open_server`` and its controls, in virtual time.

async with open_memory_server() as server, client(server) as zk:
    with server.fault(op="set_data", when="after"):
        ...
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from pyzk.client import Connector, ZooKeeper, connect
from pyzk.server.testing import Controls, open_server

SERVER = "server:2181"


def open_memory_server(**settings: Any) -> AbstractAsyncContextManager[Controls]:
    """A fresh server; sessions of 1 to 100 s, in ticks of 0.1 s."""
    options = {"tick_time": 100, "min_session_timeout": 1000, "max_session_timeout": 100_000}
    return open_server(**(options | settings))


def connector(server: Controls) -> Connector:
    """Every host name and port leads to this server."""

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return server.open_stream()

    return open_stream


def client(server: Controls, servers: str = SERVER, **options: Any) -> AbstractAsyncContextManager[ZooKeeper]:
    """A client of a server."""
    return connect(servers, **({"connector": connector(server)} | options))


def watched(server: Controls) -> list[str]:
    """The paths on which clients have watches at the server."""
    return [path for session in server.sessions() for path in session.watches]
