"""Holding something that ends with the session: a lock, a lease, leadership, a claim.

The rules (recipe-rules.md D.0, D.1.5, D.2):

* An ownership is lost when the session has ended or may have ended, when the znode of the ownership was
  deleted, or when the client was closed. The session may have ended as soon as its *lease* is over
  (client/lease.py). A margin shortens the lease. A lost ownership stays lost.
* During an ownership the client sends requests that prolong the lease.
* Code that relies on an ownership runs in :meth:`Ownership.scope`. When the ownership is lost, the scope is
  cancelled before another client can get the lock. The block raises :class:`LockLost` with the reason.
* The end of the lease is also the deadline of the scope. So if the whole process was stopped for too long,
  the scope is cancelled at once. Only a task whose data has arrived during the stop makes one more step, up
  to its next checkpoint. In asyncio a timer of the event loop cancels the scope (aio/limits.py).
* A request of the code may fail because of the loss: the session, the client, the connection or the znode of
  the ownership is gone. The error of the request becomes the cause of the :class:`LockLost`. So code that
  sends requests after the loss ends with the same error as code that sends no requests.
* Any other error of the code is raised itself, with a note about the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import trio

from ...client import (
    ClosingError,
    ConnectionLossError,
    EventType,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    Watch,
    WatchEvent,
    ZooKeeper,
)
from ..errors import LockLost, LossReason
from .bound import Bound, first_of
from .holder import relied_on

Suspended = Literal["deadline", "cancel", "ignore"]
"""The moment at which an ownership is lost while there is no connection. ``"deadline"``: when the lease is
over. ``"cancel"``: at once. ``"ignore"``: when the server says that the session has expired. Before this
moment another client may already hold the same lock."""

_MARGIN = 0.1
"""The default margin, as a fraction of the session timeout. The margin covers clocks with different speeds,
and the few ms by which reports to the leader may be late (client/lease.py)."""

_LEAST_MARGIN = 0.05
"""The smallest default margin in seconds. 10 % of a short session timeout would be less than the delays of a
busy process."""

_LOSSES = (SessionExpiredError, ClosingError, ConnectionLossError)
"""The errors that requests raise because of a loss."""

OnData = Callable[[bytes | None], object]


class Ownership:
    """Something that a session holds.

    :param path: the path of the znode of the ownership.
    :param suspended: the moment of the loss: see :data:`Suspended`.
    :param margin: the time in seconds before the end of the lease at which the ownership is lost. The default
        is 10 % of the session timeout, and at least 50 ms. If the session timeout may be shorter than two
        ticks of the servers, use 0.5 ticks. With more than 30 % of the session timeout an ownership may be
        lost at its beginning.

    :ivar lost: an event that is set when the ownership is lost; ``reason`` then has the reason.
    :ivar on_data: a function that is called with the data of the znode after a change; or None.
    :ivar on_lost: functions that are called when the ownership is lost. These functions must not raise
        errors.
    """

    def __init__(
        self, bound: Bound, path: str, *, suspended: Suspended = "deadline", margin: float | None = None
    ) -> None:
        self.path = path
        self.generation = bound.generation
        self.session_id = bound.zk.session.id
        self.lost = trio.Event()
        self._error: Exception | None = None
        self._bound = bound
        self._zk: ZooKeeper = bound.zk
        self._suspended = suspended
        self._margin = margin
        self._scopes: set[trio.CancelScope] = set()
        self._own_watch: Watch | None = None
        self.on_data: OnData | None = None
        self.on_lost: list[Callable[[], object]] = []
        self._guard: tuple[trio.CancelScope, trio.Event] | None = None
        self._stop_keeping: Callable[[], None] = lambda: None
        self._limit = math.inf if suspended == "ignore" else self.deadline()
        self._over = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the znodes of the ownership."""
        return (self.path,)

    @property
    def limit(self) -> float:
        """The time by ``trio.current_time()`` at which the ownership will be lost. A longer lease moves this
        time."""
        return self._limit

    @property
    def reason(self) -> LossReason | None:
        """The reason of the loss; None if the ownership is not lost."""
        return self._error.reason if isinstance(self._error, LockLost) else None

    def deadline(self) -> float:
        """Return the end of the lease less the margin, in seconds by ``trio.current_time()``."""
        session = self._zk.session
        margin = self._margin
        if margin is None:
            margin = max(_MARGIN * session.negotiated_timeout, _LEAST_MARGIN)
        return session.lease_deadline() - margin

    # --- losing it ---------------------------------------------------------------------------------------

    def lose(self, error: Exception) -> None:
        """Lose the ownership: cancel the blocks that rely on the ownership. These blocks raise the error.
        Later calls do nothing."""
        if self._error is None:
            self._error = error
            self.lost.set()
            for scope in self._scopes:
                scope.cancel()
            for listener in self.on_lost:
                listener()

    def inspect(self) -> None:
        """Lose the ownership if the clock or the session shows that it is lost now. An ownership that has
        ended cannot be lost any more."""
        reason = None if self._over else self._verdict()
        if reason is not None:
            self.lose(LockLost(reason, self.path))

    def lapse(self) -> None:
        """Lose the ownership, because code that relies on the ownership has found that the limit has
        passed."""
        self.lose(LockLost(LossReason.LEASE_EXPIRED, self.path))

    def _verdict(self) -> LossReason | None:
        if self._bound.over:
            return LossReason.SESSION_EXPIRED
        state = self._zk.session.state
        if state is SessionState.CLOSED or self._zk.closing:
            return LossReason.CLIENT_CLOSED
        if self._suspended == "cancel" and state is not SessionState.CONNECTED:
            return LossReason.SUSPENDED
        if trio.current_time() >= self._limit:
            return LossReason.LEASE_EXPIRED
        event = self._own_watch.event if self._own_watch is not None else None
        if isinstance(event, WatchEvent) and event.type is EventType.DELETED:
            return LossReason.NODE_DELETED
        return None

    def _lease_moved(self) -> None:
        """Move the deadlines of the scopes to the new end of the lease. If the lease was over before, the
        ownership is lost, because another client may have held the lock in between."""
        self.inspect()
        self._set_limit(self.deadline())

    def _set_limit(self, limit: float) -> None:
        self._limit = limit
        for scope in self._scopes:
            scope.deadline = limit

    # --- watching over it --------------------------------------------------------------------------------

    def guard(self, own_watch: Watch | None = None, on_data: OnData | None = None) -> None:
        """Watch over the ownership in the background until :meth:`end` or :meth:`unguard`. Call
        :meth:`.Bound.confirm` shortly before.

        :param own_watch: a data watch on the znode of the ownership.
        """
        self._own_watch = own_watch
        self.on_data = on_data
        self._guard = trio.CancelScope(), trio.Event()
        self._over = False
        if self._suspended != "ignore":
            self._lease_moved()
            self._stop_keeping = self._zk.keep_lease(self._lease_moved)
        self._zk.start_soon(self._watch_over, *self._guard)

    async def _watch_over(self, scope: trio.CancelScope, ended: trio.Event) -> None:
        try:
            with scope:
                while not self.lost.is_set():
                    self.inspect()
                    if self.lost.is_set():
                        return
                    woken, own_watch = trio.Event(), self._own_watch
                    with self._zk.session.waking(woken), trio.move_on_at(self._limit):
                        if own_watch is None or own_watch.event is None:
                            if own_watch is not None:
                                own_watch.wakes(woken)
                            await woken.wait()
                        else:
                            await first_of(woken.wait, self._read_again)
        finally:
            self.inspect()  # a client that closes may end this task before it notices the loss
            self._stop_keeping()
            ended.set()

    async def _read_again(self) -> None:
        """Read the znode after a change, and watch it again."""
        try:
            read = await self._bound.repeat(lambda: self._zk.get_and_watch(self.path))
        except NoNodeError:
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
            return
        except NoAuthError:  # the ACL was changed: the server sends us no more events
            self._own_watch = None
            return
        data, stat, self._own_watch = read
        if stat.ephemeralOwner != self.session_id:  # deleted, and then created again by another session
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
        elif self.on_data is not None:
            self.on_data(data)

    async def end(self) -> Watch | None:
        """End the ownership before the znode is deleted, and stop watching over it. Returns the watch on the
        znode if the watch has not fired. The deletion will end this watch."""
        self._over = True
        self._set_limit(math.inf)
        return await self.unguard()

    async def unguard(self) -> Watch | None:
        """Stop watching over the ownership for a moment. The ownership continues, and its scopes end with the
        present lease. Returns the watch on the znode, or None."""
        if self._guard is not None:
            (scope, ended), self._guard = self._guard, None
            scope.cancel()
            with trio.CancelScope(shield=True):
                await ended.wait()
        own_watch, self._own_watch = self._own_watch, None
        return own_watch

    # --- relying on it -----------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[trio.CancelScope]:
        """Open a block that relies on the ownership (recipe-rules.md D.0, exit rules).

        :raises LockLost: because of a loss the block was cancelled or a call in it failed, or the ownership
            was lost before the block ended.
        """
        held_here = relied_on()
        try:
            with trio.CancelScope(deadline=self._limit) as scope:
                self._scopes.add(scope)
                held_here.append(self)
                self.inspect()
                if self.lost.is_set():
                    scope.cancel()
                try:
                    yield scope
                finally:
                    self._scopes.discard(scope)
                    held_here.remove(self)
                    self.inspect()  # the scope's own deadline may have ended the block
        except trio.Cancelled:
            self.inspect()
            if self._error is not None:
                raise self._error from None
            raise
        except BaseException as error:
            self._learn_from(error)
            if self._error is not None and error is not self._error:
                if self.reason is not None and self._follows_from_the_loss(error):
                    raise self._error from error
                error.add_note(f"meanwhile: {self._error}")
                error.__context__ = error.__context__ or self._error
            raise
        self.check()

    def _learn_from(self, error: BaseException) -> None:
        """Lose the ownership if the clock, the session, or the error shows that it is lost. The error may say
        that the znode is gone, for example the error of a fence."""
        self.inspect()
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                self._learn_from(each)
        elif self._is_missing(error) and not self._over:
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))

    def _follows_from_the_loss(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):
            return all(self._follows_from_the_loss(each) for each in error.exceptions)
        return isinstance(error, _LOSSES) or self._is_missing(error)

    def _is_missing(self, error: BaseException) -> bool:
        return isinstance(error, NoNodeError) and error.path in self.paths

    def check(self) -> None:
        """Check that the ownership is not lost.

        :raises LockLost: the ownership is lost. If :meth:`lose` was called with another error, this error is
            raised.
        """
        self.inspect()
        self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Check that the ownership was not found to be lost. The clock and the session are not looked at.

        :raises LockLost: the ownership was found to be lost. If :meth:`lose` was called with another error,
            this error is raised.
        """
        if self._error is not None:
            raise self._error

    async def verify(self) -> None:
        """Ask the server whether the znode exists and belongs to the session.

        :raises LockLost: the znode is gone or belongs to another session, or the ownership was lost before.
        """
        zk = self._zk
        self.check()
        try:
            await self._bound.repeat(lambda: zk.sync(self.path))
            stat = await self._bound.repeat(lambda: zk.exists(self.path))
        except SessionExpiredError:
            self.lose(LockLost(LossReason.SESSION_EXPIRED, self.path))
        else:
            if stat is None or stat.ephemeralOwner != self.session_id:
                self.lose(LockLost(LossReason.NODE_DELETED, self.path))
        self.check()
