"""Our recipes beside other software, over TCP and in real time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from pyzk.client import connect
from pyzk.server.testing import EmbeddedServer

from ...support import jvm, real
from ...support.needs import need

SESSION_TIMEOUT = 30_000
"""In ms, for all clients: no session ends, and no lease, because a busy machine lets somebody wait."""


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server of this test's own, with a port."""
    limits = {"min_session_timeout": SESSION_TIMEOUT, "max_session_timeout": 2 * SESSION_TIMEOUT}
    with EmbeddedServer(tick_time=50, **limits, extended_types=True) as server:
        yield server


@pytest.fixture(scope="package")
def real_server() -> Iterator[str]:
    """The connect string of a real, standalone ZooKeeper."""
    need(jvm.missing())
    with real.Ensemble(1, settings={"minSessionTimeout": SESSION_TIMEOUT}) as ensemble:
        yield ensemble.hosts


@pytest.fixture(params=["server", "real_server"])
def either_server(request: pytest.FixtureRequest) -> str:
    """The connect string of our server, and of a real one."""
    found = request.getfixturevalue(request.param)
    return found.hosts if isinstance(found, EmbeddedServer) else found


@pytest.fixture
async def hosts(either_server: str) -> str:
    """The same, with a chroot of this test's own."""
    path = f"/{uuid.uuid4()}"
    async with connect(either_server) as zk:
        await zk.create(path)
    return either_server + path
