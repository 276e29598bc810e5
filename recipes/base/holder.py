"""The holder of a lock: a task of trio, or the thread or asyncio task for which the trio task works."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

import attrs
import trio


class Lapsing(Protocol):
    """An ownership on which a block relies until a deadline. The deadline may move.

    :ivar limit: the deadline in seconds of the loop's clock, ``time.monotonic()``; infinity for no deadline.
    """

    @property
    def limit(self) -> float: ...

    def lapse(self) -> None:
        """Note that the deadline has passed. This is called in the loop."""


@attrs.frozen
class OnBehalf:
    """The caller for whom a task works.

    :ivar holder: a thread, or a task of asyncio.
    :ivar relied_on: the ownerships on which the blocks of the task rely, from the outermost block to the
        innermost.
    """

    task: trio.lowlevel.Task
    holder: object
    relied_on: list[Lapsing]


on_behalf: ContextVar[OnBehalf | None] = ContextVar("on_behalf", default=None)
"""The caller for whom the present task works. Child tasks inherit this value, but do not work for the caller:
``task`` of the value is another task."""


def _working() -> OnBehalf | None:
    working = on_behalf.get()
    return working if working is not None and working.task is trio.lowlevel.current_task() else None


def current_holder() -> object:
    """Return the holder for the current task: the caller for whom the task works, or the task itself."""
    working = _working()
    return working.holder if working is not None else trio.lowlevel.current_task()


def relied_on() -> list[Lapsing]:
    """Return the list of ownerships on which the blocks of the current task rely. Each block adds its
    ownership to the list at the beginning of the block, and removes the ownership at the end.

    In plain trio each call returns a new list, which is not used.
    """
    working = _working()
    return working.relied_on if working is not None else []
