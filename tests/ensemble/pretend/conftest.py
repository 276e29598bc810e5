"""A pretend ensemble whose time stands still, and clients whose every byte the test sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyzk.server.testing import EmbeddedEnsemble

from .client import Clients


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    """Servers 1 and 2 follow server 3; a tick is 0.5 s."""
    with EmbeddedEnsemble(3, clock="frozen", tick_time=500) as ensemble:
        yield ensemble


@pytest.fixture
def at(ensemble: EmbeddedEnsemble) -> Iterator[Clients]:
    """``at(2)`` has a session at server 2; ``at(1, a)`` moves the session of ``a`` to server 1."""
    clients = Clients(ensemble)
    yield clients
    clients.close()
