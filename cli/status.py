"""The exit statuses of the commands, and the messages on standard error. Each message is one line."""

from __future__ import annotations

import enum
import logging
import sys

from ..protocol.text import printable


class Status(enum.IntEnum):
    """Exit statuses. Numbers from 64 to 78 have the meaning that they have in sysexits.h. If the command of
    ``pyzk-lock`` has ended by itself, ``pyzk-lock`` ends with the exit status of the command."""

    NO = 1
    """The answer is no: no such znode, different trees, a server that does not serve, not confirmed."""
    USAGE = 2
    UNAVAILABLE = 69
    REFUSED = 70
    BUSY = 75
    LOST = 76
    FORBIDDEN = 77
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNAL = 128
    """A signal has ended the command or the wait. The exit status is 128 plus the number of the signal."""


class Failure(Exception):
    """The command cannot do its work, for a reason that is not a bug.

    :param message: what has happened, and what to do.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


def say(program: str, message: str) -> None:
    """Print a message for the user on standard error. Control characters are escaped, because a message may
    contain text from a server."""
    print(printable(f"{program}: {message}"), file=sys.stderr, flush=True)


class _Formatter(logging.Formatter):
    """Formats lines like :func:`say`."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))


def show_warnings(program: str) -> None:
    """Print warnings on standard error, except the client's warnings about its session. The client's warnings
    are not printed, because the commands print their own messages about a lost connection or session."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: record.name != "pyzk.client")
    handler.setFormatter(_Formatter(f"{program}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
