"""One run of a scenario: a fresh server, one order, at most one fault, and a verdict.

An async scenario runs in memory and in virtual time, so a client that is cut off for ten seconds costs none.
A plain function runs in threads, see :mod:`.threads`.
"""

from __future__ import annotations

import inspect
import random
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest import mock

import trio
import trio.testing

from ..app.embedded import open_server
from ..net.connection import Connection
from .faults import FAULTS
from .judging import first_line, judge_error, look_at_what_is_left, place
from .lab import Lab
from .model import Cell, Outcome
from .no_log import no_log
from .orders import Order
from .stage import Stage

if TYPE_CHECKING:
    from .threads.lab import ThreadLab

Scenario: TypeAlias = Callable[[Lab], Awaitable[object]] | Callable[["ThreadLab"], object]
"""An async function for clients of :mod:`pyzk.client`; a plain one for clients of kazoo."""

_LONGEST: Final = 600.0
"""Seconds of virtual time after which a run hangs."""
_AFTERWARDS: Final = 30.0
"""Seconds of virtual time until what a client leaves behind has gone with its session."""


def is_in_threads(scenario: Scenario) -> bool:
    """Whether a scenario is a plain function, whose clients are threads."""
    return not inspect.iscoroutinefunction(inspect.unwrap(scenario))


def run(scenario: Scenario, order: Order, cell: Cell | None = None) -> Outcome:
    """Run a scenario once."""
    if is_in_threads(scenario):
        from .threads.run import run_in_threads

        return run_in_threads(scenario, order, cell)
    outcome = Outcome()
    clock = trio.testing.MockClock(autojump_threshold=0)
    with _determined(), no_log():
        trio.run(_main, scenario, order, cell, outcome, clock=clock)
    return outcome


async def _main(scenario: Any, order: Order, cell: Cell | None, outcome: Outcome) -> None:
    settings: dict[str, Any] = {
        "tick_time": 1000,
        "min_session_timeout": 200,
        "max_session_timeout": 100_000,
        "extended_types": True,
    }
    async with open_server(**settings, record=False) as server:
        names: dict[Connection, str] = {}
        stage = Stage(server, names, order, cell, outcome)
        excused = cell.client if cell is not None and FAULTS[cell.fault].ends_session else None
        async with trio.open_nursery() as background:
            background.start_soon(stage.run)
            try:
                async with trio.open_nursery() as clients:
                    lab = Lab(server, stage, names, clients, excused)
                    await _act(scenario, lab, outcome)
                    stage.close()
                    clients.cancel_scope.cancel()
            except Exception as error:  # of a client's own tasks
                outcome.judge("error", first_line(error))
            background.cancel_scope.cancel()
        if cell is not None:
            await trio.sleep(_AFTERWARDS)
        look_at_what_is_left(server, outcome)


async def _act(scenario: Any, lab: Lab, outcome: Outcome) -> None:
    try:
        with trio.move_on_after(_LONGEST) as patience:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_watch, lab, outcome, patience)
                    await scenario(lab)
                    scope.cancel()
        if patience.cancelled_caught:
            outcome.judge("hang", "nobody acts any more")
    except Exception as error:
        judge_error(outcome, lab, error)


async def _watch(lab: Lab, outcome: Outcome, patience: trio.CancelScope) -> None:
    """Note where each client waits, shortly before the run is given up."""
    await trio.sleep_until(patience.deadline - 1)
    for name, task in sorted(lab.tasks.items()):
        frames = [
            traceback.FrameSummary(f.f_code.co_filename, line, f.f_code.co_name)
            for f, line in task.iter_await_frames()
        ]
        outcome.waiting[name] = place(frames)


def _uuid4(source: random.Random) -> uuid.UUID:
    return uuid.UUID(int=source.getrandbits(128), version=4)


@contextmanager
def _determined() -> Iterator[None]:
    """Have chance decide the same in each run: trio's scheduler, ``random``, and UUIDs."""
    source = random.Random(0)
    state = random.getstate()
    random.seed(0)
    trio._core._run._r.seed(0)
    try:
        with mock.patch.object(uuid, "uuid4", new=partial(_uuid4, source)):
            yield
    finally:
        random.setstate(state)
