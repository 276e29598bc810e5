"""Made by ``python -m pyzk.bridge.generate`` from the client and the recipes: change those."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, Unpack

from ..recipes import PREDECESSOR, Contender, ContenderKind, LeaseHolder, LockLayout, LockStatistics, Strategy
from ..recipes.locks.grant import OnRevokeWord
from ..recipes.locks.lock import Lock as TrioLock
from ..recipes.locks.lock import LockRegistry as TrioLockRegistry
from ..recipes.locks.lock import contenders as trio_contenders
from ..recipes.locks.lock import revoke as trio_revoke
from ..recipes.locks.multi_lock import MultiLock as TrioMultiLock
from ..recipes.locks.options import HoldingOptions
from ..recipes.locks.role import DEFAULT_KINDS
from ..recipes.locks.rwlock import RWLock as TrioRWLock
from ..recipes.locks.rwlock import WriteLock as TrioWriteLock
from ..recipes.locks.semaphore import Semaphore as TrioSemaphore
from ..recipes.locks.semaphore_layouts import SemaphoreLayout
from ..recipes.locks.single_node import SingleNodeLock as TrioSingleNodeLock
from .client import ZooKeeper
from .grants import Acquirable, Grant, Grants, WriteGrant
from .tasks import TASKS
from .values import SharedValue
from .wrapper import TaskWrapper


class Lock(Acquirable[Grant], of=TrioLock):
    """An exclusive lock on a path.

        lock = Lock(zk, "/locks/printer")
        async with lock as grant:
            await zk.multi([grant.fence(), SetData("/printer", b"...")])

    Contenders get the lock in the order in which they came. Each contender is a child of the path. When the
    session of the holder ends, the lock is free. When the lock may have been lost, the body is cancelled
    before another client can get the lock, and the block raises :class:`LockLost`: see ``suspended``. Any
    number of tasks can use one object. Each block is a separate contender.

    :param path: the path of the parent of the contenders. A missing parent is created.
    :param data: the data of the contender's znode.
    :param layout: the libraries that see this lock's contenders. ``"curator"``: Curator, the Go client and
        aiozk. ``"kazoo"``: kazoo, the Go client and aiozk. ``"both"``: all these libraries; each contender
        then has two znodes. With every value of ``layout`` this lock waits for the contenders of all these
        libraries.
    :param reentrant: whether a task that holds the lock can enter it again. If False, a second entry raises
        :class:`Deadlock`.
    :param local_queue: whether the tasks that use this object wait in a queue of this process. With the queue
        only its first task contends at the server.
    :param max_handoffs: with ``local_queue``, the number of times in a row that the lock can be passed on to
        the next task of this process. After this number contenders of other processes get their turn. The
        token stays the same while the lock is passed on.
    :param monitor: whether the holder watches its znode (with ``layout="both"``, both znodes). A holder that
        watches notices when a client deletes the znode or asks for the lock. This costs one request for each
        znode.
    :param on_revoke: the reaction of the holder when a client asks for the lock (:func:`revoke`).
        ``"ignore"``: only set ``grant.revoked``. ``"cancel"``: the body is cancelled, and the block raises
        :class:`LockRevoked`. A function: the function is called with the grant. If the function raises an
        error, the body is cancelled, and the block raises this error.
    :param recognise: the kinds of contenders that this lock waits for.
    :param strategy: the way to wait; other strategies are only for comparisons.
    :param purpose: the kind of lock. Other recipes of this package set this parameter.
    :param grant_type: the class of the grants: :class:`.Grant` or a subclass of it.
    :param options: :class:`.HoldingOptions`: ``parents``, ``acl``, ``suspended``, ``margin``,
        ``on_session_loss``, ``cleanup_grace``.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that it does not accept.
    :raises TypeError: the value of an option has a wrong type, or an option is unknown.
    """

    _trio: TrioLock

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        layout: LockLayout = "curator",
        reentrant: bool = False,
        local_queue: bool = False,
        max_handoffs: int = 0,
        monitor: bool = True,
        on_revoke: OnRevoke = "ignore",
        recognise: frozenset[ContenderKind] = DEFAULT_KINDS,
        strategy: Strategy = PREDECESSOR,
        **options: Unpack[HoldingOptions],
    ) -> None:
        self._make(
            zk,
            path,
            data=data,
            layout=layout,
            reentrant=reentrant,
            local_queue=local_queue,
            max_handoffs=max_handoffs,
            monitor=monitor,
            on_revoke=on_revoke,
            recognise=recognise,
            strategy=strategy,
            **options,
        )

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block. Code that relies on the lock must run in ``async with grant.scope()``.
        Call ``await grant.release()`` at the end.

        :raises WouldBlock: the lock is not free, and ``wait`` is False.
        :raises Deadlock: this task holds the lock already, and the lock is not reentrant.
        :raises SequenceExhausted: the numbers of the contenders have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        return await self._call(self._trio.acquire, wait=wait)

    async def contenders(self) -> list[Contender]:
        """List the holder and the waiting contenders in order. The first contender holds the lock. If several
        readers hold the lock, the first contender is one of these readers."""
        return await self._call(self._trio.contenders)

    async def is_locked(self) -> bool:
        """Return whether any contender of any library holds the lock."""
        return await self._call(self._trio.is_locked)

    def statistics(self) -> LockStatistics:
        """Return a copy of the counters of this object."""
        return self._wrap(self._trio.statistics())


class WriteLock(Lock, of=TrioWriteLock):
    """The writing side of the lock."""

    _trio: TrioWriteLock

    async def __aenter__(self) -> WriteGrant:
        return await self._enter()


class LockRegistry(TaskWrapper, of=TrioLockRegistry):
    """The locks for any number of keys, below one path: ``async with registry["user/7"]``.

    A key can be any text that is not empty. While a task uses the object of a key, the same key returns the
    same object. So local queues and reentrancy work.

    :param options: the options of :class:`Lock`.
    """

    _trio: TrioLockRegistry

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    def __init__(self, zk: ZooKeeper, root: str, **options: Unpack[LockOptions]) -> None:
        self._make(zk, root, **options)

    def __getitem__(self, key: str) -> Lock:
        return self._look(self._trio.__getitem__, key)


class RWLock(TaskWrapper, of=TrioRWLock):
    """A read/write lock on a path. One writer or any number of readers hold the lock. Contenders get the lock
    in the order in which they came.

        rw = RWLock(zk, "/config-lock")
        async with rw.read() as grant: ...
        async with rw.write() as grant:
            async with grant.downgrade(): ...

    The znodes are the same as in Curator's InterProcessReadWriteLock, in kazoo's ReadLock and WriteLock, or
    in both (``layout``). A plain lock of any library is treated as a writer. In kazoo, use its WriteLock, and
    never its plain Lock, which does not see readers (trap E-51). A writer of Curator 5.4 that becomes a
    reader goes to the end of the queue. So a waiting writer, also of this package, gets the lock while
    Curator's reader still reads.

    :param options: the options of :class:`.Lock`, except ``local_queue`` and ``max_handoffs``.
    """

    _trio: TrioRWLock

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def __init__(self, zk: ZooKeeper, path: str, **options: Unpack[RWLockOptions]) -> None:
        self._make(zk, path, **options)

    def read(self) -> Lock:
        """Return the reading side: a lock that several readers can hold at the same time."""
        return self._wrap(self._trio.read())

    def write(self) -> WriteLock:
        """Return the writing side, whose grants are :class:`WriteGrant`."""
        return self._wrap(self._trio.write())


class SingleNodeLock(Acquirable[Grant], of=TrioSingleNodeLock):
    """An exclusive lock that consists of one ephemeral znode.

        async with SingleNodeLock(zk, "/exclusive/lock") as grant:
            ...

    Use this class only if other programs use such a znode, or for comparisons. Otherwise use :class:`.Lock`:

    * There is no queue. The fastest contender gets the lock. A contender with a slow connection may wait for
      ever.
    * Each release wakes all waiting contenders. All waiting contenders try to create the znode, and only one
      contender succeeds. A failed create also costs the ensemble a write (trap E-63). N contenders cost N +
      N(N-1)/2 creates, at most N + N(N-1)/2 lists, and at most N(N-1) events. N contenders of :class:`.Lock`
      cost 6N-2 requests and 2N-1 events, or 5N-2 requests and N-1 events with ``monitor=False``.
    * ``grant.fence()`` only checks that the znode exists. If an operator has deleted the znode, and another
      client has created it again, the check still succeeds. But the tokens of the two znodes differ.

    All other guarantees are the same as for any :class:`.Grant`. The tasks of one client take turns, in the
    order in which they came.

    :param path: the path of the znode. Its parent should have no other children: waiting contenders watch the
        parent, and each new or deleted child wakes them.
    :param data: the data of the znode.
    :param options: the options: see :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that it does not accept.
    """

    _trio: TrioSingleNodeLock

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    def __init__(
        self, zk: ZooKeeper, path: str, *, data: bytes = b"", **options: Unpack[HoldingOptions]
    ) -> None:
        self._make(zk, path, data=data, **options)

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block. Code that relies on the lock must run in ``async with grant.scope()``.
        Call ``await grant.release()`` at the end.

        :raises WouldBlock: the znode exists or another task has the turn, and ``wait`` is False.
        :raises Deadlock: this task already holds the lock.
        :raises ClosingError: the client was closed.
            :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        return await self._call(self._trio.acquire, wait=wait)


class Semaphore(Acquirable[Grant], of=TrioSemaphore):
    """A limited number of leases, each of which has at most one holder.

        semaphore = Semaphore(zk, "/licences", 5)
        async with semaphore as lease:
            ...
        async with semaphore.acquire_many(2) as leases:  # both leases, or none
            ...

    A lease is a :class:`.Grant` and gives the same guarantees as a lock. The lease ends with the session.
    When the lease may have been lost, the body is cancelled, and the block raises :class:`LockLost`. The
    token of a lease is the czxid of its znode. Leases that were acquired together have the same token. A task
    can hold several leases. Acquiring and releasing a lease costs 8 requests; with ``layout="kazoo"`` it
    costs 9 requests.

    :param path: the path of the semaphore. A missing znode is created.
    :param limit: the number of leases.
    :param layout: the znodes of the semaphore. ``"curator"``: the znodes of Curator's
        InterProcessSemaphoreV2, ``<path>/locks`` and ``<path>/leases``. ``"kazoo"``: the znodes of kazoo's
        Semaphore. In this layout the leases are below the path, the gate is at ``<path>-__lock__``, and the
        limit is the data of the path's znode, which is persistent. The two layouts do not see each other, so
        all users of a path must use the same layout. Children of another layout are logged once. With
        ``"kazoo"`` each of them takes up a lease, as in kazoo.
    :param limit_source: a shared value that holds the number of leases. While it has no value, ``limit`` is
        used. A higher limit takes effect at once. With a lower limit, no lease is granted until enough leases
        were released. ``layout="kazoo"`` does not permit this option, because its limit is fixed.
    :param data: the data of the leases' znodes.
    :param options: the options: see :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that it does not accept.
    """

    _trio: TrioSemaphore

    @property
    def zk(self) -> ZooKeeper:
        return self._wrap(self._trio.zk)

    @property
    def path(self) -> str:
        return self._trio.path

    @property
    def limit(self) -> int:
        return self._trio.limit

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        limit: int,
        *,
        layout: SemaphoreLayout = "curator",
        limit_source: SharedValue[int] | None = None,
        data: bytes = b"",
        **options: Unpack[HoldingOptions],
    ) -> None:
        self._make(zk, path, limit, layout=layout, limit_source=limit_source, data=data, **options)

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire a lease without a block. Code that relies on the lease must run in ``async with lease.scope()``.
        Call ``await lease.release()`` at the end.

        :raises WouldBlock: ``wait`` is False, and no lease is free or another contender acquires or waits.
        :raises InconsistentLimit: another limit is stored at the path, with ``layout="kazoo"``.
        :raises SequenceExhausted: the sequence numbers of the contenders or of the leases have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        :raises MalformedValue: ``limit_source`` holds no number.
        """
        return await self._call(self._trio.acquire, wait=wait)

    def acquire_many(self, count: int, *, wait: bool = True) -> AbstractAsyncContextManager[Grants]:
        """Acquire several leases, all or none: ``async with semaphore.acquire_many(3) as leases``. Each lease
        can be released separately before the block ends. The block raises the errors of :meth:`acquire`.

        :raises ValueError: ``count`` is lower than 1, or higher than a fixed limit.
        """
        return self._block(self._trio.acquire_many(count, wait=wait))

    async def holders(self) -> list[LeaseHolder]:
        """List the holders of leases of all libraries, the oldest lease first. With ``layout="kazoo"`` the
        list has also the other children, because they take up leases.

        This costs one list of the children and one read of each child. A lease that ends during the call is
        left out.
        """
        return await self._call(self._trio.holders)


