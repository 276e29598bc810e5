"""Unexpected exceptions. Each exception ends only the connection, timer or task in which it happened, and the
log gets one traceback.

A lack of memory is such an exception. A lack of memory ends the process in two cases. First, no code of the
server can handle the exception, for example inside of trio. Second, a transaction may be in the tree but not
in the log of ``--data``.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from ..logger import logger


class OutOfMemory(BaseException):
    """Memory ran out in the middle of a transaction of a server with a log. No handler for the errors of one
    client catches this exception, because the server must answer nothing more."""


def ran_out(error: BaseException) -> bool:
    """Return whether a lack of memory has caused an exception that ends the process."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            return any(map(ran_out, error.exceptions))
        if isinstance(error, MemoryError | OutOfMemory) or error.__cause__ is None:
            return isinstance(error, MemoryError | OutOfMemory)
        error = error.__cause__  # trio raises its own error, whose cause is the lack of memory


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled, with its traceback.

    Handlers that keep the rest of the server alive call this function. It raises nothing, not even if memory
    or file descriptors run out.

    :param message: the consequence of the exception, with a placeholder for each of ``values``.
    """
    with suppress(Exception):
        if isinstance(sys.exception(), MemoryError):
            message += "; memory ran out: raise its limit (ulimit -v), or delete znodes"
        else:
            message += "; this is a bug of the server: please report it"
        logger.exception(message, *values, stacklevel=2)
