"""Switches logging off during a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_log() -> Iterator[None]:
    """Write no log inside the block, because hundreds of runs lose their connections on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