class MultiLock(Acquirable[Grants], of=TrioMultiLock):
    """Several locks that a block holds together.

        transfer = MultiLock([Lock(zk, "/accounts/7"), Lock(zk, "/accounts/3")])
        async with transfer as (seven, three):
            ...

    A member can be a :class:`.Lock`, one of the two sides of an :class:`.RWLock`, a :class:`.Semaphore` or a
    :class:`.SingleNodeLock`. The members are acquired one after the other, always in the order of their
    paths. So two objects of this class never wait for each other (trap E-58). The members are released in the
    reverse order. The loss of a member cancels the body, and also the wait for the next member. Each grant
    has its own token. The grants are in the order in which the members were given. A deadlock is still
    possible between clients with different chroots, because their paths differ. A deadlock is also possible
    with code that acquires the same locks one by one in another order.

    :param locks: the members. Two members of the same class must have different paths. For several leases of
        one semaphore use :meth:`.Semaphore.acquire_many`.
    :raises ValueError: two members of the same class have the same path.
    """

    _trio: TrioMultiLock

    @property
    def locks(self) -> tuple[AnyLock, ...]:
        return self._wrap(self._trio.locks)

    def __init__(self, locks: Iterable[AnyLock]) -> None:
        self._make(locks)

    async def acquire(self, *, wait: bool = True) -> Grants:
        """Acquire all members or none. If one member cannot be acquired, the acquired members are released.

        :raises LockLost: a member was lost during the wait for the others.
        :raises Exception: the error of a member's ``acquire``.
        """
        return await self._call(self._trio.acquire, wait=wait)


