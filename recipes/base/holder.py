"""The holder of a lock: a task of trio, or the thread or the task of asyncio for which that task works."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

import attrs
import trio


class Lapsing(Protocol):
    """A hold on which a block relies until a deadline that may move.

    :ivar limit: that moment, in seconds of the loop's clock, ``time.monotonic()``; infinity for none.
    """

    @property
    def limit(self) -> float: ...

    def lapse(self) -> None:
        """Note that the moment has passed; called in the loop."""


@attrs.frozen
class OnBehalf:
    """The caller for whom a task works.

    :ivar holder: a thread, or a task of asyncio.
    :ivar relied_on: the holds on which the task's blocks rely, the outermost first.
    """

    task: trio.lowlevel.Task
    holder: object
    relied_on: list[Lapsing]


on_behalf: ContextVar[OnBehalf | None] = ContextVar("on_behalf", default=None)
"""The caller for whom the present task works. Child tasks inherit the value, but they work for nobody,
because they are not the task that the value names."""


def _working() -> OnBehalf | None:
    working = on_behalf.get()
    return working if working is not None and working.task is trio.lowlevel.current_task() else None


def current_holder() -> object:
    """Return the holder of a lock: the caller for whom the current task works, or else the task itself."""
    working = _working()
    return working.holder if working is not None else trio.lowlevel.current_task()


def relied_on() -> list[Lapsing]:
    """Return the list of the things that the blocks of the current task rely on. Each block adds and removes
    its own.

    In plain trio the list is a new one each time, and nobody reads it.
    """
    working = _working()
    return working.relied_on if working is not None else []
