"""Taking an item out of a queue so that it is known afterwards whether it was taken.

A *claim* is an ephemeral znode named as the item, in a directory of its own. Whoever has it takes the item by
deleting both in one transaction. So when the reply is lost, the claim tells what happened: it is still there,
or both are gone (trap E-40). A claim holds an id of its own, since other tasks of the same session claim too.

The last steps are carried through in the client's background: a caller that is cancelled in the middle leaves
nothing half done.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ...client import (
    UNANSWERED,
    Check,
    ClosingError,
    Create,
    CreateMode,
    Delete,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    Pending,
    SessionExpiredError,
    SessionState,
    ZooKeeper,
    ZooKeeperError,
)
from ...protocol.paths import split
from ..base.bound import Bound
from ..base.hold import Hold, Suspended
from ..base.running import steady
from ..errors import LockLost, LossReason, RecipeError
from .items import Item, Place, UndecidedItem
from .supply import Supply

_CLEANUP_GRACE = 1.0


class Finish:
    """Work that goes on in the client's background, whatever becomes of the caller.

    :ivar done: set when it has ended.
    :ivar error: what it raised; None if it succeeded.
    """

    def __init__(self, zk: ZooKeeper, work: Callable[[], Awaitable[None]]) -> None:
        self.done = trio.Event()
        self.error: Exception | None = ClosingError(message="the client was closed")
        if zk.session.state is SessionState.CLOSED:
            self.done.set()
        else:
            zk.start_soon(self._run, work)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            self.error = None
        except (ZooKeeperError, RecipeError) as error:
            self.error = error
        finally:
            self.done.set()


class Abandoned(RecipeError):
    """It was not tried any more."""


def _unanswered(pending: Pending[Any] | None) -> bool:
    """Whether something may have been carried out, and its answer is not there."""
    if pending is None or not pending.sent:
        return False
    return not pending.settled or isinstance(pending.error, UNANSWERED)


class Taking:
    """An item on its way out of the queue, without a claim: at most once.

    :param name: the item's, reserved in ``supply``. It is free again at the end.

    :ivar item: once there is one.
    """

    item: Item

    def __init__(self, place: Place, supply: Supply, name: str) -> None:
        self.bound = Bound(place.zk)
        self._place = place
        self._zk = place.zk
        self._supply = supply
        self._name = name
        self._item_path = place.item(name)
        self._delete: list[Operation[Any]] = [Delete(self._item_path)]
        self._deleting: Pending[list[Any]] | None = None
        self._abandoned = False

    # --- getting hold of it ------------------------------------------------------------------------------

    async def begin(self) -> bool:
        """Get hold of the item. If this returns False, it is gone or another's."""
        begun = False
        try:
            begun = await self._seize() and await self._read()
        finally:
            if not begun:
                self._drop()
        return begun

    async def _seize(self) -> bool:
        return True

    async def _read(self) -> bool:
        try:
            data, stat = await self.bound.repeat(lambda: self._zk.get(self._item_path))
        except NoNodeError:
            return False
        try:
            self.item = Item(self._item_path, self._place.layout.decode(data), stat)
        except ValueError as error:
            self._supply.skip(self._name, error)
            return False
        return True

    def _drop(self) -> None:
        self._supply.free(self._name, gone=False)

    # --- taking it ---------------------------------------------------------------------------------------

    async def take(self) -> bool:
        """Take the item out of the queue. Returns False if somebody else has it.

        Once the deletion has left the client, cancelling waits for the answer, a session timeout at most, and
        is ignored if that is yes.

        Raises :class:`UndecidedItem`.
        """
        finish = self.consume()
        try:
            await finish.done.wait()
        except trio.Cancelled:
            self._abandon()
            patience = self._zk.session.negotiated_timeout
            with trio.CancelScope(shield=True, deadline=trio.current_time() + patience):
                await finish.done.wait()
            if _unanswered(self._deleting):
                raise UndecidedItem(self.item) from None
            if finish.error is not None:
                raise
        if _unanswered(self._deleting):
            raise UndecidedItem(self.item)
        if isinstance(finish.error, LockLost):
            return False
        if finish.error is not None:
            raise finish.error
        return True

    def consume(self) -> Finish:
        """Delete the item. The work fails with :class:`LockLost` if somebody else has it."""
        return Finish(self._zk, self._consume)

    def _abandon(self) -> None:
        """Do not begin to delete it any more."""
        self._abandoned = True
        if self._deleting is not None:
            self._zk.withdraw(self._deleting)

    async def _consume(self) -> None:
        gone = False
        try:
            while not gone:
                gone = await self._try_to_delete()
        except SessionExpiredError:
            if not _unanswered(self._deleting) or await self._is_there():
                self._deleting = None
                raise LockLost(LossReason.SESSION_EXPIRED, self._item_path) from None
            raise
        finally:
            self._supply.free(self._name, gone=gone)

    async def _try_to_delete(self) -> bool:
        """Returns whether it was deleted; if not, it is to be tried again."""
        self.bound.check()
        if self._abandoned:
            raise Abandoned
        self._deleting = self._zk.submit(Multi(self._delete))
        try:
            await self._deleting.wait()
        except NoNodeError as error:
            raise LockLost(LossReason.NODE_DELETED, error.path or self._item_path) from None
        except UNANSWERED:
            if not self._deleting.sent:
                return False
            await self.bound.reconnected()
            gone = await self._was_deleted()
            self._deleting = None
            return gone
        return True

    async def _was_deleted(self) -> bool:
        if await self._is_there():
            return False
        raise UndecidedItem(self.item)

    async def _is_there(self) -> bool:
        """Whether the item is in the queue, by this session or the next."""
        zk = self._zk
        await steady(zk, lambda: zk.sync(self._item_path))
        stat = await steady(zk, lambda: zk.exists(self._item_path))
        return stat is not None and stat.czxid == self.item.stat.czxid


