"""How the commands end, and how they speak: one line on standard error."""

from __future__ import annotations

import enum
import sys


class Status(enum.IntEnum):
    """Exit statuses beside that of a command that was run; where sysexits.h has a number for it, that one."""

    NO = 1
    """The answer is no: no such znode, trees that differ, a server that is not well, not confirmed."""
    USAGE = 2
    UNAVAILABLE = 69
    REFUSED = 70
    BUSY = 75
    LOST = 76
    FORBIDDEN = 77
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNAL = 128
    """Plus the number of the signal."""


class Failure(Exception):
    """An end that is to be expected now and then.

    :param message: what has happened, and what to do.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


def say(program: str, message: str) -> None:
    """Tell the user."""
    print(f"{program}: {message}", file=sys.stderr, flush=True)
