"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from ..client import ACL, Check
from ..recipes import LossReason
from ..recipes.locks.acquiring import Acquirable as TrioAcquirable
from ..recipes.locks.acquiring import Grants as TrioGrants
from ..recipes.locks.grant import Grant as TrioGrant
from ..recipes.locks.rwlock import WriteGrant as TrioWriteGrant
from .client import ZooKeeper
from .wrapper import TaskWrapper

G = TypeVar("G")


class Acquirable(TaskWrapper, Generic[G], of=TrioAcquirable):
    """The base of everything that ``async with`` acquires: each block anew, for any number of tasks."""

    _trio: TrioAcquirable[Any]

    async def acquire(self, *, wait: bool = True) -> G:
        """Acquire without a block. Run the code that relies on the grant in ``async with grant.scope()``, and call
        ``await grant.release()`` at the end."""
        return await self._call(self._trio.acquire, wait=wait)

    async def __aenter__(self) -> G:
        return await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._leave(kind, error, tb)

    def nowait(self) -> AbstractAsyncContextManager[G]:
        """Acquire without waiting: ``async with lock.nowait() as grant``.

        :raises WouldBlock: another holds it, or waits for it.
        """
        return self._block(self._trio.nowait())


class Grant(TaskWrapper, of=TrioGrant):
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

    _trio: TrioGrant

    @property
    def token(self) -> int:
        return self._trio.token

    @property
    def paths(self) -> tuple[str, ...]:
        return self._wrap(self._trio.paths)

    @property
    def sequence(self) -> int:
        return self._trio.sequence

    @property
    def retries(self) -> int:
        return self._trio.retries

    @property
    def waited(self) -> float:
        return self._trio.waited

    @property
    def shared(self) -> bool:
        return self._trio.shared

    @property
    def revoked(self) -> asyncio.Event:
        return self._wrap(self._trio.revoked)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def session_id(self) -> int:
        return self._trio.session_id

    @property
    def generation(self) -> int:
        """The generation of the session that holds the lock."""
        return self._trio.generation

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lock may belong to another."""
        return self._wrap(self._trio.lost)

    @property
    def reason(self) -> LossReason | None:
        """Why the lock is lost; None if it is not lost."""
        return self._wrap(self._trio.reason)

    @property
    def released(self) -> bool:
        return self._trio.released

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def deadline(self) -> float:
        """Return the time, in seconds by ``loop.time()``, until which the lock is certainly
        held."""
        return self._trio.deadline()

    def fence(self) -> Check:
        """Return an operation that fails unless the lock is still held. Put it first into a transaction: then
        the holder carries out the whole transaction, or nothing happens.

            await zk.multi([grant.fence(), SetData("/guarded", b"...")])

        :raises ValueError: two znodes hold this lock (``layout="both"``), and both need a check: use
            :meth:`fences`.
        """
        return self._wrap(self._trio.fence())

    def fences(self) -> list[Check]:
        """Return one operation for each znode of the lock.

            await zk.multi([*grant.fences(), SetData("/guarded", b"...")])

        The transaction fails unless the lock is still held.
        """
        return self._wrap(self._trio.fences())

    def check(self) -> None:
        """Check, by the clock and by what the client knows, that the lock is still held. Sends no request.

        :raises LockLost: it is lost, or was released.
        """
        self._look_until_limit(self._trio.check)

    def on_lost(self, function: Callable[[], object]) -> None:
        """Call ``function()`` when the lock is lost, or at once if it is lost already. A release is not a
        loss. The function must not raise."""
        self._look(self._trio.on_lost, self._notice(function))

    async def verify(self) -> None:
        """Ask the server whether the lock is still held.

        :raises LockLost: the lock is not held any more; from now on it counts as lost.
        """
        return await self._call(self._trio.verify)

    def scope(self) -> AbstractAsyncContextManager[None]:
        """Open a block that relies on the lock. Use it after :meth:`.Acquirable.acquire`. The block is
        cancelled when the lock may have been lost.

        :raises LockLost: the lock was lost, or was released before the block began.
        """
        return self._block(self._trio.scope())

    async def release(self) -> None:
        """Release the lock. A lost connection is not an error: the client then deletes the znodes later. A
        lock that was entered several times is released by the last call.

        :raises LockLost: the lock was lost before.
        :raises NoAuthError: the ACL does not allow to delete the znode.
        """
        return await self._call(self._trio.release)


class Grants(TaskWrapper, Sequence[Grant], of=TrioGrants):
    """Several grants that belong together.

    :ivar acquired: the same grants in the order in which they were acquired. They are given up in the
        reverse order.
    """

    _trio: TrioGrants

    @property
    def acquired(self) -> tuple[Grant, ...]:
        return self._wrap(self._trio.acquired)

    def scope(self) -> AbstractAsyncContextManager[None]:
        """Open a block that relies on all grants: see :meth:`.Grant.scope`."""
        return self._block(self._trio.scope())

    async def release(self) -> None:
        """Give up all grants, even if giving up some of them fails: see :meth:`.Grant.release`.

        :raises Exception: the first error, with the other errors as notes.
        """
        return await self._call(self._trio.release)

    @overload
    def __getitem__(self, at: int) -> Grant: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Grant]: ...
    def __getitem__(self, at: int | slice) -> Grant | Sequence[Grant]:
        return self._wrap(self._trio[at])

    def __len__(self) -> int:
        return len(self._trio)


class WriteGrant(Grant, of=TrioWriteGrant):
    """The grant of a writer.

    :ivar data: the data of its znodes.
    :ivar acl: the ACL of its znodes.
    """

    _trio: TrioWriteGrant

    @property
    def data(self) -> bytes:
        return self._trio.data

    @property
    def acl(self) -> Sequence[ACL]:
        return self._wrap(self._trio.acl)

    def downgrade(self) -> AbstractAsyncContextManager[Grant]:
        """Become a reader: other readers get the lock too, and no writer gets it in between.

            async with rw.write() as grant:
                ...
                async with grant.downgrade():
                    ...     # reading; after this block nothing is held any more

        The reader keeps the writer's number and token.

        :raises Deadlock: this is not the outermost block of a writer, or the writer is a reader already.
        :raises LockLost: the lock was lost.
        """
        return self._block(self._trio.downgrade())
