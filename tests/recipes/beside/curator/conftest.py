from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from pyzk.server.testing import EmbeddedServer

from ....support import jvm
from ....support.needs import need
from ....support.waiting import PATIENCE
from .process import CuratorProcess

START_TIMEOUT = 60.0
"""Seconds for a JVM's first client, which loads classes: 0.2 s, and more than 10 s while 30 other processes
want the processor."""


@pytest.fixture(scope="package")
def curator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorProcess]:
    need(jvm.missing(jvm.CURATOR, "javac"))
    with CuratorProcess(tmp_path_factory.mktemp("curator")) as process:
        with EmbeddedServer() as server:
            trio.run(warm_up, process, server.hosts)
        yield process


async def warm_up(process: CuratorProcess, hosts: str) -> None:
    """Let the JVM load what every client needs: no test has to wait for that."""
    async with process.client(hosts, patience=START_TIMEOUT):
        pass


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
