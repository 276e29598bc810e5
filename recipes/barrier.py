"""The barrier: clients wait until another client removes it (recipe-rules.md B.7, D.8)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ..client import ACL, ConnectionLossError, NodeExistsError, NoNodeError, ZooKeeper, paths
from .base.bound import Bound
from .base.creating import Parents, ZnodeOptions
from .base.running import steady
from .base.waiting import waiting_for


class Barrier:
    """A barrier at a path. The barrier is closed while its znode exists.

        barrier = Barrier(zk, "/barriers/migration")
        await barrier.create()                          # one client stops the others
        with trio.fail_after(60): await barrier.wait()  # the others wait
        await barrier.remove()

    The znode is persistent, so the barrier outlives the client that created it. Curator's DistributedBarrier
    and kazoo's Barrier use the same znode.

    :param parents: the kind of a missing parent: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: ``parents`` has a value that is not allowed.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        paths.validate_path(path)
        self.zk = zk
        self.path = path
        self._options = ZnodeOptions(parents, acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def create(self) -> None:
        """Create the barrier. If the znode exists already, nothing happens.

        :raises SessionExpiredError: the session ended during the call.
        :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`.
        """
        bound = Bound(self.zk)
        with suppress(NodeExistsError):
            while True:
                try:
                    await bound.repeat(lambda: self.zk.create(self.path, acl=self._options.acl))
                    return
                except NoNodeError:
                    await self._options.create_parent(bound, paths.parent(self.path))

    async def remove(self) -> bool:
        """Remove the barrier. Returns True if the barrier existed. If a reply was lost, True means that the
        barrier may have existed.

        :raises SessionExpiredError: the session ended during the call.
        :raises ZooKeeperError: the server refuses the request, for example with :class:`NoAuthError`.
        """
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
        """Wait until the barrier does not exist. The wait survives the loss of the connection and of the
        session."""
        while True:
            stat, watch = await steady(self.zk, lambda: self.zk.exists_and_watch(self.path))
            with watch:
                if stat is None:
                    return
                with waiting_for(self.zk, self.path, "whose znode is not removed"):
                    await watch.wait()
