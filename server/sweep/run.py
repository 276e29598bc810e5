"""One run of a scenario: a fresh server, one order, at most one fault, and a verdict.

It runs in memory and in virtual time, so a client that is cut off for ten seconds costs none.
"""

from __future__ import annotations

import logging
import random
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import trio
import trio.testing

from ..app.embedded import open_server
from ..net.connection import Connection
from ..testing.host import LocalServer
from .faults import FAULTS
from .lab import GaveUp, Lab, says_that_it_ended
from .model import Cell, Outcome, without_numbers
from .orders import Order
from .stage import Stage

Scenario: TypeAlias = Callable[[Lab], Awaitable[object]]

_LONGEST: Final = 600.0
"""Seconds of virtual time after which a run hangs."""
_AFTERWARDS: Final = 30.0
"""Seconds of virtual time until what a client leaves behind has gone with its session."""
_OURS: Final = str(Path(__file__).parents[2])


def run(scenario: Scenario, order: Order, cell: Cell | None = None) -> Outcome:
    """Run a scenario once."""
    outcome = Outcome()
    clock = trio.testing.MockClock(autojump_threshold=0)
    with _determined(), _quiet():
        trio.run(_main, scenario, order, cell, outcome, clock=clock)
    return outcome


async def _main(scenario: Scenario, order: Order, cell: Cell | None, outcome: Outcome) -> None:
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
                outcome.judge("error", _first_line(error))
            background.cancel_scope.cancel()
        if cell is not None:
            await trio.sleep(_AFTERWARDS)
        _look_at_what_is_left(server, outcome)


async def _act(scenario: Scenario, lab: Lab, outcome: Outcome) -> None:
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
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not (isinstance(error, GaveUp) or (lab.is_excused and lab.is_over and says_that_it_ended(error))):
            outcome.judge("wrong" if isinstance(error, AssertionError) else "error", _first_line(error))


async def _watch(lab: Lab, outcome: Outcome, patience: trio.CancelScope) -> None:
    """Note where each client waits, shortly before the run is given up."""
    await trio.sleep_until(patience.deadline - 1)
    for name, task in sorted(lab.tasks.items()):
        frames = [
            traceback.FrameSummary(f.f_code.co_filename, line, f.f_code.co_name)
            for f, line in task.iter_await_frames()
        ]
        outcome.waiting[name] = _place(frames)


def _place(frames: list[traceback.FrameSummary]) -> str:
    """Say where a task waits: its own line, and the call of ours that it made there."""
    own = [
        frame for frame in frames if not frame.filename.startswith(_OURS) and "/trio/" not in frame.filename
    ]
    ours = [frame for frame in frames if frame.filename.startswith(_OURS) and "/sweep/" not in frame.filename]
    words = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in own[-1:]]
    words += [f"{Path(frame.filename).name} {frame.name}" for frame in ours[:1]]
    return " -> ".join(words) or "no line of its own"


def _look_at_what_is_left(server: LocalServer, outcome: Outcome) -> None:
    nodes = server.dump(form="nodes")
    ephemeral = sorted(path for path, node in nodes.items() if node.kind == "ephemeral")
    if ephemeral:
        outcome.judge("leak", f"left behind: {without_numbers(ephemeral[0])}")
    outcome.left = sorted(without_numbers(path) for path, node in nodes.items() if node.kind != "ephemeral")


def _first_line(error: BaseException) -> str:
    text = (str(error).splitlines() or [""])[0][:160]
    if isinstance(error, AssertionError):
        return text or "an assertion failed"
    return f"{type(error).__name__}: {text}"


def _uuid4(source: random.Random) -> uuid.UUID:
    return uuid.UUID(int=source.getrandbits(128), version=4)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log still: hundreds of runs lose their connections on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


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
