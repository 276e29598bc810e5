"""With this folder in PYTHONPATH, each Python on Linux waits with ``select`` alone, as some platforms do.

``PYZK_WITHOUT_EPOLL=1`` is about the server. It leaves its clients to trio then, but on Linux trio itself
waits with epoll. Here trio gets an epoll that is made of ``select.select``, and other modules find neither
epoll nor poll. ``select`` takes descriptors below 1024.
"""

from __future__ import annotations

import os
import select
import selectors
from typing import Any

_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT


class Epoll:
    """As much of ``select.epoll`` as trio uses: level-triggered, with EPOLLONESHOT."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, file: Any, flags: int) -> None:
        number = _number(file)
        os.fstat(number)  # OSError: it is closed
        self._wanted[number] = flags

    def modify(self, file: Any, flags: int) -> None:
        if _number(file) not in self._wanted:
            raise FileNotFoundError
        self.register(file, flags)

    def unregister(self, file: Any) -> None:
        if self._wanted.pop(_number(file), None) is None:
            raise FileNotFoundError

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        self._wanted = {number: flags for number, flags in self._wanted.items() if _is_open(number)}
        reads = [number for number, flags in self._wanted.items() if flags & _READ]
        writes = [number for number, flags in self._wanted.items() if flags & _WRITE]
        patience = None if timeout is None or timeout < 0 else timeout
        readable, writable, _ = select.select(reads, writes, [], patience)
        found = dict.fromkeys(readable, _READ)
        for number in writable:
            found[number] = found.get(number, 0) | _WRITE
        events = list(found.items())[: maxevents if maxevents > 0 else None]
        for number, _flags in events:
            if self._wanted[number] & select.EPOLLONESHOT:
                self._wanted[number] = 0
        return events

    def close(self) -> None:
        self._wanted.clear()


def _number(file: Any) -> int:
    return file if isinstance(file, int) else int(file.fileno())


def _is_open(number: int) -> bool:
    """epoll forgets what is closed."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[assignment, misc]
select.epoll = Epoll  # type: ignore[assignment, misc]
del select.poll
for _name in ("EpollSelector", "PollSelector"):
    delattr(selectors, _name)
