"""The origin of a control. A control is called by the test in the server's own process, or by a request over
HTTP. The rules:

* A control over HTTP has the mark ``(over HTTP)`` in its own line, in the lines of its later effects (a
  fault, chaos, a hold, a nemesis), and in the reason with which it closes a connection.
* A control of the test has no mark. Notes are never marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BY_TEST: Final = "by the test"
OVER_HTTP: Final = "over HTTP"
BY_SERVER: Final = "by the server"
"""The origin of everything that a hostile server does by itself."""

_origin: Final = ContextVar("origin", default=BY_TEST)


@contextmanager
def over_http() -> Iterator[None]:
    """Mark the controls that this task calls inside the ``with`` as controls over HTTP."""
    token = _origin.set(OVER_HTTP)
    try:
        yield
    finally:
        _origin.reset(token)


def origin() -> str:
    """Return the origin of a control that is called now."""
    return _origin.get()


def mark(of: str | None = None) -> str:
    """Return the mark for the end of a line.

    :param of: an :func:`origin`; None for the present origin.
    """
    return f" ({OVER_HTTP})" if (of or origin()) == OVER_HTTP else ""
