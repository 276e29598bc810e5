"""The two formats of the log: lines of text for people, lines of JSON for collectors. Both go to stderr."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMATS: Final = ("text", "json")

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextFormatter(logging.Formatter):
    """``2026-11-20 08:42:39.123 INFO pyzk.server: message``, in local time; a traceback follows.

    Control characters in the message are escaped: part of it may come from a client, who could otherwise
    forge lines of the log or steer the terminal that shows it.
    """

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name}: {message}", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], record.message)
        return super().formatMessage(record)


# What every record has; the rest was passed as ``extra``.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line.

    Its names are time (ISO 8601, UTC), level, logger, message, what the call passed as ``extra``, and for an
    exception ``exception``: its traceback as text.
    """

    def __init__(self) -> None:
        super().__init__()
        import json  # only those who want this format wait for its import

        self._dumps = json.dumps

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return self._dumps(line, default=str)


def configure(level: str = "info", style: str = "text") -> None:
    """Send the log of this process to stderr.

    :param level: one of :data:`LEVELS`: nothing below it is shown.
    :param style: one of :data:`FORMATS`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
