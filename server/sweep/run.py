"""One run of a scenario: a fresh server, one order, at most one fault, and a verdict.

A run is in memory and in virtual time, so a client that is cut off for ten seconds costs no real time. The
clients of an async scenario are tasks of the run itself. The clients of a plain function are threads
(:mod:`.threads`).
"""

from __future__ import annotations

import inspect
import random
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

import trio
import trio.testing

from .driver import Driver, TrioDriver
from .faults import FAULTS
from .judging import first_line, innermost, judge_error, look_at_what_is_left
from .lab import BaseLab, Lab
from .model import Cell, Endless, NotControlled, Outcome
from .no_log import no_log
from .orders import Order
from .selfcheck import planted_race, planted_race_of_threads
from .servers import Servers, open_servers
from .stage import Stage

if TYPE_CHECKING:
    from .threads.lab import ThreadLab

Scenario: TypeAlias = Callable[[Lab], Awaitable[object]] | Callable[["ThreadLab"], object]
"""An async function with clients of :mod:`pyzk.client`, or a plain function with clients in threads."""


class InProcess:
    """A :class:`.subject.Subject`: a scenario whose clients are all in this process.

    :param scenario: the scenario, which runs hundreds of times.
    :param ensemble: how many servers an ensemble has; None for a single server.
    :param replies: whether each reply is a step of its own.
    """

    is_exact = True

    def __init__(self, scenario: Scenario, ensemble: int | None = None, replies: bool = False) -> None:
        self._scenario = scenario
        self._ensemble = ensemble
        self._replies = replies

    @property
    def most_shortening(self) -> int:
        return 40 if is_in_threads(self._scenario) else 200

    def run(self, order: Order, cell: Cell | None = None) -> Outcome:
        return run(self._scenario, order, cell, self._ensemble, self._replies)

    run_again = run

    def planted(self) -> InProcess:
        race = planted_race_of_threads if is_in_threads(self._scenario) else planted_race
        return InProcess(race, self._ensemble, self._replies)


def is_in_threads(scenario: Scenario) -> bool:
    """Return whether a scenario is a plain function, whose clients are threads."""
    return not inspect.iscoroutinefunction(inspect.unwrap(scenario))


def run(
    scenario: Scenario,
    order: Order,
    cell: Cell | None = None,
    ensemble: int | None = None,
    replies: bool = False,
) -> Outcome:
    """Run a scenario once.

    :param ensemble: how many servers an ensemble has; None for a single server.
    :param replies: whether each reply is a step of its own.
    """
    outcome = Outcome()
    clock = trio.testing.MockClock(autojump_threshold=0)
    with _determined(), no_log():
        try:
            trio.run(_main, scenario, order, cell, ensemble, replies, outcome, clock=clock)
        except BaseExceptionGroup as errors:
            error = innermost(errors)
            if not isinstance(error, Endless):
                raise error from None
            outcome.judge("hang", str(error))
    return outcome


async def _main(
    scenario: Scenario,
    order: Order,
    cell: Cell | None,
    ensemble: int | None,
    replies: bool,
    outcome: Outcome,
) -> None:
    settings: dict[str, Any] = {
        "tick_time": 1000,
        "min_session_timeout": 200,
        "max_session_timeout": 100_000,
        "extended_types": True,
    }
    async with open_servers(settings, ensemble) as local:
        servers = Servers(local)
        driver = _driver_for(scenario, servers)
        with driver.replaced():
            try:
                stage = Stage(driver, order, cell, outcome, replies)
                await _with_clients(scenario, driver, stage, cell, outcome)
            finally:
                errors = driver.end()
        for error in errors:
            outcome.judge("error", first_line(error))
        if cell is not None:
            await servers.end_sessions()
        look_at_what_is_left(servers.whole, outcome)


def _driver_for(scenario: Scenario, servers: Servers) -> Driver:
    if is_in_threads(scenario):
        from .threads.driver import ThreadDriver

        return ThreadDriver(servers)
    return TrioDriver(servers)


async def _with_clients(
    scenario: Scenario, driver: Driver, stage: Stage, cell: Cell | None, outcome: Outcome
) -> None:
    excused = cell.client if cell is not None and FAULTS[cell.fault].ends_session else None
    async with trio.open_nursery() as background:
        background.start_soon(stage.run)
        try:
            async with trio.open_nursery() as clients:
                lab = driver.make_lab(stage, clients, excused)
                await _act(scenario, driver, lab, outcome)
                stage.close()
                await driver.leave()
                clients.cancel_scope.cancel()
        except Exception as error:  # one of a client's own tasks raised it
            outcome.judge("error", first_line(_of_the_run(error)))
        background.cancel_scope.cancel()


async def _act(scenario: Scenario, driver: Driver, lab: BaseLab, outcome: Outcome) -> None:
    try:
        with trio.move_on_after(driver.longest) as patience:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_watch, driver, outcome, patience)
                    await driver.act(scenario)
                    scope.cancel()
        if patience.cancelled_caught:
            outcome.judge("hang", "no client acts any more")
    except Exception as error:
        judge_error(outcome, lab, _of_the_run(error))


def _of_the_run(error: Exception) -> BaseException:
    """Return the first error of a group, which decides the verdict of the run.

    :raises NotControlled: the first error is a :class:`NotControlled`, so the run proves nothing.
    """
    first = innermost(error)
    if isinstance(first, NotControlled):
        raise first from None
    return first


async def _watch(driver: Driver, outcome: Outcome, patience: trio.CancelScope) -> None:
    """Note where each client waits, shortly before the time of the run is over."""
    await trio.sleep_until(patience.deadline - 1)
    outcome.waiting.update({name: f"waits in {place}" for name, place in driver.places().items()})


def _uuid4(source: random.Random) -> uuid.UUID:
    return uuid.UUID(int=source.getrandbits(128), version=4)


@contextmanager
def _determined() -> Iterator[None]:
    """Give trio's scheduler, ``random`` and UUIDs the same random numbers in each run."""
    source = random.Random(0)
    state = random.getstate()
    random.seed(0)
    trio._core._run._r.seed(0)
    try:
        with mock.patch.object(uuid, "uuid4", new=partial(_uuid4, source)):
            yield
    finally:
        random.setstate(state)
