"""Clients in threads, each of which must come to an end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

WAIT = 15.0
"""Seconds that anything may take that has to come."""


def join(*threads: threading.Thread) -> None:
    """Wait for threads, but not forever."""
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


class Worker(threading.Thread):
    """A thread that keeps what its function returned or raised; ``result`` waits for it."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._function, self._args = function, args
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._function(*self._args)
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        join(self)
        if self._error is not None:
            raise self._error
        return self._value


class Inside:
    """Counts who is in a critical section, and how many ever were at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = self.total = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.total += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1
