"""Unexpected exceptions: each ends the connection, timer or task in which it happened, and nothing else. The
log has one traceback of it."""

from __future__ import annotations

import sys
from contextlib import suppress

from ..logger import logger
from .memory import reserve


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled: with its traceback, or in one line if memory ran out.

    For the handlers that keep the rest of the server alive: it raises nothing, not even if memory or file
    descriptors run out.

    :param message: the consequence of the exception, with a place for each of ``values``.
    """
    with suppress(Exception):
        if isinstance(sys.exception(), MemoryError) and reserve.is_held:
            reserve.ran_out()
            logger.warning(f"{message}; memory ran out", *values, stacklevel=2)
        else:
            message += "; this is a bug of the server: please report it"
            logger.exception(message, *values, stacklevel=2)
