"""Decides when the loop hands over its connections, and when it takes them back."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...client.direct_connection import ConnectionSource


class ConnectionSources(trio.abc.Instrument):
    """The clients that hand over connections while the loop waits (:mod:`.direct`).

    :param wake: makes the loop continue at once.
    :ivar offers: the clients that are ready to hand over.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self.offers: dict[ConnectionSource, None] = {}

    def before_io_wait(self, timeout: float) -> None:
        """Hand over the connections, unless the loop continues at once."""
        if timeout > 0:
            for source in self.offers:
                if not source.hand_over():
                    self._wake()

    def after_io_wait(self, timeout: float) -> None:
        """Take the connections back."""
        if timeout > 0:
            while self.offers:
                source, _ = self.offers.popitem()
                try:
                    source.take_back()
                except Exception as error:  # else trio removes this object: nothing is taken back any more
                    source.end_connection(f"after a direct connection: {error!r}")
