"""The server's clock in a test. The clock runs with trio's clock or is frozen, and a test can advance it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

ClockMode: TypeAlias = Literal["running", "frozen"]
CLOCK_MODES = ("running", "frozen")


class ServerClock:
    """The server's clock, which a test can read, advance and freeze."""

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
        """Return the seconds on the server's clock since the start of the server."""
        return self._now()

    def advance(self, seconds: float, *, keep_alive: bool = False) -> None:
        """Advance the server's clock.

        When this returns, everything that was due by then has happened: sessions have expired, container and
        TTL znodes are deleted, watch events are sent, delayed requests are answered. Clients have clocks of
        their own and do not notice. So a session expires even while its client is connected, as after a long
        pause of the client's process.

        :param seconds: how far, at least 0. A session expires up to one tick after its timeout, so advance by
            the timeout plus one tick, or use ``expire``.
        :param keep_alive: whether to treat connected clients as if they had sent their pings on time. Then
            only the sessions of clients that are gone or paused expire.
        :raises ValueError: ``seconds`` is negative or longer than 30 years.
        """
        self._advance(seconds, keep_alive)

    @property
    def frozen(self) -> bool:
        """Whether the clock is frozen: then only :meth:`advance` moves it."""
        return self._is_frozen()

    def freeze(self) -> None:
        """Freeze the server's clock. :meth:`advance` still moves it."""
        self._freeze(True)

    def unfreeze(self) -> None:
        """Let the server's clock run again, from its present time."""
        self._freeze(False)
