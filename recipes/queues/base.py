"""What all queues have in common: get, claim, peek, put (recipe-rules.md D.10)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Self, TypedDict, TypeVar

from ...client import ACL, NoNodeError, SessionExpiredError, ZooKeeper
from ...protocol.paths import validate_path
from ..base.creating import CreateOptions, Parents
from ..base.hold import Suspended
from ..base.running import steady
from ..base.words import check_word
from .claims import Claim, HeldClaim, Taking
from .items import Item, Layout, Place, QueueEmpty
from .putting import Putting
from .supply import Supply

T = TypeVar("T", bound=Taking)


class QueueOptions(TypedDict, total=False):
    """What every queue may be told.

    ``limit`` (int): how many items the queue may hold. All who put have to agree on it; other libraries do
    not keep to it.

    ``retry`` (bool): if the reply to a put was lost, put again, and accept that the item may be there twice.
    By default :class:`AmbiguousResult` is raised.

    ``parents``: a missing directory is created as a ``"container"`` (the default) or ``"persistent"``. Beside
    kazoo or Curator's DistributedQueue use ``"persistent"``: both expect that an empty directory stays.

    ``acl`` (sequence of ACL): of items and claims; everything for everyone by default.

    ``suspended``, ``margin``: when a claim counts as lost while there is no connection; see :class:`.Hold`.
    """

    limit: int | None
    retry: bool
    parents: Parents
    acl: Sequence[ACL] | None
    suspended: Suspended
    margin: float | None


class ItemQueue:
    """The base of all queues. Any number of tasks may use one object.

    Tasks that wait for an item are served in turn, and only the first of them asks the server. Children that
    are no items are skipped, and reported once in the log. Above ten thousand items listing them becomes
    expensive; use several queues (recipe-rules.md E-42).

    :ivar path: of the queue.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        layout: Layout,
        options: QueueOptions,
        *,
        items: str | None = None,
        claims: str | None = None,
        marked: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        :param items: the directory of the items, if that is not ``path``.
        :param claims: the directory of the claims; None where nobody claims.
        :param marked: see :class:`.Putting`.
        """
        validate_path(path)
        if excess := options.keys() - QueueOptions.__annotations__.keys():
            raise TypeError(f"a queue has no option {', '.join(sorted(excess))}")
        check_word("suspended", options.get("suspended", "deadline"), Suspended)
        self.path = path
        self._zk = zk
        self._place = Place(
            zk,
            layout,
            path if items is None else items,
            claims,
            CreateOptions(options.get("parents", "container"), options.get("acl")),
        )
        self._supply = Supply(self._place, clock)
        self._putting = Putting(self._place, options.get("limit"), options.get("retry", False), marked)
        self._hold_options = options.get("suspended", "deadline"), options.get("margin")

    # --- taking ------------------------------------------------------------------------------------------

    async def get(self, *, wait: bool = True) -> Item:
        """Take the next item out of the queue.

        If this is cancelled before the deletion has left the client, the item stays. After that the answer is
        awaited, for a session timeout at most: an item that was taken is returned, and the cancellation shows
        at the next checkpoint.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.

        Raises :class:`UndecidedItem`, with the item, if it cannot be found out whether the item was taken.
        """
        kind = Taking if self._place.claims is None else Claim
        while True:
            taking = await self._begin(lambda name: kind(self._place, self._supply, name), wait)
            if await taking.take():
                return taking.item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await self.get()

    @asynccontextmanager
    async def claim(self, *, wait: bool = True) -> AsyncIterator[Item]:
        """Take the next item if the block succeeds.

            async with queue.claim() as item:
                await handle(item.data)

        While the block runs nobody else gets the item. When it ends, the item is deleted; if it raises
        something or is cancelled, the item is free again, at its old place.

        The item is handled at least once, and exactly once if no claim is lost. A claim is lost when the
        session may have ended, or somebody has deleted it or the item: the block is cancelled and raises
        :class:`LockLost`, and another may get the item. If :class:`LockLost` comes at the end of the block,
        the item may be gone or not.

        :param wait: if False, raise :class:`QueueEmpty` instead of waiting for an item.
        """
        if self._place.claims is None:
            raise ValueError("there are no claims in a queue with safe=False")
        held = await self._begin(
            lambda name: HeldClaim(self._place, self._supply, name, *self._hold_options), wait
        )
        try:
            with held.hold.scope():
                yield held.item
        except BaseException:
            await held.give_back()
            raise
        await held.end()

    async def _begin(self, kind: Callable[[str], T], wait: bool) -> T:
        beaten = False
        while True:
            name = await self._supply.reserve(wait=wait, beaten=beaten)
            if name is None:
                raise QueueEmpty(self.path)
            taking = kind(name)
            try:
                if await taking.begin():
                    return taking
            except SessionExpiredError:  # nothing is held: go on in the next session
                await self._zk.session.wait_connected()
            beaten = True

    # --- looking -----------------------------------------------------------------------------------------

    async def peek(self) -> Item | None:
        """The next item, which stays where it is; None if there is nothing to take."""
        for name in await self._supply.look():
            path = self._place.item(name)
            try:
                data, stat = await steady(self._zk, partial(self._zk.get, path))
                return Item(path, self._place.layout.decode(data), stat)
            except (NoNodeError, ValueError):
                pass
        return None

    async def size(self) -> int:
        """How many items there are, those that are claimed included."""
        stat = await steady(self._zk, lambda: self._zk.exists(self._place.items))
        return stat.numChildren if stat is not None else 0
