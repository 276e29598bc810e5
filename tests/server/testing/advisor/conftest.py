from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer
from tests.ensemble.pretend.client import Clients

from .ensembles import Scene


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(clock="frozen", max_buffer=10_000) as server:
        yield server


@pytest.fixture
def scene() -> Iterator[Scene]:
    with EmbeddedEnsemble(3, clock="frozen") as ensemble, closing(Clients(ensemble)) as at:
        yield Scene(ensemble, at, at(1), at(3))
