from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[..., KazooClient]]:
    """Make started kazoo clients of a server."""
    clients: list[KazooClient] = []

    def start(server: EmbeddedServer, **options: Any) -> KazooClient:
        # No session ends by itself because a busy machine leaves a client waiting.
        client = KazooClient(hosts=server.hosts, timeout=30.0, **options)
        clients.append(client)
        client.start(timeout=15)
        return client

    yield start
    for client in clients:
        client.stop()
        client.close()
