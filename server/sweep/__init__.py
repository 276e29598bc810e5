"""Every fault at every request, and every order of requests: does a user's code hold?

    from pyzk.server.testing import sweep

    async def scenario(lab):
        a, b = await lab.client("a"), await lab.client("b")

        async def work(zk):
            async with Lock(zk, "/lock"), lab.inside("lock"):
                ...

        await lab.together(partial(work, a), partial(work, b))

    def test_lock():
        sweep(scenario)

All clients meet at the server. So the server can hold each request, let them go on in any order, and do to
each of them what a network can do. :mod:`.explore` has the rules, :mod:`.faults` the faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from . import explore, tokens
from .faults import FAULTS, chosen
from .lab import Lab
from .model import NotControlled
from .report import Report, SweepFailed
from .run import InProcess, Scenario
from .silence import silence_told
from .stage import Stage

__all__ = ["FAULTS", "Lab", "NotControlled", "Report", "Scenario", "SweepFailed", "sweep"]


def sweep(
    scenario: Scenario,
    *,
    faults: str | Iterable[str] | None = "zookeeper",
    orders: Literal["some", "all"] | None = "some",
    budget: float = 10.0,
    replay: str | None = None,
    allow: Iterable[str] = (),
    first: Sequence[str] = (),
    ensemble: int | None = None,
) -> Report:
    """Run a scenario with every fault at every request, and in every order of its requests.

    The same call comes to the same findings, if the budget is not used up earlier.

    :param scenario: an async function that takes a :class:`Lab`, for clients of :mod:`pyzk.client`; or a
        plain function that takes a :class:`.threads.lab.ThreadLab`, for clients in threads. It runs hundreds
        of times, each time with a server of its own, in virtual time.
    :param faults: names of :data:`FAULTS`; by default the faults that a ZooKeeper shows; ``"keeper"`` for
        the faults of
        ClickHouse Keeper, too; None for none. Some come by name only, such as ``restart-empty``.
    :param orders: ``"some"``: as many as fit into the budget; ``"all"``: all that differ, however long it
        takes; None for the one order in which each client acts in turn.
    :param budget: seconds of real time.
    :param replay: a token out of a report: run that only.
    :param allow: cells that may fail, as globs: ``"*-gone-after"``, ``"a5-*"``.
    :param first: tokens to try before everything else, such as those that failed last time.
    :param ensemble: run an ensemble of so many servers, at least 3: its followers may lag, its leader may
        die. None for a single server.
    :returns: what was tried.
    :raises SweepFailed: something does not hold; an AssertionError, whose text is the report.
    :raises NotControlled: something else than the order of requests decides what the scenario does.
    :raises ValueError: a wrong token, or name of a fault; or fewer than 3 servers in an ensemble.
    :raises TypeError: the scenario is no function.
    """
    if not callable(scenario):
        raise TypeError("a scenario is a function that takes a lab: async def scenario(lab): ...")
    in_ensemble = ensemble is not None
    if ensemble is not None and ensemble < 3:
        raise ValueError(f"an ensemble that may lose a server has 3 servers or more, not {ensemble}")
    subject = InProcess(scenario, ensemble)
    title = getattr(scenario, "__name__", "scenario")
    if replay is not None:
        tokens.check(replay, in_ensemble=in_ensemble)
    plan = explore.Plan(chosen(faults or (), in_ensemble=in_ensemble), orders, budget, tuple(allow))
    with silence_told(lambda: Stage.made):
        results = explore.replay(subject, replay) if replay else explore.carry_out(subject, plan, first)
    report = Report(results, title)
    if report.failed:
        raise SweepFailed(report)
    return report
