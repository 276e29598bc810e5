"""Tasks of one process take turns here, so that one of them at a time contends at the server."""

from __future__ import annotations

import trio

from ..errors import WouldBlock
from .grant import Grant


class LocalQueue:
    """First come, first served.

    :param max_handoffs: how many times in a row a lock may be passed on here before it is released, so that
        others get their turn.
    """

    def __init__(self, max_handoffs: int) -> None:
        self._max_handoffs = max_handoffs
        self._handoffs = 0
        self._busy = False
        self._waiting = trio.lowlevel.ParkingLot()
        self._passed: Grant | None = None

    async def enter(self, path: str, *, wait: bool) -> Grant | None:
        """Wait for the turn. Returns the lock if it was passed on; who gets None has to contend for it.

        Raises :class:`WouldBlock` rather than wait.
        """
        if not self._busy:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._busy = True
            return None
        if not wait:
            raise WouldBlock(path)
        await self._waiting.park()  # the one before stays busy for us
        grant, self._passed = self._passed, None
        return grant

    def pass_on(self, grant: Grant) -> bool:
        """The turn is over; let the next one have the lock. Returns False if there is none, or it may not."""
        if not self._waiting or grant.lost.is_set() or self._handoffs >= self._max_handoffs:
            return False
        if grant.revoked.is_set():  # somebody else has asked for it
            return False
        self._handoffs += 1
        self._passed = grant.passed_on()
        self._waiting.unpark()
        return True

    def leave(self) -> None:
        """The turn is over, and the lock was released."""
        self._handoffs = 0
        if self._waiting:
            self._waiting.unpark()
        else:
            self._busy = False
