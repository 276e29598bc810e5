"""A queue whose items are claimed, handled, and only then deleted (recipe-rules.md D.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper, paths
from ..base.words import check_word
from .base import ItemQueue, QueueOptions
from .items import CURATOR, DEFAULT_PRIORITY, KAZOO, kazoo_priority

ClaimLayout = Literal["kazoo-locking", "curator"]


class ClaimQueue(ItemQueue):
    """A queue whose items are handled at least once: an item is deleted after it was handled.

        queue = ClaimQueue(zk, "/jobs")
        await queue.put(b"...")
        async with queue.claim() as item:
            await handle(item.data)

    :param layout: ``kazoo-locking`` has the items in ``<path>/entries``, named ``entry-<priority>-<number>``,
        and the claims in ``<path>/taken``, as kazoo's LockingQueue. ``curator`` has the items in ``path``,
        named ``queue-<number>``, in frames, as Curator's DistributedQueue.
    :param lock_path: with ``curator``, the directory of the claims, ``lockPath`` to Curator's consumers. By
        default ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    Delivery:

    * :meth:`put` raises :class:`AmbiguousResult` if the reply is lost, or with ``retry=True`` puts at least
      once.
    * :meth:`claim` hands an item out at least once, and exactly once if no claim is lost.
    * :meth:`get` claims and deletes at once: exactly once up to its return.
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
        check_word("layout", layout, ClaimLayout)
        if layout == "curator":
            super().__init__(zk, path, CURATOR, path, lock_path or f"{path}.claims", **options)
        elif lock_path is None:
            items, claims = paths.join(path, "entries"), paths.join(path, "taken")
            super().__init__(zk, path, KAZOO, items, claims, **options)
        else:
            raise ValueError(
                "layout='kazoo-locking' has its claims below the queue: leave out lock_path or use 'curator'"
            )

    async def put(self, data: bytes, *, priority: int = DEFAULT_PRIORITY, wait: bool = True) -> None:
        """Put an item behind the others of its priority; see :meth:`.Queue.put`.

        :param priority: 0 to 999; lower priorities come first. Only with ``kazoo-locking``.
        :raises ValueError: the priority is out of range.
        """
        await self.put_all([data], priority=priority, wait=wait)

    async def put_all(
        self, data: Sequence[bytes], *, priority: int = DEFAULT_PRIORITY, wait: bool = True
    ) -> None:
        """Put several items: all or none. See :meth:`put`."""
        middle = kazoo_priority(priority) if self._location.layout is KAZOO else ""
        await self._putting.put([middle] * len(data), data, wait=wait)
