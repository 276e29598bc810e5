"""A queue: first in, first out (recipe-rules.md D.10)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper
from ..base.words import check_word
from .base import ItemQueue, QueueOptions
from .items import DEFAULT_PRIORITY, KAZOO, NATIVE, SIMPLE, kazoo_priority

QueueLayout = Literal["native", "simple", "kazoo"]

_LAYOUTS = {"native": NATIVE, "simple": SIMPLE, "kazoo": KAZOO}


class Queue(ItemQueue):
    """A queue, first in, first out.

        queue = Queue(zk, "/jobs")
        await queue.put(b"...")
        item = await queue.get()

    :param layout: ``native`` items are named ``item-<uuid>-<number>``; ``simple`` ones ``qn-<number>``, as
        with Curator's SimpleDistributedQueue and ZooKeeper's DistributedQueue; ``kazoo`` ones
        ``entry-100-<number>``, as with kazoo's Queue. All hold the bare payload.
    :param safe: claim an item before it is taken, in ``<path>.claims``. All consumers should agree. Consumers
        of other libraries do not claim, but may be mixed in.
    :param options: see :class:`.QueueOptions`.

    Delivery:

    * :meth:`put` is exactly once with the ``native`` layout, also after a lost reply. Only if the session
      ends as well, and the item is not found, :class:`AmbiguousResult` is raised. With the other layouts a
      lost reply raises :class:`AmbiguousResult`, or with ``retry=True`` the item is put at least once.
    * :meth:`get` with ``safe`` is exactly once up to its return: one call returns the item, also after a
      lost reply. Only if the session ends as well, and the item is gone, :class:`UndecidedItem` is raised.
      If your code fails after :meth:`get` has returned, the item is lost. Use :meth:`claim` to have the
      item put back.
    * :meth:`get` without ``safe`` is at most once: :class:`UndecidedItem` is raised whenever the reply is
      lost and the item is gone.

    Cost: a put is 1 request, with ``native`` 1 more in the background. A safe get is 3 requests, an unsafe
    one 2. In addition the items are listed whenever the last list is used up, and they are watched while a
    task waits.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: QueueLayout = "native",
        safe: bool = True,
        **options: Unpack[QueueOptions],
    ) -> None:
        check_word("layout", layout, QueueLayout)
        claims = f"{path}.claims" if safe else None
        super().__init__(zk, path, _LAYOUTS[layout], path, claims, **options)

    async def put(self, data: bytes, *, wait: bool = True) -> None:
        """Put an item at the end.

        A call that is cancelled withdraws the request if it was not sent yet; otherwise the item may be put.

        :param wait: if False, raise :class:`QueueFull` instead of waiting for room in a bounded queue.
        :raises AmbiguousResult: the item may have been put or not; see the class.
        :raises QueueFull: see ``wait``.
        :raises SequenceExhausted: the server's numbers have run out; the item was not put.
        :raises SessionExpiredError: the session has ended; the item was not put.
        """
        await self.put_all([data], wait=wait)

    async def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other: all or none. See :meth:`put`."""
        await self._putting.put([self._middle() for _ in data], data, wait=wait)

    def _middle(self) -> str:
        match self._location.layout:
            case layout if layout is NATIVE:
                return f"{uuid.uuid4()}-"
            case layout if layout is KAZOO:
                return kazoo_priority(DEFAULT_PRIORITY)
        return ""
