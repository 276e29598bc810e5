from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyzk.server import open_server
from tests.server.control.client import Api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_server(clock="frozen") as server:
        yield Api(server)
