"""The latest requests of clients, recorded from the start of the command, while this is cheap.

* A recorded request costs a few microseconds more. The history may grow by :data:`RATE` entries in a second,
  on average, and by :data:`ENTRIES` at once: this takes less than 1 % of a core.
* When more entries come, nothing is recorded, and no gate is between clients and the engine. The history is
  cleared, because a history with a hole would mislead. After 10 s with few requests the recording begins
  again. The first entry then says why earlier entries are missing.
* Pings are left out, so that idle clients do not fill the history.
* Once somebody asks for the history (:meth:`.running.Running.begin_history`), all is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from ...protocol.operations import PING
from ..net.connection import Connection
from .history import NOBODY, Kept, Recorder, Result
from .running import Running

ENTRIES: Final = 2000
"""Entries that are kept."""
RATE: Final = 1000
"""The highest rate of entries in a second over a long time."""
_MOST_CLIENTS: Final = 1000
"""With more connections, nothing is recorded, because each of them is numbered at each beginning."""
_PAUSE: Final = 1.0
"""Seconds between two looks at the rate."""
_QUIET: Final = 10
"""Recording begins again after this many looks in turn that saw few messages."""
_FEWEST: Final = RATE // 10
"""The allowance of entries for that time. If fewer are left, the rate is too high."""
HOLE: Final = (
    f"the history begins here: before, more than {RATE:,} entries came in a second"
    " (pyzk-server --record all: from the start)"
)


class RecentRecorder(Recorder):
    """A history that notices when it grows too fast.

    :param too_fast: called then, in the middle of a request.
    :ivar is_whole: whether everything is recorded now, however fast it comes.
    """

    def __init__(self, running: Running, too_fast: Callable[[], object]) -> None:
        self.is_whole = False
        self._too_fast = too_fast
        self._left: float = ENTRIES
        self._since = running.clock.now()
        super().__init__(running.service, running.clock.now, running.started, ENTRIES)

    def keep(self, limit: int) -> None:
        self.is_whole = True
        super().keep(limit)

    def append(self, entry: tuple[Any, ...], size: int = 0) -> None:
        super().append(entry, size)
        self._left -= 1
        if self._left < 0 and not self.is_whole:
            now = self._now()
            self._left, self._since = min(ENTRIES, (now - self._since) * RATE), now
            if self._left < _FEWEST:
                self._left = math.inf  # until the server has heard of it
                self._too_fast()

    def request(self, connection: Connection, op: int, frame: bytes, now: float) -> Kept:
        if op == PING and not self.is_whole:
            return frame
        return super().request(connection, op, frame, now)

    def reply(self, connection: Connection, op: int, kept: Kept, now: float, result: Result) -> None:
        if op != PING or self.is_whole:
            super().reply(connection, op, kept, now, result)

    def begin_again(self) -> None:
        """Clear the history, and say so to its readers, not to its listeners."""
        self.forget()
        self._left, self._since = ENTRIES, self._now()
        self._entries.append(("note", self._now(), 0, NOBODY, {"text": HOLE}))

    def replay(self, zxid: int, noted: Iterable[tuple[float, str, tuple[Any, ...]]]) -> None:
        """Record what has happened before.

        :param zxid: the server's zxid before that.
        :param noted: the time, the name of a method of this class, and its arguments, of each.
        """
        clock = self._now
        self.clear(self._service.engine, self._started)
        self.zxid_base = zxid
        for now, what, arguments in noted:
            self._now = partial(float, now)
            getattr(self, what)(*arguments)
        self._now = clock
        self.number_all()


class Recent:
    """Makes a server record the latest entries while this is cheap.

    :param running: a server that records nothing yet.
    """

    def __init__(self, running: Running) -> None:
        self._running = running
        self._messages = self._quiet = 0
        self._recorder = RecentRecorder(running, self._stop_soon)
        self.replay = self._recorder.replay
        running.use(self._recorder)

    def _call_in(self, seconds: float, callback: Callable[[], object]) -> None:
        self._running.service.call_at(self._running.clock.now() + seconds, callback)
        self._running.clock.wake()

    def _stop_soon(self) -> None:
        self._call_in(0, self._stop)  # not in the midst of a request

    def _stop(self) -> None:
        running = self._running
        if running.recorder is not self._recorder or self._recorder.is_whole:
            return
        if self._recorder.is_heard:  # it costs so much because somebody looks
            self._recorder.begin_again()
            return
        running.use(None)
        self._recorder.forget()
        self._messages, self._quiet = self._count(), 0
        self._call_in(_PAUSE, self._look)

    def _count(self) -> int:
        stats = self._running.engine.stats
        return stats.packets_received + stats.packets_sent

    def _look(self) -> None:
        """Begin again if few messages have come for a while."""
        running, before = self._running, self._messages
        self._messages = self._count()
        if running.records:
            return
        few = self._messages - before < _PAUSE * RATE / 2
        few = few and running.recorder is None and len(running.service.connections) <= _MOST_CLIENTS
        self._quiet = self._quiet + 1 if few else 0
        if self._quiet >= _QUIET:
            self._recorder = RecentRecorder(running, self._stop_soon)
            self._recorder.begin_again()
            running.use(self._recorder)
        else:
            self._call_in(_PAUSE, self._look)
