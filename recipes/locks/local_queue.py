"""The queue of the tasks of one process: only one of these tasks contends at the server."""

from __future__ import annotations

import trio

from ...client import ZooKeeper
from ..base.waiting import waiting_for
from ..errors import WouldBlock
from .grant import Grant


class LocalQueue:
    """A queue of tasks, in the order in which the tasks came.

    :param max_handoffs: the number of times in a row that a lock can be passed on to the next task of this
        process. Then the lock is released, and contenders of other processes get their turn.
    """

    def __init__(self, zk: ZooKeeper, max_handoffs: int) -> None:
        self._zk = zk
        self._max_handoffs = max_handoffs
        self._handoffs = 0
        self._busy = False
        self._waiting = trio.lowlevel.ParkingLot()
        self._passed: Grant | None = None

    async def enter(self, path: str, *, wait: bool) -> Grant | None:
        """Wait for the turn of this task. Returns the lock if another task has passed it on. Otherwise
        returns None, and the task must contend for the lock.

        :raises WouldBlock: another task has the turn, and ``wait`` is False.
        """
        if not self._busy:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._busy = True
            return None
        if not wait:
            raise WouldBlock(path)
        with waiting_for(self._zk, path, "behind another task of this process"):
            await self._waiting.park()  # the task before this one leaves `_busy` set
        grant, self._passed = self._passed, None
        if grant is None or not grant.lost.is_set():
            return grant
        try:
            await grant.surrender()
        except BaseException:
            self.leave()
            raise
        return None

    def pass_on(self, grant: Grant) -> bool:
        """End this turn, and pass the lock on to the next task. Returns False if there is no next task, or if
        the lock must be released."""
        if not self._waiting or grant.lost.is_set() or self._handoffs >= self._max_handoffs:
            return False
        if grant.revoked.is_set():  # another client has asked for the lock
            return False
        self._handoffs += 1
        self._passed = grant.passed_on()
        self._waiting.unpark()
        return True

    def leave(self) -> None:
        """End this turn, after the lock was released."""
        self._handoffs = 0
        if self._waiting:
            self._waiting.unpark()
        else:
            self._busy = False
