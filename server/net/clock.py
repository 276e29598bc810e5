"""The server's clock: monotonic seconds, by which sessions expire and containers are reaped."""

from __future__ import annotations

import math
import time

import trio


class Clock:
    """Trio's clock as it is: under an autojump clock the server lives in virtual time.

    :param follow_wall_clock: whether wall-clock times keep to the machine's clock when that is set, or when
        the machine has slept. Otherwise they go with the monotonic clock from the start, which is what
        virtual time wants.
    """

    def __init__(self, *, follow_wall_clock: bool = False) -> None:
        self._follow = follow_wall_clock
        self._epoch_offset = time.time() - trio.current_time()
        self._woken = trio.Event()

    def now(self) -> float:
        return trio.current_time()

    def epoch_offset(self) -> float:
        """What to add to :meth:`now` for seconds since the epoch."""
        if self._follow:
            self._epoch_offset = time.time() - trio.current_time()
        return self._epoch_offset

    async def sleep_until(self, deadline: float) -> None:
        """Return at ``deadline``, or when :meth:`wake` is called."""
        with trio.move_on_at(deadline) if deadline < math.inf else trio.CancelScope():
            await self._woken.wait()
        self._woken = trio.Event()

    def wake(self) -> None:
        """There may be something to do before the deadline that was given."""
        self._woken.set()
