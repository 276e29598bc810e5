"""The log of the process: its two formats, its limits, and the writer to stderr.

* A line is text for people or JSON for collectors. Text that comes from clients is escaped and cut.
* Each place in the code can log 200 lines in 10 s. Then one line says how many lines were left out, with an
  example. Lines of level debug have no limit.
* The server never waits for the reader of stderr. While a pipe is full, up to 1 MiB of lines waits. Further
  lines are lost. When the pipe is read again, one line says how many lines were lost.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

from ...protocol.text import printable
from ..lines import LineWriter

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMATS: Final = ("text", "json")

_LONGEST: Final = 4000
"""The largest number of characters of a message; the rest is cut off."""
_WINDOW: Final = 10.0
"""The length in seconds of a window in which the lines of one kind are counted. All lines from one place in
the code are one kind."""
_MOST: Final = 200
"""The largest number of lines of one kind in a window."""

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

    Its keys are time (ISO 8601, UTC), level, logger, message, the keys of ``extra``, and ``exception`` with
    the traceback as text if there is one.
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

    :ivar end: the end of the window, in seconds of the clock.
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
        """Log how many lines were left out in the past windows.

        :param at_end: whether the process ends, and with it all windows.
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


def _to_stderr() -> logging.Handler:
    try:
        return DescriptorHandler(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # it is closed, or not a file
        return logging.StreamHandler()


def configure(level: str = "info", style: str = "text") -> None:
    """Send the log of this process to stderr. Call :func:`flush` at intervals.

    :param level: one of :data:`LEVELS`; lower levels are not shown.
    :param style: one of :data:`FORMATS`.
    """
    handler = _to_stderr()
    handler.addFilter(Limit())
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def flush(at_end: bool = False) -> None:
    """Write the waiting lines, and a line that says how many lines were left out.

    :param at_end: whether the process ends.
    """
    for handler in logging.getLogger().handlers:
        for limit in handler.filters:
            if isinstance(limit, Limit):
                limit.tell(at_end)
        handler.flush()
