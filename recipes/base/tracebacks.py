"""Short tracebacks: an error that explains itself shows the lines of the user and one line of this package.

The rules:

* An *edge* is a function that users call. At an edge, errors of the client and of the recipes, timeouts and
  cancellations lose the frames inside the edge. Any other error may be a bug of this package, and keeps its
  frames.
* An error that has passed through code of the user, such as the function of an election, keeps its frames.
* With the environment variable ``PYZK_FULL_TRACEBACKS=1`` all errors keep their frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import FrameType

import trio

from ...client import ZooKeeperError
from ..errors import RecipeError

SHORT = (ZooKeeperError, RecipeError, TimeoutError, trio.Cancelled)
"""The errors that lose their frames. ``pyzk.blocking`` and ``pyzk.aio`` add their own errors of
cancellation."""

full = os.environ.get("PYZK_FULL_TRACEBACKS", "") not in ("", "0")
"""True if all errors keep their frames."""

_OURS = {"pyzk", "trio", "outcome", "contextlib"}


def shorten(error: BaseException) -> None:
    """Remove the frames inside an edge from an error that the edge has caught and will raise again."""
    at = error.__traceback__
    if at is not None and not full and all(_is_ours(frame) for frame in _frames(error)):
        at.tb_next = None


def drop_frames(error: BaseException) -> None:
    """Remove the frames inside an edge from an error, as :func:`shorten` does; called by a function that the
    edge has called. The edge then raises the error again with a bare ``raise``, which adds no frame. So the
    edge is the last frame."""
    if not full and all(_is_ours(frame) for frame in _frames(error)):
        error.__traceback__ = None


def _frames(error: BaseException) -> Iterator[FrameType]:
    at = error.__traceback__
    while at is not None:
        yield at.tb_frame
        at = at.tb_next


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS
