"""Test a user's code with every fault at every request, and with every order of the requests.

    from pyzk.server.testing import sweep

    async def scenario(lab):
        a, b = await lab.client("a"), await lab.client("b")

        async def work(zk):
            async with Lock(zk, "/lock"), lab.inside("lock"):
                ...

        await lab.together(partial(work, a), partial(work, b))

    def test_lock():
        sweep(scenario)

All clients send their requests to the server. So the server can hold the requests and handle them in any
order. The server can also inject at each request the faults that a network can cause. :mod:`.explore` has the
rules, and :mod:`.faults` has the faults.
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
    replies: bool = False,
) -> Report:
    """Run a scenario with every fault at every request, and in every order of its requests.

    Two calls with the same arguments have the same findings, unless the budget ends one of the sweeps early.

    :param scenario: an async function that takes a :class:`Lab`, for clients of :mod:`pyzk.client`; or a
        plain function that takes a :class:`.threads.lab.ThreadLab`, for clients in threads. The function runs
        hundreds of times in virtual time, each time with its own server.
    :param faults: names of :data:`FAULTS`; by default the faults that a ZooKeeper shows. ``"keeper"`` adds
        the faults of ClickHouse Keeper; None means no faults. Some faults are tried only if they are named,
        such as ``restart-empty``.
    :param orders: ``"some"``: as many orders as fit into the budget; ``"all"``: all orders that differ, even
        beyond the budget; None: only the order in which each client acts in turn.
    :param budget: the time of the sweep, in seconds of real time.
    :param replay: a token from a report: the sweep runs only this token.
    :param allow: the cells that may fail, as globs: ``"*-gone-after"``, ``"a5-*"``.
    :param first: tokens that are tried before everything else, such as the tokens that failed last time.
    :param ensemble: the number of servers in an ensemble, at least 3: its followers may lag, and its leader
        may die. None for a single server.
    :param replies: whether each reply is a step of its own: it may come after steps of other clients. Then
        many more orders differ.
    :returns: the report of what was tried.
    :raises SweepFailed: a run fails; this is an AssertionError, and its text is the report.
    :raises NotControlled: something other than the order of requests decides what the scenario does.
    :raises ValueError: a token is wrong, a fault has an unknown name, or an ensemble has fewer than 3
        servers.
    :raises TypeError: the scenario is not a function.
    """
    __tracebackhide__ = True
    if not callable(scenario):
        raise TypeError("a scenario is a function that takes a lab: async def scenario(lab): ...")
    in_ensemble = ensemble is not None
    if ensemble is not None and ensemble < 3:
        raise ValueError(f"an ensemble that may lose a server has 3 servers or more, not {ensemble}")
    subject = InProcess(scenario, ensemble, replies or tokens.has_replies(replay))
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
