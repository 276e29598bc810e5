from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyzk.server.testing import EmbeddedServer


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(clock="frozen", max_buffer=10_000) as server:
        yield server
