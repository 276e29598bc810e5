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

    Contenders get the lock in the order in which they came. Each contender is a child of the path. The end of
    its session frees the lock. When the lock may have been lost, the body is cancelled before another client
    can get the lock, and the block raises :class:`LockLost`: see ``suspended``. Any number of tasks may use
    one object. Each block is a separate contender.

    :param path: the parent of the contenders; created when it is missing.
    :param data: the data of the contender's znode.
    :param layout: the libraries that see this lock's contenders: ``"curator"`` (also Go and aiozk),
        ``"kazoo"`` (also Go and aiozk), or ``"both"``, which creates two znodes. With each layout, this lock
        waits for the contenders of all these libraries.
    :param reentrant: whether a task that holds the lock may enter it again. If not, that raises
        :class:`Deadlock`.
    :param local_queue: whether the tasks that use this object wait in a queue of this process. Then only one
        of them at a time contends at the server, with one znode.
    :param max_handoffs: with ``local_queue``, how many times in a row the lock may be passed on to the next
        task of this process before contenders elsewhere get their turn. The token stays the same.
    :param monitor: whether to watch the holder's znode (with ``layout="both"``, both znodes), so that the
        holder learns when a client deletes it or asks for the lock back. This costs one request for each
        znode.
    :param on_revoke: what the holder does when it is asked for the lock back (:func:`revoke`).
        ``"ignore"``: only set ``grant.revoked``. ``"cancel"``: the body is cancelled, and the block raises
        :class:`LockRevoked`. Or a function, called with the grant; if it raises, the body is cancelled, and
        the block raises that error.
    :param recognise: the kinds of contenders to wait for.
    :param strategy: how to wait; for comparisons.
    :param purpose: the kind of lock; the other recipes of this package use another kind.
    :param grant_type: makes the grant: :class:`.Grant` or a subclass of it.
    :param options: :class:`.HoldingOptions`: ``parents``, ``acl``, ``suspended``, ``margin``,
        ``on_session_loss``, ``cleanup_grace``.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not one of its values.
    :raises TypeError: an option has a value of another type, or there is no such option.
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
        """Acquire the lock without a block. Run the code that relies on it in ``async with grant.scope()``, and
        call ``await grant.release()`` at the end.

        :raises WouldBlock: the lock is not free, and ``wait`` is False.
        :raises Deadlock: this task holds the lock already, and the lock is not reentrant.
        :raises SequenceExhausted: the numbers of the contenders have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: with ``on_session_loss="raise"``.
        :raises ZooKeeperError: the server refuses a request, such as :class:`NoAuthError`.
        """
        return await self._call(self._trio.acquire, wait=wait)

    async def contenders(self) -> list[Contender]:
        """List the holder and the waiting contenders, in order. The first one holds the lock. If several
        readers hold it, the first one is one of them."""
        return await self._call(self._trio.contenders)

    async def is_locked(self) -> bool:
        """Return whether any contender of any library holds the lock."""
        return await self._call(self._trio.is_locked)

    def statistics(self) -> LockStatistics:
        """Return a copy of the counters of this object."""
        return self._wrap(self._trio.statistics())


class WriteLock(Lock, of=TrioWriteLock):
    """The writing side."""

    _trio: TrioWriteLock

    async def __aenter__(self) -> WriteGrant:
        return await self._enter()


class LockRegistry(TaskWrapper, of=TrioLockRegistry):
    """One lock for each key, below one path: ``async with registry["user/7"]``.

    A key may be any text that is not empty. A key gives the same object as long as a task uses that object,
    so local queues and reentrancy work.

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
    """A read/write lock on a path: one writer, or any number of readers, in the order in which they came.

        rw = RWLock(zk, "/config-lock")
        async with rw.read() as grant: ...
        async with rw.write() as grant:
            async with grant.downgrade(): ...

    The znodes are those of Curator's InterProcessReadWriteLock, of kazoo's ReadLock and WriteLock, or of both
    (``layout``). A plain lock of any library counts as a writer. Beside kazoo use its WriteLock, never its
    plain Lock, which does not see readers (trap E-51). A writer of Curator 5.4 that becomes a reader goes to
    the end of the queue, so a writer that waits, ours too, gets in beside it.

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
        """Return the reading side: a lock that several readers can hold at a time."""
        return self._wrap(self._trio.read())

    def write(self) -> WriteLock:
        """Return the writing side, whose grants are :class:`WriteGrant`."""
        return self._wrap(self._trio.write())


