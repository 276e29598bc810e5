"""Unexpected exceptions: each ends the connection, timer or task in which it happened, and nothing else. The
log has one traceback of it.

Memory that runs out is such an exception. Where nobody can handle it, as inside of trio, or where a
transaction may be in the tree and not in the log of ``--data``, it ends the process.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from ..logger import logger


class OutOfMemory(BaseException):
    """Memory ran out in the midst of a transaction that belongs into a log. Like a :class:`SystemExit` it
    passes all who go on after an error of one client: nothing may be answered any more."""


def ran_out(error: BaseException) -> bool:
    """Return whether an exception that ends the process comes of a lack of memory."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            return any(map(ran_out, error.exceptions))
        if isinstance(error, MemoryError | OutOfMemory) or error.__cause__ is None:
            return isinstance(error, MemoryError | OutOfMemory)
        error = error.__cause__  # trio says that it has failed inside, because of the other


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled, with its traceback.

    For the handlers that keep the rest of the server alive: it raises nothing, not even if memory or file
    descriptors run out.

    :param message: the consequence of the exception, with a place for each of ``values``.
    """
    with suppress(Exception):
        if isinstance(sys.exception(), MemoryError):
            message += "; memory ran out: raise its limit (ulimit -v), or delete znodes"
        else:
            message += "; this is a bug of the server: please report it"
        logger.exception(message, *values, stacklevel=2)
