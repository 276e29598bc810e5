"""Who holds: a task of trio, or the thread or the task of asyncio for which a task works."""

from __future__ import annotations

from contextvars import ContextVar

import trio

on_behalf: ContextVar[tuple[trio.lowlevel.Task, object] | None] = ContextVar("on_behalf", default=None)
"""A task that works for another one, and for whom. The tasks that it starts inherit the value, but work for
nobody: they are not the task that is named."""


def current_holder() -> object:
    """Return what tells the holder of a lock from others: whoever the current task works for, or the task."""
    task = trio.lowlevel.current_task()
    working = on_behalf.get()
    return working[1] if working is not None and working[0] is task else task
