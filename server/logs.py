"""The log of the process: its two formats, its limits, and how it gets to stderr.

* A line is text for people or JSON for collectors. Text that comes from clients is escaped and cut.
* Of the lines that one place in the code logs, 200 are written in 10 s; then one line says how many were left
  out, with an example. Lines of level debug have no limit.
* The server never waits for the reader of stderr. While a pipe is full, 1 MiB of lines wait; further lines
  are lost, and once the pipe is read again one line says how many.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Final

from ..protocol.text import printable

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMATS: Final = ("text", "json")

_LONGEST: Final = 4000
"""Characters of a message; the rest is cut off."""
_WINDOW: Final = 10.0
"""Seconds over which the lines of one kind are counted. A kind is what one place in the code logs."""
_MOST: Final = 200
"""Lines of one kind that are written in that time."""
_WAITING: Final = 2**20
"""Bytes that wait for a reader at most: some 10,000 lines."""
_PIECE: Final = 4096
"""Bytes that a pipe takes as a whole or not at all: Linux's PIPE_BUF."""
_PATIENCE: Final = 1.0
"""Seconds for which a process that ends waits for the reader of its last lines."""

# --- the formats ------------------------------------------------------------------------------------------


def _cut(message: str) -> str:
    if len(message) <= _LONGEST:
        return message
    return f"{message[:_LONGEST]}... ({len(message):,} characters)"


class TextFormatter(logging.Formatter):
    """``2026-11-20 08:42:39.123 INFO pyzk.server: message``, in local time; a traceback follows.

    Unprintable characters are escaped: part of a message may come from a client, which could otherwise forge
    lines of the log or steer the terminal that shows it.
    """

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name}: {message}", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(_cut(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


# Attributes of every record; others were passed as ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line.

    Its keys are time (ISO 8601, UTC), level, logger, message, those of ``extra``, and ``exception`` with the
    traceback as text if there is one.
    """

    def __init__(self) -> None:
        super().__init__()
        import json  # imported for this format only

        self._dumps = json.dumps

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._dumps(line, default=str)


# --- how much is written ----------------------------------------------------------------------------------


class _Kind:
    """The lines of one kind since the start of their window.

    :ivar end: of the window, in seconds of the clock.
    :ivar last: the last line that was left out.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        self.count = 0
        self.last: logging.LogRecord | None = None


class Limit(logging.Filter):
    """Leaves out lines above the limit of their kind, and says how many.

    :param now: a monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[tuple[str, int], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG:
            return True
        now = self._now()
        key = (record.pathname, record.lineno)
        kind = self._kinds.get(key)
        if kind is None or kind.end <= now:
            self.tell()
            kind = self._kinds[key] = _Kind(now + _WINDOW)
        kind.count += 1
        if kind.count <= _MOST:
            return True
        kind.last = record
        return False

    def tell(self, at_end: bool = False) -> None:
        """Log how many lines were left out in the windows that are over.

        :param at_end: of the process: all windows are over.
        """
        now = self._now()
        over = {key: kind for key, kind in self._kinds.items() if at_end or kind.end <= now}
        for key in over:
            del self._kinds[key]
        for kind in over.values():
            last = kind.last
            if last is not None:
                logger, example = logging.getLogger(last.name), _message(last)
                count = kind.count - _MOST
                text = "%d more lines were left out within %g s, such as: %s"
                logger.log(last.levelno, text, count, _WINDOW, example)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the values do not fit its placeholders
        return str(record.msg)


class LineBuffer:
    """Lines that wait for a reader: 1 MiB of them, what comes then is lost and counted.

    :param tell_lost: makes the line that says how many were lost.
    """

    def __init__(self, tell_lost: Callable[[int], str]) -> None:
        self._tell_lost = tell_lost
        self._waiting = bytearray()
        self._lost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, line: str) -> None:
        """Keep a line, which has no newline yet, or lose it."""
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
        """Count all that wait as lost."""
        self._lost += self._waiting.count(b"\n")
        self._waiting.clear()

    def peek(self, size: int) -> bytes:
        """Return so many bytes at most; :meth:`took` says how many of them have gone."""
        return bytes(self._waiting[:size])

    def took(self, size: int) -> None:
        del self._waiting[:size]
        self._tell()

    def _tell(self) -> None:
        """Add a line about the lost ones, once 50 % of the room is free again."""
        if self._lost and len(self._waiting) <= _WAITING // 2:
            self._waiting += f"{self._tell_lost(self._lost)}\n".encode()
            self._lost = 0


class LineWriter:
    """Writes lines to a file descriptor without waiting.

    The flag O_NONBLOCK belongs to the open file, which other processes may share, so it is not set: pipes and
    terminals are opened a second time; for other files poll() tells before each write whether there is room.
    Windows has neither: there a write waits for the reader.

    :param tell_lost: makes the line that says how many were lost.
    """

    def __init__(self, fd: int, tell_lost: Callable[[int], str]) -> None:
        self._given, self._fd = fd, _own(fd)
        self._poll: select.poll | None = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLOUT)
        self._lines = LineBuffer(tell_lost)

    def write(self, line: str) -> None:
        """Write a line, which has no newline yet; or keep it until there is room, or lose it."""
        self._lines.add(line)
        self._write()

    def lose(self) -> None:
        """Count a line that could not be made."""
        self._lines.lose()

    def flush(self, seconds: float = 0.0) -> None:
        """Write what waits, and give the reader so many ``seconds``."""
        self._write(seconds)

    def close(self) -> None:
        """Write what waits, as far as the reader takes it within a second."""
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


class DescriptorHandler(logging.Handler):
    """Writes the log to a file descriptor without waiting."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._lines = LineWriter(fd, self._tell_lost)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.write(self.format(record))
        except Exception:  # no memory, or values that do not fit the message: the server must go on
            self._lines.lose()

    def _tell_lost(self, count: int) -> str:
        message = f"{count:,} lines were lost here: the reader of this log is too slow"
        return self.format(logging.LogRecord("pyzk.server", logging.WARNING, "", 0, message, None, None))

    def flush(self) -> None:
        with self.lock or nullcontext():
            self._lines.flush()

    def close(self) -> None:
        with self.lock or nullcontext():
            self._lines.close()
        super().close()


def _own(fd: int) -> int:
    """Open a pipe or terminal once more, to have flags of our own; return ``fd`` where that is impossible."""
    mode = os.fstat(fd).st_mode
    if hasattr(os, "O_NONBLOCK") and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        with suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    return fd


def _to_stderr() -> logging.Handler:
    try:
        return DescriptorHandler(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # it is closed, or not a file
        return logging.StreamHandler()


def configure(level: str = "info", style: str = "text") -> None:
    """Send the log of this process to stderr; call :func:`flush` now and then.

    :param level: one of :data:`LEVELS`: nothing below it is shown.
    :param style: one of :data:`FORMATS`.
    """
    handler = _to_stderr()
    handler.addFilter(Limit())
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def flush(at_end: bool = False) -> None:
    """Write the waiting lines, and say how many were left out.

    :param at_end: of the process.
    """
    for handler in logging.getLogger().handlers:
        for limit in handler.filters:
            if isinstance(limit, Limit):
                limit.tell(at_end)
        handler.flush()
