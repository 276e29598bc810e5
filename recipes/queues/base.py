"""The base of all queues: put, get, claim, peek (recipe-rules.md D.10).

An :class:`ItemQueue` has three parts: :class:`.Supply` finds the items that can be taken, :class:`.Removal`
takes one item out of the queue, and :class:`.Putting` puts new items into the queue. The subclasses choose
the names of the znodes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Self, TypedDict

from ...client import ACL, NoNodeError, SessionExpiredError, ZooKeeper
from ...protocol.paths import validate_path
from ..base.choices import check_choice
from ..base.creating import Parents, ZnodeOptions
from ..base.ownership import Ownership, Suspended
from ..base.running import steady
from .batch_reader import Supply
from .consumer import MakeOwnership, Removal
from .items import Item, ItemLayout, QueueEmpty, QueueLocation
from .producer import Putting


class QueueOptions(TypedDict, total=False):
    """The options of all queues.

    ``limit``: the number of items that the queue can hold. The default is None, which means any number. All
    clients that put items must use the same limit. Other libraries do not know the limit.

    ``retry``: whether an item is put again after a lost reply; then the queue may hold the item twice. The
    default is False: :class:`AmbiguousResult` is raised.

    ``parents``: the kind of missing directories: ``"container"``, the default, or ``"persistent"``. Use
    ``"persistent"`` together with kazoo or Curator's DistributedQueue. Otherwise the server removes a
    directory that was empty for some time, which these libraries do not expect.

    ``acl``: the ACL of every znode that is created; None gives all permissions to everybody.

    ``suspended`` and ``margin`` (in seconds): the moment at which a claim is lost without a connection; see
    :class:`.Ownership`.
    """

    limit: int | None
    retry: bool
    parents: Parents
    acl: Sequence[ACL] | None
    suspended: Suspended
    margin: float | None


class ItemQueue:
    """The base of all queues. Any number of tasks can use one object.

    Tasks that wait for an item get items in the order in which they came. Only the first waiting task sends
    requests. Children that are not items are skipped, and logged once. Listing more than 10,000 items is
    expensive; then use several queues (recipe-rules.md trap E-42).

    :ivar path: the path of the queue.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        layout: ItemLayout,
        items: str,
        claims: str | None,
        clock: Callable[[], float] = time.time,
        /,
        *,
        limit: int | None = None,
        retry: bool = False,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
        suspended: Suspended = "deadline",
        margin: float | None = None,
    ) -> None:
        """
        :param items: the path of the directory of the items.
        :param claims: the path of the directory of the claims; None for a queue without claims.
        :param clock: a function that returns the time in seconds since the epoch.
        :raises BadArgumentsError: ``path`` is not a valid path.
        :raises ValueError: an option has a wrong value.
        """
        validate_path(path)
        check_choice("suspended", suspended, Suspended)
        self.zk = zk
        self.path = path
        self._location = QueueLocation(zk, layout, items, claims, ZnodeOptions(parents, acl))
        self._supply = Supply(self._location, clock)
        self._putting = Putting(self._location, limit, retry)
        self._make_ownership: MakeOwnership = partial(Ownership, suspended=suspended, margin=margin)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- taking ------------------------------------------------------------------------------------------

    async def get(self, *, wait: bool = True) -> Item:
        """Take the next item out of the queue.

        If the call is cancelled before the deletion was sent, the item stays in the queue. If the deletion
        was already sent, the call waits for the reply, at most for one session timeout. If the item was
        taken, the call returns it, and the cancellation takes effect at the next checkpoint.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        :raises UndecidedItem: it is unknown whether this call has taken the item. The error has the item.
        :raises QueueEmpty: no item can be taken now, and ``wait`` is False.
        """
        while True:
            removal = await self._begin(wait)
            if await removal.take():
                return removal.item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await self.get()

    @asynccontextmanager
    async def claim(self, *, wait: bool = True) -> AsyncIterator[Item]:
        """Take the next item if the block succeeds.

            async with queue.claim() as item:
                await handle(item.data)

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
        if self._location.claims is None:
            raise ValueError("a queue with safe=False has no claims; use get()")
        removal = await self._begin(wait, self._make_ownership)
        try:
            with removal.ownership.scope():
                yield removal.item
        except BaseException:
            await removal.give_back()
            raise
        await removal.finish()

    async def _begin(self, wait: bool, make_ownership: MakeOwnership | None = None) -> Removal:
        contended = False
        while True:
            name = await self._supply.reserve(wait=wait, contended=contended)
            if name is None:
                raise QueueEmpty(self.path)
            removal = Removal(self._location, self._supply, name)
            try:
                if await removal.begin(make_ownership):
                    return removal
            except SessionExpiredError:  # nothing is claimed: continue in the next session
                await self.zk.session.wait_connected()
            contended = True

    # --- looking -----------------------------------------------------------------------------------------

    async def peek(self) -> Item | None:
        """Read the next item, and leave it in the queue. Returns None if no item can be taken now."""
        for name in await self._supply.look():
            path = self._location.item(name)
            try:
                data, stat = await steady(self.zk, partial(self.zk.get, path))
                return Item(path, self._location.layout.decode(data), stat)
            except (NoNodeError, ValueError):
                pass
        return None

    async def size(self) -> int:
        """Count the items, including claimed items."""
        stat = await steady(self.zk, lambda: self.zk.exists(self._location.items))
        return stat.numChildren if stat is not None else 0
