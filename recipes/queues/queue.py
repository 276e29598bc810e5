"""A queue: first in, first out (recipe-rules.md D.10)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal, Unpack

from ...client import ZooKeeper
from ..base.choices import check_choice
from .base import ItemQueue, QueueOptions
from .items import DEFAULT_PRIORITY, KAZOO, NATIVE, SIMPLE, kazoo_priority

QueueLayout = Literal["native", "simple", "kazoo"]

_LAYOUTS = {"native": NATIVE, "simple": SIMPLE, "kazoo": KAZOO}


class Queue(ItemQueue):
    """A queue, first in, first out.

        queue = Queue(zk, "/jobs")
        await queue.put(b"...")
        item = await queue.get()

    :param layout: the names of the items. ``native``: ``item-<uuid>-<number>``. ``simple``: ``qn-<number>``,
        as in Curator's SimpleDistributedQueue and ZooKeeper's DistributedQueue. ``kazoo``:
        ``entry-100-<number>``, as in kazoo's Queue. In all layouts the data of the znode is the payload.
    :param safe: whether an item is claimed in ``<path>.claims`` before it is taken. All consumers of this
        package should use the same value. Consumers of other libraries do not claim items, but they can use
        the same queue.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery:

    * :meth:`put` is exactly once with the ``native`` layout, even after a lost reply.
      :class:`AmbiguousResult` is raised only if the session ends too and the item is not found. With the
      other layouts a lost reply raises :class:`AmbiguousResult`; with ``retry=True`` the item is put at least
      once.
    * :meth:`get` with ``safe`` is exactly once: one call returns the item, even after a lost reply.
      :class:`UndecidedItem` is raised only if the session ends too and the item is gone. If your code fails
      after :meth:`get` has returned, the item is lost. With :meth:`claim` the item would be free again.
    * :meth:`get` without ``safe`` is at most once: :class:`UndecidedItem` is raised whenever the reply is
      lost and the item is gone.

    A put costs 1 request. With ``native`` a put costs 1 more request in the background. A get with
    ``safe`` costs 3 requests, and a get without ``safe`` costs 2 requests. In addition, the items are listed
    when the last list is used up, and they are watched while a task waits.
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
        check_choice("layout", layout, QueueLayout)
        claims = f"{path}.claims" if safe else None
        super().__init__(zk, path, _LAYOUTS[layout], path, claims, **options)

    async def put(self, data: bytes, *, wait: bool = True) -> None:
        """Put an item at the end.

        A cancelled call withdraws its request if the request was not sent yet. Otherwise the item may be put.

        :param wait: if False, raise :class:`QueueFull` instead of waiting for room in a queue with a limit.
        :raises AmbiguousResult: it is unknown whether the item was put; see the class.
        :raises QueueFull: there is no room, and ``wait`` is False.
        :raises SequenceExhausted: the server's numbers have run out. The item was not put.
        :raises SessionExpiredError: the session has ended. The item was not put.
        """
        await self.put_all([data], wait=wait)

    async def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other, all or none. See :meth:`put`."""
        await self._putting.put([self._middle() for _ in data], data, wait=wait)

    def _middle(self) -> str:
        match self._location.layout:
            case layout if layout is NATIVE:
                return f"{uuid.uuid4()}-"
            case layout if layout is KAZOO:
                return kazoo_priority(DEFAULT_PRIORITY)
        return ""
