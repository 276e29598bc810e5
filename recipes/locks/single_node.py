"""A lock that is a single znode: the client that creates the znode has the lock (recipe-rules.md A.1, S3-a
and S4-a).

The rules:

* The znode is ephemeral. A contender tries to create the znode. If the znode exists, the contender watches
  the parent, and tries again when the znode is gone.
* The znode does not show which task of a session owns it. So the tasks of one client take turns. Only the
  task that has the turn tries to create the znode. If the znode belongs to our session, the znode belongs to
  this task.
* A turn ends when the znode is deleted or lost. If the deletion waits for the connection, the next task must
  wait for the deletion.
* After a lost reply the create is not simply repeated. If the znode belongs to this session, this client has
  created the znode.
"""

from __future__ import annotations

from typing import Unpack
from weakref import WeakKeyDictionary, WeakValueDictionary

import attrs
import trio

from ...client import (
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    Stat,
    Watch,
    ZooKeeper,
    paths,
)
from ...client.cleanup import Job
from ..base.bound import Bound
from ..base.holder import current_holder
from ..base.tracebacks import SHORT, shorten
from ..base.waiting import waiting_for
from ..errors import Deadlock, WouldBlock
from .acquiring import Acquirable
from .grant import Grant, delete, settle
from .options import Holding, HoldingOptions


@attrs.define(eq=False)
class _Turn:
    """The right of one task of a client to hold the znode, or to try to create it.

    :ivar leftover: the job that deletes the znode of the last task, if the znode may still exist; or None.
    """

    holder: object = None
    leftover: Job | None = None
    _waiting: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)

    async def take(self, zk: ZooKeeper, path: str, *, wait: bool) -> None:
        """Wait for the turn of this task.

        :raises Deadlock: this task already has the turn.
        :raises WouldBlock: another task has the turn, and ``wait`` is False.
        """
        holder = current_holder()
        if self.holder is holder:
            raise Deadlock(f"this task holds {path} already; release it first")
        if not wait and (self.holder is not None or self.unsettled):
            raise WouldBlock(path)
        if self.holder is None:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            with waiting_for(zk, path, "behind another task of this process"):
                await self._waiting.park()
        self.holder = holder
        if self.leftover is not None:
            try:
                await self.leftover.done.wait()
            except trio.Cancelled:
                self.pass_on()
                raise

    @property
    def unsettled(self) -> bool:
        """True if the leftover is not deleted yet."""
        return self.leftover is not None and not self.leftover.done.is_set()

    def pass_on(self) -> None:
        """End this turn. The next task then has the turn."""
        unparked = self._waiting.unpark()
        self.holder = unparked[0] if unparked else None


@attrs.frozen
class _Turns:
    """The turns of one client.

    :ivar of_path: the turns by path. All lock objects of a path share one turn, until no such object exists.
    :ivar unsettled: the turns whose leftover is not deleted yet. These turns must exist longer than the lock
        objects.
    """

    of_path: WeakValueDictionary[str, _Turn] = attrs.Factory(WeakValueDictionary)
    unsettled: set[_Turn] = attrs.Factory(set)

    def keep_unsettled(self, turn: _Turn) -> None:
        settled = {other for other in self.unsettled if not other.unsettled}
        self.unsettled.difference_update(settled)
        if turn.unsettled:
            self.unsettled.add(turn)


_turns: WeakKeyDictionary[ZooKeeper, _Turns] = WeakKeyDictionary()


@attrs.define(eq=False, kw_only=True)
class _SingleGrant(Grant):
    turn: _Turn

    async def surrender(self) -> None:
        self._depth = 0
        own_watch = await self.ownership.end()
        try:
            if self._bound.over:
                self.turn.pass_on()
            else:
                await _give_up(self.zk, self.path, self.turn, self._grace)
        finally:
            if own_watch is not None:
                own_watch.cancel()


async def _give_up(zk: ZooKeeper, path: str, turn: _Turn, grace: float) -> None:
    """Delete the znode if this client has created it, and end the turn. If an operator has deleted this
    client's znode, the znode may belong to another client now."""
    turn.leftover = job = zk.cleanup.delete_own(path)
    turn.pass_on()
    try:
        await settle(Bound(zk), job, grace)
    finally:
        _turns[zk].keep_unsettled(turn)


