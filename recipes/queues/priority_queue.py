"""A queue in the order of priorities (recipe-rules.md D.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper
from ..base.choices import check_choice
from .base import ItemQueue, QueueOptions
from .items import CURATOR_PRIORITY, KAZOO, curator_priority, kazoo_priority

PriorityLayout = Literal["curator", "kazoo"]


class PriorityQueue(ItemQueue):
    """A queue in the order of priorities. Lower priorities come first. Items of equal priority are first in,
    first out.

    :param layout: the names of the znodes. ``curator`` is the layout of Curator's DistributedPriorityQueue:
        the names are like ``queue-100000005<number>``, the data is in frames, and a priority is any 32-bit
        integer. ``kazoo`` is the layout of kazoo's Queue: the names are like ``entry-005-<number>``, and a
        priority is 0 to 999.
    :param lock_path: the directory of the claims, which Curator's consumers call ``lockPath``. The default is
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery are the same as in :class:`.ClaimQueue`. The items are listed before each get
    or claim, because an item with a lower priority may have arrived.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: PriorityLayout = "curator",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None:
        check_choice("layout", layout, PriorityLayout)
        names = {"curator": CURATOR_PRIORITY, "kazoo": KAZOO}[layout]
        super().__init__(zk, path, names, path, lock_path or f"{path}.claims", **options)

    async def put(self, data: bytes, priority: int, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`.

        :raises ValueError: the priority is out of range.
        """
        await self.put_all([data], priority, wait=wait)

    async def put_all(self, data: Sequence[bytes], priority: int, *, wait: bool = True) -> None:
        """Put several items of one priority, all or none. See :meth:`put`."""
        name = kazoo_priority if self._location.layout is KAZOO else curator_priority
        await self._putting.put([name(priority)] * len(data), data, wait=wait)
