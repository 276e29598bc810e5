"""The clients that most tests want; and a test fails on the spot if the server logs a traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from .helpers import Peer, World


class _NoTracebacks(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            raise AssertionError(
                f"the server logged a traceback: {record.getMessage()}"
            ) from record.exc_info[1]


@pytest.fixture(autouse=True, scope="module")
def no_tracebacks() -> Iterator[None]:
    logger = logging.getLogger("pyzk")
    handler = _NoTracebacks()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Peer:
    return world.connect()


@pytest.fixture
def other(world: World) -> Peer:
    """A client at another address."""
    return world.connect("10.0.0.2")
