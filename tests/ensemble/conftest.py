"""Fixtures: each test that asks for ``hosts`` runs against ours, a real server and a real ensemble."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from pyzk.client import ZooKeeper, connect

from ..support import jvm
from ..support.ensemble_rules.recording import recorded
from ..support.needs import need
from ..support.real import Ensemble
from .pretended import Pretended

SETTINGS = """\
tickTime=200
maxSessionTimeout=60000
maxClientCnxns=0
extendedTypesEnabled=true
"""

SESSION_TIMEOUT = 30.0
"""Seconds: a machine that stands still under load shall cost nobody his connection."""


@pytest.fixture(scope="package")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Our own command, as a user starts it."""
    config = tmp_path_factory.mktemp("ours") / "zoo.cfg"
    config.write_text(SETTINGS)
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("pyzk-server is ready at "), line
            yield line.split()[-1]
        finally:
            process.kill()


def real(size: int) -> Iterator[str]:
    need(jvm.missing())
    # No election when the machine stands still for some seconds: most tests do not expect one.
    with Ensemble(size, sync_limit=50) as ensemble:
        yield ensemble.hosts


@pytest.fixture(scope="package")
def standalone() -> Iterator[str]:
    yield from real(1)


@pytest.fixture(scope="package")
def ensemble_of_three() -> Iterator[str]:
    yield from real(3)


@pytest.fixture(scope="package")
def pretended() -> Iterator[str]:
    with ExitStack() as running:
        with recorded() as recordings:  # no longer: each test records the ensembles of its own
            ensemble = running.enter_context(Pretended())
        yield ensemble.hosts
    recordings[0].check()


@pytest.fixture(params=["ours", "pretended", "standalone", "ensemble"])
def hosts(request: pytest.FixtureRequest) -> str:
    """The connect string of a running service, which all tests here share."""
    name = "ensemble_of_three" if request.param == "ensemble" else request.param
    hosts: str = request.getfixturevalue(name)
    return hosts


@pytest.fixture(params=["pretended", "real"])
def ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble | Pretended]:
    """An ensemble of three, for this test alone: it will not be the same afterwards."""
    if request.param == "pretended":
        with Pretended() as pretended:
            yield pretended
        return
    need(jvm.missing())
    # 3.8.0 may refuse a follower's ACK of the new leader, if that of a proposal came first
    # (ZOOKEEPER-4685): then nobody is served for initLimit, perhaps several times. 15 ticks are 3 s.
    with Ensemble(3, settings={"initLimit": 15}) as ensemble:
        yield ensemble


@pytest.fixture
async def chroot(hosts: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A connect string below a znode of this test's own, which is gone afterwards."""
    path = f"/{request.node.name.partition('[')[0]}"
    async with connect(hosts, session_timeout=SESSION_TIMEOUT) as zk:
        await zk.create(path)
        yield hosts + path
        await zk.delete(path, recursive=True)


@pytest.fixture
async def zk(chroot: str) -> AsyncIterator[ZooKeeper]:
    async with connect(chroot, session_timeout=SESSION_TIMEOUT) as zk:
        yield zk
