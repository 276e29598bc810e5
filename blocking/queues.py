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
    """The base of all queues. Any number of threads may use one object.

    Threads that wait for an item are served in turn, and only the first of them asks the server. Children that
    are no items are skipped, and reported once in the log. Above 10,000 items listing them is expensive; use
    several queues (recipe-rules.md trap E-42).

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

        If the call is cancelled before the deletion was sent, the item stays. After that the call waits for
        the reply, one session timeout at most: an item that was taken is returned, and the cancellation
        shows at the next checkpoint.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        :raises UndecidedItem: it cannot be known whether this call has taken the item, which the error holds.
        :raises QueueEmpty: see ``wait``.
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

        While the block runs no other consumer gets the item. The end of the block deletes the item. If the
        block raises an error or is cancelled, the item is free again, at its old position.

        The item is handled at least once, and exactly once if no claim is lost. A claim is lost when the
        session may have ended, or another client has deleted the claim or the item: then the block is
        cancelled, and another consumer may get the item.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        :raises LockLost: the claim was lost. If the error comes at the end of the block, the item may be gone
            or not.
        :raises QueueEmpty: see ``wait``.
        :raises ValueError: the queue was made with ``safe=False``, so it has no claims.
        """
        return self._block(self._trio.claim(wait=wait))

    def peek(self) -> Item | None:
        """Read the next item and leave it in the queue; None if no item can be taken now."""
        return self._call(self._trio.peek)

    def size(self) -> int:
        """Count the items, including claimed items."""
        return self._call(self._trio.size)


class Queue(ItemQueue, of=TrioQueue):
    """A queue, first in, first out.

        queue = Queue(zk, "/jobs")
        queue.put(b"...")
        item = queue.get()

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
    thread waits.
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

        A call that is cancelled withdraws the request if it was not sent yet; otherwise the item may be put.

        :param wait: if False, raise :class:`QueueFull` instead of waiting for room in a bounded queue.
        :raises AmbiguousResult: the item may have been put or not; see the class.
        :raises QueueFull: see ``wait``.
        :raises SequenceExhausted: the server's numbers have run out; the item was not put.
        :raises SessionExpiredError: the session has ended; the item was not put.
        """
        return self._call(self._trio.put, data, wait=wait)

    def put_all(self, data: Sequence[bytes], *, wait: bool = True) -> None:
        """Put several items at the end, next to each other: all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, wait=wait)


class ClaimQueue(ItemQueue, of=TrioClaimQueue):
    """A queue whose items are handled at least once: an item is deleted after it was handled.

        queue = ClaimQueue(zk, "/jobs")
        queue.put(b"...")
        with queue.claim() as item:
            handle(item.data)

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
        """Put an item behind the others of its priority; see :meth:`.Queue.put`.

        :param priority: 0 to 999; lower priorities come first. Only with ``kazoo-locking``.
        :raises ValueError: the priority is out of range.
        """
        return self._call(self._trio.put, data, priority=priority, wait=wait)

    def put_all(self, data: Sequence[bytes], *, priority: int = 100, wait: bool = True) -> None:
        """Put several items: all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, priority=priority, wait=wait)


class PriorityQueue(ItemQueue, of=TrioPriorityQueue):
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
        """Put several items of one priority: all or none. See :meth:`put`."""
        return self._call(self._trio.put_all, data, priority, wait=wait)


class DelayQueue(ItemQueue, of=TrioDelayQueue):
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

        :param delay: seconds from now until the item is due.
        """
        return self._call(self._trio.put, data, delay, wait=wait)

    def put_all(self, data: Sequence[bytes], delay: float, *, wait: bool = True) -> None:
        """Put several items that are due at the same time: all or none. See :meth:`put`.

        :param delay: seconds from now until the items are due.
        """
        return self._call(self._trio.put_all, data, delay, wait=wait)


class IdQueue(ItemQueue, of=TrioIdQueue):
    """A queue, first in, first out, whose items have ids by which they can be removed.

    Names are like ``queue-|id|<number>``, and data is in frames, as with Curator's DistributedIdQueue.
    ``/`` and ``|`` in an id are written as ``_``.

    :param lock_path: the directory of the claims, ``lockPath`` to Curator's consumers. By default
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    Delivery is that of :class:`.ClaimQueue`.
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
        """Remove the items with this id that are not claimed, and return how many were removed.

        :raises AmbiguousResult: a reply was lost, and the item is gone: it was removed, or another consumer
            has taken it.
        :raises SessionExpiredError: the session has ended.
        """
        return self._call(self._trio.remove, id)
