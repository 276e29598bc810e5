"""Holding something that ends with the session: a lock, a lease, leadership, a claim.

The rules (recipe-rules.md D.0, D.1.5, D.2):

* A hold is lost when the session has ended, when it may have ended (the *lease* is over, less a margin: see
  client/lease.py), when the znode that stands for it was deleted, or when the client was closed. It is lost
  once and for ever.
* The client keeps the lease while something is held.
* The code that relies on it runs in :meth:`Hold.scope`, which is cancelled then, before the server can
  grant the same thing to anybody else; the block raises :class:`LockLost` with the reason. The scope itself
  has the end of the lease as its deadline. So after a stop of the whole process it is cancelled at once: only
  a task whose data has arrived meanwhile makes one more step, up to its next checkpoint.
* What the code raises itself is never hidden: it goes on its way, with the loss as a note. Only that the
  session has expired says the same as the loss, so it is the cause of the :class:`LockLost` that is raised.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import trio

from ...client import (
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

Suspended = Literal["deadline", "cancel", "ignore"]
"""What becomes of a hold while there is no connection: it lasts until the lease is over; it is lost at once;
it lasts until the server says that the session has expired, in which case another may hold the same thing
before we know."""

_MARGIN = 0.1
"""Of the session timeout: for clocks that differ, and for the ms that lease.py leaves open."""
_LEAST_MARGIN = 0.05
"""Seconds."""
OnData = Callable[[bytes | None], object]


class Hold:
    """Something that a session holds.

    :param path: the znode that stands for it.
    :param margin: seconds that the lease is taken to be shorter; by default a tenth of the session timeout,
        and at least 50 ms. Where a session timeout may be shorter than two ticks of the servers, it has to be
        half a tick. With more than three tenths of the session timeout a hold may be lost as it begins.

    :ivar lost: set when it is lost; ``reason`` then says why.
    :ivar on_data: called with the data of the znode when that has changed.
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
        self._node: Watch | None = None
        self.on_data: OnData | None = None
        self._guard: tuple[trio.CancelScope, trio.Event] | None = None
        self._stop_keeping: Callable[[], None] = lambda: None
        self._limit = math.inf if suspended == "ignore" else self.deadline()
        self._over = False

    @property
    def reason(self) -> LossReason | None:
        """Why it is lost; None if it is not."""
        return self._error.reason if isinstance(self._error, LockLost) else None

    def deadline(self) -> float:
        """Until when, by ``trio.current_time()``, the session cannot have ended, less the margin."""
        session = self._zk.session
        margin = self._margin
        if margin is None:
            margin = max(_MARGIN * session.negotiated_timeout, _LEAST_MARGIN)
        return session.lease_deadline() - margin

    # --- losing it ---------------------------------------------------------------------------------------

    def lose(self, error: Exception) -> None:
        """It is lost: cancel what relies on it, which then raises the error. Only the first time counts."""
        if self._error is None:
            self._error = error
            self.lost.set()
            for scope in self._scopes:
                scope.cancel()

    def inspect(self) -> None:
        """Lose it if what is known now says so. What was given up cannot be lost any more."""
        reason = None if self._over else self._verdict()
        if reason is not None:
            self.lose(LockLost(reason, self.path))

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
        event = self._node.event if self._node is not None else None
        if isinstance(event, WatchEvent) and event.type is EventType.DELETED:
            return LossReason.NODE_DELETED
        return None

    def _lease_moved(self) -> None:
        """Move the deadlines of the scopes. A lease that was over before it moved is over for good: somebody
        else may hold the same thing since."""
        self.inspect()
        self._set_limit(self.deadline())

    def _set_limit(self, limit: float) -> None:
        self._limit = limit
        for scope in self._scopes:
            scope.deadline = limit

    # --- watching over it --------------------------------------------------------------------------------

    def guard(self, node: Watch | None = None, on_data: OnData | None = None) -> None:
        """Watch over it in the background until :meth:`end` or :meth:`unguard`. Call :meth:`.Bound.confirm`
        some time before.

        :param node: a data watch on its znode.
        """
        self._node = node
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
                    changed = self._zk.session.changed
                    self.inspect()
                    if self.lost.is_set():
                        return
                    waits: list[Callable[[], Awaitable[object]]] = [changed.wait]
                    if self._node is not None:
                        waits.append(self._node.wait if self._node.event is None else self._read_again)
                    with trio.move_on_at(self._limit):
                        await first_of(*waits)
        finally:
            self._stop_keeping()
            ended.set()

    async def _read_again(self) -> None:
        """The znode has changed: arm the watch again."""
        try:
            data, stat, self._node = await self._bound.repeat(lambda: self._zk.get_and_watch(self.path))
        except NoNodeError:
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
            return
        except NoAuthError:  # its ACL was changed: the server reports nothing to us any more
            self._node = None
            return
        if stat.ephemeralOwner != self.session_id:  # deleted, and created by another, while we were away
            self.lose(LockLost(LossReason.NODE_DELETED, self.path))
        elif self.on_data is not None:
            self.on_data(data)

    async def end(self) -> Watch | None:
        """It is given up: stop watching over it, before the znode is deleted. Returns what is left of the
        watch on it, which the deletion will end."""
        self._over = True
        self._set_limit(math.inf)
        return await self.unguard()

    async def unguard(self) -> Watch | None:
        """Stop watching over it for a moment, in which it is still held: its scopes end with the lease as it
        is now. Returns what is left of the watch on its znode."""
        if self._guard is not None:
            (scope, ended), self._guard = self._guard, None
            scope.cancel()
            with trio.CancelScope(shield=True):
                await ended.wait()
        node, self._node = self._node, None
        return node

    # --- relying on it -----------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[trio.CancelScope]:
        """A block that relies on it (recipe-rules.md D.0, exit rules).

        Raises :class:`LockLost` if the block was cancelled because of the loss, or ended after it, or if one
        of its calls was refused because this session had expired.
        """
        try:
            with trio.CancelScope(deadline=self._limit) as scope:
                self._scopes.add(scope)
                self.inspect()
                if self.lost.is_set():
                    scope.cancel()
                try:
                    yield scope
                finally:
                    self._scopes.discard(scope)
                    self.inspect()  # the scope's own deadline may have ended the block
        except trio.Cancelled:
            self.inspect()
            if self._error is not None:
                raise self._error from None
            raise
        except BaseException as error:
            self.inspect()
            if self._error is not None and error is not self._error:
                if self._bound.over and self.reason is not None and _says_expired(error):
                    raise self._error from error
                error.add_note(f"meanwhile: {self._error}")
                error.__context__ = error.__context__ or self._error
            raise
        self.check()

    def check(self) -> None:
        """Raises :class:`LockLost`, or what else has ended it, if it is lost."""
        self.inspect()
        self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """:meth:`check` without looking again."""
        if self._error is not None:
            raise self._error

    async def verify(self) -> None:
        """Ask the server whether the znode is there and belongs to the session; raises as :meth:`check`."""
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


def _says_expired(error: BaseException) -> bool:
    """Whether this is a :class:`SessionExpiredError`, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(SessionExpiredError)[1] is None
    return isinstance(error, SessionExpiredError)
