"""The server's clock: monotonic seconds, by which sessions expire and containers are reaped."""

from __future__ import annotations

import math
import time

import trio


class Clock:
    """Trio's clock, which can be frozen and made to jump.

    Under an autojump clock the server lives in virtual time.

    :param follow_wall_clock: whether wall-clock times follow the machine's clock when somebody sets it, or
        after the machine has slept. Otherwise they advance with the monotonic clock from the start of the
        server, as virtual time needs.
    :param frozen: whether time passes by :meth:`jump` alone.
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
        """Let ``seconds`` have passed. The caller then does what has fallen due."""
        self._jumped += seconds
        self.leapt += seconds

    @property
    def frozen(self) -> bool:
        """Whether time passes by :meth:`jump` alone."""
        return self._frozen_at is not None

    def freeze(self, frozen: bool) -> None:
        """Stop, or go on from the same time."""
        now = self.now()
        self._frozen_at = trio.current_time() if frozen else None
        self._jumped += now - self.now()
        self.wake()

    async def sleep_until(self, deadline: float) -> None:
        """Return at ``deadline`` (seconds of :meth:`now`), or earlier when :meth:`wake` is called.

        The deadline of a frozen clock never comes by itself, unless it has come already: who makes the clock
        jump wakes the sleeper.
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
