"""A grant: the lock that a contender has won.

The rules:

* A grant holds until it is released or lost. :class:`.Hold` says when it is lost.
* A release deletes the znodes for certain. If that is not possible at once (no connection, or no time),
  the client's cleanup does it later.
* A grant that was entered several times by one task (a reentrant lock) is given up with the last release.
* Any client may ask for a lock back by writing into its znode (:func:`.lock.revoke`). ``on_revoke`` is the
  reaction of the holder.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Literal

import attrs
import trio

from ...client import Check, SessionState, Watch, ZooKeeper
from ...client.cleanup import Job
from ...protocol.text import session_text
from ..base.bound import Bound
from ..base.hold import Hold
from ..errors import LockLost, LockRevoked, LossReason
from .dual_layout import parts

REVOKE = b"__REVOKE__"
"""The data that asks for a lock back, as Curator writes them into its znode (recipe-rules.md B.3.2)."""

OnRevokeWord = Literal["ignore", "cancel"]
OnRevoke = OnRevokeWord | Callable[["Grant"], object]
"""The reaction of a holder that is asked for the lock back: only set ``grant.revoked``; be cancelled with
:class:`LockRevoked`; or call a function with the grant."""


@attrs.define(eq=False, repr=False)
class Grant:
    """A lock that is held. Leadership and the leases of a semaphore are grants too.

    :ivar token: the fencing token: the czxid of the znode that holds the lock. The tokens of successive
        holders grow, whatever happens to the path. Hand the token to the resource that the lock guards, and
        let the resource refuse lower tokens. (The number in the znode's name is no such token: the server
        counts from 0 again when the parent was deleted.)
    :ivar path: the path of the znode that holds the lock. With ``layout="both"``, ``paths`` has both znodes.
    :ivar sequence: the number in the name of the znode; the lowest number is first.
    :ivar retries: how many times the contender had to begin anew.
    :ivar waited: seconds from the first attempt to the grant.
    :ivar shared: whether this is the grant of a reader.
    :ivar revoked: set when a client has asked for the lock back (:func:`.lock.revoke`).
    """

    token: int
    paths: tuple[str, ...]
    sequence: int
    retries: int
    waited: float
    shared: bool
    hold: Hold
    _bound: Bound
    _grace: float  # seconds that a release may wait for the server
    _on_revoke: OnRevoke = "ignore"
    _watches: list[Watch] = attrs.Factory(list)
    revoked: trio.Event = attrs.Factory(trio.Event)
    on_release: Callable[[Grant], Awaitable[None]] | None = None
    _depth: int = 1

    def __repr__(self) -> str:
        state = "released" if self.released else "lost" if self.lost.is_set() else "held"
        session = session_text(self.session_id)
        return f"<{type(self).__name__} {self.path}, token {self.token}, {state} by {session}>"

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def session_id(self) -> int:
        return self.hold.session_id

    @property
    def generation(self) -> int:
        """The generation of the session that holds the lock."""
        return self.hold.generation

    @property
    def lost(self) -> trio.Event:
        """Set when the lock may belong to another."""
        return self.hold.lost

    @property
    def reason(self) -> LossReason | None:
        """Why the lock is lost; None if it is not lost."""
        return self.hold.reason

    @property
    def released(self) -> bool:
        return self._depth == 0

    @property
    def zk(self) -> ZooKeeper:
        return self._bound.zk

    def deadline(self) -> float:
        """Return the time, in seconds by ``trio.current_time()``, until which the lock is certainly
        held."""
        return self.hold.deadline()

    def fence(self) -> Check:
        """Return an operation that fails unless the lock is still held. Put it first into a transaction: then
        the holder carries out the whole transaction, or nothing happens.

            await zk.multi([grant.fence(), SetData("/guarded", b"...")])

        :raises ValueError: two znodes hold this lock (``layout="both"``), and both need a check: use
            :meth:`fences`.
        """
        if len(self.paths) > 1:
            raise ValueError(
                f"{self.path} is one of two znodes that hold this lock: check both, with *grant.fences()"
            )
        return Check(self.path)

    def fences(self) -> list[Check]:
        """Return one operation for each znode of the lock.

            await zk.multi([*grant.fences(), SetData("/guarded", b"...")])

        The transaction fails unless the lock is still held.
        """
        return [Check(path) for path in self.paths]

    def check(self) -> None:
        """Check, by the clock and by what the client knows, that the lock is still held. Sends no request.

        :raises LockLost: it is lost, or was released.
        """
        self._check_unreleased()
        self.hold.check()

    def on_lost(self, function: Callable[[], object]) -> None:
        """Call ``function()`` when the lock is lost, or at once if it is lost already. A release is not a
        loss. The function must not raise."""
        if self.lost.is_set():
            function()
        else:
            self.hold.on_lost.append(function)

    async def verify(self) -> None:
        """Ask the server whether the lock is still held.

        :raises LockLost: the lock is not held any more; from now on it counts as lost.
        """
        self._check_unreleased()
        await self.hold.verify()

    def scope(self) -> AbstractContextManager[trio.CancelScope]:
        """Open a block that relies on the lock. Use it after :meth:`.Acquirable.acquire`. The block is
        cancelled when the lock may have been lost.

        :raises LockLost: the lock was lost, or was released before the block began.
        """
        self._check_unreleased()
        return self.hold.scope()

    def _check_unreleased(self) -> None:
        if self.released:  # another task may have the hold by now
            raise LockLost(LossReason.RELEASED, self.path)

    async def release(self) -> None:
        """Release the lock. A lost connection is not an error: the client then deletes the znodes later. A
        lock that was entered several times is released by the last call.

        :raises LockLost: the lock was lost before.
        :raises NoAuthError: the ACL does not allow to delete the znode.
        """
        self.hold.inspect()
        await self.end()
        self.hold.raise_if_lost()

    async def end(self) -> None:
        """Do what :meth:`release` does, but raise no :class:`LockLost`."""
        if self._depth > 1:
            self._depth -= 1
        elif self._depth and self.on_release is not None:
            await self.on_release(self)
        elif self._depth:
            await self.surrender()

    def enter_again(self) -> None:
        """Enter the lock once more in the same task.

        :raises LockLost: the lock is lost.
        """
        self.hold.check()
        self._depth += 1

    def passed_on(self) -> Grant:
        """Return a grant of the same lock for another task of this process. This grant is over."""
        self._depth = 0
        grant = attrs.evolve(self, depth=1, on_release=None)
        for part in parts(self.hold):
            part.on_data = grant.data_changed
        return grant

    async def surrender(self) -> None:
        """Delete the znodes."""
        self._depth = 0
        own_watch = await self.hold.end()
        try:
            await delete(self._bound, self.paths, self._grace)
        finally:
            for watch in self._watches if own_watch is None else [*self._watches, own_watch]:
                watch.cancel()  # the deletion has ended it, unless the deletion is still to come

    def data_changed(self, data: bytes | None) -> None:
        """Look at the present data of the znode; called by the hold."""
        if data != REVOKE or self.revoked.is_set():
            return
        self.revoked.set()
        if self._on_revoke == "cancel":
            self.hold.lose(LockRevoked(self.path))
        elif callable(self._on_revoke):
            try:
                self._on_revoke(self)
            except Exception as error:  # the body raises it: our caller is a background task of the client
                self.hold.lose(error)


async def delete(bound: Bound, paths: tuple[str, ...], grace: float) -> None:
    """Delete znodes of this session for certain. Wait up to ``grace`` seconds, and not at all without a
    connection; after that the client's cleanup continues.

    :raises ZooKeeperError: the server refuses to delete, such as :class:`NoAuthError`.
    """
    if not bound.over:
        await settle(bound, bound.zk.cleanup.delete(*paths), grace)


async def settle(bound: Bound, job: Job, grace: float) -> None:
    """Wait for a job of the cleanup, as :func:`delete` does.

    :raises ZooKeeperError: the job has failed.
    """
    if bound.zk.session.state is SessionState.CONNECTED:
        with trio.move_on_after(grace, shield=True):
            await job.done.wait()
    if job.error is not None:
        raise job.error
