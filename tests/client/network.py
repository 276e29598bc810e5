"""Names and addresses of a network that a test makes up."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from pyzk.server.testing import Controls

from .memory import connector

GOOD = "10.0.0.2"
Found = list[tuple[Any, ...]]


class Network(trio.abc.HostnameResolver):
    """Host names and what listens at their addresses. Every address that is not named otherwise refuses.

    :ivar names: name to addresses; an exception is raised; None hangs.
    :ivar tried: the addresses that were tried, in order.
    """

    def __init__(self, server: Controls) -> None:
        self.names: dict[str, list[str] | Exception | None] = {}
        self.peers: dict[str, Callable[[str, int], Awaitable[trio.abc.Stream]]] = {GOOD: connector(server)}
        self.tried: list[str] = []
        self.look_ups: list[str] = []
        self.hanging = 0

    async def getaddrinfo(self, host: Any, port: Any, *_: object, **__: object) -> Found:
        self.look_ups.append(host.decode())
        found = self.names[host.decode()]
        if found is None:
            self.hanging += 1
            try:
                await trio.sleep_forever()
            finally:
                self.hanging -= 1
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port))) for address in found]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError

    async def open_tcp_stream(self, host: str, port: int) -> trio.abc.Stream:
        """As trio's: the first address that accepts."""
        for *_, sockaddr in await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = str(sockaddr[0])
            self.tried.append(address)
            if address in self.peers:
                return await self.peers[address](address, port)
        raise ConnectionRefusedError(111, "Connection refused")

    def replace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the clients of this test find this network."""
        trio.socket.set_custom_hostname_resolver(self)
        monkeypatch.setattr("pyzk.client.tcp.TcpStream.open", self.open_tcp_stream)
