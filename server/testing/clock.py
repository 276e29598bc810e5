"""The server's clock in a test: it runs with trio's clock, or stands still, and jumps when told to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import trio

from ..net.clock import Clock

ClockMode: TypeAlias = Literal["running", "frozen"]
CLOCK_MODES = ("running", "frozen")


class JumpingClock(Clock):
    """A clock that can jump.

    :param frozen: whether time passes by :meth:`jump` alone.
    """

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        self._started = trio.current_time()
        self._frozen = frozen
        self._jumped = 0.0

    def now(self) -> float:
        return (self._started if self._frozen else trio.current_time()) + self._jumped

    def jump(self, seconds: float) -> None:
        """Advance the clock. The caller then does what is due."""
        self._jumped += seconds

    async def sleep_until(self, deadline: float) -> None:
        # A frozen clock never comes to a deadline by itself: only a jump does, and that wakes us.
        await super().sleep_until(math.inf if self._frozen else deadline - self._jumped)


class ServerClock:
    """The server's time, as a test sees and moves it."""

    def __init__(self, now: Callable[[], float], advance: Callable[[float, bool], None]) -> None:
        self._now = now
        self._advance = advance

    def now(self) -> float:
        """Return the seconds on the server's clock since it was started."""
        return self._now()

    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Let the server's time jump ahead.

        All that falls due on the way has happened when this returns: sessions have expired, container and TTL
        znodes are reaped, their watches have been sent, delayed requests have been answered. Clients are on
        their own clocks and know nothing of the jump, so a session expires even while its client is
        connected, as after a long pause of the client's process.

        :param seconds: how far, at least 0. A session expires up to one tick after its timeout, so jump by
            the timeout plus a tick, or use ``expire``.
        :param keep_alive: whether connected clients count as having sent their pings on time: then only the
            sessions of those that are gone, or paused, expire.
        :raises ValueError: for a negative or infinite number.
        """
        self._advance(seconds, keep_alive)
