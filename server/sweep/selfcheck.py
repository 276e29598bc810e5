"""The race that a sweep must find first. Otherwise the sweep may not say that a scenario has no race."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .lab import Lab

if TYPE_CHECKING:
    from ...client import ZooKeeper
    from .threads.lab import ThreadLab


async def planted_race(lab: Lab) -> None:
    """Let two clients add 1 to a number: each client reads and writes it, and checks no version."""
    first, second = await lab.client("a"), await lab.client("b")
    await first.create("/number", b"0")

    async def add(zk: ZooKeeper) -> None:
        data, _ = await zk.get("/number")
        await zk.set("/number", str(int(data or b"") + 1).encode())

    await lab.together(partial(add, first), partial(add, second))
    data, _ = await first.get("/number")
    assert data == b"2", "an increment is lost"


def planted_race_of_threads(lab: ThreadLab) -> None:
    """Do the same as :func:`planted_race` in threads, with kazoo if kazoo is installed."""
    connect: Callable[[str], Any] = lab.client if find_spec("kazoo") is not None else lab.blocking
    first, second = connect("a"), connect("b")
    first.create("/number", b"0")

    def add(zk: Any) -> None:
        data, _ = zk.get("/number")
        zk.set("/number", str(int(data) + 1).encode())

    lab.together(partial(add, first), partial(add, second))
    data, _ = first.get("/number")
    assert data == b"2", "an increment is lost"
