"""Lines for a reader that may be slow, such as the lines of the log and of the trace. The server never waits
for the reader.

While a pipe is full, up to 1 MiB of lines waits. Further lines are lost. When the pipe is read again, one
line says how many lines were lost.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_WAITING: Final = 2**20
"""The largest number of bytes that wait for a reader: some 10,000 lines."""
_PIECE: Final = 4096
"""The largest number of bytes that a pipe accepts as a whole or not at all: PIPE_BUF of Linux."""
_PATIENCE: Final = 1.0
"""Seconds for which a process waits at its end for the reader of its last lines."""


class LineBuffer:
    """Lines that wait for a reader. If 1 MiB waits, further lines are lost and counted.

    :param tell_lost: makes the line that says how many lines were lost.
    """

    def __init__(self, tell_lost: Callable[[int], str]) -> None:
        self._tell_lost = tell_lost
        self._waiting = bytearray()
        self._lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, line: str) -> None:
        """Keep a line, which has no newline yet, or count it as lost if there is no room."""
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        self._tell()
        if len(self._waiting) + len(data) > _WAITING:
            self._lost += 1
        else:
            self._waiting += data

    def lose(self) -> None:
        """Count a line that could not be made."""
        self._lost += 1

    def lose_all(self) -> None:
        """Count all waiting lines as lost."""
        self._lost += self._waiting.count(b"\n")
        self._waiting.clear()

    def peek(self, size: int) -> bytes:
        """Return at most this number of waiting bytes. Call :meth:`took` with the number of written bytes."""
        return bytes(self._waiting[:size])

    def took(self, size: int) -> None:
        del self._waiting[:size]
        self._tell()

    def _tell(self) -> None:
        """Add a line about the lost lines when 50 % of the room is free again."""
        if self._lost and len(self._waiting) <= _WAITING // 2:
            self._waiting += f"{self._tell_lost(self._lost)}\n".encode()
            self._lost = 0


class LineWriter:
    """Writes lines to a file descriptor without waiting.

    The flag O_NONBLOCK belongs to the open file, which other processes may share, so it is not set there.
    Pipes and terminals are opened a second time. For other files, poll() shows before each write whether
    there is room. Windows has neither O_NONBLOCK nor poll(), so a write waits for the reader.

    :param tell_lost: makes the line that says how many lines were lost.
    """

    def __init__(self, fd: int, tell_lost: Callable[[int], str]) -> None:
        self._given, self._fd = fd, _own(fd)
        self._poll: select.poll | None = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLOUT)
        self._lines = LineBuffer(tell_lost)

    def write(self, line: str) -> None:
        """Write a line, which has no newline yet. If there is no room, the line waits or is lost."""
        self._lines.add(line)
        self._write()

    def lose(self) -> None:
        """Count a line that could not be made."""
        self._lines.lose()

    def flush(self, seconds: float = 0.0) -> None:
        """Write the waiting lines; wait for the reader for at most ``seconds``."""
        self._write(seconds)

    def close(self) -> None:
        """Write the waiting lines that the reader accepts within a second."""
        self.flush(_PATIENCE)
        if self._fd != self._given:
            os.close(self._fd)
            self._fd = self._given

    def _write(self, seconds: float = 0.0) -> None:
        end = time.monotonic() + seconds
        while self._lines and self._has_room(max(0.0, end - time.monotonic())):
            try:
                written = os.write(self._fd, self._lines.peek(_PIECE))
            except BlockingIOError:
                return
            except OSError:  # the reader has gone, or the disk is full
                self._lines.lose_all()
                return
            self._lines.took(written)

    def _has_room(self, seconds: float) -> bool:
        return self._poll is None or bool(self._poll.poll(seconds * 1000))


def _own(fd: int) -> int:
    """Open a pipe or a terminal a second time, so that its flags are not shared; return ``fd`` if this is
    impossible."""
    mode = os.fstat(fd).st_mode
    if hasattr(os, "O_NONBLOCK") and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        with suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    return fd
