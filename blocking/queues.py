"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Self, Unpack

from ..recipes import Item
from ..recipes.queues.base import ItemQueue as TrioItemQueue
from ..recipes.queues.base import QueueOptions
from ..recipes.queues.claim_queue import ClaimLayout
from ..recipes.queues.claim_queue import ClaimQueue as TrioClaimQueue
from ..recipes.queues.delay_queue import DelayQueue as TrioDelayQueue
from ..recipes.queues.id_queue import IdQueue as TrioIdQueue
from ..recipes.queues.priority_queue import PriorityLayout
from ..recipes.queues.priority_queue import PriorityQueue as TrioPriorityQueue
from ..recipes.queues.queue import Queue as TrioQueue
from ..recipes.queues.queue import QueueLayout
from .client import ZooKeeper
from .wrapper import ThreadWrapper


class ItemQueue(ThreadWrapper, of=TrioItemQueue):
    """The base of all queues. Any number of threads can use one object.

    Threads that wait for an item get items in the order in which they came. Only the first waiting thread sends
    requests. Children that are not items are skipped, and logged once. Listing more than 10,000 items is
    expensive; then use several queues (recipe-rules.md trap E-42).

    :ivar path: the path of the queue.
    """

    _trio: TrioItemQueue

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def get(self, *, wait: bool = True) -> Item:
        """Take the next item out of the queue.

        If the call is cancelled before the deletion was sent, the item stays in the queue. If the deletion
        was already sent, the call waits for the reply, at most for one session timeout. If the item was
        taken, the call returns it, and the cancellation takes effect at the next checkpoint.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        :raises UndecidedItem: it is unknown whether this call has taken the item. The error has the item.
        :raises QueueEmpty: no item can be taken now, and ``wait`` is False.
        """
        return self._call(self._trio.get, wait=wait)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        return self._next(self._trio.__anext__)

    def claim(self, *, wait: bool = True) -> AbstractContextManager[Item]:
        """Take the next item if the block succeeds.

            with queue.claim() as item:
                handle(item.data)

        During the block no other consumer gets the item. The end of the block deletes the item. If the block
        raises an error or is cancelled, the item is free again at its old position.

        The item is handled at least once; if no claim is lost, it is handled exactly once. A claim is lost
        when the session may have ended, or when another client has deleted the claim or the item. Then the
        block is cancelled, and another consumer may get the item.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        :raises LockLost: the claim was lost. If the error is raised at the end of the block, it is unknown
            whether the item was deleted.
        :raises QueueEmpty: no item can be taken now, and ``wait`` is False.
        :raises ValueError: the queue was made with ``safe=False``, so it has no claims.
        """
        return self._block(self._trio.claim(wait=wait))

    def peek(self) -> Item | None:
        """Read the next item, and leave it in the queue. Returns None if no item can be taken now."""
        return self._call(self._trio.peek)

    def size(self) -> int:
        """Count the items, including claimed items."""
        return self._call(self._trio.size)


class Queue(ItemQueue, of=TrioQueue):
    """A queue, first in, first out.

        queue = Queue(zk, "/jobs")
        queue.put(b"...")
        item = queue.get()

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
    when the last list is used up, and they are watched while a thread waits.
    """

    _trio: TrioQueue

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: QueueLayout = "native",
        safe: bool = True,
        **options: Unpack[QueueOptions],
    ) -> None:
        self._make(zk, path, layout=layout, safe=safe, **options)

    def put(self, data: bytes, *, wait: bool = True) -> None:
        """Put an item at the end.

        A cancelled call withdraws its request if the request was not sent yet. Otherwise the item may be put.

        :param wait: if False, raise :class:`QueueFull` instead of waiting for room in a queue with a limit.
        :raises AmbiguousResult: it is unknown whether the item was put; see the class.
        :raises QueueFull: there is no room, and ``wait`` is False.
        :raises SequenceExhausted: the server's numbers have run out. The item was not put.
        :raises SessionExpiredError: the session has ended. The item was not put.
        """
        return self._call(self._trio.put, data, wait=wait)

    def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other, all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, wait=wait)


