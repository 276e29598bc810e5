"""What several of these tests say and wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyzk.protocol import records as r


def create(path: str, flags: int = 0) -> r.CreateRequest:
    return r.CreateRequest(path, b"", r.OPEN_ACL, flags)


def wait_until(condition: Callable[[], Any], timeout: float = 10.0) -> Any:
    """Poll until the condition holds; its value."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.002)
    return value
