"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from ..bridge.exits import leaves
from ..client import ACL, Check
from ..recipes import LossReason
from ..recipes.locks.acquiring import Acquirable as TrioAcquirable
from ..recipes.locks.acquiring import Grants as TrioGrants
from ..recipes.locks.grant import Grant as TrioGrant
from ..recipes.locks.rwlock import WriteGrant as TrioWriteGrant
from .client import ZooKeeper
from .wrapper import ThreadWrapper

G = TypeVar("G")


class Acquirable(ThreadWrapper, Generic[G], of=TrioAcquirable):
    """The base of everything that ``with`` acquires. Each block acquires separately. Any number of
    threads can use one object."""

    _trio: TrioAcquirable[Any]

    def acquire(self, *, wait: bool = True) -> G:
        """Acquire without a block. Code that relies on the grant must run in ``with grant.scope()``. Call
        ``grant.release()`` at the end."""
        return self._call(self._trio.acquire, wait=wait)

    def __enter__(self) -> G:
        return self._enter()

    @leaves
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return self._leave(kind, error, tb)

    def nowait(self) -> AbstractContextManager[G]:
        """Acquire without waiting: ``with lock.nowait() as grant``.

        :raises WouldBlock: another contender holds it, or waits for it.
        """
        return self._block(self._trio.nowait())


class Grant(ThreadWrapper, of=TrioGrant):
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
    def revoked(self) -> threading.Event:
        return self._wrap(self._trio.revoked)

    @property
    def path(self) -> str:
        """The path of the znode that holds the lock."""
        return self._trio.path

    @property
    def session_id(self) -> int:
        """The id of the session that holds the lock."""
        return self._trio.session_id

    @property
    def generation(self) -> int:
        """The generation of the session that holds the lock."""
        return self._trio.generation

    @property
    def lost(self) -> threading.Event:
        """An event that is set when another client may have the lock."""
        return self._wrap(self._trio.lost)

    @property
    def reason(self) -> LossReason | None:
        """The reason for the loss of the lock; None if the lock is not lost."""
        return self._wrap(self._trio.reason)

    @property
    def released(self) -> bool:
        """True if the lock was released."""
        return self._trio.released

    @property
    def zk(self) -> ZooKeeper:
        """The client that holds the lock."""
        return self._wrap(self._trio.zk)

    def deadline(self) -> float:
        """Return the time until which the lock is certainly held, in seconds by ``time.monotonic()``."""
        return self._trio.deadline()

    def fence(self) -> Check:
        """Return an operation that succeeds only while the lock is held. Make this operation the first
        operation of a transaction. Then the server carries out the transaction only while the lock is held.

            zk.multi([grant.fence(), SetData("/guarded", b"...")])

        :raises ValueError: two znodes hold this lock (``layout="both"``). Use :meth:`fences`, which checks
            both.
        """
        return self._wrap(self._trio.fence())

    def fences(self) -> list[Check]:
        """Return a fencing operation for each znode of the lock.

            zk.multi([*grant.fences(), SetData("/guarded", b"...")])

        The transaction succeeds only while the lock is held.
        """
        return self._wrap(self._trio.fences())

    def check(self) -> None:
        """Check by the clock and the state of the client that the lock is still held. No request is sent.

        :raises LockLost: the lock is lost, or was released.
        """
        self._look_until_limit(self._trio.check)

    def on_lost(self, function: Callable[[], object]) -> None:
        """Call ``function()`` when the lock is lost, or at once if the lock is lost already. A release is not
        a loss. The function must not raise an error."""
        self._look(self._trio.on_lost, self._notice(function))

    def verify(self) -> None:
        """Ask the server whether the lock is still held.

        :raises LockLost: the lock is not held any more. From now on the grant is lost.
        """
        return self._call(self._trio.verify)

    def scope(self) -> AbstractContextManager[None]:
        """Open a block that relies on a lock from :meth:`.Acquirable.acquire`. The block is cancelled when
        the lock may have been lost.

        :raises LockLost: the lock was lost, or was released before the block began.
        """
        return self._block(self._trio.scope())

    def release(self) -> None:
        """Release the lock. A lost connection is not an error: the client then deletes the znodes later. If
        the lock was entered several times, only the last call releases the lock.

        :raises LockLost: the lock was lost before.
        :raises NoAuthError: the ACL does not permit the deletion of the znode.
        """
        return self._call(self._trio.release)


class Grants(ThreadWrapper, Sequence[Grant], of=TrioGrants):
    """Several grants that belong together.

    :ivar acquired: the same grants in the order in which they were acquired. They are released in the reverse
        order.
    """

    _trio: TrioGrants

    @property
    def acquired(self) -> tuple[Grant, ...]:
        return self._wrap(self._trio.acquired)

    def scope(self) -> AbstractContextManager[None]:
        """Open a block that relies on all the grants: see :meth:`.Grant.scope`."""
        return self._block(self._trio.scope())

    def release(self) -> None:
        """Release all grants, even if some releases fail: see :meth:`.Grant.release`.

        :raises Exception: the first error, with the other errors as notes.
        """
        return self._call(self._trio.release)

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

    :ivar data: the data of the writer's znodes.
    :ivar acl: the ACL of the writer's znodes.
    """

    _trio: TrioWriteGrant

    @property
    def data(self) -> bytes:
        return self._trio.data

    @property
    def acl(self) -> Sequence[ACL]:
        return self._wrap(self._trio.acl)

    def downgrade(self) -> AbstractContextManager[Grant]:
        """Become a reader. Then other readers can get the lock too. No writer gets the lock in between.

            with rw.write() as grant:
                ...
                with grant.downgrade():
                    ...     # reading; after this block the lock is free

        The reader keeps the writer's number and token.

        :raises Deadlock: this is not the outermost block of a writer, or the writer has already become a
            reader.
        :raises LockLost: the lock was lost.
        """
        return self._block(self._trio.downgrade())
