from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper, connect
from pyzk.server.testing import EmbeddedServer

from .. import jvm
from ..ensemble import real
from ..needs import need
from .curator_peer import CuratorProcess
from .interop import PATIENCE
from .lab import Lab, open_lab


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A server in virtual time."""
    # The clock has to be asked for by the test itself; a fixture of a fixture goes unnoticed.
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_lab() as lab:
        yield lab


@pytest.fixture
async def zk(lab: Lab) -> ZooKeeper:
    """A client of it."""
    return await lab.client()


# --- beside Apache Curator: over TCP, in real time ----------------------------------------------------------


@pytest.fixture(scope="session")
def curator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorProcess]:
    need(jvm.missing(jvm.CURATOR, "javac"))
    with CuratorProcess(tmp_path_factory.mktemp("curator")) as process:
        yield process


@pytest.fixture
async def curator(curator_process: CuratorProcess) -> AsyncIterator[CuratorProcess]:
    """A process that carries out Curator's recipes. A test of which nothing comes fails."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_a_hang)
        yield curator_process
        nursery.cancel_scope.cancel()


async def end_a_hang() -> None:
    await trio.sleep(3 * PATIENCE)
    raise AssertionError("the test hangs: it waits for something that does not come")


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server of this test's own, with a port."""
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000, extended_types=True) as server:
        yield server


@pytest.fixture(scope="session")
def real_server() -> Iterator[str]:
    """The connect string of a real, standalone ZooKeeper."""
    need(jvm.missing())
    with real.Ensemble(1) as ensemble:
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
