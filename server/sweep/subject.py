"""What is swept: anything that can be run in a given order, with one fault at most."""

from __future__ import annotations

from typing import Protocol

from .model import Cell, Outcome
from .orders import Order


class Subject(Protocol):
    """
    :ivar most_shortening: how many runs may be spent on making a bad order shorter.
    :ivar is_exact: whether only the order decides what a run does. Otherwise timers of clients may decide,
        too,
        and a run is repeated that is not the one that was ordered.
    """

    @property
    def most_shortening(self) -> int: ...

    @property
    def is_exact(self) -> bool: ...

    def run(self, order: Order, cell: Cell | None = None) -> Outcome:
        """Run once.

        :raises Diverged: the order could not be kept.
        """

    def run_again(self, order: Order, cell: Cell | None = None) -> Outcome:
        """Run a bad run again, with the real duration of its fault."""

    def planted(self) -> Subject:
        """Return a race that must be found before "nothing found" counts, with clients of the same kind."""
