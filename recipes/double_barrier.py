"""The double barrier: begin together, end together (recipe-rules.md B.7, D.8).

The rules:

* A member is an ephemeral child of the path. When a member finds enough members, it creates the persistent
  child ``ready``. While a valid ``ready`` exists, every member can pass.
* A ``ready`` is valid if one of the present members is older than this ``ready``. A ``ready`` that is older
  than all members is left from a broken round, and is deleted (trap E-21).
* At the end, the member with the lowest name keeps its znode until no other member has a znode. The other
  members delete their znodes at once, and wait until the lowest member has left. The last member deletes
  ``ready`` together with its own znode.
* ``ready`` is deleted in one transaction with a write to the parent. If another member was faster, the
  transaction fails. So the ``ready`` of the next round is never deleted by mistake.
* A member whose session ends between entering and leaving gets the error :class:`BarrierBroken`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from types import TracebackType

import trio

from ..client import (
    ACL,
    BadVersionError,
    Delete,
    EventType,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SetData,
    Stat,
    Watch,
    WatchEvent,
    ZooKeeper,
    paths,
)
from .base.blocks import TaskBlocks
from .base.bound import Bound, first_of
from .base.creating import Parents, ZnodeOptions, create_ephemeral
from .base.ownership import Ownership
from .base.waiting import waiting_for
from .errors import BarrierBroken, LockLost, LossReason

READY = "ready"
"""The name of the child that lets members pass."""


class DoubleBarrier:
    """Members begin their work together and end it together.

        barrier = DoubleBarrier(zk, "/barriers/step-1", 3)
        async with barrier:    # waits until there are three members
            ...                # the work
                               # waits until all other members have ended their work

    A member that comes while a round is under way joins it. The block's value is the path of the member's
    znode. Any number of tasks can use one object, in any number of rounds. Each block is one member.

    If the body raises or is cancelled, the member leaves without waiting. If the session ends between the
    beginning of the block and its end, the body is cancelled, and the block raises :class:`BarrierBroken`. If
    the znode of a member is deleted while the member waits for the beginning, the member creates the znode
    again. If the znode is deleted later, the other members treat the member as gone.

    The layout is the layout of Curator's DistributedDoubleBarrier. Members of Curator and kazoo can take
    part: every child except ``ready`` is a member. Members of kazoo delete ``ready`` when they *begin* to
    leave. A member of this recipe that has no connection during the whole time in which ``ready`` exists does
    not notice ``ready``, and keeps waiting. At the end of a round a member writes the data of ``path`` again,
    unchanged. So the member needs the permission to write the znode ``path``.

    :param parties: the number of members that must be there before the work begins.
    :param data: the data of the member's znode.
    :param parents: the kind of a missing parent: see :data:`.Parents`.
    :param acl: the ACL of every znode that is created; None gives all permissions to everybody.
    :raises BadArgumentsError: the path is not a valid path.
    :raises ValueError: ``parties`` is lower than 1, or ``parents`` has a value that is not allowed.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        parties: int,
        *,
        data: bytes = b"",
        parents: Parents = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        paths.validate_path(path)
        if parties < 1:
            raise ValueError(f"parties must be at least 1, not {parties}")
        self.zk = zk
        self.path = path
        self.parties = parties
        self._data = data
        self._options = ZnodeOptions(parents, acl)
        self._blocks: TaskBlocks[str] = TaskBlocks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    async def __aenter__(self) -> str:
        return await self._blocks.enter(self._visit())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._blocks.leave(kind, error, tb)

    @asynccontextmanager
    async def _visit(self) -> AsyncIterator[str]:
        member = _Member(self)
        try:
            with member.breaking():
                await member.enter()
            ownership = Ownership(member.bound, member.path, suspended="ignore")
            ownership.guard()
            try:
                with ownership.scope():
                    yield member.path
            except LockLost as error:
                if error.path != member.path:
                    raise
                raise member.broken(error.reason) from None
            finally:
                await ownership.end()
            with member.breaking():
                await member.leave()
        except BaseException:
            member.abandon()
            raise