async def contenders(
    zk: ZooKeeper, path: str, recognise: frozenset[ContenderKind] = DEFAULT_KINDS
) -> list[Contender]:
    """List the holder of a lock and the waiting contenders of all libraries in order.

    This costs one request for the list of children, and one request for each child. A contender that leaves
    during the call is left out. A contender with ``layout="both"`` is listed twice, once for each of its
    znodes.
    """
    return await TASKS.ask(trio_contenders, zk, path, recognise)


async def revoke(zk: ZooKeeper, contender: Contender | str) -> None:
    """Ask a holder to give a lock back. The holder can ignore the request. Curator's revocable locks and the
    locks of this package (``on_revoke``) understand it. If the contender has left, nothing happens.

    :param contender: a contender from :meth:`Lock.contenders`, or the path of its znode.
    """
    return await TASKS.ask(trio_revoke, zk, contender)


OnRevoke: TypeAlias = OnRevokeWord | Callable[[Grant], object]


class ElectionOptions(HoldingOptions, total=False):
    """The options of elections: see :class:`.Lock`."""

    on_revoke: OnRevoke
    strategy: Strategy


class RWLockOptions(ElectionOptions, total=False):
    """The options of read/write locks: see :class:`.Lock`."""

    data: bytes
    layout: LockLayout
    reentrant: bool
    monitor: bool
    recognise: frozenset[ContenderKind]


class LockOptions(RWLockOptions, total=False):
    """The options of locks: see :class:`.Lock`."""

    local_queue: bool
    max_handoffs: int


AnyLock: TypeAlias = Lock | Semaphore | SingleNodeLock