class SingleNodeLock(Acquirable[Grant], of=TrioSingleNodeLock):
    """An exclusive lock that is one ephemeral znode.

        async with SingleNodeLock(zk, "/exclusive/lock") as grant:
            ...

    Use :class:`.Lock` instead, unless other programs use such a znode, or for a comparison:

    * There is no queue. The fastest contender gets the lock; one with a slow connection may wait for ever.
    * Each release wakes all contenders that wait. Each tries to create the znode, and all but one fail. A
      failed create costs the ensemble a write all the same (trap E-63). N contenders cost N + N(N-1)/2
      creates, up to as many lists, and up to N(N-1) events. :class:`.Lock` costs 6N-2 requests and 2N-1
      events, or 5N-2 and N-1 with ``monitor=False``.
    * ``grant.fence()`` only checks that the znode exists. It does not notice that an operator has deleted the
      znode and another client has created it since. The token tells the two apart.

    In everything else its :class:`.Grant` has the guarantees of any other grant. The tasks of one client take
    turns, first come, first served.

    :param path: the znode. Give it a parent of its own: contenders that wait watch the parent, and every
        child that comes or goes wakes them.
    :param data: the data of the znode.
    :param options: :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not one of its values.
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
        """Acquire the lock without a block: run what relies on it in ``async with grant.scope()``, and call
        ``await grant.release()`` at the end.

        :raises WouldBlock: the znode exists or it is another task's turn, and ``wait`` is False.
        :raises Deadlock: this task holds the lock already.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: with ``on_session_loss="raise"``.
        :raises ZooKeeperError: the server refuses a request, such as :class:`NoAuthError`.
        """
        return await self._call(self._trio.acquire, wait=wait)


class Semaphore(Acquirable[Grant], of=TrioSemaphore):
    """A limited number of leases, each of which has at most one holder.

        semaphore = Semaphore(zk, "/licences", 5)
        async with semaphore as lease:
            ...
        async with semaphore.acquire_many(2) as leases:  # both or none
            ...

    A lease is a :class:`.Grant` and gives the same guarantees as a lock: it ends with the session. When it
    may have been lost, the body is cancelled, and the block raises :class:`LockLost`. Its token is the czxid
    of its znode; leases that were acquired together have the same token. A task may hold several leases.

    To acquire and release costs 8 requests, with ``layout="kazoo"`` 9.

    :param path: created when it is missing.
    :param limit: how many leases there are.
    :param layout: ``"curator"``: the znodes of Curator's InterProcessSemaphoreV2, ``<path>/locks`` and
        ``<path>/leases``. ``"kazoo"``: the znodes of kazoo's Semaphore: the leases below the path, the gate
        at ``<path>-__lock__``, and the limit as the data of the path, which is then persistent. The two do
        not see each other: choose one for all users of a path. Children of another layout are logged once;
        with ``"kazoo"`` each of them takes up a lease, as it does for kazoo.
    :param limit_source: a shared value that holds the number of leases. While it has no value, ``limit`` is
        used. A higher limit takes effect at once. With a lower limit, no lease is granted until enough leases
        were released. Not possible with ``layout="kazoo"``, whose limit is fixed.
    :param data: the data of the leases' znodes.
    :param options: :class:`.HoldingOptions`.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: an option has a value that is not one of its values.
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
        """Acquire a lease without a block. Run the code that relies on it in ``async with lease.scope()``, and call
        ``await lease.release()`` at the end.

        :raises WouldBlock: ``wait`` is False, and no lease is free, or another contender acquires or waits.
        :raises InconsistentLimit: with ``layout="kazoo"``, the limit stored at the path is another one.
        :raises SequenceExhausted: the numbers of the contenders or of the leases have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: with ``on_session_loss="raise"``.
        :raises ZooKeeperError: the server refuses a request, such as :class:`NoAuthError`.
        :raises MalformedValue: ``limit_source`` holds no number.
        """
        return await self._call(self._trio.acquire, wait=wait)

    def acquire_many(self, count: int, *, wait: bool = True) -> AbstractAsyncContextManager[Grants]:
        """Acquire several leases, all or none: ``async with semaphore.acquire_many(3) as leases``. Each lease
        may be released by itself before the block ends. It raises the errors of :meth:`acquire`.

        :raises ValueError: ``count`` is lower than 1, or higher than a fixed limit.
        """
        return self._block(self._trio.acquire_many(count, wait=wait))

    async def holders(self) -> list[LeaseHolder]:
        """List the holders of leases, the oldest lease first, whatever library created them; with
        ``layout="kazoo"`` also the other children, which count as leases.

        Costs a list of the children and a read of each. A lease that goes meanwhile is left out.
        """
        return await self._call(self._trio.holders)


