"""Texts about a wait for a lock: which lock it is, and who holds the lock. After one second of waiting the
text is logged in one line. If a wait is cancelled, its error has the text too.

The rules:

* The line is logged once for each wait. Its logger is the logger ``pyzk.recipes``.
* The error has the same text in a note. A traceback shows the note above the ``TooSlowError`` of trio's
  ``fail_after``. For ``asyncio.timeout`` and ``pyzk.blocking.timeout`` the note is above or in their
  ``TimeoutError``.
* The line has only facts that the client already knows. No request is sent for the line.
* The client's clock measures the second. The timer is a sleeping task. Therefore a virtual clock makes one
  more stop, at the end of this second. If the logger is not enabled for the line, there is no timer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from ...client import SessionState, ZooKeeper
from ...protocol.text import session_text

logger = logging.getLogger("pyzk.recipes")

SILENCE = 1.0
"""The time in seconds after which a wait is logged."""

Why = str | Callable[[], str]
"""The reason for a wait as a text, or a function that returns the reason as it is known now."""


@contextmanager
def waiting_for(zk: ZooKeeper, what: str, why: Why = "", level: int = logging.INFO) -> Iterator[None]:
    """Open a block that waits for something.

    :param why: the reason for the wait.
    :param level: the level of the line.
    """
    began = trio.current_time()
    with announced(zk, what, why, level):
        try:
            yield
        except trio.Cancelled as cut:
            note(cut, what, began, why)
            raise


@contextmanager
def announced(zk: ZooKeeper, what: str, why: Why, level: int = logging.INFO) -> Iterator[None]:
    """Log one line if the block lasts a second. The parameters have the same meaning as in
    :func:`waiting_for`."""
    if not logger.isEnabledFor(level) or zk.session.state is SessionState.CLOSED:
        yield
        return
    silence = trio.CancelScope()

    async def announce() -> None:
        with silence:
            await trio.sleep(SILENCE)
        if not silence.cancel_called:
            text = "Session %s has %s, and is still waiting."
            logger.log(level, text, session_text(zk.session.id), _words(what, SILENCE, why))

    zk.start_soon(announce)
    try:
        yield
    finally:
        silence.cancel()


def note(cut: trio.Cancelled, what: str, began: float, why: Why) -> None:
    """Add the note, unless an inner wait has added a more precise note."""
    if not getattr(cut, "__notes__", ()):
        cut.add_note(_words(what, trio.current_time() - began, why))


def _words(what: str, seconds: float, why: Why) -> str:
    reason = why if isinstance(why, str) else why()
    return f"waited {seconds:.2f} s for {what}{', ' if reason else ''}{reason}"