class _Member:
    """A member that takes part in one round.

    :ivar round: the czxid of the ``ready`` that has let this member pass; None if that ``ready`` was deleted
        before it was read.
    """

    def __init__(self, barrier: DoubleBarrier) -> None:
        self.bound = Bound(barrier.zk)
        self.name = str(uuid.uuid4())
        self.path = paths.join(barrier.path, self.name)
        self.round: int | None = None
        self._own: Stat
        self._zk = barrier.zk
        self._barrier = barrier
        self._ready = paths.join(barrier.path, READY)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Open a block in which the end of the session raises :class:`BarrierBroken`."""
        try:
            yield
        except SessionExpiredError:
            raise self.broken(LossReason.SESSION_EXPIRED) from None

    def broken(self, reason: LossReason) -> BarrierBroken:
        return BarrierBroken(f"the barrier {self._barrier.path} is broken: {reason.value}")

    def abandon(self) -> None:
        """Leave without waiting, and delete the znode."""
        if not self.bound.over:
            self._zk.cleanup.delete(self.path)

    # --- entering ----------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Register, and wait until enough members have registered."""
        await self._register()
        while not await self._let_in():
            pass

    async def _register(self) -> None:
        barrier = self._barrier
        self._own = await create_ephemeral(self.bound, self.path, barrier._data, barrier._options)

    async def _let_in(self) -> bool:
        """Look once whether this member can pass. If not, wait for a change. Returns whether the member has
        passed."""
        changed = self._zk.session.changed
        ready, ready_watch = await self._look(self._ready)
        with ready_watch:
            if ready is not None:
                if await self._is_valid(ready):
                    self.round = ready.czxid
                    return True
                await self._end_round(ready.czxid)
                return False
            members = await self._members()
            if self.name in members and len(members) >= self._barrier.parties:
                self.round = await self._begin_round()
                return True
            own, own_watch = await self._look(self.path)
            with own_watch:
                if own is None:  # an operator has deleted the znode
                    await self._register()
                    return False
                with self._waiting(f"which had {len(members)} of {self._barrier.parties} members"):
                    await first_of(ready_watch.wait, own_watch.wait, partial(self._reconnect, changed))
            if own_watch.event is not None or not _created(ready_watch):
                return False
            # `ready` was created while we were registered, and this is enough: kazoo's members delete it
            # early.
            self.round = await self._present_round()
            return True

    async def _reconnect(self, changed: trio.Event) -> None:
        """Wait until the connection was lost and is back. If ``ready`` was created and deleted without a
        connection, the watch on it does not fire. Members of kazoo delete ``ready`` while other members are
        still there."""
        await changed.wait()
        await self.bound.reconnected()

    async def _is_valid(self, ready: Stat) -> bool:
        """Return whether ``ready`` is newer than one of the present members. A ``ready`` that is older than
        all members is left from an earlier round (trap E-21)."""
        if ready.czxid > self._own.czxid:
            return True
        for name in await self._members():
            stat = await self._stat(paths.join(self._barrier.path, name))
            if stat is not None and stat.czxid < ready.czxid:
                return True
        return False

    async def _begin_round(self) -> int | None:
        try:
            _, stat = await self.bound.repeat(
                lambda: self._zk.create_with_stat(self._ready, acl=self._barrier._options.acl)
            )
        except (NodeExistsError, NoNodeError):
            return await self._present_round()
        return stat.czxid

    # --- leaving -----------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Wait until all members have ended their work. The rules at the top of the module say which member
        waits for which."""
        known: set[str] = set()
        while True:
            members = sorted(await self._members())
            if self.name in members:  # a later list may show the next round
                known = set(members)
            if not members:
                await self._end_round(self.round)
                return
            if members == [self.name]:
                if not await self._end_round(self.round, Delete(self.path)):
                    await self._delete_own()
                return
            if members[0] == self.name:
                await self._until_gone(members[-1])
            elif self.name in members:
                await self._delete_own()
            else:
                staying = [name for name in members if name in known]
                if staying:
                    await self._until_gone(staying[0])
                elif await self._round_is_over(members[0]):
                    return

    async def _until_gone(self, name: str) -> None:
        stat, watch = await self._look(paths.join(self._barrier.path, name))
        with watch:
            if stat is not None:
                with self._waiting(f"where the member {name} has not left"):
                    await first_of(watch.wait)

    async def _round_is_over(self, newcomer: str) -> bool:
        """Return whether the round is over. This is called if all known members are gone and a newcomer is
        there. If ``ready`` was deleted, the newcomer belongs to the next round, and this round is over. If
        ``ready`` still exists, wait until ``ready`` or the newcomer is gone."""
        ready, watch = await self._look(self._ready)
        with watch:
            if ready is None or ready.czxid != self.round:
                return True
            stat, member = await self._look(paths.join(self._barrier.path, newcomer))
            with member:
                if stat is not None:
                    with self._waiting("where the last round has not ended"):
                        await first_of(watch.wait, member.wait)
        return False

    async def _end_round(self, czxid: int | None, *own: Delete) -> bool:
        """Delete the ``ready`` with this czxid, and never a later ``ready``. ``own`` is the deletion of the
        own znode in the same transaction. Returns whether ``ready`` was deleted."""
        while True:
            try:
                return await self._try_to_end_round(czxid, own)
            except BadVersionError:
                continue
            except NoNodeError:
                return False

    async def _try_to_end_round(self, czxid: int | None, own: Sequence[Delete]) -> bool:
        """Make one attempt. If another member was faster, the version of the parent has changed. Then the
        write to the parent fails, and no later ``ready`` is deleted.

        :raises BadVersionError: another member was faster.
        :raises NoNodeError: one of the znodes is gone.
        """
        path, zk = self._barrier.path, self._zk
        data, parent = await self.bound.repeat(lambda: zk.get(path))
        ready = await self._stat(self._ready)
        if ready is None or ready.czxid != czxid:
            return False
        write = SetData(path, data, parent.version)
        await self.bound.repeat(lambda: zk.multi([write, Delete(self._ready), *own]))
        return True

    def _waiting(self, why: str) -> AbstractContextManager[None]:
        return waiting_for(self._zk, self._barrier.path, why)

    # --- asking ------------------------------------------------------------------------------------------

    async def _members(self) -> list[str]:
        try:
            names = await self.bound.repeat(lambda: self._zk.get_children(self._barrier.path))
        except NoNodeError:
            return []
        return [name for name in names if name != READY]

    async def _look(self, path: str) -> tuple[Stat | None, Watch]:
        return await self.bound.repeat(lambda: self._zk.exists_and_watch(path))

    async def _stat(self, path: str) -> Stat | None:
        return await self.bound.repeat(lambda: self._zk.exists(path))

    async def _present_round(self) -> int | None:
        ready = await self._stat(self._ready)
        return None if ready is None else ready.czxid

    async def _delete_own(self) -> None:
        with suppress(NoNodeError):
            await self.bound.repeat(lambda: self._zk.delete(self.path))


def _created(watch: Watch) -> bool:
    return isinstance(watch.event, WatchEvent) and watch.event.type is EventType.CREATED
