"""A queue whose items are due at some time (recipe-rules.md D.10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Unpack

from ...client import ZooKeeper
from .base import ItemQueue, QueueOptions
from .items import CURATOR_DELAY


class DelayQueue(ItemQueue):
    """A queue whose items cannot be taken before they are due. The item that is due first comes first.

    Names are like ``queue-|0199E0C5A400|<number>`` with the time in ms since the epoch, and data is in
    frames, as with Curator's DistributedDelayQueue.

    :param lock_path: the directory of the claims, ``lockPath`` to Curator's consumers. By default
        ``<path>.claims``.
    :param clock: returns the time in seconds since the epoch. The clocks of all clients should agree; this is
        not checked.
    :param options: see :class:`.QueueOptions`.

    Delivery is that of :class:`.ClaimQueue`. A consumer sleeps until the first item is due, and lists again
    when items come or go.
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

        :param delay: seconds from now until the item is due.
        """
        await self.put_all([data], delay, wait=wait)

    async def put_all(self, data: Sequence[bytes], delay: float, *, wait: bool = True) -> None:
        """Put several items that are due at the same time: all or none. See :meth:`put`.

        :param delay: seconds from now until the items are due.
        """
        due = max(0, round(1000 * (self._clock() + delay)))
        await self._putting.put([f"|{due:08X}|"] * len(data), data, wait=wait)
