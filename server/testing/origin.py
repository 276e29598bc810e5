"""By whom a control is asked for: by the test, in the server's own process, or over HTTP. The rule:

* What is asked for over HTTP says so at its end, as ``(over HTTP)``: the line of the control, and the lines
  of what it does later (a fault, chaos, a hold, a nemesis). So does the reason why it closes a connection.
* What the test does says nothing more. Notes are the words of whoever writes them, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BY_TEST: Final = "by the test"
OVER_HTTP: Final = "over HTTP"
BY_SERVER: Final = "by the server"
"""What a hostile server does by itself."""

_origin: Final = ContextVar("origin", default=BY_TEST)


@contextmanager
def over_http() -> Iterator[None]:
    """Inside the ``with``, what this task asks for comes over HTTP."""
    token = _origin.set(OVER_HTTP)
    try:
        yield
    finally:
        _origin.reset(token)


def origin() -> str:
    """Return by whom a control is asked for that is called now."""
    return _origin.get()


def mark(of: str | None = None) -> str:
    """Return the mark at the end of a line.

    :param of: an :func:`origin`; None: that of now.
    """
    return f" ({OVER_HTTP})" if (of or origin()) == OVER_HTTP else ""
