"""What a contender has won."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

import attrs
import trio

from ...client import Check, Job, SessionState, Watch, ZooKeeper
from ..base.bound import Bound
from ..base.hold import Hold
from ..errors import LockLost, LockRevoked, LossReason
from .bridge import parts

if TYPE_CHECKING:
    from .contender import Terms

REVOKE = b"__REVOKE__"
"""What Curator writes into the znode of a lock to ask for it back (recipe-rules.md B.3.2)."""

OnRevokeWord = Literal["ignore", "cancel"]
OnRevoke = OnRevokeWord | Callable[["Grant"], object]


@attrs.define(eq=False, repr=False)
class Grant:
    """A lock that is held; leadership and leases are such locks too.

    :ivar token: the fencing token: the czxid of the znode that holds the lock. Those of successive holders
        grow, whatever happens to the path; hand it to what you guard, and let that refuse lower ones. (The
        number in the znode's name is not fit for this: it starts again when the parent was deleted.)
    :ivar path: the znode that holds the lock; ``paths`` are both of a bridge (``naming="both"``).
    :ivar sequence: its place in the queue.
    :ivar requeues: how many times the contender had to begin anew.
    :ivar waited: seconds from the first attempt to the grant.
    :ivar shared: whether it is a reader's.
    :ivar revoked: set when somebody has asked for the lock back (:func:`.lock.revoke`).
    """

    token: int
    paths: tuple[str, ...]
    sequence: int
    requeues: int
    waited: float
    shared: bool
    hold: Hold
    _bound: Bound
    _terms: Terms
    _watches: list[Watch] = attrs.Factory(list)
    revoked: trio.Event = attrs.Factory(trio.Event)
    on_release: Callable[[Grant], Awaitable[None]] | None = None
    _depth: int = 1

    def __repr__(self) -> str:
        state = "released" if self.released else "lost" if self.lost.is_set() else "held"
        return f"<{type(self).__name__} {self.path} token {self.token}: {state}>"

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def session_id(self) -> int:
        return self.hold.session_id

    @property
    def generation(self) -> int:
        """Of the session that holds it."""
        return self.hold.generation

    @property
    def lost(self) -> trio.Event:
        """Set when the lock may belong to another."""
        return self.hold.lost

    @property
    def reason(self) -> LossReason | None:
        """Why it is lost; None if it is not."""
        return self.hold.reason

    @property
    def released(self) -> bool:
        return self._depth == 0

    @property
    def zk(self) -> ZooKeeper:
        return self._bound.zk

    def deadline(self) -> float:
        """Until when it is held for certain, by ``trio.current_time()``: see :meth:`.Hold.deadline`."""
        return self.hold.deadline()

    def fence(self) -> Check:
        """An operation that fails unless the lock is still held: put it first into a transaction, and the
        transaction is carried out by the holder or not at all.

            await zk.multi([grant.fence(), SetData("/guarded", b"...")])

        Raises ValueError for a bridge (``naming="both"``), whose znodes have to be checked both:
        :meth:`fences`.
        """
        if len(self.paths) > 1:
            raise ValueError(
                f"{self.path} is one of two znodes that hold this lock: check both, with *grant.fences()"
            )
        return Check(self.path)

    def fences(self) -> list[Check]:
        """The operations that together fail unless the lock is still held: one for each of its znodes.

        await zk.multi([*grant.fences(), SetData("/guarded", b"...")])
        """
        return [Check(path) for path in self.paths]

    async def verify(self) -> None:
        """Ask the server whether it is still held.

        Raises :class:`LockLost`, after which it counts as lost.
        """
        self._check_unreleased()
        await self.hold.verify()

    def scope(self) -> AbstractContextManager[trio.CancelScope]:
        """A block that relies on it, for the manual form: it is cancelled when the lock may have been lost,
        and then raises :class:`LockLost`. So does one that begins after the release."""
        self._check_unreleased()
        return self.hold.scope()

    def _check_unreleased(self) -> None:
        if self.released:  # another task may have the hold by now
            raise LockLost(LossReason.RELEASED, self.path)

    async def release(self) -> None:
        """Give it up. Never fails for want of a connection: what cannot be done now is done later, behind
        the scenes. One that was entered several times is given up with the last.

        Raises :class:`LockLost` if it was lost before; :class:`NoAuthError` if the znode may not be deleted.
        """
        self.hold.inspect()
        await self.end()
        self.hold.raise_if_lost()

    async def end(self) -> None:
        """:meth:`release` without a word about whether it was still held."""
        if self._depth > 1:
            self._depth -= 1
        elif self._depth and self.on_release is not None:
            await self.on_release(self)
        elif self._depth:
            await self.surrender()

    def enter_again(self) -> None:
        """Once more by the same task. Raises :class:`LockLost` if it is lost."""
        self.hold.check()
        self._depth += 1

    def passed_on(self) -> Grant:
        """The same lock for another task of this process; this grant is over."""
        self._depth = 0
        grant = attrs.evolve(self, depth=1, on_release=None)
        for part in parts(self.hold):
            part.on_data = grant.data_changed
        return grant

    async def surrender(self) -> None:
        """Delete the znodes."""
        self._depth = 0
        node = await self.hold.end()
        try:
            await delete(self._bound, self.paths, self._terms.cleanup_grace)
        finally:
            for watch in self._watches if node is None else [*self._watches, node]:
                watch.cancel()  # the deletion has ended it, unless that is still to come

    def data_changed(self, data: bytes | None) -> None:
        """The znode holds this now; called by the hold."""
        if data != REVOKE or self.revoked.is_set():
            return
        self.revoked.set()
        on_revoke = self._terms.on_revoke
        if on_revoke == "cancel":
            self.hold.lose(LockRevoked(self.path))
        elif callable(on_revoke):
            try:
                on_revoke(self)
            except Exception as error:  # the body's to raise: whoever runs us has nothing to do with it
                self.hold.lose(error)


async def delete(bound: Bound, paths: tuple[str, ...], grace: float) -> None:
    """Delete znodes of this session for certain. Waits for it up to ``grace`` seconds, and not at all without
    a connection; the janitor goes on then.

    Raises what makes it impossible, such as :class:`NoAuthError`.
    """
    if not bound.over:
        await settle(bound, bound.zk.janitor.delete(*paths), grace)


async def settle(bound: Bound, job: Job, grace: float) -> None:
    """Wait for a job of the janitor, as :func:`delete` does."""
    if bound.zk.session.state is SessionState.CONNECTED:
        with trio.move_on_after(grace, shield=True):
            await job.done.wait()
    if job.error is not None:
        raise job.error
