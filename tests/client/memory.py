"""Clients of a server in memory: ``open_server`` and its controls, in virtual time.

async with open_memory_server() as server, client(server) as zk:
    with server.fault(op="set_data", when="after"):
        ...
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import trio

from pyzk.client import ZooKeeper, connect
from pyzk.client.runner import Connector
from pyzk.server.testing import Controls, open_server

SERVER = "server:2181"


def open_memory_server(**settings: Any) -> AbstractAsyncContextManager[Controls]:
    """A fresh server; sessions of 1 to 100 s, in ticks of 0.1 s."""
    options = {"tick_time": 100, "min_session_timeout": 1000, "max_session_timeout": 100_000}
    return open_server(**(options | settings))


class KernelStream(trio.abc.Stream):
    """A connection to a server in memory, with the kernel's buffer in between: what is sent at once arrives
    one turn later, as on TCP."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._broken = False

    def send_now(self, data: bytes) -> int:
        if self._broken:
            raise trio.BrokenResourceError
        if not self._buffer:
            trio.lowlevel.spawn_system_task(self._carry)
        self._buffer += data
        return len(data)

    async def _carry(self) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._broken = True

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.send_now(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


def connector(server: Controls) -> Connector:
    """Every host name and port leads to this server."""

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return KernelStream(server.open_stream())

    return open_stream


def client(server: Controls, servers: str = SERVER, **options: Any) -> AbstractAsyncContextManager[ZooKeeper]:
    """A client of a server."""
    return connect(servers, **({"connector": connector(server)} | options))


def watched(server: Controls) -> list[str]:
    """The paths on which clients have watches at the server."""
    return [path for session in server.sessions() for path in session.watches]
