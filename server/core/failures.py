"""Unexpected exceptions. Each ends only the connection, timer or task in which it happened, with one
traceback in the log.

A lack of memory is such an exception. If nobody can handle it, as inside of trio, it ends the process. So it
does if a transaction may be in the tree but not in the log of ``--data``.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from ..logger import logger


class OutOfMemory(BaseException):
    """Memory ran out in the middle of a transaction that belongs into a log. Like a :class:`SystemExit` it
    is caught by no handler for the errors of one client: the server must answer nothing more."""


def ran_out(error: BaseException) -> bool:
    """Return whether a lack of memory has caused an exception that ends the process."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            return any(map(ran_out, error.exceptions))
        if isinstance(error, MemoryError | OutOfMemory) or error.__cause__ is None:
            return isinstance(error, MemoryError | OutOfMemory)
        error = error.__cause__  # trio says that it has failed inside, because of the other


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled, with its traceback.

    Handlers that keep the rest of the server alive call this. It raises nothing, not even if memory or file
    descriptors run out.

    :param message: the consequence of the exception, with a place for each of ``values``.
    """
    with suppress(Exception):
        if isinstance(sys.exception(), MemoryError):
            message += "; memory ran out: raise its limit (ulimit -v), or delete znodes"
        else:
            message += "; this is a bug of the server: please report it"
        logger.exception(message, *values, stacklevel=2)