class ClaimQueue(ItemQueue, of=TrioClaimQueue):
    """A queue whose items are handled at least once: an item is deleted only after it was handled.

        queue = ClaimQueue(zk, "/jobs")
        queue.put(b"...")
        with queue.claim() as item:
            handle(item.data)

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

    _trio: TrioClaimQueue

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: ClaimLayout = "kazoo-locking",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None:
        self._make(zk, path, layout=layout, lock_path=lock_path, **options)

    def put(self, data: bytes, *, priority: int = 100, wait: bool = True) -> None:
        """Put an item behind the other items with its priority; see :meth:`.Queue.put`.

        :param priority: the priority, from 0 to 999. Items with lower priorities come first. Only
            ``kazoo-locking`` has priorities.
        :raises ValueError: the priority is out of range.
        """
        return self._call(self._trio.put, data, priority=priority, wait=wait)

    def put_all(self, data: Sequence[bytes], *, priority: int = 100, wait: bool = True) -> None:
        """Put several items, all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, priority=priority, wait=wait)


class PriorityQueue(ItemQueue, of=TrioPriorityQueue):
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

    _trio: TrioPriorityQueue

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        layout: PriorityLayout = "curator",
        lock_path: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> None:
        self._make(zk, path, layout=layout, lock_path=lock_path, **options)

    def put(self, data: bytes, priority: int, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`.

        :raises ValueError: the priority is out of range.
        """
        return self._call(self._trio.put, data, priority, wait=wait)

    def put_all(self, data: Sequence[bytes], priority: int, *, wait: bool = True) -> None:
        """Put several items of one priority, all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, priority, wait=wait)


class DelayQueue(ItemQueue, of=TrioDelayQueue):
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

    _trio: TrioDelayQueue

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        lock_path: str | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[QueueOptions],
    ) -> None:
        self._make(zk, path, lock_path=lock_path, clock=clock, **options)

    def put(self, data: bytes, delay: float, *, wait: bool = True) -> None:
        """Put an item; see :meth:`.Queue.put`.

        :param delay: the time in seconds from now until the item is due.
        """
        return self._call(self._trio.put, data, delay, wait=wait)

    def put_all(self, data: Sequence[bytes], delay: float, *, wait: bool = True) -> None:
        """Put several items with the same due time, all or none. See :meth:`put`.

        :param delay: the time in seconds from now until the items are due.
        """
        return self._call(self._trio.put_all, data, delay, wait=wait)


class IdQueue(ItemQueue, of=TrioIdQueue):
    """A queue, first in, first out. Its items have ids, and can be removed by their ids.

    The layout is the layout of Curator's DistributedIdQueue. A name is like ``queue-|id|<number>``, and the
    data is in frames. ``/`` and ``|`` in an id are written as ``_``.

    :param lock_path: the directory of the claims, which Curator's consumers call ``lockPath``. The default is
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery are the same as in :class:`.ClaimQueue`.
    """

    _trio: TrioIdQueue

    def __init__(
        self, zk: ZooKeeper, path: str, *, lock_path: str | None = None, **options: Unpack[QueueOptions]
    ) -> None:
        self._make(zk, path, lock_path=lock_path, **options)

    def put(self, data: bytes, id: str, *, wait: bool = True) -> None:
        """Put an item at the end; see :meth:`.Queue.put`. Several items may have the same id."""
        return self._call(self._trio.put, data, id, wait=wait)

    def remove(self, id: str) -> int:
        """Remove the items with this id that are not claimed. Returns the number of removed items.

        :raises AmbiguousResult: a reply was lost, and the item is gone. It was removed, or another consumer
            has taken it.
        :raises SessionExpiredError: the session has ended.
        """
        return self._call(self._trio.remove, id)
