"""A queue whose items have ids and can be removed by them (recipe-rules.md D.10)."""

from __future__ import annotations

from typing import Any, Unpack

from ...client import (
    UNANSWERED,
    Create,
    CreateMode,
    Delete,
    NodeExistsError,
    NoNodeError,
    Operation,
    ZooKeeper,
)
from ...protocol.paths import split
from ..base.bound import Bound
from ..errors import AmbiguousResult
from .base import ItemQueue, QueueOptions
from .items import CURATOR_ID


class IdQueue(ItemQueue):
    """A queue, first in, first out, whose items can be removed by the ids they were put with.

    Names like ``queue-|id|<number>``, and frames, as with Curator's DistributedIdQueue. A ``/`` or ``|`` of
    an id counts as ``_``.

    :param lock_path: the directory of the claims, ``lockPath`` to Curator's consumers. By default
        ``<path>.claims``.
    :param options: see :class:`.QueueOptions`.

    Delivery is that of :class:`.ClaimQueue`.
    """

    def __init__(
        self, zk: ZooKeeper, path: str, *, lock_path: str | None = None, **options: Unpack[QueueOptions]
    ) -> None:
        super().__init__(zk, path, CURATOR_ID, options, claims=lock_path or f"{path}.claims")

    async def put(self, data: bytes, id: str, *, wait: bool = True) -> None:
        """Put an item at the end; see :meth:`.Queue.put`. Several may have the same id."""
        await self._putting.put([f"|{_cleaned(id)}|"], [data], wait=wait)

    async def remove(self, id: str) -> int:
        """Remove the items with this id, but those that are claimed, and return how many were removed.

        Raises :class:`AmbiguousResult` if the reply was lost and an item is gone: it was removed, or taken.
        """
        names = [name for name in await self._supply.look() if self._place.layout.label(name) == _cleaned(id)]
        return sum([await self._remove(name) for name in names])

    async def _remove(self, name: str) -> bool:
        bound, claim, item = Bound(self._zk), self._place.claim(name), self._place.item(name)
        # Creating the claim fails if there is one: that is how "unless it is claimed" is said.
        operations: list[Operation[Any]] = [
            Create(claim, b"", self._place.acl, CreateMode.EPHEMERAL),
            Delete(item),
            Delete(claim),
        ]
        ambiguous = False
        while True:
            bound.check()
            try:
                await self._zk.multi(operations)
                return True
            except NodeExistsError:
                return False
            except NoNodeError as error:
                if error.index == 0:
                    await self._place.parents.create(bound, split(claim)[0])
                elif ambiguous:
                    raise AmbiguousResult(f"removing {item}") from None
                else:
                    return False
            except UNANSWERED:
                ambiguous = True
                await bound.reconnected()


def _cleaned(id: str) -> str:
    return id.replace("/", "_").replace("|", "_")
