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
    """A queue whose items come in order of their priority, and within one in order of arrival.

    :param layout: ``curator`` takes any 32-bit integer for a priority, in names like
        ``queue-100000005<number>``, and frames, as Curator's DistributedPriorityQueue; ``kazoo`` takes 0 to
        999, in names like ``entry-005-<number>``, as kazoo's Queue. Lower ones come first.
    :param lock_path: the directory of the claims, ``lockPath`` to Curator's consumers. By default
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    Delivery is that of :class:`.ClaimQueue`. The items are listed before each is taken, since one that comes
    before it may have arrived.
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
        super().__init__(zk, path, names, options, claims=lock_path or f"{path}.claims")

    async def put(self, data: bytes, priority: int, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`. Raises ValueError for a priority that is out of range."""
        await self.put_all([data], priority, wait=wait)

    async def put_all(self, data: Sequence[bytes], priority: int, *, wait: bool = True) -> None:
        """Put several items of one priority: all or none. The rest is as with :meth:`put`."""
        name = kazoo_priority if self._place.layout is KAZOO else curator_priority
        await self._putting.put([name(priority)] * len(data), data, wait=wait)
