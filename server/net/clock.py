"""The clock of the server: monotonic time in seconds. Sessions expire and containers are deleted by this
clock."""

from __future__ import annotations

import math
import time

import trio


class Clock:
    """Trio's clock, which can be frozen and advanced.

    If trio has an autojump clock, the server runs in virtual time.

    :param follow_wall_clock: whether wall-clock times follow the machine's clock when somebody sets it, or
        after the machine has slept. Otherwise wall-clock times advance with the monotonic clock from the
        start of the server. Virtual time needs the second way.
    :param frozen: whether time passes only by :meth:`jump`.
    :ivar leapt: the sum of all jumps in seconds.
    """

    def __init__(self, *, follow_wall_clock: bool = False, frozen: bool = False) -> None:
        self._follow = follow_wall_clock
        self._epoch_offset = time.time() - trio.current_time()
        self._frozen_at = trio.current_time() if frozen else None
        self._jumped = 0.0  # seconds of jumps, less the seconds for which the clock was frozen
        self.leapt = 0.0
        self._woken = trio.Event()

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return (trio.current_time() if self._frozen_at is None else self._frozen_at) + self._jumped

    def epoch_offset(self) -> float:
        """Return the difference in seconds between the seconds since the epoch and :meth:`now`."""
        if self._follow:
            self._epoch_offset = time.time() - trio.current_time()
        return self._epoch_offset

    def jump(self, seconds: float) -> None:
        """Advance the clock by ``seconds``. The caller must then do everything that is due."""
        self._jumped += seconds
        self.leapt += seconds

    @property
    def frozen(self) -> bool:
        """Whether time passes only by :meth:`jump`."""
        return self._frozen_at is not None

    def freeze(self, frozen: bool) -> None:
        """Stop the clock, or continue from the same time."""
        now = self.now()
        self._frozen_at = trio.current_time() if frozen else None
        self._jumped += now - self.now()
        self.wake()

    async def sleep_until(self, deadline: float) -> None:
        """Return at ``deadline`` (seconds of :meth:`now`), or earlier when :meth:`wake` is called.

        While the clock is frozen, a deadline in the future never comes. The caller of :meth:`jump` must wake
        the sleeper.
        """
        if self._frozen_at is not None and deadline > self.now():
            deadline = math.inf
        deadline -= self._jumped
        with trio.move_on_at(deadline) if deadline < math.inf else trio.CancelScope():
            await self._woken.wait()
        if self._woken.is_set():  # if not, other tasks may still wait for the event
            self._woken = trio.Event()

    def wake(self) -> None:
        """End a :meth:`sleep_until` before its deadline, because new work may be due."""
        self._woken.set()
