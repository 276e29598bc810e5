"""The end of a lease as a timer of the event loop: after it a task makes no step.

The rules:

* For each block or callback in which a task of asyncio relies on a hold (a lock, a lease, leadership, a
  claim) there is one timer of its event loop, at the limit of the hold: the end of the lease less the margin.
  trio has a deadline at the same time, but in the client's loop, in another thread. The event loop would get
  its result one iteration later, after the due timers of the user.
* An event loop that was stopped (SIGSTOP, a blocked loop) finds several timers due. It calls them in the
  order of their times, all in one iteration. A task that slept is woken in the next iteration. Before that,
  this timer has cancelled the task. ``asyncio.timeout`` does the same. This is true of every task that waits
  for a future.
* The limit moves while the lease is kept. The timer does not move. When the timer is due, it checks the
  limit, and waits for the new limit. If a limit moves back (a server grants less at a new handshake), only
  the client's loop cancels the task.
* If the timer finds that the limit of a hold has passed, the hold is lost, even if the client's loop extends
  the lease a moment later.

A task makes one more step, up to its next wait, in three cases. It was ready to run before the stop (its
future had a result). It waited for a reply of ZooKeeper that has arrived. Or a TaskGroup inside the block has
started the task: the group cancels it one iteration after the task that holds the lock.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..bridge.loop import Loop
from ..client import ClosingError
from ..recipes.base.holder import Lapsing


class LimitTimer:
    """Cancels a task when a hold that the task relies on has passed its limit.

    :param client: the client's loop.
    :param interrupt: cancels the task.
    """

    def __init__(self, relied_on: Sequence[Lapsing], client: Loop, interrupt: Callable[[], object]) -> None:
        self._relied_on = relied_on
        self._client = client
        self._interrupt = interrupt
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def cancel(self) -> None:
        """End the timer, because the block has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        limit = min((each.limit for each in self._relied_on), default=math.inf)
        if limit < math.inf:
            delay = max(limit - time.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        passed = [each for each in self._relied_on if each.limit <= now]
        if not passed:
            self._wait()
            return
        self._timer = None
        with suppress(ClosingError):  # then all are lost
            for each in passed:
                self._client.post(each.lapse)
        self._interrupt()
