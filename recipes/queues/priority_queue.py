"""A queue in order of priority (recipe-rules.md D.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper
from ..base.words import check_word
from .base import ItemQueue, QueueOptions
from .items import CURATOR_PRIORITY, KAZOO, curator_priority, kazoo_priority

PriorityLayout = Literal["curator", "kazoo"]


class PriorityQueue(ItemQueue):
    """A queue in order of priority, lower ones first; and for equal priorities first in, first out.

    :param layout: ``curator`` takes any 32-bit integer as a priority, in names like
        ``queue-100000005<number>``, and frames, as Curator's DistributedPriorityQueue. ``kazoo`` takes 0 to
        999, in names like ``entry-005-<number>``, as kazoo's Queue.
    :param lock_path: the directory of the claims, ``lockPath`` to Curator's consumers. By default
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    Delivery is that of :class:`.ClaimQueue`. The items are listed before each one is taken, because an item
    of a lower priority may have arrived.
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
        check_word("layout", layout, PriorityLayout)
        names = {"curator": CURATOR_PRIORITY, "kazoo": KAZOO}[layout]
        super().__init__(zk, path, names, path, lock_path or f"{path}.claims", **options)

    async def put(self, data: bytes, priority: int, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`.

        :raises ValueError: the priority is out of range.
        """
        await self.put_all([data], priority, wait=wait)

    async def put_all(self, data: Sequence[bytes], priority: int, *, wait: bool = True) -> None:
        """Put several items of one priority: all or none. See :meth:`put`."""
        name = kazoo_priority if self._location.layout is KAZOO else curator_priority
        await self._putting.put([name(priority)] * len(data), data, wait=wait)
