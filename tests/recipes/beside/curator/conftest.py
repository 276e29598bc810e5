from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from ....support import jvm
from ....support.needs import need
from ....support.waiting import PATIENCE
from .process import CuratorProcess


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
