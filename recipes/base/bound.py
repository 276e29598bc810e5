"""Calls that belong to one session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import trio

from ...client import (
    ClosingError,
    ConnectionLossError,
    SessionExpiredError,
    SessionState,
    ZooKeeper,
    repeat,
)

T = TypeVar("T")

_FRESH = 0.3
"""Of the session timeout: nothing begins to be held with a lease that is shorter."""


class Bound:
    """Calls that are made in the session that was there when this was made, and in no other: what was begun
    in one session must not go on in the next as if nothing had happened (recipe-rules.md D.1.9, trap E-16).

    :ivar generation: of that session.
    """

    def __init__(self, zk: ZooKeeper) -> None:
        self.zk = zk
        self.generation = zk.session.generation

    @property
    def over(self) -> bool:
        """Whether the session has ended."""
        session = self.zk.session
        return session.generation != self.generation or session.state is SessionState.EXPIRED

    def check(self) -> None:
        """Raises :class:`SessionExpiredError` if the session has ended."""
        if self.over:
            raise SessionExpiredError

    async def repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that may be carried out twice until it is answered."""
        return await repeat(self.zk, call, self.generation)

    async def reconnected(self) -> None:
        """Wait until requests are being served, in this same session."""
        await self.zk.session.wait_connected()
        self.check()

    async def confirm(self) -> None:
        """Wait until the session's lease is long enough to hold something. As a rule it is; who has only
        pinged for long needs one answer of the leader.

        Raises :class:`SessionExpiredError`, :class:`ClosingError`.
        """
        session = self.zk.session
        moved = trio.Event()

        def wake() -> None:
            nonlocal moved
            moved.set()
            moved = trio.Event()

        def is_long_enough() -> bool:
            left = session.lease_deadline() - trio.current_time()
            return left >= _FRESH * session.negotiated_timeout

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
        """Wait until the session has ended or the client was closed. A lost connection is neither."""
        session = self.zk.session
        while not self.over and session.state is not SessionState.CLOSED:
            await session.wait_change()


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of several waits is over, and cancel the others. A wait for something of a client that
    is closed, or of a session that has ended, is over too."""
    async with trio.open_nursery() as nursery:

        async def run(wait: Callable[[], Awaitable[object]]) -> None:
            with suppress(ClosingError, SessionExpiredError, ConnectionLossError):
                await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(run, wait)