class MultiLock(Acquirable[Grants], of=TrioMultiLock):
    """Several locks; a block holds all of them.

        transfer = MultiLock([Lock(zk, "/accounts/7"), Lock(zk, "/accounts/3")])
        async with transfer as (seven, three):
            ...

    The members may be :class:`.Lock`, either side of an :class:`.RWLock`, :class:`.Semaphore` and
    :class:`.SingleNodeLock`. They are acquired one after the other in the order of their paths, whatever
    order they were given in. So two objects of this class never wait for each other (trap E-58). They are
    released in the reverse order. The loss of a member cancels the body, and also the wait for the next
    member. Each grant has a token of its own; the grants come in the order in which the members were given.

    Paths decide on the order. So a deadlock is still possible between clients with different chroots, and
    with code that takes the same locks one by one in another order.

    :param locks: the members. Two members of one class have different paths. (For several leases of one
        semaphore use :meth:`.Semaphore.acquire_many`.)
    :raises ValueError: two members of one class have the same path.
    """

    _trio: TrioMultiLock

    @property
    def locks(self) -> tuple[AnyLock, ...]:
        return self._wrap(self._trio.locks)

    def __init__(self, locks: Iterable[AnyLock]) -> None:
        self._make(locks)

    async def acquire(self, *, wait: bool = True) -> Grants:
        """Acquire all members, or none: if one fails, the others are given up.

        :raises LockLost: a member was lost during the wait for the others.
        :raises Exception: an error of a member's ``acquire``.
        """
        return await self._call(self._trio.acquire, wait=wait)


async def contenders(
    zk: ZooKeeper, path: str, recognise: frozenset[ContenderKind] = DEFAULT_KINDS
) -> list[Contender]:
    """List the holder of a lock and the waiting contenders of all libraries, in order.

    This costs one request for the list of children, and one for each child. A contender that leaves meanwhile
    is left out. A contender of ``layout="both"`` is listed twice, once for each of its znodes.
    """
    return await TASKS.ask(trio_contenders, zk, path, recognise)


async def revoke(zk: ZooKeeper, contender: Contender | str) -> None:
    """Ask a holder to give a lock back. The holder may ignore that. Curator's revocable locks understand the
    request, and so do the locks of this package (``on_revoke``). If the contender has left, nothing happens.

    :param contender: one of :meth:`Lock.contenders`, or the path of its znode.
    """
    return await TASKS.ask(trio_revoke, zk, contender)


OnRevoke: TypeAlias = OnRevokeWord | Callable[[Grant], object]


class ElectionOptions(HoldingOptions, total=False):
    """The options of elections; :class:`.Lock` says what each means."""

    on_revoke: OnRevoke
    strategy: Strategy


class RWLockOptions(ElectionOptions, total=False):
    """The options of read/write locks; :class:`.Lock` says what each means."""

    data: bytes
    layout: LockLayout
    reentrant: bool
    monitor: bool
    recognise: frozenset[ContenderKind]


class LockOptions(RWLockOptions, total=False):
    """The options of locks; :class:`.Lock` says what each means."""

    local_queue: bool
    max_handoffs: int


AnyLock: TypeAlias = Lock | Semaphore | SingleNodeLock
