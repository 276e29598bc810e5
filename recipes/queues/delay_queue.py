"""A queue whose items have a due time (recipe-rules.md D.10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Unpack

from ...client import ZooKeeper
from .base import ItemQueue, QueueOptions
from .items import CURATOR_DELAY


class DelayQueue(ItemQueue):
    """A queue whose items cannot be taken before their due time. The item with the earliest due time comes
    first.

    The layout is the layout of Curator's DistributedDelayQueue. A name is like
    ``queue-|0199E0C5A400|<number>``, with the due time in ms since the epoch. The data is in frames.

    :param lock_path: the directory of the claims, which Curator's consumers call ``lockPath``. The default is
        ``<path>.claims``.
    :param clock: a function that returns the time in seconds since the epoch. The clocks of all clients
        should agree, which is not checked.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery are the same as in :class:`.ClaimQueue`. A consumer sleeps until the first item
    is due. The consumer lists the items again when items are put or taken.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        lock_path: str | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[QueueOptions],
    ) -> None:
        super().__init__(zk, path, CURATOR_DELAY, path, lock_path or f"{path}.claims", clock, **options)
        self._clock = clock

    async def put(self, data: bytes, delay: float, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`.

        :param delay: the time in seconds from now until the item is due.
        """
        await self.put_all([data], delay, wait=wait)

    async def put_all(self, data: Sequence[bytes], delay: float, *, wait: bool = True) -> None:
        """Put several items with the same due time, all or none. See :meth:`put`.

        :param delay: the time in seconds from now until the items are due.
        """
        due = max(0, round(1000 * (self._clock() + delay)))
        await self._putting.put([f"|{due:08X}|"] * len(data), data, wait=wait)
