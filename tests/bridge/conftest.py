from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pyzk.bridge import loop
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import wait_until
from .drivers import DRIVERS, Driver


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server of its own; its sessions and the threads of the bridge are gone at the end."""
    with EmbeddedServer(extended_types=True, min_session_timeout=100) as server:
        yield server
        wait_until(lambda: not server.leaks())  # a session without a client expires
    assert loop._shared == {}
    for thread in threading.enumerate():
        if thread.name.startswith("pyzk"):
            thread.join(5)  # of a loop that ended with the last block of a client that was closed before
            assert not thread.is_alive(), thread.name


@pytest.fixture(params=DRIVERS, ids=[driver.name for driver in DRIVERS])
def driver(request: pytest.FixtureRequest) -> Driver:
    """One package after the other."""
    chosen: Driver = request.param
    return chosen
