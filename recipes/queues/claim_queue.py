"""A queue whose items are first claimed, then handled, and then deleted (recipe-rules.md D.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper, paths
from ..base.choices import check_choice
from .base import ItemQueue, QueueOptions
from .items import CURATOR, DEFAULT_PRIORITY, KAZOO, kazoo_priority

ClaimLayout = Literal["kazoo-locking", "curator"]


class ClaimQueue(ItemQueue):
    """A queue whose items are handled at least once: an item is deleted only after it was handled.

        queue = ClaimQueue(zk, "/jobs")
        await queue.put(b"...")
        async with queue.claim() as item:
            await handle(item.data)

    :param layout: the names of the znodes. ``kazoo-locking`` is the layout of kazoo's LockingQueue: the items
        are ``<path>/entries/entry-<priority>-<number>``, and the claims are in ``<path>/taken``. ``curator``
        is the layout of Curator's DistributedQueue: the items are ``<path>/queue-<number>``, and their data
        is in frames.
    :param lock_path: the directory of the claims in the layout ``curator``. Curator's consumers call it
        ``lockPath``. The default is ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery:

    * :meth:`put` raises :class:`AmbiguousResult` if the reply is lost. With ``retry=True`` it puts the item
      at least once.
    * :meth:`claim` returns an item at least once. If no claim is lost, it returns the item exactly once.
    * :meth:`get` claims an item and deletes it at once. Exactly one call returns the item.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: ClaimLayout = "kazoo-locking",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None:
        check_choice("layout", layout, ClaimLayout)
        if layout == "curator":
            super().__init__(zk, path, CURATOR, path, lock_path or f"{path}.claims", **options)
        elif lock_path is None:
            items, claims = paths.join(path, "entries"), paths.join(path, "taken")
            super().__init__(zk, path, KAZOO, items, claims, **options)
        else:
            raise ValueError(
                "layout='kazoo-locking' has its claims below the queue: leave out lock_path, or use 'curator'"
            )

    async def put(self, data: bytes, *, priority: int = DEFAULT_PRIORITY, wait: bool = True) -> None:
        """Put an item behind the other items with its priority; see :meth:`.Queue.put`.

        :param priority: the priority, from 0 to 999. Items with lower priorities come first. Only
            ``kazoo-locking`` has priorities.
        :raises ValueError: the priority is out of range.
        """
        await self.put_all([data], priority=priority, wait=wait)

    async def put_all(
        self, data: Sequence[bytes], *, priority: int = DEFAULT_PRIORITY, wait: bool = True
    ) -> None:
        """Put several items, all or none. See :meth:`put`."""
        middle = kazoo_priority(priority) if self._location.layout is KAZOO else ""
        await self._putting.put([middle] * len(data), data, wait=wait)
