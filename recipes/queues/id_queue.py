"""A queue whose items have ids and can be removed by their ids (recipe-rules.md D.10)."""

from __future__ import annotations

from typing import Any, Unpack

from ...client import (
    UNANSWERED,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    ZooKeeper,
    paths,
)
from ..base.bound import Bound
from ..errors import AmbiguousResult
from .base import ItemQueue, QueueOptions
from .items import CURATOR_ID


class IdQueue(ItemQueue):
    """A queue, first in, first out. Its items have ids, and can be removed by their ids.

    The layout is the layout of Curator's DistributedIdQueue. A name is like ``queue-|id|<number>``, and the
    data is in frames. ``/`` and ``|`` in an id are written as ``_``.

    :param lock_path: the directory of the claims, which Curator's consumers call ``lockPath``. The default is
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    The guarantees of delivery are the same as in :class:`.ClaimQueue`.
    """

    def __init__(
        self, zk: ZooKeeper, path: str, *, lock_path: str | None = None, **options: Unpack[QueueOptions]
    ) -> None:
        super().__init__(zk, path, CURATOR_ID, path, lock_path or f"{path}.claims", **options)

    async def put(self, data: bytes, id: str, *, wait: bool = True) -> None:
        """Put an item at the end; see :meth:`.Queue.put`. Several items may have the same id."""
        await self._putting.put([f"|{_cleaned(id)}|"], [data], wait=wait)

    async def remove(self, id: str) -> int:
        """Remove the items with this id that are not claimed. Returns the number of removed items.

        :raises AmbiguousResult: a reply was lost, and the item is gone. It was removed, or another consumer
            has taken it.
        :raises SessionExpiredError: the session has ended.
        """
        names = [
            name for name in await self._supply.look() if self._location.layout.label(name) == _cleaned(id)
        ]
        return sum([await self._remove(name) for name in names])

    async def _remove(self, name: str) -> bool:
        bound, claim, item = Bound(self.zk), self._location.claim(name), self._location.item(name)
        # If the item is claimed, creating the claim fails, and so does the transaction.
        operations: list[Operation[Any]] = [
            Create(claim, acl=self._location.options.acl, ephemeral=True),
            Delete(item),
            Delete(claim),
        ]
        ambiguous = False
        while True:
            bound.check()
            try:
                await self.zk.multi(operations)
                return True
            except NodeExistsError:
                return False
            except NoNodeError as error:
                if error.index == 0:
                    await self._location.options.create_parent(bound, paths.parent(claim))
                elif ambiguous:
                    raise AmbiguousResult(f"removing {item}") from None
                else:
                    return False
            except UNANSWERED:
                ambiguous = True
                await bound.reconnected()


def _cleaned(id: str) -> str:
    return id.replace("/", "_").replace("|", "_")