class SingleNodeLock(Acquirable[Grant]):
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

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        **options: Unpack[HoldingOptions],
    ) -> None:
        super().__init__()
        paths.validate_path(path)
        self.zk = zk
        self.path = path
        self._data = data
        self._holding = Holding(**options)
        self._turn = _turns.setdefault(zk, _Turns()).of_path.setdefault(path, _Turn())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def acquire(self, *, wait: bool = True) -> Grant:
        """Acquire the lock without a block. Code that relies on the lock must run in ``with grant.scope()``.
        Call ``await grant.release()`` at the end.

        :raises WouldBlock: the znode exists or another task has the turn, and ``wait`` is False.
        :raises Deadlock: this task already holds the lock.
        :raises ClosingError: the client was closed.
            :raises SessionExpiredError: the session has ended, and ``on_session_loss`` is ``"raise"``.
        :raises ZooKeeperError: the server refuses a request, for example with :class:`NoAuthError`.
        """
        await self._turn.take(self.zk, self.path, wait=wait)
        try:
            return await self._contend(wait)
        except WouldBlock:
            self._turn.pass_on()
            raise
        except BaseException as error:
            await _give_up(self.zk, self.path, self._turn, self._holding.cleanup_grace)
            if isinstance(error, SHORT):
                shorten(error)
            raise

    async def _contend(self, wait: bool) -> Grant:
        began = trio.current_time()
        retries = 0
        while True:
            bound = Bound(self.zk)
            try:
                stat, own_watch = await self._win(bound, wait)
            except NoNodeError:
                retries += 1  # the znode was deleted at once, for example by an operator
            except SessionExpiredError:
                if self._holding.on_session_loss == "raise":
                    raise
                retries += 1
                await self.zk.session.wait_connected()
            else:
                return self._grant(bound, stat, own_watch, retries, trio.current_time() - began)

    async def _win(self, bound: Bound, wait: bool) -> tuple[Stat, Watch]:
        """Wait until the znode is gone, create it and watch it.

        :raises NoNodeError: the znode was deleted at once; another client may have created it again.
        :raises WouldBlock: the znode exists, and ``wait`` is False.
        """
        zk = self.zk
        while not await self._create(bound):
            if not wait:
                raise WouldBlock(self.path)
            await self._until_gone(bound)
        await bound.confirm()
        try:
            _, stat, own_watch = await bound.repeat(lambda: zk.get_and_watch(self.path))
        except NoAuthError:  # without a read we could not know the owner of the znode later
            await delete(bound, (self.path,), self._holding.cleanup_grace)
            raise
        if stat.ephemeralOwner != zk.session.id:
            own_watch.cancel()
            raise NoNodeError(self.path)
        return stat, own_watch

    async def _create(self, bound: Bound) -> bool:
        """Try to create the znode. Returns False if another client's znode exists. After a lost reply,
        returns True if the znode exists, because this client may have created it."""
        zk, holding = self.zk, self._holding
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            await zk.create(self.path, self._data, acl=holding.acl, ephemeral=True)

        while True:
            try:
                await bound.repeat(attempt)
                return True
            except NoNodeError:
                await holding.create_parent(bound, paths.parent(self.path))
            except NodeExistsError:
                if attempts == 1:
                    return False
                # The present server may be behind the server that has answered.
                await bound.repeat(lambda: zk.sync(self.path))
                return True

    async def _until_gone(self, bound: Bound) -> None:
        """Wait until the znode is gone. The wait may end too early."""
        zk = self.zk
        parent, name = paths.split(self.path)
        while True:
            try:
                names, watch = await bound.repeat(lambda: zk.get_children_and_watch(parent))
            except NoNodeError:
                return
            with watch:
                if name not in names:
                    return
                with waiting_for(zk, self.path, "which is the znode of another"):
                    await watch.wait()
            bound.check()
            if names == [name]:
                return  # an event for the only child is probably its deletion

    def _grant(self, bound: Bound, stat: Stat, own_watch: Watch, retries: int, waited: float) -> Grant:
        ownership = self._holding.ownership(bound, self.path)
        grant = _SingleGrant(
            token=stat.czxid,
            paths=(self.path,),
            sequence=0,
            retries=retries,
            waited=waited,
            shared=False,
            ownership=ownership,
            bound=bound,
            grace=self._holding.cleanup_grace,
            turn=self._turn,
        )
        ownership.guard(own_watch, grant.data_changed)
        return grant