class Claim(Taking):
    """An item on its way out of the queue, with a claim: exactly once, as long as the session lasts.

    :ivar path: of the claim.
    """

    def __init__(self, place: Place, supply: Supply, name: str) -> None:
        super().__init__(place, supply, name)
        self.path = place.claim(name)
        self._id = uuid.uuid4().hex.encode()
        create = Create(self.path, self._id, place.acl, CreateMode.EPHEMERAL)
        self._claim: list[Operation[Any]] = [Check(self._item_path), create]
        self._claiming: Pending[list[Any]] | None = None
        self._delete.append(Delete(self.path))

    async def _seize(self) -> bool:
        while True:
            self.bound.check()
            self._claiming = self._zk.submit(Multi(self._claim))
            try:
                await self._claiming.wait()
                return True
            except NodeExistsError:
                return False
            except NoNodeError as error:
                if error.index == 0:
                    return False
                await self._place.parents.create(self.bound, split(self.path)[0])
            except UNANSWERED:
                await self.bound.reconnected()
                if self._claiming.sent and await self._is_mine():
                    return True

    async def _is_mine(self) -> bool:
        """Whether the claim is there, and of this very attempt."""
        zk = self._zk
        # The server that we are connected to now may be behind the one that has lost the reply.
        await self.bound.repeat(lambda: zk.sync(self.path))
        try:
            data, stat = await self.bound.repeat(lambda: zk.get(self.path))
        except NoNodeError:
            return False
        return data == self._id and stat.ephemeralOwner == zk.session.id

    def _drop(self) -> None:
        pending = self._claiming
        if pending is not None:
            self._zk.withdraw(pending)
            if pending.error is None or _unanswered(pending):
                self.release(sure=pending.settled and pending.error is None)
                return
        super()._drop()

    def release(self, *, sure: bool) -> Finish:
        """Let others have the item.

        :param sure: the claim is there, and ours.
        """

        async def work() -> None:
            nonlocal sure
            try:
                while sure or await self._is_mine():
                    sure = False
                    self.bound.check()
                    try:
                        await self._zk.delete(self.path)
                        return
                    except UNANSWERED:
                        await self.bound.reconnected()
            except NoNodeError:
                pass
            finally:
                self._supply.free(self._name, gone=False)

        return Finish(self._zk, work)

    async def _consume(self) -> None:
        try:
            await super()._consume()
        except Exception:
            self.release(sure=False)
            raise

    async def _was_deleted(self) -> bool:
        if await self._is_mine():
            return False
        if await self._is_there():
            self._deleting = None  # there is no doubt: it was not
            raise LockLost(LossReason.NODE_DELETED, self.path)
        return True


class HeldClaim(Claim):
    """A claim that somebody's code relies on.

    :ivar hold: that this claim is, once it has begun.
    """

    hold: Hold

    def __init__(
        self, place: Place, supply: Supply, name: str, suspended: Suspended, margin: float | None
    ) -> None:
        super().__init__(place, supply, name)
        self._suspended: Suspended = suspended
        self._margin = margin

    async def _read(self) -> bool:
        if not await super()._read():
            return False
        await self.bound.confirm()
        try:
            _, _, node = await self.bound.repeat(lambda: self._zk.get(self.path, watch=True))
        except NoNodeError:
            return False
        self.hold = Hold(self.bound, self.path, suspended=self._suspended, margin=self._margin)
        self.hold.guard(node)
        return True

    async def end(self) -> None:
        """The item was handled: consume it. Raises :class:`LockLost`."""
        await self.hold.end()
        finish = self.consume()
        await finish.done.wait()
        match finish.error:
            case None:
                return
            case SessionExpiredError():
                raise LockLost(LossReason.SESSION_EXPIRED, self.path)
            case ClosingError():
                raise LockLost(LossReason.CLIENT_CLOSED, self.path)
            case error:
                raise error

    async def give_back(self) -> None:
        """The item was not handled. This takes a second at most; the rest is done in the background."""
        await self.hold.end()
        finish = self.release(sure=not self.hold.lost.is_set())
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLEANUP_GRACE):
            await finish.done.wait()
