"""A wait says for whom: in one line of the log once it has lasted a second, and in the error that cuts it.

The rules:

* The line is logged once for each wait. Its logger is the logger ``pyzk.recipes``.
* The note of the error has the same words. trio's own ``fail_after`` shows them above its ``TooSlowError``;
  ``asyncio.timeout`` and ``pyzk.blocking.timeout`` above or in their ``TimeoutError``.
* Only what the client knows already is said. No request is sent for the line.
* The second is one of the client's clock, and needs a timer: a task that sleeps. A virtual clock stops once
  more for it, and nothing else changes. If the logger does not want the line, there is no timer.
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
"""Seconds after which a wait says for whom."""

Why = str | Callable[[], str]
"""The reason for a wait in words; or a function that returns the reason as it is known now."""


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
    """Log one line if the block lasts a second. The parameters are those of :func:`waiting_for`."""
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
    """Add the note, unless a wait inside has added a more precise one."""
    if not getattr(cut, "__notes__", ()):
        cut.add_note(_words(what, trio.current_time() - began, why))


def _words(what: str, seconds: float, why: Why) -> str:
    reason = why if isinstance(why, str) else why()
    return f"waited {seconds:.2f} s for {what}{', ' if reason else ''}{reason}"
