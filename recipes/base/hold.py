"""Holding something that ends with the session: a lock, a lease, leadership, a claim.

The rules (recipe-rules.md D.0, D.1.5, D.2):

* A hold is lost when the session has ended; when the session may have ended (the *lease*, less a margin, is
  over: see client/lease.py); when the znode of the hold was deleted; or when the client was closed. A hold
  that is lost stays lost.
* While something is held, the client sends requests that keep the lease long.
* Code that relies on a hold runs in :meth:`Hold.scope`. When the hold is lost, the scope is cancelled, before
  the server can grant the same thing to another; the block raises :class:`LockLost` with the reason.
* The end of the lease is also the deadline of the scope. So when the whole process was stopped for too long,
  the scope is cancelled at once. Only a task whose data has arrived meanwhile makes one more step, up to its
  next checkpoint. A task of asyncio has a timer of its own event loop for that (aio/limits.py).
* A request of the code may fail because of the loss: the session, the client, the connection or the znode of
  the hold is gone. Its error becomes the cause of the :class:`LockLost`. So code that writes after the loss
  ends with the same error as code that does not.
* Any other error of the code is never hidden: it is raised, with the loss as a note.
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
"""The moment at which a hold is lost while there is no connection. ``"deadline"``: when the lease is over.
``"cancel"``: at once. ``"ignore"``: when the server says that the session has expired; another may hold the
same thing before that."""

_MARGIN = 0.1
"""Fraction of the session timeout: the default margin. It covers clocks that run at different speeds, and the
ms that client/lease.py cannot know."""

_LEAST_MARGIN = 0.05
"""Seconds: the least default margin. With a short session timeout, 10 % of it would be less than the delays
of a busy process."""

_LOSSES = (SessionExpiredError, ClosingError, ConnectionLossError)
"""The errors of requests that follow from a loss."""

OnData = Callable[[bytes | None], object]


class Hold:
    """Something that a session holds.

    :param path: the znode of the hold.
    :param suspended: see :data:`Suspended`.
    :param margin: seconds by which the lease is taken to be shorter; by default 10 % of the session timeout,
        and at least 50 ms. If the session timeout may be shorter than two ticks of the servers, use 0.5
        ticks. With more than 30 % of the session timeout a hold may be lost as it begins.

    :ivar lost: set when the hold is lost; ``reason`` then says why.
    :ivar on_data: called with the data of the znode when they have changed.
    :ivar on_lost: called when the hold is lost; they must not raise.
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
        """The znodes of the hold."""
        return (self.path,)

    @property
    def limit(self) -> float:
        """The time, by ``trio.current_time()``, at which the hold is lost unless the time moves before."""
        return self._limit

    @property
    def reason(self) -> LossReason | None:
        """The reason of the loss; None if the hold is not lost."""
        return self._error.reason if isinstance(self._error, LockLost) else None

    def deadline(self) -> float:
        """Return the time, in seconds by ``trio.current_time()``, until which the session cannot have ended,
        less the margin."""
        session = self._zk.session
        margin = self._margin
        if margin is None:
            margin = max(_MARGIN * session.negotiated_timeout, _LEAST_MARGIN)
        return session.lease_deadline() - margin

    # --- losing it ---------------------------------------------------------------------------------------

    def lose(self, error: Exception) -> None:
        """Lose the hold: cancel the blocks that rely on it; they raise the error. Later calls do nothing."""
        if self._error is None:
            self._error = error
            self.lost.set()
            for scope in self._scopes:
                scope.cancel()
            for listener in self.on_lost:
                listener()

    def inspect(self) -> None:
        """Lose the hold if the clock or the session shows now that it is lost. A hold that was given up
        cannot be lost any more."""
        reason = None if self._over else self._verdict()
        if reason is not None:
            self.lose(LockLost(reason, self.path))

    def lapse(self) -> None:
        """Lose the hold, because code that relies on it has found that its limit has passed."""
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
        hold is lost: another may have had the same thing in between."""
        self.inspect()
        self._set_limit(self.deadline())

    def _set_limit(self, limit: float) -> None:
        self._limit = limit
        for scope in self._scopes:
            scope.deadline = limit

    # --- watching over it --------------------------------------------------------------------------------

    def guard(self, own_watch: Watch | None = None, on_data: OnData | None = None) -> None:
        """Watch over the hold in the background until :meth:`end` or :meth:`unguard`. Call
        :meth:`.Bound.confirm` shortly before.

        :param own_watch: a data watch on the znode of the hold.
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
            self.inspect()  # a client that closes does not wait for this task to notice
            self._stop_keeping()
            ended.set()

    async def _read_again(self) -> None:
        """Read the znode, which has changed, and watch it again."""
        try:
            read = await self._bound.repeat(lambda: self._zk.get_and_watch(self.path))
        except NoNodeError:
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
            return
        except NoAuthError:  # its ACL was changed: the server reports nothing to us any more
            self._own_watch = None
            return
        data, stat, self._own_watch = read
        if stat.ephemeralOwner != self.session_id:  # deleted, and created again by another, meanwhile
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
        elif self.on_data is not None:
            self.on_data(data)

    async def end(self) -> Watch | None:
        """Give up the hold: stop watching over it, before the znode is deleted. Returns the watch on the
        znode if it has not fired; the deletion will end it."""
        self._over = True
        self._set_limit(math.inf)
        return await self.unguard()

    async def unguard(self) -> Watch | None:
        """Stop watching over the hold for a moment. It is still held meanwhile, and its scopes end with the
        present lease. Returns the watch on the znode if there is one."""
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
        """Open a block that relies on the hold (recipe-rules.md D.0, exit rules).

        :raises LockLost: the block was cancelled because of the loss, or ended after the loss, or one of its
            calls has failed because of the loss.
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
        """Lose the hold if it is lost, or if the error says that its znode is gone, like the error of a
        fence."""
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
        """Check that the hold is not lost.

        :raises LockLost: it is lost; or :meth:`lose` was called with another error, which is raised.
        """
        self.inspect()
        self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Do as :meth:`check` does, without a look at the clock or the session.

        :raises LockLost: the hold was found to be lost; or :meth:`lose` was called with another error.
        """
        if self._error is not None:
            raise self._error

    async def verify(self) -> None:
        """Ask the server whether the znode exists and belongs to the session.

        :raises LockLost: it does not, or the hold was lost before; as :meth:`check`.
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
