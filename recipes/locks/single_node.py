"""A lock that is a single znode: whoever creates it has it (recipe-rules.md A.1, S3-a and S4-a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import attrs
import trio

from ...client import (
    ACL,
    Job,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    Stat,
    Watch,
    ZooKeeper,
)
from ...protocol.paths import split
from ..base.bound import Bound
from ..base.hold import Hold, Suspended
from ..errors import Deadlock, WouldBlock
from .contender import Contested, Terms
from .grant import Grant, delete, settle


@attrs.define(eq=False)
class _Turn:
    """The right of one task of a client to have the znode, or to try for it. So whatever of our session is
    there belongs to that task: nothing else in the znode could tell two of us apart.

    :ivar leftover: the deletion of what the last one may have left there.
    """

    holder: trio.lowlevel.Task | None = None
    leftover: Job | None = None
    _waiting: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)

    async def take(self, path: str, *, wait: bool) -> None:
        task = trio.lowlevel.current_task()
        if self.holder is task:
            raise Deadlock(f"this task holds {path} already, which is not reentrant")
        if not wait and (self.holder is not None or self._unsettled):
            raise WouldBlock(path)
        if self.holder is None:
            await trio.lowlevel.checkpoint_if_cancelled()
            self.holder = task
        else:
            await self._waiting.park()
        if self.leftover is not None:
            try:
                await self.leftover.done.wait()
            except trio.Cancelled:
                self.pass_on()
                raise

    @property
    def _unsettled(self) -> bool:
        return self.leftover is not None and not self.leftover.done.is_set()

    def pass_on(self) -> None:
        unparked = self._waiting.unpark()
        self.holder = unparked[0] if unparked else None


_turns: WeakKeyDictionary[ZooKeeper, dict[str, _Turn]] = WeakKeyDictionary()


@attrs.define(eq=False, kw_only=True)
class _SingleGrant(Grant):
    turn: _Turn

    async def surrender(self) -> None:
        self._depth = 0
        node = await self.hold.end()
        try:
            if self._bound.over:
                self.turn.pass_on()
            else:
                await _give_up(self._terms, self.turn)
        finally:
            if node is not None:
                node.cancel()


async def _give_up(terms: Terms, turn: _Turn) -> None:
    """Delete the znode if it is ours: an operator may have deleted it and made room for somebody else."""
    turn.leftover = job = terms.zk.janitor.delete_own(terms.path)
    turn.pass_on()
    await settle(Bound(terms.zk), job, terms.cleanup_grace)


class SingleNodeLock(Contested):
    """An exclusive lock that is one ephemeral znode.

        async with SingleNodeLock(zk, "/exclusive/lock") as grant:
            ...

    Take :class:`.Lock` instead, unless you are to meet others who do it like this, or for comparison:

    * There is no queue. Whoever is fastest gets it; one who is far away may wait for ever.
    * Each release wakes all who wait, each of whom then tries to create the znode, and all but one fail. A
      failed create is a write to the ensemble all the same (trap E-63). N contenders cost N + N(N-1)/2
      creates, up to as many lists, and up to N(N-1) events, where :class:`.Lock` costs 6N-2 requests and 2N-1
      events, or 5N-2 and N-1 with ``monitor=False``.
    * ``grant.fence()`` only tells that the znode is there: it does not notice that an operator has deleted
      it and somebody else has created it since. The token does.

    For the rest it gives a :class:`.Grant` with the guarantees of any other. The tasks of one client take
    turns, first come, first served, and only one of them tries at a time.

    :param path: the znode. Give it a parent of its own: those who wait watch the parent, and every child that
        comes or goes wakes them.
    :param data: what the znode holds.
    :param parents: how missing parents are created: as containers, which the server removes again some time
        after their last child has gone, or persistent.
    :param suspended: when the holder loses the lock for want of a connection: ``"deadline"``, once the
        session may have expired; ``"cancel"``, at once; ``"ignore"``, only when it has.
    :param margin: seconds by which the lease is taken to be shorter, see :class:`.Hold`.
    :param on_session_loss: whether one who waits begins anew when its session expires, or raises
        :class:`SessionExpiredError`.
    :param acl: of what is created; everything for everyone if None.
    :param cleanup_grace: seconds that giving up or releasing may wait for the server.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        *,
        data: bytes = b"",
        parents: Literal["container", "persistent"] = "container",
        suspended: Suspended = "deadline",
        margin: float | None = None,
        on_session_loss: Literal["requeue", "raise"] = "requeue",
        acl: Sequence[ACL] | None = None,
        cleanup_grace: float = 1.0,
    ) -> None:
        super().__init__(
            Terms(
                zk=zk,
                path=path,
                data=data,
                parents=parents,
                acl=acl,
                suspended=suspended,
                margin=margin,
                on_session_loss=on_session_loss,
                cleanup_grace=cleanup_grace,
            )
        )
        self._turn = _turns.setdefault(zk, {}).setdefault(path, _Turn())

    async def acquire(self, *, wait: bool = True) -> Grant:
        """The manual form: acquire it, run what relies on it in ``with grant.scope()``, and call
        ``await grant.release()`` in the end.

        Raises :class:`WouldBlock` with ``wait=False``; :class:`Deadlock` if this task holds it already;
        :class:`ClosingError`, what the server refuses.
        """
        await self._turn.take(self.path, wait=wait)
        try:
            return await self._contend(wait)
        except WouldBlock:
            self._turn.pass_on()
            raise
        except BaseException:
            await _give_up(self._terms, self._turn)
            raise

    async def _contend(self, wait: bool) -> Grant:
        began = trio.current_time()
        requeues = 0
        while True:
            bound = Bound(self.zk)
            try:
                stat, node = await self._win(bound, wait)
            except NoNodeError:
                requeues += 1  # an operator was quick
            except SessionExpiredError:
                if self._terms.on_session_loss == "raise":
                    raise
                requeues += 1
                await self.zk.session.wait_connected()
            else:
                return self._grant(bound, stat, node, requeues, trio.current_time() - began)

    async def _win(self, bound: Bound, wait: bool) -> tuple[Stat, Watch]:
        """Create the znode, once there is none. Raises :class:`NoNodeError` if it is gone, or another's."""
        zk = self.zk
        while not await self._create(bound):
            if not wait:
                raise WouldBlock(self.path)
            await self._until_gone(bound)
        await bound.confirm()
        try:
            _, stat, node = await bound.repeat(lambda: zk.get(self.path, watch=True))
        except NoAuthError:  # who may not look cannot tell later on whose it is
            await delete(bound, (self.path,), self._terms.cleanup_grace)
            raise
        if stat.ephemeralOwner != zk.session.id:
            node.cancel()
            raise NoNodeError(self.path)
        return stat, node

    async def _create(self, bound: Bound) -> bool:
        """Try to create the znode. Returns False if there is one; after a lost reply it may be the one."""
        zk, terms = self.zk, self._terms
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            await zk.create(self.path, terms.data, acl=terms.acl, ephemeral=True)

        while True:
            try:
                await bound.repeat(attempt)
                return True
            except NoNodeError:
                await terms.parents_mode.create(bound, split(self.path)[0])
            except NodeExistsError:
                if attempts == 1:
                    return False
                # The server that we are connected to now may be behind the one that has answered.
                await bound.repeat(lambda: zk.sync(self.path))
                return True

    async def _until_gone(self, bound: Bound) -> None:
        zk = self.zk
        parent, name = split(self.path)
        while True:
            try:
                names, watch = await bound.repeat(lambda: zk.get_children(parent, watch=True))
            except NoNodeError:
                return
            with watch:
                if name not in names:
                    return
                await watch.wait()
            bound.check()
            if names == [name]:
                return  # what has happened to an only child is most likely its end

    def _grant(self, bound: Bound, stat: Stat, node: Watch, requeues: int, waited: float) -> Grant:
        terms = self._terms
        hold = Hold(bound, self.path, suspended=terms.suspended, margin=terms.margin)
        grant = _SingleGrant(
            token=stat.czxid,
            paths=(self.path,),
            sequence=0,
            requeues=requeues,
            waited=waited,
            shared=False,
            hold=hold,
            bound=bound,
            terms=terms,
            turn=self._turn,
        )
        hold.guard(node, grant.data_changed)
        return grant
