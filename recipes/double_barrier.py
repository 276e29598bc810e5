"""The double barrier: begin together, end together (recipe-rules.md B.7, D.8)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Literal

import attrs
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
)
from ..protocol.paths import join, validate_path
from .base.blocks import Blocks
from .base.bound import Bound, first_of
from .base.creating import Parents, create_ephemeral
from .base.hold import Hold
from .errors import BarrierBroken, LockLost, LossReason

READY = "ready"
"""The child that lets members in."""


@attrs.frozen
class _Terms:
    zk: ZooKeeper
    path: str
    n: int
    data: bytes
    parents: Parents
    acl: Sequence[ACL] | None


class DoubleBarrier(Blocks[str]):
    """Members begin their work together and end it together.

        barrier = DoubleBarrier(zk, "/barriers/step-1", 3)
        async with barrier:    # waits until there are three
            ...                # the work
                               # waits until all others have ended theirs

    Who comes when three are in already joins them. The block's value is the path of the member's znode. One
    object may be used by any number of tasks, and for one round after the other; each block is a member.

    If the body raises or is cancelled, the member leaves without waiting. If its session ends between the
    beginning of the block and its end, the body is cancelled and the block raises :class:`BarrierBroken`. A
    member whose znode is deleted while it waits to be let in registers again; one that works, or waits for
    the others to end, counts as gone from then on.

    The layout is that of Curator's DistributedDoubleBarrier: an ephemeral znode for each member, and a
    persistent one, ``ready``, written by a member that finds enough of them. Members of Curator and kazoo may
    take part: every child but ``ready`` counts. kazoo's delete ``ready`` when they *begin* to leave; one of
    ours that was cut off from before it was written until after that has nothing left to see, and goes on
    waiting. Ending a round takes the right to write the data of ``path``, which stays as it is.

    :param n: how many members it takes to begin.
    :param data: what the member's znode holds.
    :param parents: how a missing path is created: as containers, which the server removes again some time
        after the last member has gone, or persistent.
    :param acl: of what is created; everything for everyone if None.
    """

    def __init__(
        self,
        zk: ZooKeeper,
        path: str,
        n: int,
        *,
        data: bytes = b"",
        parents: Literal["container", "persistent"] = "container",
        acl: Sequence[ACL] | None = None,
    ) -> None:
        super().__init__()
        validate_path(path)
        if n < 1:
            raise ValueError(f"it takes at least one member, not {n}")
        self.path = path
        self._terms = _Terms(zk, path, n, data, Parents.of(parents, acl), acl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    @property
    def zk(self) -> ZooKeeper:
        return self._terms.zk

    @asynccontextmanager
    async def _visit(self) -> AsyncIterator[str]:
        member = _Member(self._terms)
        try:
            with member.breaking():
                await member.enter()
            hold = Hold(member.bound, member.path, suspended="ignore")
            hold.guard()
            try:
                with hold.scope():
                    yield member.path
            except LockLost as error:
                if error.path != member.path:
                    raise
                raise member.broken(error.reason) from None
            finally:
                await hold.end()
            with member.breaking():
                await member.leave()
        except BaseException:
            member.abandon()
            raise

    def _block(self) -> AbstractAsyncContextManager[str]:
        return self._visit()


class _Member:
    """One who takes part in one round.

    :ivar round: the czxid of the ``ready`` that has let us in; None if it was deleted before we saw it.
    """

    def __init__(self, terms: _Terms) -> None:
        self.bound = Bound(terms.zk)
        self.name = str(uuid.uuid4())
        self.path = join(terms.path, self.name)
        self.round: int | None = None
        self._own: Stat
        self._zk = terms.zk
        self._terms = terms
        self._ready = join(terms.path, READY)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Entering or leaving: the end of the session is the end of it."""
        try:
            yield
        except SessionExpiredError:
            raise self.broken(LossReason.SESSION_EXPIRED) from None

    def broken(self, reason: LossReason) -> BarrierBroken:
        return BarrierBroken(f"the barrier {self._terms.path} is broken: {reason.value}")

    def abandon(self) -> None:
        """Leave without waiting, and leave no znode."""
        if not self.bound.over:
            self._zk.janitor.delete(self.path)

    # --- entering ----------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Register, and wait until enough have."""
        await self._register()
        while not await self._let_in():
            pass

    async def _register(self) -> None:
        terms = self._terms
        self._own = await create_ephemeral(
            self.bound, self.path, terms.data, parents=terms.parents, acl=terms.acl
        )

    async def _let_in(self) -> bool:
        """Look once whether we are in; if not, wait for something to change."""
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
            if self.name in members and len(members) >= self._terms.n:
                self.round = await self._begin_round()
                return True
            own, own_watch = await self._look(self.path)
            with own_watch:
                if own is None:  # somebody has deleted it, or everything
                    await self._register()
                    return False
                await first_of(ready_watch.wait, own_watch.wait, partial(self._reconnect, changed))
            if own_watch.event is not None or not _created(ready_watch):
                return False
            # Enough to know: it was written while we were registered. kazoo's members delete it early.
            self.round = await self._present_round()
            return True

    async def _reconnect(self, changed: trio.Event) -> None:
        """Wait until the connection was lost and is back. A watch for a znode to come does not tell of one
        that has come and gone meanwhile: members of kazoo delete ``ready`` while others are still there."""
        await changed.wait()
        await self.bound.reconnected()

    async def _is_valid(self, ready: Stat) -> bool:
        """Whether a ``ready`` belongs to members that are there: it was written after one of them had
        registered. One that is older than all of them was left behind (trap E-21)."""
        if ready.czxid > self._own.czxid:
            return True
        for name in await self._members():
            stat = await self._stat(join(self._terms.path, name))
            if stat is not None and stat.czxid < ready.czxid:
                return True
        return False

    async def _begin_round(self) -> int | None:
        create = self._zk.create
        try:
            _, stat = await self.bound.repeat(
                lambda: create(self._ready, acl=self._terms.acl, include_stat=True)
            )
        except (NodeExistsError, NoNodeError):
            return await self._present_round()
        return stat.czxid

    # --- leaving -----------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Wait until all members have ended their work. The one whose name is the lowest stays until it is
        the last; the others take their names off the list at once, and wait for the lowest."""
        known: set[str] = set()
        while True:
            members = sorted(await self._members())
            if self.name in members:  # a later list may be of the next round
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
        stat, watch = await self._look(join(self._terms.path, name))
        with watch:
            if stat is not None:
                await first_of(watch.wait)

    async def _round_is_over(self, newcomer: str) -> bool:
        """All whom we have seen at work are gone, and somebody has come since. If the round has ended in
        between, that is the next one, and not for us to wait for; else wait for either to go."""
        ready, watch = await self._look(self._ready)
        with watch:
            if ready is None or ready.czxid != self.round:
                return True
            stat, member = await self._look(join(self._terms.path, newcomer))
            with member:
                if stat is not None:
                    await first_of(watch.wait, member.wait)
        return False

    async def _end_round(self, czxid: int | None, *own: Delete) -> bool:
        """Delete a ``ready``, this one and no later one, in one transaction with the own znode if that is
        still there. Returns whether this was done."""
        while True:
            try:
                return await self._try_to_end_round(czxid, own)
            except BadVersionError:
                continue
            except NoNodeError:
                return False

    async def _try_to_end_round(self, czxid: int | None, own: Sequence[Delete]) -> bool:
        """Writing to the parent makes sure that it is this ``ready``: whoever does the same and is faster
        changes its version."""
        path, zk = self._terms.path, self._zk
        data, parent = await self.bound.repeat(lambda: zk.get(path))
        ready = await self._stat(self._ready)
        if ready is None or ready.czxid != czxid:
            return False
        write = SetData(path, data, parent.version)
        await self.bound.repeat(lambda: zk.multi([write, Delete(self._ready), *own]))
        return True

    # --- asking ------------------------------------------------------------------------------------------

    async def _members(self) -> list[str]:
        try:
            names = await self.bound.repeat(lambda: self._zk.get_children(self._terms.path))
        except NoNodeError:
            return []
        return [name for name in names if name != READY]

    async def _look(self, path: str) -> tuple[Stat | None, Watch]:
        return await self.bound.repeat(lambda: self._zk.exists(path, watch=True))

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
