"""Finding the items that can be taken, for all consuming tasks of one queue object.

The rules:

* The tasks wait in one line. Only the first task sends requests and waits, with one child watch on each
  directory. So a new item wakes only one task of the process.
* A task reserves the item that it will take. The next task continues with the rest of the list. This task
  lists the items again only if the list is used up or out of date.
* Claims are listed before items. So an item that is taken between the two lists does not look free.
* Another consumer may be faster. Then the task lists the items again, and takes one of the first few items at
  random. If each took the first item, all consumers would try the same item again.
* Children that are not items, and items that cannot be read, are skipped and logged once.
* The watches are removed when the last task leaves the line.
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
from ..base.waiting import waiting_for
from .items import Position, QueueLocation

logger = logging.getLogger(__name__)

_CHOICES = 8
"""The number of items from which a consumer chooses after another consumer was faster. Usually fewer
consumers than this try at the same moment. A larger number would change the order of the items too much."""
_MANY_ITEMS = 10_000
"""The number of items above which a warning is logged. A list of so many items takes about 0.5 MB, and
clients refuse replies above 1 MB by default (recipe-rules.md trap E-42)."""


class Supply:
    """The items that can be taken now.

    :param clock: a function that returns the time in seconds since the epoch, for layouts with a due time in
        the names of items.
    """

    def __init__(self, location: QueueLocation, clock: Callable[[], float]) -> None:
        self._location = location
        self._clock = clock
        self._line = trio.Lock()
        self._in_line = 0
        self._known: deque[tuple[Position, str]] = deque()
        self._reserved: set[str] = set()
        self._unreadable: set[str] = set()
        self._watches: list[Watch] = []
        self._stale = trio.Event()
        self._warned_of_foreign = self._warned_of_many = False

    # --- for the tasks that take -------------------------------------------------------------------------

    async def reserve(self, *, wait: bool, contended: bool = False) -> str | None:
        """Wait for a free item, and reserve it in this process until :meth:`free` is called. Returns the name
        of the item.

        :param wait: if False, return None if no item is free now.
        :param contended: whether another consumer was faster. Then the items are listed again, and one is
            chosen at random.
        :raises SessionExpiredError: the session has ended, and the client opens no new session.
        """
        if contended:
            self._known.clear()
        if not wait:
            await self._list(watch=False)
            return self._choose(contended)
        self._in_line += 1
        try:
            with waiting_for(self._location.zk, f"an item of {self._location.items}", level=logging.DEBUG):
                async with self._line:
                    return await self._next(contended)
        finally:
            self._in_line -= 1
            if not self._in_line:
                self._watch([])

    def free(self, name: str, *, gone: bool) -> None:
        """End a reservation.

        :param gone: whether the item has left the queue.
        """
        self._reserved.discard(name)
        if not gone:
            self._stale.set()

    def skip(self, name: str, error: ValueError) -> None:
        """Note that an item cannot be read, and never reserve it again."""
        self._unreadable.add(name)
        logger.warning(
            "%s is no item of this queue and is skipped: %s. Delete it, or use another layout.",
            self._location.item(name),
            error,
        )

    async def look(self) -> list[str]:
        """List the names of the items that can be taken now, in their order."""
        await self._list(watch=False)
        return [name for position, name in self._known if self._seconds_until_due(position) <= 0]

    # --- looking for items -------------------------------------------------------------------------------

    async def _next(self, contended: bool) -> str:
        watch = False
        while True:
            if not self._current and (watch or self._location.layout.ranked or not self._known):
                self._stale = trio.Event()
                await self._list(watch)
            name = self._choose(contended)
            if name is not None:
                return name
            if self._current:
                await self._wait()
            watch = True

    @property
    def _current(self) -> bool:
        """True if the list is watched and nothing has changed since it was read."""
        watches = self._watches
        return bool(watches) and not self._stale.is_set() and all(watch.event is None for watch in watches)

    async def _wait(self) -> None:
        """Wait until the list changes, or the first item is due."""
        seconds = self._seconds_until_due(self._known[0][0]) if self._known else math.inf
        with trio.move_on_after(seconds):
            await first_of(self._stale.wait, *(watch.wait for watch in self._watches))
            self._stale.set()

    def _seconds_until_due(self, position: Position) -> float:
        return position.rank / 1000 - self._clock() if self._location.layout.timed else 0.0

    def _choose(self, contended: bool) -> str | None:
        """Reserve an item of the list. Returns None if no item is free and due."""
        known = self._known
        while known and self._seconds_until_due(known[0][0]) <= 0:
            chosen = 0
            if contended:
                rank = known[0][0].rank
                chosen = random.randrange(sum(p.rank == rank for p, _ in islice(known, _CHOICES)))
            _, name = known[chosen]
            del known[chosen]
            if name not in self._reserved:
                self._reserved.add(name)
                return name
        return None

    async def _list(self, watch: bool) -> None:
        """List claims and items, and keep the free items."""
        armed: list[Watch] = []
        # An item that is reserved now may be taken before the answer arrives. Then it is not reserved any
        # more.
        excluded = self._reserved | self._unreadable
        try:
            claims = self._location.claims
            claimed = set(await self._children(claims, watch, armed)) if claims is not None else set()
            names = await self._children(self._location.items, watch, armed)
        except BaseException:
            for each in armed:
                each.cancel()
            raise
        excluded |= claimed | self._reserved
        known = [(position, name) for name in names if (position := self._location.layout.position(name))]
        self._report(names, len(known))
        self._known = deque(sorted(entry for entry in known if entry[1] not in excluded))
        if watch:
            self._watch(armed)

    async def _children(self, directory: str, watch: bool, armed: list[Watch]) -> list[str]:
        """List a directory. A missing directory is created if it must be watched."""
        zk = self._location.zk

        async def read() -> list[str]:
            while True:
                try:
                    if not watch:
                        return await zk.get_children(directory)
                    names, armed_now = await zk.get_children_and_watch(directory)
                except NoNodeError:
                    if not watch:
                        return []
                    await self._location.options.create_parent(Bound(zk), directory)
                else:
                    armed.append(armed_now)
                    return names

        return await steady(zk, read)

    def _watch(self, watches: list[Watch]) -> None:
        """Replace the old watches by new ones."""
        before, self._watches = self._watches, watches
        for watch in before:
            watch.cancel()

    def _report(self, names: Sequence[str], recognised: int) -> None:
        items = self._location.items
        if recognised < len(names) and not self._warned_of_foreign:
            self._warned_of_foreign = True
            foreign = [name for name in names if not self._location.layout.position(name)]
            logger.warning(
                "%s has children that are not items of this queue, such as %s; they are skipped."
                " Use another path or another layout.",
                items,
                foreign[:5],
            )
        if recognised > _MANY_ITEMS and not self._warned_of_many:
            self._warned_of_many = True
            logger.warning(
                "%s holds %d items, and listing them is expensive. Use several queues.", items, recognised
            )
