"""A hold on two znodes (``layout="both"``): a bridge between Curator and kazoo.

Curator waits for one of the two znodes, and kazoo for the other. Each library lets the next contender in
when its znode is gone. So the loss of either znode is the loss of the lock, and a fenced transaction checks
both.
"""

from __future__ import annotations

from ...client import Watch
from ..base.bound import Bound
from ..base.hold import Hold, Suspended


class DualHold(Hold):
    """A hold on two znodes of one session.

    :param paths: the paths of both znodes.
    :param left: :meth:`unguard` appends the watch on the second znode, if the watch has not fired.

    :ivar other: the hold on the second znode. It is guarded in the same way: see :func:`parts`.
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


class _Half(Hold):
    """The hold on the second znode. The first hold takes care of session and connection."""

    def __init__(self, whole: Hold, bound: Bound, path: str) -> None:
        super().__init__(bound, path, suspended="ignore")
        self._whole = whole

    def lose(self, error: Exception) -> None:
        super().lose(error)
        self._whole.lose(error)


def parts(hold: Hold) -> list[Hold]:
    """Return the hold on each of the znodes."""
    return [hold, hold.other] if isinstance(hold, DualHold) else [hold]
