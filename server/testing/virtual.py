"""The end of a test in virtual time that waits for something that never happens.

Under ``autojump_clock`` time jumps to the next deadline whenever all tasks wait. Connected clients always
have a deadline: their next ping. Without this module, a test that waits for something else would not stop.
Its clock would run through centuries. This module ends the test when clients have only pinged for a day of
virtual time. This takes some seconds of real time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from ...protocol.operations import PING, OpCode
from ..net.connection import Connection
from .controls.history import HistoryControls, timeline_of
from .ending import ending
from .errors import TEST_ENDED, NotInTime
from .observers import Observer
from .steps import finish

PATIENCE: Final = 86_400.0
"""The default number of seconds of virtual time in which clients can do nothing but ping, before the test
fails."""
_SIGNS_OF_LIFE: Final = {PING, OpCode.SYNC}
"""The requests that idle clients send. The client of this project also sends syncs while it holds a lock."""
_DRAWN_AFTER: Final = 600.0
"""The timeline is drawn after this number of seconds of virtual time without other requests. Later, pings and
syncs would have displaced all other entries in the history."""
_LINES: Final = 100
"""Lines of the timeline."""
_IDLE: Final = f"the clients have done nothing but ping for {_DRAWN_AFTER:g} s"


class _Idleness(Observer):
    """Detects that clients send only pings."""

    def __init__(self, controls: HistoryControls, patience: float, scope: trio.CancelScope) -> None:
        self._controls, self._patience, self._scope = controls, patience, scope
        self._begin()

    def _begin(self) -> None:
        """Count from now on."""
        self._last = trio.current_time()
        self.timeline = ""

    def request(self, connection: Connection, op: int, frame: bytes) -> None:
        if self._scope.cancel_called:
            return  # the clients tidy up
        if op not in _SIGNS_OF_LIFE:
            self._begin()
            return
        idle = trio.current_time() - self._last
        if not self.timeline and idle > min(self._patience, _DRAWN_AFTER):
            self._draw(idle)
        if idle > self._patience:
            self._scope.cancel()

    def _draw(self, idle: float) -> None:
        """Draw the timeline of the time before the clients became idle.

        :param idle: the seconds since then.
        """
        running = self._controls.running
        until = next(iter(running.each())).clock.now() - running.started - idle
        last = ending(running, TEST_ENDED if idle > self._patience else _IDLE)
        self.timeline = finish(timeline_of(self._controls, until=until, limit=_LINES, ending=last))

    def attached(self, connection: Connection, resumed: bool) -> None:
        if not resumed:
            self._begin()


@contextmanager
def ended(controls: HistoryControls, patience: float) -> Iterator[None]:
    """End the block with an error if it waits in vain in virtual time.

    :raises NotInTime: the block waited in vain. The error has the timeline of that moment.
    """
    if not _is_virtual() or math.isinf(patience):
        yield
        return
    scope = trio.CancelScope()
    idleness = _Idleness(controls, patience, scope)
    parts = list(controls.running.each())
    for part in parts:
        part.observe(idleness)
    try:
        with scope:
            yield
    finally:
        for part in parts:
            part.unobserve(idleness)
    if scope.cancelled_caught:
        why = (
            f"waited in vain: for {patience:g} s of virtual time clients have done nothing but ping; "
            "a test that means to wait so long opens its server with patience=math.inf"
        )
        raise NotInTime(controls.hosts, why, idleness.timeline)


def _is_virtual() -> bool:
    """Return whether time jumps by itself when all tasks wait."""
    testing = sys.modules.get("trio.testing")
    clock = trio.lowlevel.current_clock()
    return (
        testing is not None and isinstance(clock, testing.MockClock) and clock.autojump_threshold < math.inf
    )
