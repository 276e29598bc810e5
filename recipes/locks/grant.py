"""A grant: the lock that a contender has won.

The rules:

* A grant lasts until it is released or lost. :class:`.Ownership` says when it is lost.
* A release always deletes the znodes. If this is not possible at once, the client's cleanup deletes them
  later.
* If one task has entered a reentrant lock several times, the last release gives up the grant.
* Any client can ask the holder to give the lock back: it writes into the znode (:func:`.lock.revoke`).
  ``on_revoke`` is the reaction of the holder.
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
from ..base.ownership import Ownership
from ..errors import LockLost, LockRevoked, LossReason
from .dual_layout import parts

REVOKE = b"__REVOKE__"
"""The data that asks a holder to give the lock back. Curator writes the same data into the znode
(recipe-rules.md B.3.2)."""

OnRevokeWord = Literal["ignore", "cancel"]
OnRevoke = OnRevokeWord | Callable[["Grant"], object]
"""The reaction of a holder that is asked to give the lock back. ``"ignore"``: only set ``grant.revoked``.
``"cancel"``: cancel the block with :class:`LockRevoked`. A function: call it with the grant."""


@attrs.define(eq=False, repr=False)
class Grant:
    """A lock that is held. Leadership and the leases of a semaphore are grants too.

    :ivar token: the fencing token, which is the czxid of the znode that holds the lock. Each later holder has
        a larger token. Pass the token to the resource that the lock guards, and let the resource refuse lower
        tokens. The number in the znode's name is not a fencing token: after the parent was deleted, the
        server counts from 0 again.
    :ivar path: the path of the znode that holds the lock. With ``layout="both"``, ``paths`` has the paths of
        both znodes.
    :ivar paths: the paths of the znodes that hold the lock: one path, or two with ``layout="both"``.
    :ivar ownership: the ownership of the lock, which ends with the session.
    :ivar on_release: the function that is awaited in place of the usual release; or None.
    :ivar sequence: the number in the name of the znode; the lowest number is first.
    :ivar retries: the number of times that the contender had to begin anew.
    :ivar waited: the time in seconds from the first attempt to the grant.
    :ivar shared: whether this is the grant of a reader.
    :ivar revoked: an event that is set when a client has asked the holder to give the lock back
        (:func:`.lock.revoke`).
    """

    token: int
    paths: tuple[str, ...]
    sequence: int
    retries: int
    waited: float
    shared: bool
    ownership: Ownership
    _bound: Bound
    _grace: float  # the time in seconds that a release can wait for the server
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
        """The path of the znode that holds the lock."""
        return self.paths[0]

    @property
    def session_id(self) -> int:
        """The id of the session that holds the lock."""
        return self.ownership.session_id

    @property
    def generation(self) -> int:
        """The generation of the session that holds the lock."""
        return self.ownership.generation

    @property
    def lost(self) -> trio.Event:
        """An event that is set when another client may have the lock."""
        return self.ownership.lost

    @property
    def reason(self) -> LossReason | None:
        """The reason for the loss of the lock; None if the lock is not lost."""
        return self.ownership.reason

    @property
    def released(self) -> bool:
        """True if the lock was released."""
        return self._depth == 0

    @property
    def zk(self) -> ZooKeeper:
        """The client that holds the lock."""
        return self._bound.zk

    def deadline(self) -> float:
        """Return the time until which the lock is certainly held, in seconds by ``trio.current_time()``."""
        return self.ownership.deadline()

    def fence(self) -> Check:
        """Return an operation that succeeds only while the lock is held. Make this operation the first
        operation of a transaction. Then the server carries out the transaction only while the lock is held.

            await zk.multi([grant.fence(), SetData("/guarded", b"...")])

        :raises ValueError: two znodes hold this lock (``layout="both"``). Use :meth:`fences`, which checks
            both.
        """
        if len(self.paths) > 1:
            raise ValueError(
                f"{self.path} is one of two znodes that hold this lock: check both, with *grant.fences()"
            )
        return Check(self.path)

    def fences(self) -> list[Check]:
        """Return a fencing operation for each znode of the lock.

            await zk.multi([*grant.fences(), SetData("/guarded", b"...")])

        The transaction succeeds only while the lock is held.
        """
        return [Check(path) for path in self.paths]

    def check(self) -> None:
        """Check by the clock and the state of the client that the lock is still held. No request is sent.

        :raises LockLost: the lock is lost, or was released.
        """
        self._check_unreleased()
        self.ownership.check()

    def on_lost(self, function: Callable[[], object]) -> None:
        """Call ``function()`` when the lock is lost, or at once if the lock is lost already. A release is not
        a loss. The function must not raise an error."""
        if self.lost.is_set():
            function()
        else:
            self.ownership.on_lost.append(function)

    async def verify(self) -> None:
        """Ask the server whether the lock is still held.

        :raises LockLost: the lock is not held any more. From now on the grant is lost.
        """
        self._check_unreleased()
        await self.ownership.verify()

    def scope(self) -> AbstractContextManager[trio.CancelScope]:
        """Open a block that relies on a lock from :meth:`.Acquirable.acquire`. The block is cancelled when
        the lock may have been lost.

        :raises LockLost: the lock was lost, or was released before the block began.
        """
        self._check_unreleased()
        return self.ownership.scope()

    def _check_unreleased(self) -> None:
        if self.released:  # another task may have the ownership now
            raise LockLost(LossReason.RELEASED, self.path)

    async def release(self) -> None:
        """Release the lock. A lost connection is not an error: the client then deletes the znodes later. If
        the lock was entered several times, only the last call releases the lock.

        :raises LockLost: the lock was lost before.
        :raises NoAuthError: the ACL does not permit the deletion of the znode.
        """
        self.ownership.inspect()
        await self.end()
        self.ownership.raise_if_lost()

    async def end(self) -> None:
        """Do the same as :meth:`release`, but raise no :class:`LockLost`."""
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
        self.ownership.check()
        self._depth += 1

    def passed_on(self) -> Grant:
        """Return a grant of the same lock for another task of this process. The present grant ends."""
        self._depth = 0
        grant = attrs.evolve(self, depth=1, on_release=None)
        for part in parts(self.ownership):
            part.on_data = grant.data_changed
        return grant

    async def surrender(self) -> None:
        """Delete the znodes."""
        self._depth = 0
        own_watch = await self.ownership.end()
        try:
            await delete(self._bound, self.paths, self._grace)
        finally:
            for watch in self._watches if own_watch is None else [*self._watches, own_watch]:
                watch.cancel()  # only needed if the deletion comes later: the deletion ends the watch

    def data_changed(self, data: bytes | None) -> None:
        """Look at the present data of the znode. The ownership calls this."""
        if data != REVOKE or self.revoked.is_set():
            return
        self.revoked.set()
        if self._on_revoke == "cancel":
            self.ownership.lose(LockRevoked(self.path))
        elif callable(self._on_revoke):
            try:
                self._on_revoke(self)
            except Exception as error:  # the block raises it: our caller is a task of the client
                self.ownership.lose(error)


async def delete(bound: Bound, paths: tuple[str, ...], grace: float) -> None:
    """Delete znodes of this session, and repeat the delete until it succeeds. This waits up to ``grace``
    seconds; without a connection it does not wait. After the wait the client's cleanup continues.

    :raises ZooKeeperError: the server refuses the deletion, for example with :class:`NoAuthError`.
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
