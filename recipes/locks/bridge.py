"""A hold on two znodes: the halves of a bridge (``naming="both"``).

Curator and kazoo each wait for one of the halves, and let the next contender in when that one is gone. So the
loss of either half is the loss of the whole, and a transaction is fenced by both.
"""

from __future__ import annotations

from ...client import Watch
from ..base.bound import Bound
from ..base.hold import Hold, Suspended


class BridgeHold(Hold):
    """A hold on two znodes of one session.

    :param paths: of both.
    :param left: takes what is left of the watch on the second one, see :meth:`unguard`.

    :ivar other: the hold on the second znode, to be guarded as this one is. See :func:`parts`.
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
    """The hold on the second znode. Of session and connection the first one takes care."""

    def __init__(self, whole: Hold, bound: Bound, path: str) -> None:
        super().__init__(bound, path, suspended="ignore")
        self._whole = whole

    def lose(self, error: Exception) -> None:
        super().lose(error)
        self._whole.lose(error)


def parts(hold: Hold) -> list[Hold]:
    """The hold on each of the znodes."""
    return [hold, hold.other] if isinstance(hold, BridgeHold) else [hold]
