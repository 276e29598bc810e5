"""What is there to be taken from a queue, for all tasks that take from it.

The tasks of one queue object stand in one line. Only the first of them asks the server and waits, with one
child watch for each directory; what it finds it reserves, and the next one goes on with what is left. So an
item wakes one task, not all of them. The watches go with the last in the line.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import trio

from ...client import NoNodeError, Watch
from ..base.bound import Bound, first_of
from ..base.running import steady
from .items import Place, Position

logger = logging.getLogger(__name__)

_CHOICE = 8
"""Among how many a consumer chooses once another was quicker: else they would all go for the same again."""
_MANY = 10_000
"""Items above which the lists become a burden (trap E-42)."""


class Supply:
    """
    :param clock: the time in seconds since the epoch, for layouts that are timed.
    """

    def __init__(self, place: Place, clock: Callable[[], float]) -> None:
        self._place = place
        self._clock = clock
        self._line = trio.Lock()
        self._in_line = 0
        self._known: deque[tuple[Position, str]] = deque()
        self._reserved: set[str] = set()
        self._unreadable: set[str] = set()
        self._watches: list[Watch] = []
        self._stale = trio.Event()
        self._warned_of_foreign = self._warned_of_many = False

    # --- for those who take ------------------------------------------------------------------------------

    async def reserve(self, *, wait: bool, beaten: bool = False) -> str | None:
        """Wait for an item that nobody has, and reserve it within this process until :meth:`free`.

        :param wait: if False, return None where there is no such item at the moment.
        :param beaten: another consumer was quicker; look again, and keep out of its way.
        """
        if beaten:
            self._known.clear()
        if not wait:
            await self._list(watch=False)
            return self._choose(beaten)
        self._in_line += 1
        try:
            async with self._line:
                return await self._next(beaten)
        finally:
            self._in_line -= 1
            if not self._in_line:
                self._watch([])

    def free(self, name: str, *, gone: bool) -> None:
        """The end of a reservation.

        :param gone: the item is not in the queue any more.
        """
        self._reserved.discard(name)
        if not gone:
            self._stale.set()

    def skip(self, name: str, error: ValueError) -> None:
        """Never hand this one out again."""
        self._unreadable.add(name)
        logger.warning("%s is skipped: %s", self._place.item(name), error)

    async def look(self) -> list[str]:
        """The names of the items that could be taken now, the next one first."""
        await self._list(watch=False)
        return [name for position, name in self._known if self._wait_for(position) <= 0]

    # --- looking for items -------------------------------------------------------------------------------

    async def _next(self, beaten: bool) -> str:
        watch = False
        while True:
            if not self._current and (watch or self._place.layout.ranked or not self._known):
                self._stale = trio.Event()
                await self._list(watch)
            name = self._choose(beaten)
            if name is not None:
                return name
            if self._current:
                await self._wait()
            watch = True

    @property
    def _current(self) -> bool:
        """Whether nothing has changed since the last list."""
        watches = self._watches
        return bool(watches) and not self._stale.is_set() and all(watch.event is None for watch in watches)

    async def _wait(self) -> None:
        seconds = self._wait_for(self._known[0][0]) if self._known else math.inf
        with trio.move_on_after(seconds):
            await first_of(self._stale.wait, *(watch.wait for watch in self._watches))
            self._stale.set()

    def _wait_for(self, position: Position) -> float:
        """Seconds until an item may be taken."""
        return position.rank / 1000 - self._clock() if self._place.layout.timed else 0.0

    def _choose(self, beaten: bool) -> str | None:
        known = self._known
        while known and self._wait_for(known[0][0]) <= 0:
            chosen = 0
            if beaten:
                rank = known[0][0].rank
                chosen = random.randrange(sum(p.rank == rank for p, _ in islice(known, _CHOICE)))
            _, name = known[chosen]
            del known[chosen]
            if name not in self._reserved:
                self._reserved.add(name)
                return name
        return None

    async def _list(self, watch: bool) -> None:
        armed: list[Watch] = []
        excluded = self._reserved | self._unreadable  # some may be gone, and free, when the answer is here
        try:
            # In this order an item that is consumed meanwhile does not look free.
            claims = self._place.claims
            taken = set(await self._children(claims, watch, armed)) if claims is not None else set()
            names = await self._children(self._place.items, watch, armed)
        except BaseException:
            for each in armed:
                each.cancel()
            raise
        excluded |= taken | self._reserved
        known = [(position, name) for name in names if (position := self._place.layout.position(name))]
        self._report(names, len(known))
        self._known = deque(sorted(entry for entry in known if entry[1] not in excluded))
        if watch:
            self._watch(armed)

    async def _children(self, directory: str, watch: bool, armed: list[Watch]) -> list[str]:
        """The names in a directory. One that is missing is created to be watched."""
        zk = self._place.zk

        async def read() -> list[str]:
            while True:
                try:
                    if not watch:
                        return await zk.get_children(directory)
                    names, armed_now = await zk.get_children(directory, watch=True)
                except NoNodeError:
                    if not watch:
                        return []
                    await self._place.options.create_parent(Bound(zk), directory)
                else:
                    armed.append(armed_now)
                    return names

        return await steady(zk, read)

    def _watch(self, watches: list[Watch]) -> None:
        """Have these watches in place of those before."""
        before, self._watches = self._watches, watches
        for watch in before:
            watch.cancel()

    def _report(self, names: Sequence[str], recognised: int) -> None:
        items = self._place.items
        if recognised < len(names) and not self._warned_of_foreign:
            self._warned_of_foreign = True
            foreign = [name for name in names if not self._place.layout.position(name)]
            logger.warning("Below %s there is what is no item of this queue: %s", items, foreign[:5])
        if recognised > _MANY and not self._warned_of_many:
            self._warned_of_many = True
            logger.warning("There are %d items below %s; listing them is expensive", recognised, items)
