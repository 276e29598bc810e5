"""What goes through a tree in steps, and what follows the changes meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from pyzk.server.core.replacing import Touched
from pyzk.server.core.txn import Txn

from .world import World

T = TypeVar("T")


def made_of(steps: Generator[None, None, T]) -> T:
    """What a generator returns that is gone through at once."""
    return counted(steps)[1]


def counted(steps: Generator[None, None, T]) -> tuple[int, T]:
    """How often it yields, too."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def following(world: World) -> Touched:
    """Hears of all that changes from now on."""
    touched = Touched()

    def note(txn: Txn) -> None:
        world.txns.append(txn)
        touched(txn)

    world.engine.on_txn = note
    return touched
