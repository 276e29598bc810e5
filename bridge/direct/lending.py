"""When the loop lends its connections, and when it takes them back."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ...client.loan import Lender


class Lenders(trio.abc.Instrument):
    """The clients that lend connections while the loop waits (:mod:`.direct`).

    :param wake: has the loop continue at once.
    :ivar offers: the clients that are ready to lend.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self.offers: dict[Lender, None] = {}

    def before_io_wait(self, timeout: float) -> None:
        """Lend, unless the loop continues at once."""
        if timeout > 0:
            for lender in self.offers:
                if not lender.lend():
                    self._wake()

    def after_io_wait(self, timeout: float) -> None:
        """Take the lent connections back."""
        if timeout > 0:
            while self.offers:
                lender, _ = self.offers.popitem()
                try:
                    lender.take_back()
                except Exception as error:  # else trio removes this object: nothing is taken back any more
                    lender.end_connection(f"after a loan: {error!r}")
