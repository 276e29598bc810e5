"""The lock: exclusive, fair, for any number of processes (recipe-rules.md D.3)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal
from urllib.parse import quote
from weakref import WeakValueDictionary

import attrs
import trio

from ...client import ACL, GetData, NoNodeError, Stat, ZooKeeper, repeat
from ...protocol.paths import join, validate_path
from ..base.creating import Parents
from ..base.hold import Suspended
from ..errors import Deadlock
from .contender import Contested, Terms, contend
from .grant import REVOKE, Grant, OnRevoke
from .local_queue import LocalQueue
from .names import DEFAULT_KINDS, Kind, Naming, Purpose, queue
from .strategy import PREDECESSOR, Strategy


@attrs.frozen
class Contender:
    """One who holds a lock or waits for it.

    :ivar name: of its znode; ``path`` is the whole path.
    :ivar data: what it has put there.
    :ivar stat: ``stat.ephemeralOwner`` is its session, ``stat.ctime`` (ms since the epoch) when it came.
    """

    path: str
    name: str
    kind: Kind
    sequence: int
    data: bytes
    stat: Stat


@attrs.define
class LockStatistics:
    """What a lock object is doing and has done, in this process.

    :ivar holding: how many tasks hold it now; ``waiting``: how many wait.
    :ivar acquired: how many times it was granted; ``handed_on`` of them without asking the server.
    :ivar requeues: how many times a waiting contender had to begin anew.
    """

    holding: int = 0
    waiting: int = 0
    acquired: int = 0
    handed_on: int = 0
    requeues: int = 0


class Lock(Contested):
    """An exclusive lock on a path.

        lock = Lock(zk, "/locks/printer")
        async with lock as grant:
            await zk.multi([grant.fence(), SetData("/printer", b"...")])

    First come, first served. Each contender is a child of the path; the end of its session frees the lock.
    The body is cancelled, and :class:`LockLost` raised, when the lock may have been lost, before another can
    have it: see ``suspended``. One object may be used by any number of tasks; each is a contender of its own.

    :param path: the directory of the contenders; created when it is missing.
    :param data: what the contender's znode holds.
    :param naming: which libraries see our contenders: ``"curator"`` (also Go and aiozk), ``"kazoo"`` (also Go
        and aiozk), or ``"both"``, which creates two znodes. Ours queue behind those of all of them.
    :param reentrant: whether a task that holds it may enter again. If not, that raises :class:`Deadlock`.
    :param local_queue: tasks of this object queue here, and one of them at a time at the server: a single
        znode and a single waiter, however many tasks there are.
    :param max_handoffs: with ``local_queue``, how many times a lock may be passed on to the next task here
        before others get their turn. The token stays the same.
    :param parents: how a missing path is created: as containers, which the server removes again some time
        after the last contender has gone, or persistent.
    :param suspended: when the holder loses the lock for want of a connection: ``"deadline"``, once the
        session may have expired; ``"cancel"``, at once; ``"ignore"``, only when it has.
    :param margin: seconds by which the lease is taken to be shorter, see :class:`.Hold`.
    :param on_session_loss: whether one who waits begins anew when its session expires, or raises
        :class:`SessionExpiredError`.
    :param monitor: watch the own znode (of ``naming="both"``, both), so that the holder learns when somebody
        deletes it or asks for the lock back; costs one request for each.
    :param on_revoke: what the holder does when asked for the lock back (:func:`revoke`): nothing but setting
        ``grant.revoked``, or being cancelled with :class:`LockRevoked`; or a function to call with the grant.
        What that raises cancels the body, which raises it.
    :param recognise: the kinds of contenders to queue behind.
    :param acl: of what is created; everything for everyone if None.
    :param strategy: how to wait; for comparisons.
    :param cleanup_grace: seconds that giving up or releasing may wait for the server.
    """

    _purpose = Purpose.LOCK
    _grant_type = Grant

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        naming: Naming = "curator",
        reentrant: bool = False,
        local_queue: bool = False,
        max_handoffs: int = 0,
        parents: Parents = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        on_session_loss: Literal["requeue", "raise"] = "requeue",
        monitor: bool = True,
        on_revoke: OnRevoke = "ignore",
        recognise: frozenset[Kind] = DEFAULT_KINDS,
        acl: Sequence[ACL] | None = None,
        strategy: Strategy = PREDECESSOR,
        cleanup_grace: float = 1.0,
    ) -> None:
        if max_handoffs and not local_queue:
            raise ValueError("max_handoffs needs local_queue=True")
        super().__init__(
            Terms(
                zk=zk,
                path=path,
                purpose=self._purpose,
                naming=naming,
                data=data,
                parents=parents,
                acl=acl,
                suspended=suspended,
                margin=margin,
                on_session_loss=on_session_loss,
                monitor=monitor,
                on_revoke=on_revoke,
                recognise=recognise,
                strategy=strategy,
                cleanup_grace=cleanup_grace,
                grant_type=self._grant_type,
            )
        )
        self._reentrant = reentrant
        self._local = LocalQueue(max_handoffs) if local_queue else None
        self._held: dict[trio.lowlevel.Task, Grant] = {}
        self._statistics = LockStatistics()

    # --- holding it --------------------------------------------------------------------------------------

    async def acquire(self, *, wait: bool = True) -> Grant:
        """The manual form: acquire it, run what relies on it in ``with grant.scope()``, and call
        ``await grant.release()`` in the end.

        Raises :class:`WouldBlock` with ``wait=False``; :class:`Deadlock` if this task holds it already and it
        is not reentrant; :class:`SequenceExhausted`, :class:`ClosingError`, what the server refuses.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        held = self._held.get(task)
        if held is not None:
            self._enter_again(held)  # before anybody else can release it
            await trio.lowlevel.cancel_shielded_checkpoint()
            return held
        self._statistics.waiting += 1
        try:
            grant = await self._acquire(wait)
        finally:
            self._statistics.waiting -= 1
        self._statistics.holding += 1
        self._statistics.acquired += 1
        self._held[task] = grant
        grant.on_release = partial(self._release, task)
        return grant

    def _enter_again(self, held: Grant) -> None:
        if not self._reentrant:
            raise Deadlock(f"this task holds {self!r} already, which is not reentrant")
        held.enter_again()

    async def _acquire(self, wait: bool) -> Grant:
        """Have it handed on by another task here, or contend for it."""
        if self._local is None:
            return await self._contend(wait)
        passed = await self._local.enter(self.path, wait=wait)
        try:
            if passed is not None:
                if not passed.lost.is_set():
                    self._statistics.handed_on += 1
                    return passed
                await passed.surrender()
            return await self._contend(wait)
        except BaseException:
            self._local.leave()
            raise

    async def _contend(self, wait: bool) -> Grant:
        grant = await contend(self._terms, wait=wait)
        self._statistics.requeues += grant.requeues
        return grant

    async def _release(self, task: trio.lowlevel.Task, grant: Grant) -> None:
        self._statistics.holding -= 1
        if self._held.get(task) is grant:
            del self._held[task]
        if self._local is None:
            await grant.surrender()
        elif not self._local.pass_on(grant):
            try:
                await grant.surrender()
            finally:
                self._local.leave()

    # --- looking at it -----------------------------------------------------------------------------------

    async def contenders(self) -> list[Contender]:
        """Who holds it and who waits, in order; the first is the holder (or the first of several readers)."""
        return await contenders(self.zk, self.path, self._terms.recognise)

    async def locked(self) -> bool:
        """Whether anybody holds it: any contender, ours or another's."""
        try:
            names = await repeat(self.zk, lambda: self.zk.get_children(self.path))
        except NoNodeError:
            return False
        return any(place.kind in self._terms.recognise for place in queue(names)[0])

    def statistics(self) -> LockStatistics:
        """What this object is doing and has done."""
        return attrs.evolve(self._statistics)


