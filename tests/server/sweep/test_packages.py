"""The recipes hold in threads and in event loops, too: faults at every request, and some orders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyzk import aio, blocking
from pyzk.recipes import ASCII_INT
from pyzk.server.sweep import sweep
from pyzk.server.sweep.threads.lab import ThreadLab

ALL = ["reply-lost", "cut-after", "gone-after", "ghost"]
LONG = 1e6  # seconds: a budget that no machine uses up

Work = Callable[[ThreadLab, Any], Any]


def locked(lab: ThreadLab, zk: blocking.ZooKeeper) -> None:
    with blocking.Lock(zk, "/lock"), lab.inside("the lock"):
        pass


def counted(lab: ThreadLab, zk: blocking.ZooKeeper) -> None:
    blocking.Counter(zk, "/n", codec=ASCII_INT, exactly_once=True).add(1)


def at_barrier(lab: ThreadLab, zk: blocking.ZooKeeper) -> None:
    with blocking.DoubleBarrier(zk, "/barrier", 2):
        pass


async def locked_aio(lab: ThreadLab, zk: aio.ZooKeeper) -> None:
    async with aio.Lock(zk, "/lock"):
        with lab.inside("the lock"):
            pass


async def counted_aio(lab: ThreadLab, zk: aio.ZooKeeper) -> None:
    await aio.Counter(zk, "/n", codec=ASCII_INT, exactly_once=True).add(1)


async def at_barrier_aio(lab: ThreadLab, zk: aio.ZooKeeper) -> None:
    async with aio.DoubleBarrier(zk, "/barrier", 2):
        pass


def in_threads(work: Work) -> Callable[[ThreadLab], None]:
    def scenario(lab: ThreadLab) -> None:
        first, second = lab.blocking("a"), lab.blocking("b")
        lab.together(partial(work, lab, first), partial(work, lab, second))

    return scenario


def in_event_loops(work: Work) -> Callable[[ThreadLab], None]:
    def scenario(lab: ThreadLab) -> None:
        async def main(hosts: str) -> None:
            async with aio.connect(hosts, session_timeout=10.0, on_expired="new_session") as zk:
                await work(lab, zk)

        hosts = lab.hosts("a"), lab.hosts("b")
        lab.together(*(partial(_run, main, each) for each in hosts))

    return scenario


def _run(main: Callable[[str], Any], hosts: str) -> None:
    asyncio.run(main(hosts))


SCENARIOS = {work.__name__: in_threads(work) for work in (locked, counted, at_barrier)} | {
    work.__name__: in_event_loops(work) for work in (locked_aio, counted_aio, at_barrier_aio)
}
# The marker of a counter's change outlives a client that is gone before it can delete it, and the others at a
# barrier wait for one more: these hold as long as no session is lost.
FAULTS = {"locked": ALL, "locked_aio": ALL}


@pytest.mark.parametrize("name", SCENARIOS)
def test_faults_at_every_request(name: str) -> None:
    report = sweep(
        SCENARIOS[name], faults=FAULTS.get(name, ["reply-lost", "cut-after"]), orders=None, budget=LONG
    )
    assert report.results.cells == report.results.all_cells >= 6
