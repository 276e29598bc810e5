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
    """A queue whose items are taken out when they are got.

        queue = Queue(zk, "/jobs")
        await queue.put(b"...")
        item = await queue.get()

    :param layout: ``native`` items are named ``item-<uuid>-<number>``; ``simple`` ones ``qn-<number>``, as
        with Curator's SimpleDistributedQueue and ZooKeeper's DistributedQueue; ``kazoo`` ones
        ``entry-100-<number>``, as with kazoo's Queue. All hold the bare payload.
    :param safe: claim an item before it is taken, in ``<path>.claims``. All consumers should agree; those of
        other libraries do not claim, but may be mixed in.
    :param options: see :class:`.QueueOptions`.

    Delivery:

    * :meth:`put` is exactly once with the ``native`` layout, even if the reply is lost; only if the session
      ends as well, and the item is not found, :class:`AmbiguousResult` is raised. With the others a lost
      reply raises :class:`AmbiguousResult`, or with ``retry=True`` the item is put at least once.
    * :meth:`get` with ``safe`` is exactly once up to its return: an item is returned by one call, and a lost
      reply is cleared up. Only if the session ends before that, and the item is gone, :class:`UndecidedItem`
      is raised. What you do with the item then is your affair: if you fail it is lost (at most once). Use
      :meth:`claim` to have it back then.
    * :meth:`get` without ``safe`` is at most once: :class:`UndecidedItem` is raised whenever the reply is
      lost and the item is gone.

    Costs: a put is one request, with ``native`` another one in the background. A safe get is three, an unsafe
    one two; plus a list of all items now and then, and a watch only while waiting.
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
        super().__init__(zk, path, _LAYOUTS[layout], options, claims=claims, marked=layout == "native")

    async def put(self, data: bytes, *, wait: bool = True) -> None:
        """Put an item at the end.

        Cancelling withdraws what has not left the client; after that the item may be put all the same.

        :param wait: if the queue is bounded and full, raise :class:`QueueFull` instead of waiting for room.

        Raises :class:`AmbiguousResult` (see above), :class:`SessionExpiredError` (the item was not put),
        :class:`SequenceExhausted`.
        """
        await self.put_all([data], wait=wait)

    async def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other: all or none. The rest is as with :meth:`put`."""
        await self._putting.put([self._middle() for _ in data], data, wait=wait)

    def _middle(self) -> str:
        match self._place.layout:
            case layout if layout is NATIVE:
                return f"{uuid.uuid4()}-"
            case layout if layout is KAZOO:
                return kazoo_priority(DEFAULT_PRIORITY)
        return ""
