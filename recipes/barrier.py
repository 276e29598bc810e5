"""The barrier: everybody waits until it is lifted (recipe-rules.md B.7, D.8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ..client import ACL, ConnectionLossError, NodeExistsError, NoNodeError, ZooKeeper
from ..protocol.paths import split, validate_path
from .base.bound import Bound
from .base.creating import Parents
from .base.running import steady


class Barrier:
    """A barrier at a path: it stands while the znode exists.

        barrier = Barrier(zk, "/barriers/migration")
        await barrier.create()                          # one holds the others up
        with trio.fail_after(60): await barrier.wait()  # these wait
        await barrier.remove()

    The znode is persistent, so the barrier outlives whoever has put it up. Those of Curator
    (DistributedBarrier) and kazoo (Barrier) are the same.

    :param parents: how missing parents are created: as containers, which the server removes again some time
        after their last child has gone, or persistent.
    :param acl: of what is created; everything for everyone if None.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        validate_path(path)
        self.zk = zk
        self.path = path
        self._parents = Parents.of(parents, acl)
        self._acl = acl

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def create(self) -> None:
        """Put it up. That it stands already is no error."""
        bound = Bound(self.zk)
        with suppress(NodeExistsError):
            while True:
                try:
                    await bound.repeat(lambda: self.zk.create(self.path, acl=self._acl))
                    return
                except NoNodeError:
                    await self._parents.create(bound, split(self.path)[0])

    async def remove(self) -> bool:
        """Lift it. Returns whether there was one to lift; after a lost reply, whether there may have been."""
        ambiguous = False

        async def delete() -> None:
            nonlocal ambiguous
            try:
                await self.zk.delete(self.path)
            except ConnectionLossError as error:
                ambiguous = ambiguous or error.sent
                raise

        try:
            await Bound(self.zk).repeat(delete)
        except NoNodeError:
            return ambiguous
        return True

    async def wait(self) -> None:
        """Wait until there is none. Goes on after the connection or the session was lost."""
        while True:
            stat, watch = await steady(self.zk, lambda: self.zk.exists(self.path, watch=True))
            with watch:
                if stat is None:
                    return
                await watch.wait()
