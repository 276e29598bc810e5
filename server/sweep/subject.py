"""The subject of a sweep: anything that can run in a given order, with at most one fault."""

from __future__ import annotations

from typing import Protocol

from .model import Cell, Outcome
from .orders import Order


class Subject(Protocol):
    """The base class for everything that a sweep can run.

    :ivar most_shortening: how many runs may be made to shorten a bad order.
    :ivar is_exact: whether only the order decides what a run does. If this is false, timers of clients also
        decide, and a run that did not keep its order is repeated.
    """

    @property
    def most_shortening(self) -> int: ...

    @property
    def is_exact(self) -> bool: ...

    def run(self, order: Order, cell: Cell | None = None) -> Outcome:
        """Make one run.

        :raises Diverged: the run could not keep the order.
        """

    def run_again(self, order: Order, cell: Cell | None = None) -> Outcome:
        """Repeat a bad run, in which its fault lasts as long as with a real server."""

    def planted(self) -> Subject:
        """Return a race with clients of the same kind. If the sweep does not find this race, the sweep proves
        nothing."""
