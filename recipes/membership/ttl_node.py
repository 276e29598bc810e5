"""A znode that exists for a given time after the end of its owner (recipe-rules.md B.10, D.11).

The rules:

* The znode is a TTL znode. The child ``touch`` of the znode is a TTL znode too. The child is written every
  ``ttl / 2`` seconds. When these writes stop, the server removes first the child and then the znode.
* Both znodes are created in one transaction, so the znode is never without its child.
* An existing znode is adopted, and its data is replaced. The end of the block deletes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...client import (
    ACL,
    Create,
    NodeExistsError,
    NoNodeError,
    Stat,
    ZooKeeper,
    paths,
)
from ..base.bound import Bound
from ..base.creating import Parents
from .persistent_node import KeptNode

TOUCH = "touch"
"""The name of the child. Writes to the child keep the znode."""


class TtlNode(KeptNode):
    """Keeps a znode until ``ttl`` seconds after the end of the block, even if the session ends earlier.

        async with TtlNode(zk, "/reports/today", data=b"...", ttl=3600) as node:
            await node.ready()

    The znode of Curator's PersistentTtlNode is a container with the same child. So Curator's recipe and this
    recipe can each keep a znode that the other has created.

    If an error makes it impossible to keep the znode, the block is cancelled and raises this error.
    :class:`UnimplementedError` means that the server does not allow TTL znodes: set ``extendedTypesEnabled``
    in its configuration.

    :param ttl: the time in seconds for which the znode exists after the end of the block.
    :param parents: the kind of missing parents: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises ValueError: an option has a wrong value.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        ttl: float,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        if ttl <= 0:
            raise ValueError(f"ttl must be positive, not {ttl}")
        super().__init__(zk, path, data, parents, acl)
        self._ttl = ttl
        self._pulse = ttl / 2
        self._touch = paths.join(path, TOUCH)

    def _creation(self, path: str, data: bytes) -> Create:
        return Create(path, data, acl=self._options.acl, ttl=self._ttl)

    async def _make(self, bound: Bound, data: bytes) -> Stat | None:
        zk, path = self.zk, self.path
        both = [self._creation(path, data), self._creation(self._touch, b"")]
        try:
            await bound.repeat(lambda: zk.multi(both))
        except NoNodeError:
            await self._options.create_parent(bound, paths.parent(path))
            return None
        except NodeExistsError:
            with suppress(NoNodeError):
                stat = await bound.repeat(lambda: zk.set(path, data))
                await self._beat(bound)
                return stat
            return None
        return await bound.repeat(lambda: zk.exists(path))

    async def _beat(self, bound: Bound) -> None:
        zk = self.zk
        try:
            await bound.repeat(lambda: zk.set(self._touch, b""))
        except NoNodeError:
            # If the znode itself is gone, its watch has fired already.
            with suppress(NoNodeError, NodeExistsError):
                await bound.repeat(lambda: zk.multi([self._creation(self._touch, b"")]))
