"""No traceback, whatever is sent: a test fails on the spot if the server logs one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


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
