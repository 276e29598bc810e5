"""A znode that outlives its owner by a given time (recipe-rules.md B.10, D.11)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ...client import (
    ACL,
    OPEN_ACL,
    Create,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    Stat,
    ZooKeeper,
)
from ...protocol.paths import join, split
from ..base.bound import Bound
from .persistent_node import KeptNode

TOUCH = "touch"
"""The child that is written again and again."""


class TtlNode(KeptNode):
    """Keeps a znode in being for as long as the block lasts, and for ``ttl`` seconds after: longer than a
    session, should the process not come back.

        async with TtlNode(zk, "/reports/today", b"...", ttl=3600) as node:
            await node.ready()

    It is a TTL znode with a child ``touch``, a TTL znode too, that is written every ``ttl / 2``. Without that
    the server removes first the child and then the znode. Curator's PersistentTtlNode has the same ``touch``
    below a container, and each keeps the other's alive; unlike there, both znodes are created in one
    transaction. Leaving the block deletes nothing. One that is there is taken over, its data replaced.

    Servers have to be told to allow TTL znodes (``extendedTypesEnabled``); one that does not cancels the
    block, which raises :class:`UnimplementedError`, as it raises whatever else makes it impossible.

    :param ttl: in seconds.
    :param parents: how missing parents are created; the server removes a container some time after its last
        child.
    :param acl: of what is created; everything for everyone if None.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        data: bytes = b"",
        *,
        ttl: float,
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        if ttl <= 0:
            raise ValueError(f"ttl must be positive, not {ttl}")
        super().__init__(zk, path, data, parents, acl)
        self._ttl = ttl
        self._pulse = ttl / 2
        self._touch = join(path, TOUCH)

    def _creation(self, path: str, data: bytes) -> Create:
        acl = OPEN_ACL if self._acl is None else self._acl
        return Create(path, data, acl, CreateMode.PERSISTENT_WITH_TTL, round(1000 * self._ttl))

    async def _make(self, bound: Bound, data: bytes) -> Stat | None:
        zk, path = self._zk, self.path
        both = [self._creation(path, data), self._creation(self._touch, b"")]
        try:
            await bound.repeat(lambda: zk.multi(both))
        except NoNodeError:
            await self._parents.create(bound, split(path)[0])
            return None
        except NodeExistsError:
            with suppress(NoNodeError):
                stat = await bound.repeat(lambda: zk.set(path, data))
                await self._beat(bound)
                return stat
            return None
        return await bound.repeat(lambda: zk.exists(path))

    async def _beat(self, bound: Bound) -> None:
        zk = self._zk
        try:
            await bound.repeat(lambda: zk.set(self._touch, b""))
        except NoNodeError:
            # If the znode itself is gone, its watch tells.
            with suppress(NoNodeError, NodeExistsError):
                await bound.repeat(lambda: zk.multi([self._creation(self._touch, b"")]))
