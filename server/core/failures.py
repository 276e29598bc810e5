"""Exceptions that nobody foresaw: each ends what it happened to, with one traceback in the log, and nothing
else."""

from __future__ import annotations

import logging
from contextlib import suppress

logger = logging.getLogger("pyzk.server")


def report(message: str, *values: object) -> None:
    """Log the exception that is being handled, with its traceback. For the handlers that keep the rest of the
    server alive: nothing is raised, not even for want of memory or file descriptors.

    :param message: what has ended because of it, with a place for each of ``values``.
    """
    with suppress(Exception):
        logger.exception(
            f"{message}; unless memory has run out, this is a bug of the server", *values, stacklevel=2
        )
