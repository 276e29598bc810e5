"""The lock: exclusive and fair, for any number of processes (recipe-rules.md D.3).

The rules:

* ``async with lock`` calls :meth:`.Acquirable.__aenter__`, which calls :meth:`Lock.acquire`, which calls
  :func:`.contender.contend`.
* Every block is a separate contender, even if several tasks use one object. With ``local_queue`` the tasks of
  one object take turns, and only one of them contends.
* A task that already holds the lock and acquires it again would wait for itself. Such an acquire raises
  :class:`Deadlock`. With ``reentrant`` the task enters the lock again instead.
* :meth:`Lock.contenders` and :meth:`Lock.is_locked` read from the server at each call. No result is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Unpack
from urllib.parse import quote
from weakref import WeakValueDictionary

import attrs
import trio

from ...client import GetData, NoNodeError, Stat, ZooKeeper, paths
from ...client.repeating import repeat
from ...protocol.layouts import ContenderKind, in_order
from ..base.choices import check_choice
from ..base.holder import current_holder
from ..base.tracebacks import SHORT, shorten
from ..errors import Deadlock
from .acquiring import Acquirable
from .contender import Contest, contend
from .grant import REVOKE, Grant, OnRevoke, OnRevokeWord
from .local_queue import LocalQueue
from .options import Holding, HoldingOptions, LockOptions
from .role import DEFAULT_KINDS, LockKind, LockLayout, Role
from .strategy import PREDECESSOR, Strategy


@attrs.frozen
class Contender:
    """The holder of a lock, or a contender that waits for the lock.

    :ivar name: the name of the contender's znode; ``path`` is the path of this znode.
    :ivar data: the data of its znode.
    :ivar stat: the Stat of its znode. ``stat.ephemeralOwner`` is the id of its session. ``stat.ctime`` is the
        time in ms since the epoch when the contender came.
    """

    path: str
    name: str
    kind: ContenderKind
    sequence: int
    data: bytes
    stat: Stat


@attrs.define
class LockStatistics:
    """The counters of one lock object in this process.

    :ivar holding: the number of tasks that hold the lock now.
    :ivar waiting: the number of tasks that wait for the lock now.
    :ivar acquired: the number of times that the lock was granted.
    :ivar local_handoffs: the number of grants in ``acquired`` that came from another task of this process,
        without a request.
    :ivar retries: the number of times that a waiting contender had to begin anew.
    """

    holding: int = 0
    waiting: int = 0
    acquired: int = 0
    local_handoffs: int = 0
    retries: int = 0


class Lock(Acquirable[Grant]):
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
        purpose: LockKind = LockKind.LOCK,
        grant_type: Callable[..., Grant] = Grant,
        **options: Unpack[HoldingOptions],
    ) -> None:
        super().__init__()
        paths.validate_path(path)
        if max_handoffs and not local_queue:
            raise ValueError("max_handoffs needs local_queue=True")
        if not callable(on_revoke):
            check_choice("on_revoke", on_revoke, OnRevokeWord)
        self.zk = zk
        self.path = path
        self._contest = Contest(
            zk=zk,
            path=path,
            role=Role(purpose, layout, recognise),
            data=data,
            holding=Holding(**options),
            strategy=strategy,
            monitor=monitor,
            on_revoke=on_revoke,
            grant_type=grant_type,
        )
        self._reentrant = reentrant
        self._local = LocalQueue(zk, max_handoffs) if local_queue else None
        self._held: dict[object, Grant] = {}
        self._statistics = LockStatistics()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    # --- holding it --------------------------------------------------------------------------------------

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block. Code that relies on the lock must run in ``with grant.scope()``.
        Call ``await grant.release()`` at the end.

        :raises WouldBlock: the lock is not free, and ``wait`` is False.
        :raises Deadlock: this task holds the lock already, and the lock is not reentrant.
        :raises SequenceExhausted: the numbers of the contenders have run out.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        holder = current_holder()
        held = self._held.get(holder)
        if held is not None:
            self._enter_again(held)  # at once, before another task can release it
            await trio.lowlevel.cancel_shielded_checkpoint()
            return held
        statistics, local = self._statistics, self._local
        statistics.waiting += 1
        try:
            passed = await local.enter(self.path, wait=wait) if local is not None else None
            try:
                grant = passed or await contend(self._contest, wait=wait)
            except BaseException:
                if local is not None:
                    local.leave()
                raise
        except SHORT as error:
            shorten(error)
            raise
        finally:
            statistics.waiting -= 1
        statistics.holding += 1
        statistics.acquired += 1
        if passed is not None:
            statistics.local_handoffs += 1
        else:
            statistics.retries += grant.retries
        self._held[holder] = grant
        grant.on_release = partial(self._release, holder)
        return grant

    def _enter_again(self, held: Grant) -> None:
        if not self._reentrant:
            raise Deadlock(f"this task holds {self!r} already; release it first, or use reentrant=True")
        held.enter_again()

    async def _release(self, holder: object, grant: Grant) -> None:
        self._statistics.holding -= 1
        if self._held.get(holder) is grant:
            del self._held[holder]
        if self._local is None:
            await grant.surrender()
        elif not self._local.pass_on(grant):
            try:
                await grant.surrender()
            finally:
                self._local.leave()

    # --- looking at it -----------------------------------------------------------------------------------

    async def contenders(self) -> list[Contender]:
        """List the holder and the waiting contenders in order. The first contender holds the lock. If several
        readers hold the lock, the first contender is one of these readers."""
        return await contenders(self.zk, self.path, self._contest.role.recognise)

    async def is_locked(self) -> bool:
        """Return whether any contender of any library holds the lock."""
        try:
            names = await repeat(self.zk, lambda: self.zk.get_children(self.path))
        except NoNodeError:
            return False
        recognise = self._contest.role.recognise
        return any(contender.kind in recognise for contender in in_order(names)[0])

    def statistics(self) -> LockStatistics:
        """Return a copy of the counters of this object."""
        return attrs.evolve(self._statistics)


async def contenders(
    zk: ZooKeeper, path: str, recognise: frozenset[ContenderKind] = DEFAULT_KINDS
) -> list[Contender]:
    """List the holder of a lock and the waiting contenders of all libraries in order.

    This costs one request for the list of children, and one request for each child. A contender that leaves
    during the call is left out. A contender with ``layout="both"`` is listed twice, once for each of its
    znodes.
    """
    try:
        names = await repeat(zk, lambda: zk.get_children(path))
    except NoNodeError:
        return []
    reads = [
        (contender, child, zk.submit(GetData(child)))
        for contender in in_order(names)[0]
        if contender.kind in recognise
        for child in [paths.join(path, contender.name)]
    ]
    found = []
    for contender, child, read in reads:
        with suppress(NoNodeError):
            data, stat = await read.wait()
            found.append(
                Contender(child, contender.name, contender.kind, contender.sequence, data or b"", stat)
            )
    return found


async def revoke(zk: ZooKeeper, contender: Contender | str) -> None:
    """Ask a holder to give a lock back. The holder can ignore the request. Curator's revocable locks and the
    locks of this package (``on_revoke``) understand it. If the contender has left, nothing happens.

    :param contender: a contender from :meth:`Lock.contenders`, or the path of its znode.
    """
    path = contender if isinstance(contender, str) else contender.path
    with suppress(NoNodeError):
        await repeat(zk, lambda: zk.set(path, REVOKE))


class LockRegistry:
    """The locks for any number of keys, below one path: ``async with registry["user/7"]``.

    A key can be any text that is not empty. While a task uses the object of a key, the same key returns the
    same object. So local queues and reentrancy work.

    :param options: the options of :class:`Lock`.
    """

    def __init__(self, zk: ZooKeeper, root: str, **options: Unpack[LockOptions]) -> None:
        paths.validate_path(root)
        self.zk = zk
        self._root = root
        self._options = options
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def __getitem__(self, key: str) -> Lock:
        lock = self._locks.get(key)
        if lock is None:
            name = quote(key, safe="")
            if not name.strip("."):
                name = name.replace(".", "%2E")  # the names . and .. are not allowed in a path
            lock = self._locks[key] = Lock(self.zk, paths.join(self._root, name), **self._options)
        return lock
