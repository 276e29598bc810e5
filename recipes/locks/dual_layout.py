"""An ownership on two znodes (``layout="both"``), which makes Curator and kazoo wait for the same holder.

Curator waits for one of the two znodes, and kazoo for the other. When one of the znodes is gone, the next
contender of its library gets the lock. So the lock is lost when either znode is lost, and a fenced
transaction must check both znodes.
"""

from __future__ import annotations

from ...client import Watch
from ..base.bound import Bound
from ..base.ownership import Ownership, Suspended


class DualOwnership(Ownership):
    """An ownership on two znodes of one session.

    :param paths: the paths of both znodes.
    :param left: a list. :meth:`unguard` appends the watch on the second znode to it, if this watch has not
        fired.

    :ivar other: the ownership on the second znode. This ownership must be guarded too: see :func:`parts`.
    """

    def __init__(
        self,
        bound: Bound,
        paths: tuple[str, ...],
        left: list[Watch],
        *,
        suspended: Suspended,
        margin: float | None,
    ) -> None:
        path, other = paths
        super().__init__(bound, path, suspended=suspended, margin=margin)
        self.other = _Half(self, bound, other)
        self._left = left

    @property
    def paths(self) -> tuple[str, ...]:
        return self.path, self.other.path

    def inspect(self) -> None:
        if not self._over:
            self.other.inspect()
        super().inspect()

    async def verify(self) -> None:
        await self.other.verify()
        await super().verify()

    async def unguard(self) -> Watch | None:
        watch = await self.other.unguard()
        if watch is not None:
            self._left.append(watch)
        return await super().unguard()


class _Half(Ownership):
    """The ownership on the second znode. The first ownership watches over the session and the connection."""

    def __init__(self, whole: Ownership, bound: Bound, path: str) -> None:
        super().__init__(bound, path, suspended="ignore")
        self._whole = whole

    def lose(self, error: Exception) -> None:
        super().lose(error)
        self._whole.lose(error)


def parts(ownership: Ownership) -> list[Ownership]:
    """Return the ownerships on the single znodes."""
    return [ownership, ownership.other] if isinstance(ownership, DualOwnership) else [ownership]
