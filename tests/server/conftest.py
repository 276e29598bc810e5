"""The clients that most tests want; and a test fails on the spot if the server logs a traceback. Where the
server goes on all the same, the module fails at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pyzk.server.control.views import turns

from ..support.world import Peer, World


class _NoTracebacks(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.expected: list[str] | None = None
        self.unexpected: list[AssertionError] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.exc_info or record.exc_info[1] is None:
            return
        if self.expected is not None:
            self.expected.append(record.getMessage())
            return
        error = AssertionError(f"the server logged a traceback: {record.getMessage()}")
        self.unexpected.append(error)
        raise error from record.exc_info[1]


@pytest.fixture(autouse=True, scope="module")
def no_tracebacks() -> Iterator[_NoTracebacks]:
    logger = logging.getLogger("pyzk")
    handler = _NoTracebacks()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    for error in handler.unexpected:
        raise error


@pytest.fixture(autouse=True)
def logging_put_back() -> Iterator[None]:
    """The command sets up the logging of its process, which is that of all tests."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def tracebacks(no_tracebacks: _NoTracebacks) -> Iterator[list[str]]:
    """The messages of the tracebacks that are logged, in a test that wants to see some."""
    no_tracebacks.expected = messages = []
    yield messages
    no_tracebacks.expected = None


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


@pytest.fixture
def one_step_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause of a long answer ends a turn."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
