"""Calls that belong to one session (recipe-rules.md D.1.9, trap E-16).

The rules:

* Work that began in one session must not silently continue in the next session. A :class:`Bound` makes its
  calls in the session in which it was created. After the end of this session its calls raise
  :class:`SessionExpiredError`.
* A lost connection does not end the work: calls are repeated in the same session until they are answered.
* An ownership does not begin while the lease of the session is nearly over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

import trio

from ...client import (
    ClosingError,
    ConnectionLossError,
    SessionExpiredError,
    SessionState,
    ZooKeeper,
)
from ...client.repeating import repeat

T = TypeVar("T")

_LEAST_LEASE = 0.3
"""A fraction of the session timeout: :meth:`Bound.confirm` waits for a lease of at least this length. The
fraction is larger than the default margin of an ownership. Therefore a new ownership is not lost at once."""


class Bound:
    """Calls that use the present session of a client, and never a later session.

    :ivar generation: the generation of the session.
    """

    def __init__(self, zk: ZooKeeper) -> None:
        self.zk = zk
        self.generation = zk.session.generation

    @property
    def over(self) -> bool:
        """True if the session has ended."""
        session = self.zk.session
        return session.generation != self.generation or session.state is SessionState.EXPIRED

    def check(self) -> None:
        """Check that the session has not ended.

        :raises SessionExpiredError: the session has ended.
        """
        if self.over:
            raise SessionExpiredError

    async def repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it is answered. The server may carry out the call more than once.

        :raises SessionExpiredError: the session has ended.
        :raises ZooKeeperError: the server refuses the call.
        """
        return await repeat(self.zk, call, self.generation)

    async def reconnected(self) -> None:
        """Wait until the session is connected.

        :raises SessionExpiredError: the session has ended.
        :raises ClosingError: the client was closed.
        """
        await self.zk.session.wait_connected()
        self.check()

    async def confirm(self) -> None:
        """Wait until the session's lease is long enough to hold something. Usually the lease is long enough
        at once. A client that has only sent pings for some time waits for one answer of the leader.

        :raises SessionExpiredError: the session has ended.
        :raises ClosingError: the client was closed.
        """
        session = self.zk.session
        moved = trio.Event()

        def wake() -> None:
            nonlocal moved
            moved.set()
            moved = trio.Event()

        def is_long_enough() -> bool:
            left = session.lease_deadline() - trio.current_time()
            return left >= _LEAST_LEASE * session.negotiated_timeout

        if is_long_enough():
            return
        stop_keeping = self.zk.keep_lease(wake)
        try:
            while True:
                await self.reconnected()
                if is_long_enough():
                    return
                await first_of(moved.wait, session.changed.wait)
        finally:
            stop_keeping()

    async def ended(self) -> None:
        """Wait until the session has ended or the client was closed. A lost connection does not end the
        wait."""
        session = self.zk.session
        while not self.over and session.state is not SessionState.CLOSED:
            await session.wait_change()


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of several waits is over, and cancel the others. The error of a closed client, of an
    ended session or of a lost connection ends a wait too.

    :raises trio.Cancelled: the caller was cancelled. This is a single error, and not a group of the errors of
        all waits.
    """
    try:
        await _first_of(waits)
    except BaseExceptionGroup as group:
        _, others = group.split(trio.Cancelled)
        if others is not None:
            raise
    else:
        return
    await trio.lowlevel.checkpoint_if_cancelled()


async def _first_of(waits: Iterable[Callable[[], Awaitable[object]]]) -> None:
    async with trio.open_nursery() as nursery:

        async def run(wait: Callable[[], Awaitable[object]]) -> None:
            with suppress(ClosingError, SessionExpiredError, ConnectionLossError):
                await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(run, wait)
