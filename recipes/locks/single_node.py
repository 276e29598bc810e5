"""A lock that is a single znode: the client that creates the znode has the lock (recipe-rules.md A.1, S3-a
and S4-a).

The rules:

* The znode is ephemeral. A contender tries to create it; if it exists, the contender watches the parent and
  tries again when the znode has gone.
* Nothing in the znode tells two tasks of one session apart. So the tasks of one client take turns, and only
  the task whose turn it is tries. A znode of our session belongs to that task.
* A turn ends when the znode is deleted or lost. If the deletion has to wait for the connection, the next task
  has to wait for the deletion.
* A create whose reply was lost is not repeated blindly: if the znode then belongs to this session, this
  client has created it.
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

    :ivar leftover: the deletion of the znode that the last task may have left.
    """

    holder: object = None
    leftover: Job | None = None
    _waiting: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)

    async def take(self, zk: ZooKeeper, path: str, *, wait: bool) -> None:
        """Wait for the turn of this task.

        :raises Deadlock: this task has the turn already.
        :raises WouldBlock: it is another task's turn, and ``wait`` is False.
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
        """True if the deletion of the leftover is still to be done."""
        return self.leftover is not None and not self.leftover.done.is_set()

    def pass_on(self) -> None:
        """End this turn; the next task has the turn now."""
        unparked = self._waiting.unpark()
        self.holder = unparked[0] if unparked else None


@attrs.frozen
class _Turns:
    """The turns of one client.

    :ivar of_path: the turn that all lock objects of a path share, for as long as any of them exists.
    :ivar unsettled: turns that have to outlive the lock objects, until their leftover is deleted.
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
        own_watch = await self.hold.end()
        try:
            if self._bound.over:
                self.turn.pass_on()
            else:
                await _give_up(self.zk, self.path, self.turn, self._grace)
        finally:
            if own_watch is not None:
                own_watch.cancel()


async def _give_up(zk: ZooKeeper, path: str, turn: _Turn, grace: float) -> None:
    """Delete the znode if this client created it, and end the turn. The znode may belong to another client,
    if an operator has deleted this client's znode."""
    turn.leftover = job = zk.cleanup.delete_own(path)
    turn.pass_on()
    try:
        await settle(Bound(zk), job, grace)
    finally:
        _turns[zk].keep_unsettled(turn)


class SingleNodeLock(Acquirable[Grant]):
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
        """Acquire the lock without a block: run what relies on it in ``with grant.scope()``, and call
        ``await grant.release()`` at the end.

        :raises WouldBlock: the znode exists or it is another task's turn, and ``wait`` is False.
        :raises Deadlock: this task holds the lock already.
        :raises ClosingError: the client was closed.
        :raises SessionExpiredError: with ``on_session_loss="raise"``.
        :raises ZooKeeperError: the server refuses a request, such as :class:`NoAuthError`.
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
                retries += 1  # an operator has deleted the znode at once
            except SessionExpiredError:
                if self._holding.on_session_loss == "raise":
                    raise
                retries += 1
                await self.zk.session.wait_connected()
            else:
                return self._grant(bound, stat, own_watch, retries, trio.current_time() - began)

    async def _win(self, bound: Bound, wait: bool) -> tuple[Stat, Watch]:
        """Wait until the znode is gone, create it and watch it.

        :raises NoNodeError: it was deleted at once, and may exist again as another client's.
        :raises WouldBlock: it exists, and ``wait`` is False.
        """
        zk = self.zk
        while not await self._create(bound):
            if not wait:
                raise WouldBlock(self.path)
            await self._until_gone(bound)
        await bound.confirm()
        try:
            _, stat, own_watch = await bound.repeat(lambda: zk.get_and_watch(self.path))
        except NoAuthError:  # without reading we could not tell later on whose znode it is
            await delete(bound, (self.path,), self._holding.cleanup_grace)
            raise
        if stat.ephemeralOwner != zk.session.id:
            own_watch.cancel()
            raise NoNodeError(self.path)
        return stat, own_watch

    async def _create(self, bound: Bound) -> bool:
        """Try to create the znode. Returns False if it exists. After a lost reply, returns True if the znode
        exists: this client may have created it."""
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
                # The server that we are connected to now may be behind the one that has answered.
                await bound.repeat(lambda: zk.sync(self.path))
                return True

    async def _until_gone(self, bound: Bound) -> None:
        """Wait until the znode is gone, or probably is."""
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
                return  # the event of an only child is most likely its deletion

    def _grant(self, bound: Bound, stat: Stat, own_watch: Watch, retries: int, waited: float) -> Grant:
        hold = self._holding.hold(bound, self.path)
        grant = _SingleGrant(
            token=stat.czxid,
            paths=(self.path,),
            sequence=0,
            retries=retries,
            waited=waited,
            shared=False,
            hold=hold,
            bound=bound,
            grace=self._holding.cleanup_grace,
            turn=self._turn,
        )
        hold.guard(own_watch, grant.data_changed)
        return grant
