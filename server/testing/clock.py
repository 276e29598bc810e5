"""The server's clock in a test: it runs with trio's clock, or stands still, and jumps when told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

ClockMode: TypeAlias = Literal["running", "frozen"]
CLOCK_MODES = ("running", "frozen")


class ServerClock:
    """The server's time, as a test sees and moves it."""

    def __init__(
        self,
        now: Callable[[], float],
        advance: Callable[[float, bool], None],
        freeze: Callable[[bool], None],
        is_frozen: Callable[[], bool],
    ) -> None:
        self._now = now
        self._advance = advance
        self._freeze = freeze
        self._is_frozen = is_frozen

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
        :raises ValueError: for a negative number, or one of more than 30 years.
        """
        self._advance(seconds, keep_alive)

    @property
    def frozen(self) -> bool:
        """Whether time passes by :meth:`advance` alone."""
        return self._is_frozen()

    def freeze(self) -> None:
        """Stop the server's time; :meth:`advance` still moves it."""
        self._freeze(True)

    def unfreeze(self) -> None:
        """Let the server's time go on from where it stands."""
        self._freeze(False)
