"""The latest requests of clients, which the command records from its start as long as the rate of requests is
low.

* A recorded request costs a few microseconds more. At most :data:`RATE` entries are recorded in a second, on
  average, and at most :data:`ENTRIES` entries in a burst. The recording then takes less than 1 % of a core.
* If more entries come, the recording stops, and no gate is between the clients and the engine. The history is
  cleared, because a history with a gap would mislead. After 10 s with few requests the recording begins
  again. The first entry then says why earlier entries are missing.
* Pings are not recorded, so that idle clients do not fill the history.
* After a request for the history (:meth:`.running.Running.begin_history`), everything is recorded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...protocol.operations import PING
from ..net.connection import Connection
from .history import NOBODY, History, Kept, Recorder, Result

if TYPE_CHECKING:
    from .running import Running
    from .running_ensemble import RunningEnsemble

R = TypeVar("R", bound="Running | RunningEnsemble")

ENTRIES: Final = 2000
"""Entries that are kept."""
RATE: Final = 1000
"""The highest average number of entries in a second."""
_MOST_CLIENTS: Final = 1000
"""The largest number of connections. With more connections nothing is recorded, because each start of the
recording must give a number to each connection."""
_PAUSE: Final = 1.0
"""Seconds between two checks of the rate."""
_QUIET: Final = 10
"""The recording begins again after this number of checks in a row that found few messages."""
_FEWEST: Final = RATE // 10
"""When the allowance is used up, it is filled again for the time since the last refill. If it is then smaller
than this number of entries, the rate is too high."""
HOLE: Final = (
    f"the history begins here: before, more than {RATE:,} entries came in a second"
    " (pyzk-server --record all: from the start)"
)


class Allowance:
    """Counts how many more entries can be recorded now.

    :param too_fast: called in the middle of a request when the allowance is used up.
    :ivar is_whole: whether everything is recorded now, whatever the rate is.
    """

    def __init__(self, now: Callable[[], float], too_fast: Callable[[], object]) -> None:
        self.is_whole = False
        self._now = now
        self._too_fast = too_fast
        self.begin()

    def begin(self) -> None:
        """Reset the allowance to its value at the start."""
        self._left: float = ENTRIES
        self._since = self._now()

    def spend(self) -> None:
        """Count one entry."""
        self._left -= 1
        if self._left < 0 and not self.is_whole:
            now = self._now()
            self._left, self._since = min(ENTRIES, (now - self._since) * RATE), now
            if self._left < _FEWEST:
                self._left = math.inf  # until the server has heard of it
                self._too_fast()


class WithoutPings(Recorder):
    """A recorder of the latest entries. It does not record pings, unless everything is recorded."""

    allowance: Allowance

    def request(self, connection: Connection, op: int, frame: bytes, now: float) -> Kept:
        if op == PING and not self.allowance.is_whole:
            return frame
        return super().request(connection, op, frame, now)

    def reply(self, connection: Connection, op: int, kept: Kept, now: float, result: Result) -> None:
        if op != PING or self.allowance.is_whole:
            super().reply(connection, op, kept, now, result)


class RecentRecorder(WithoutPings):
    """The latest entries of one server."""

    def __init__(self, running: Running, allowance: Allowance) -> None:
        self.allowance = allowance
        super().__init__(running.service, running.clock.now, running.started, ENTRIES)

    def keep(self, limit: int) -> None:
        self.allowance.is_whole = True
        super().keep(limit)

    def append(self, entry: tuple[Any, ...], size: int = 0) -> None:
        super().append(entry, size)
        self.allowance.spend()

    def replay(self, zxid: int, noted: Iterable[tuple[float, str, tuple[Any, ...]]]) -> None:
        """Record the earlier events.

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


class Latest(ABC, Generic[R]):
    """Makes a server or an ensemble record the latest entries as long as their rate is low.

    :param running: the parts, which record nothing yet.
    """

    def __init__(self, running: R) -> None:
        self._running = running
        self._messages = self._quiet = 0
        self._allowance = Allowance(self._first.clock.now, self._stop_soon)
        self._history = self._begin()

    @abstractmethod
    def _begin(self) -> History:
        """Begin to record, and return the history."""

    @abstractmethod
    def _end(self) -> None:
        """Record nothing."""

    @property
    def _first(self) -> Running:
        return next(iter(self._running.each()))

    def _call_in(self, seconds: float, callback: Callable[[], object]) -> None:
        self._first.service.call_at(self._first.clock.now() + seconds, callback)
        self._first.clock.wake()

    def _stop_soon(self) -> None:
        self._call_in(0, self._stop)  # not in the midst of a request

    def _stop(self) -> None:
        if self._running.told is not self._history or self._allowance.is_whole:
            return
        if self._history.is_heard:  # it costs so much because somebody looks
            self._clear()
            return
        self._running.renumber(self._history.count)
        self._end()
        self._messages, self._quiet = self._count(), 0
        self._call_in(_PAUSE, self._look)

    def _clear(self) -> None:
        """Clear the history and write a line that says why earlier entries are missing. Listeners do not get
        this line."""
        self._running.renumber(self._history.count)
        self._history.begin_again(("note", self._first.clock.now(), 0, NOBODY, {"text": HOLE}))
        self._allowance.begin()

    def _count(self) -> int:
        stats = [each.engine.stats for each in self._running.each()]
        return sum(each.packets_received + each.packets_sent for each in stats)

    def _look(self) -> None:
        """Begin to record again if few messages have come for :data:`_QUIET` checks."""
        before, each = self._messages, list(self._running.each())
        self._messages = self._count()
        if any(one.records for one in each):
            return
        few = self._messages - before < _PAUSE * RATE / 2
        few = few and all(one.recorder is None for one in each)
        few = few and sum(len(one.service.connections) for one in each) <= _MOST_CLIENTS
        self._quiet = self._quiet + 1 if few else 0
        if self._quiet >= _QUIET:
            self._history = self._begin()
            self._clear()
        else:
            self._call_in(_PAUSE, self._look)


class Recent(Latest["Running"]):
    """Makes a server record the latest entries as long as their rate is low."""

    def _begin(self) -> RecentRecorder:
        recorder = RecentRecorder(self._running, self._allowance)
        self._running.use(recorder)
        return recorder

    def _end(self) -> None:
        self._running.use(None)
        self._history.forget()

    def replay(self, zxid: int, noted: Iterable[tuple[float, str, tuple[Any, ...]]]) -> None:
        """Record what has happened before; see :meth:`RecentRecorder.replay`."""
        assert isinstance(self._history, RecentRecorder)
        self._history.replay(zxid, noted)
