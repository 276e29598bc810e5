"""Unexpected exceptions: each ends what it happened to, with one traceback in the log, and nothing else."""

from __future__ import annotations

import sys
from contextlib import suppress

from ..logger import logger
from .memory import reserve


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled: with its traceback, or in one line for want of memory.

    For the handlers that keep the rest of the server alive: nothing is raised, not even for want of memory or
    of file descriptors.

    :param message: what has ended because of it, with a place for each of ``values``.
    """
    with suppress(Exception):
        if isinstance(sys.exception(), MemoryError) and reserve.is_held:
            reserve.ran_out()
            logger.warning(f"{message}; there was no memory for it", *values, stacklevel=2)
        else:
            logger.exception(f"{message}; this is a bug of the server", *values, stacklevel=2)