async def contenders(zk: ZooKeeper, path: str, recognise: frozenset[Kind] = DEFAULT_KINDS) -> list[Contender]:
    """Who holds a lock and who waits for it, in order, whatever library they use. A list and a read of each;
    those that go meanwhile are left out. Of the two znodes of a bridge both are shown."""
    try:
        names = await repeat(zk, lambda: zk.get_children(path))
    except NoNodeError:
        return []
    reads = [
        (place, join(path, place.name), zk.submit(GetData(join(path, place.name))))
        for place in queue(names)[0]
        if place.kind in recognise
    ]
    found = []
    for place, child, read in reads:
        try:
            data, stat = await read.wait()
        except NoNodeError:
            continue
        found.append(Contender(child, place.name, place.kind, place.sequence, data or b"", stat))
    return found


async def revoke(zk: ZooKeeper, contender: Contender | str) -> None:
    """Ask a holder to give a lock back: a request, which it may ignore. Curator's revocable locks understand
    it, and ours (``on_revoke``). One that has gone meanwhile is no error.

    :param contender: as :meth:`Lock.contenders` has it, or the path of its znode.
    """
    path = contender if isinstance(contender, str) else contender.path
    with suppress(NoNodeError):
        await repeat(zk, lambda: zk.set(path, REVOKE))


class LockRegistry:
    """A lock for each key, below one path: ``async with registry["user/7"]``.

    A key may be any text but the empty one. The same object stands for a key as long as anybody uses it, so
    that local queues and reentrancy work.

    :param options: those of :class:`Lock`.
    """

    def __init__(self, zk: ZooKeeper, root: str, **options: Any) -> None:
        validate_path(root)
        self._zk = zk
        self._root = root
        self._options = options
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def __getitem__(self, key: str) -> Lock:
        lock = self._locks.get(key)
        if lock is None:
            name = quote(key, safe="")
            if not name.strip("."):
                name = name.replace(".", "%2E")  # . and .. are no names
            lock = self._locks[key] = Lock(self._zk, join(self._root, name), **self._options)
        return lock
