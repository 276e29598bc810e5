"""Removing an item from a queue. Afterwards it is known which consumer has taken the item.

A *claim* is an ephemeral znode with the name of the item, in a separate directory. While the claim exists,
the item is reserved for the owner of the claim. The owner takes the item: one transaction deletes the item
and the claim. So after a lost reply the znodes show what happened (recipe-rules.md trap E-40). If the
transaction was not carried out, the claim still exists. If it was carried out, both znodes are gone. The data
of a claim is a unique id, because other tasks of the same session create claims too.

A :class:`Removal` goes through these states. Without claims there is no state "claimed"::

    reserved in this process -> claimed -> read -> deleting -> one of the outcomes

Claiming: one transaction checks that the item exists, and creates the claim.

=========================================  ==============================================================
event                                      what follows
=========================================  ==============================================================
created                                    claimed
the claim exists                           another consumer has the item: try another item
the item is missing                        somebody has taken it: try another item
the directory of the claims is missing     create it and try again
the reply was lost, our id is in a claim   claimed
the reply was lost, our id is in no claim  try again
the session ended                          the claim ended too: try another item in the next session
cancelled                                  withdraw the request; if it was sent, delete the claim
=========================================  ==============================================================

Deleting: one transaction deletes the item and the claim.

=============================================  =============  ====================
event                                          with a claim   without
=============================================  =============  ====================
deleted                                        taken          taken
item or claim is missing                       lost           lost
the request was not sent                       try again      try again
the reply was lost, our claim is there         try again      (no claim)
the reply was lost, only the item is there     lost           try again
the reply was lost, both are gone              taken          undecided
the session ended, the request was not sent    lost           lost
the session ended, the item is there           lost           lost
the session ended, the item is gone            undecided      undecided
the client was closed, nothing was sent        closed         closed
the client was closed, the reply is missing    undecided      undecided
=============================================  =============  ====================

The result for the caller:

==========  ======================================  ====================================
outcome     ``get()``                               the end of a block of ``claim()``
==========  ======================================  ====================================
taken       returns the item                        ends
lost        tries another item                      raises LockLost
undecided   raises UndecidedItem                    raises LockLost
closed      raises ClosingError                     raises LockLost
cancelled   not sent: withdraws the request.        the deletion continues
            Sent: waits for the outcome
==========  ======================================  ====================================

The deletion and the release of a claim run in the client's background. So the deletion and the release are
completed even if the caller is cancelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio

from ...client import (
    UNANSWERED,
    Check,
    ClosingError,
    Create,
    Delete,
    Multi,
    NodeExistsError,
    NoNodeError,
    Operation,
    Pending,
    SessionExpiredError,
    paths,
)
from ...client.repeating import pass_writes
from ..base.background import BackgroundWork
from ..base.bound import Bound
from ..base.ownership import Ownership
from ..base.running import steady
from ..errors import LockLost, LossReason, RecipeError
from .batch_reader import Supply
from .items import Item, QueueLocation, UndecidedItem

_CLEANUP_GRACE = 1.0
"""The longest time in seconds that the end of a block waits for the release of its claim. Then the release
continues in the background. One second is enough for a few requests, and a cancelled block should end
soon."""

MakeOwnership = Callable[[Bound, str], Ownership]
"""A function that makes the ownership for a claim, from the :class:`.Bound` of its session and the path of
the claim."""


def _in_doubt(request: Pending[Any] | None) -> bool:
    """Return whether a request without a reply may have been carried out."""
    if request is None or not request.sent:
        return False
    return not request.settled or isinstance(request.error, UNANSWERED)


class ClaimNode:
    """The znode that is the claim on one item.

    :ivar path: the path of the znode.
    :ivar deletion: the operation that deletes the znode.
    """

    def __init__(self, bound: Bound, location: QueueLocation, name: str) -> None:
        self.path = location.claim(name)
        self.deletion = Delete(self.path)
        self._bound = bound
        self._zk = bound.zk
        self._location = location
        self._id = uuid.uuid4().hex.encode()
        create = Create(self.path, self._id, acl=location.options.acl, ephemeral=True)
        self._operations: list[Operation[Any]] = [Check(location.item(name)), create]
        self._creating: Pending[list[Any]] | None = None

    async def create(self) -> bool:
        """Create the znode. Returns False if another consumer has claimed the item, or if the item is gone.

        :raises SessionExpiredError: the session has ended.
        """
        while True:
            self._bound.check()
            self._creating = self._zk.submit(Multi(self._operations))
            try:
                await self._creating.wait()
                return True
            except NodeExistsError:
                return False
            except NoNodeError as error:
                if error.index == 0:
                    return False
                await self._location.options.create_parent(self._bound, paths.parent(self.path))
            except UNANSWERED:
                await self._bound.reconnected()
                if self._creating.sent and await self.is_mine():
                    return True

    def stop_creating(self) -> bool | None:
        """Withdraw the request that creates the znode, if it was not sent yet. Returns whether the znode
        exists; None if it is unknown."""
        if self._creating is None:
            return False
        self._zk.withdraw(self._creating)
        if _in_doubt(self._creating):
            return None
        return self._creating.error is None

    async def is_mine(self) -> bool:
        """Ask the server whether the znode exists and holds the id of this claim.

        :raises SessionExpiredError: the session has ended.
        """
        await self._bound.repeat(lambda: pass_writes(self._zk))  # the request may still be carried out
        try:
            data, stat = await self._bound.repeat(lambda: self._zk.get(self.path))
        except NoNodeError:
            return False
        return data == self._id and stat.ephemeralOwner == self._zk.session.id

    async def guard(self, make_ownership: MakeOwnership) -> Ownership | None:
        """Make an ownership that guards the claim. Returns None if the claim is gone.

        :raises SessionExpiredError: the session has ended.
        """
        await self._bound.confirm()
        try:
            _, _, watch = await self._bound.repeat(lambda: self._zk.get_and_watch(self.path))
        except NoNodeError:
            return None
        ownership = make_ownership(self._bound, self.path)
        ownership.guard(watch)
        return ownership

    async def delete(self, *, sure: bool) -> None:
        """Delete the znode, if it exists and holds the id of this claim.

        :param sure: whether this is known; then the server is not asked.
        :raises SessionExpiredError: the session has ended; its end deletes the znode.
        """
        with suppress(NoNodeError):
            while sure or await self.is_mine():
                sure = False
                self._bound.check()
                try:
                    await self._zk.delete(self.path)
                    return
                except UNANSWERED:
                    await self._bound.reconnected()


class _Abandoned(RecipeError):
    """The caller was cancelled before the deletion was sent or repeated."""


class Removal:
    """The removal of one item, with its claim if the queue has claims.

    :param name: the name of the item, which is reserved in ``supply``. The end of the removal ends the
        reservation.

    :ivar claim: the claim; None in a queue without claims.
    :ivar item: the item that :meth:`begin` has read.
    :ivar ownership: the ownership on the claim, if :meth:`begin` has made one.
    """

    item: Item
    ownership: Ownership

    def __init__(self, location: QueueLocation, supply: Supply, name: str) -> None:
        self._bound = Bound(location.zk)
        self._zk = location.zk
        self._location = location
        self._supply = supply
        self._name = name
        self._path = location.item(name)
        self._operations: list[Operation[Any]] = [Delete(self._path)]
        self._deleting: Pending[list[Any]] | None = None
        self._abandoned = False
        self.claim = ClaimNode(self._bound, location, name) if location.claims is not None else None
        if self.claim is not None:
            self._operations.append(self.claim.deletion)

    # --- before the item is handled ----------------------------------------------------------------------

    async def begin(self, make_ownership: MakeOwnership | None = None) -> bool:
        """Claim and read the item. Returns False if another consumer has claimed the item, or if the item is
        gone or cannot be read.

        :param make_ownership: a function that makes an ownership to guard the claim, if the item is handled
            before its deletion.
        :raises SessionExpiredError: the session has ended; nothing is claimed.
        """
        begun = False
        try:
            begun = await self._claim() and await self._read() and await self._guard(make_ownership)
        finally:
            if not begun:
                self._drop(self.claim is not None and self.claim.stop_creating())
        return begun

    async def _claim(self) -> bool:
        return self.claim is None or await self.claim.create()

    async def _read(self) -> bool:
        try:
            data, stat = await self._bound.repeat(lambda: self._zk.get(self._path))
        except NoNodeError:
            return False
        try:
            self.item = Item(self._path, self._location.layout.decode(data), stat)
        except ValueError as error:
            self._supply.skip(self._name, error)
            return False
        return True

    async def _guard(self, make_ownership: MakeOwnership | None) -> bool:
        if make_ownership is None:
            return True
        assert self.claim is not None
        ownership = await self.claim.guard(make_ownership)
        if ownership is None:
            return False
        self.ownership = ownership
        return True

    # --- the item is taken -------------------------------------------------------------------------------

    async def take(self) -> bool:
        """Delete the item. Returns False if the outcome is *lost*.

        If the call is cancelled after the deletion was sent, it waits for the outcome, at most for one
        session timeout. If the item was taken, the call returns, and the cancellation takes effect at the
        next checkpoint.

        :raises UndecidedItem: the outcome is *undecided*.
        :raises ClosingError: the client was closed; the item was not taken.
        """
        work = BackgroundWork(self._zk, self._remove)
        try:
            await work.done.wait()
        except trio.Cancelled:
            self._abandon()
            with trio.move_on_after(self._zk.session.negotiated_timeout, shield=True):
                await work.done.wait()
            if not (work.succeeded or _in_doubt(self._deleting)):
                raise
        if _in_doubt(self._deleting):
            raise UndecidedItem(self.item)
        if isinstance(work.error, LockLost):
            return False
        if work.error is not None:
            raise work.error
        return True

    async def finish(self) -> None:
        """Delete the item after it was handled. If the call is cancelled, the deletion continues.

        :raises LockLost: the outcome is not *taken*. It is unknown whether the item was deleted.
        """
        await self.ownership.end()
        work = BackgroundWork(self._zk, self._remove)
        await work.done.wait()
        match work.error:
            case None:
                return
            case SessionExpiredError():
                raise LockLost(LossReason.SESSION_EXPIRED, self.ownership.path)
            case ClosingError():
                raise LockLost(LossReason.CLIENT_CLOSED, self.ownership.path)
            case error:
                raise error

    def _abandon(self) -> None:
        """Send no further deletion."""
        self._abandoned = True
        if self._deleting is not None:
            self._zk.withdraw(self._deleting)

    async def _remove(self) -> None:
        """Delete the item, and end the reservation in this process.

        :raises LockLost: the outcome is *lost*.
        :raises UndecidedItem: the outcome is *undecided*, for example after a :class:`SessionExpiredError`.
        """
        try:
            await self._delete_repeatedly()
        except Exception:
            self._drop(None)
            raise
        self._supply.free(self._name, gone=True)

    async def _delete_repeatedly(self) -> None:
        try:
            while not await self._delete():
                pass
        except SessionExpiredError:
            if _in_doubt(self._deleting) and not await self._is_there():
                raise
            self._deleting = None
            raise LockLost(LossReason.SESSION_EXPIRED, self._path) from None

    async def _delete(self) -> bool:
        """Send the deletion once, and find out whether it was carried out. Returns False if it must be sent
        again.

        :raises LockLost: the outcome is *lost*.
        :raises UndecidedItem: the outcome is *undecided*.
        """
        self._bound.check()
        if self._abandoned:
            raise _Abandoned
        self._deleting = self._zk.submit(Multi(self._operations))
        try:
            await self._deleting.wait()
        except NoNodeError as error:
            raise LockLost(LossReason.NODE_DELETED, error.path or self._path) from None
        except UNANSWERED:
            if not self._deleting.sent:
                return False
            await self._bound.reconnected()
            deleted = await self._was_deleted()
            self._deleting = None  # the outcome is known now
            return deleted
        return True

    async def _was_deleted(self) -> bool:
        """Find out, in the same session, whether a deletion without a reply was carried out.

        :raises LockLost: another client has deleted the claim.
        :raises UndecidedItem: the item is gone, and without a claim it is unknown which consumer has taken
            it.
        """
        if self.claim is not None and await self.claim.is_mine():
            return False
        if await self._is_there():
            if self.claim is None:
                return False
            self._deleting = None
            raise LockLost(LossReason.NODE_DELETED, self.claim.path)
        if self.claim is None:
            raise UndecidedItem(self.item)
        return True

    async def _is_there(self) -> bool:
        """Ask the server whether the item is in the queue, in this session or a later session."""
        await steady(self._zk, lambda: pass_writes(self._zk))
        stat = await steady(self._zk, lambda: self._zk.exists(self._path))
        return stat is not None and stat.czxid == self.item.stat.czxid

    # --- the item stays ----------------------------------------------------------------------------------

    async def give_back(self) -> None:
        """Give an item that was not handled back to other consumers. This waits at most 1 second; then the
        work continues in the background."""
        assert self.claim is not None
        await self.ownership.end()
        work = self._release(self.claim, sure=not self.ownership.lost.is_set())
        with trio.move_on_after(_CLEANUP_GRACE, shield=True):
            await work.done.wait()

    def _drop(self, claimed: bool | None) -> None:
        """Give the item back to other consumers.

        :param claimed: whether the claim exists and is ours; None if the server must be asked.
        """
        if self.claim is None or claimed is False:
            self._supply.free(self._name, gone=False)
        else:
            self._release(self.claim, sure=claimed is True)

    def _release(self, claim: ClaimNode, *, sure: bool) -> BackgroundWork:
        """Delete the claim, and then end the reservation in this process."""

        async def work() -> None:
            try:
                await claim.delete(sure=sure)
            finally:
                self._supply.free(self._name, gone=False)

        return BackgroundWork(self._zk, work)
