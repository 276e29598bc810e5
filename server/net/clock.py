"""The server's clock: monotonic seconds. Sessions expire and containers are deleted by this clock."""

from __future__ import annotations

import math
import time

import trio


class Clock:
    """Trio's clock, which can be frozen and advanced.

    Under an autojump clock the server runs in virtual time.

    :param follow_wall_clock: whether wall-clock times follow the machine's clock when somebody sets it, or
        after the machine has slept. Otherwise they advance with the monotonic clock from the start of the
        server. Virtual time needs that.
    :param frozen: whether time passes only by :meth:`jump`.
    :ivar leapt: the seconds of all jumps together.
    """

    def __init__(self, *, follow_wall_clock: bool = False, frozen: bool = False) -> None:
        self._follow = follow_wall_clock
        self._epoch_offset = time.time() - trio.current_time()
        self._frozen_at = trio.current_time() if frozen else None
        self._jumped = 0.0  # seconds, those left out while it was frozen taken off
        self.leapt = 0.0
        self._woken = trio.Event()

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return (trio.current_time() if self._frozen_at is None else self._frozen_at) + self._jumped

    def epoch_offset(self) -> float:
        """Return the seconds to add to :meth:`now` for the seconds since the epoch."""
        if self._follow:
            self._epoch_offset = time.time() - trio.current_time()
        return self._epoch_offset

    def jump(self, seconds: float) -> None:
        """Advance the clock by ``seconds``. The caller then does everything that is due."""
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

        The deadline of a frozen clock never comes by itself, unless it has come already. The caller of
        :meth:`jump` wakes the sleeper.
        """
        if self._frozen_at is not None and deadline > self.now():
            deadline = math.inf
        deadline -= self._jumped
        with trio.move_on_at(deadline) if deadline < math.inf else trio.CancelScope():
            await self._woken.wait()
        if self._woken.is_set():  # others may still sleep
            self._woken = trio.Event()

    def wake(self) -> None:
        """End a :meth:`sleep_until`, because there may be something to do before its deadline."""
        self._woken.set()
