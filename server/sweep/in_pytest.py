"""Sweeps under pytest, with options of the command line. pytest's cache keeps the tokens that failed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import sweep
from .lab import Lab
from .report import Report, SweepFailed
from .run import Scenario

if TYPE_CHECKING:
    from .threads.lab import ThreadLab


def sweeper(item: pytest.Item) -> Callable[..., Report]:
    """Return :func:`.sweep` with the options of the command line and the tokens that failed last time."""
    config = item.config
    cache = getattr(config, "cache", None)
    key = f"zk_sweep/{item.nodeid}"

    def call(scenario: Scenario, **options: Any) -> Report:
        __tracebackhide__ = True
        budget, token = config.getoption("zk_sweep_budget"), config.getoption("zk_sweep_replay")
        if budget is not None:
            options["budget"] = budget
        if token is not None:
            options["replay"] = token
        elif cache is not None:
            options.setdefault("first", cache.get(key, []))
        try:
            report = sweep(scenario, **options)
        except SweepFailed as error:
            _keep(error.report, error.report.tokens)
            raise
        _keep(report, [])
        return report

    def _keep(report: Report, tokens: Sequence[str]) -> None:
        if cache is not None and config.getoption("zk_sweep_replay") is None:
            cache.set(key, list(tokens))
        file = config.getoption("zk_sweep_json")
        if file is not None:
            with Path(file).open("a", encoding="utf-8") as out:
                out.write(report.as_json() + "\n")
        file = config.getoption("zk_sweep_html")
        if file is not None and report.failed:
            Path(file).write_text(report.as_html(), encoding="utf-8")

    return call


def run_marked(item: pytest.Function, marker: pytest.Mark) -> None:
    """Run a test with the marker ``zk_sweep``: its function is the scenario, and ``zk_lab`` is the lab.

    The other fixtures are made once for the test, and each run of the scenario gets the same objects.
    """
    __tracebackhide__ = True
    function = inspect.unwrap(item.obj)
    names = inspect.signature(function).parameters
    if "zk_lab" not in names:
        pytest.fail("the marker zk_sweep is for tests with the fixture zk_lab", pytrace=False)
    given = {name: item.funcargs[name] for name in names if name in item.funcargs and name != "zk_lab"}

    async def in_trio(lab: Lab) -> None:
        await function(zk_lab=lab, **given)

    def in_threads(lab: ThreadLab) -> None:
        function(zk_lab=lab, **given)

    scenario: Any = in_trio if inspect.iscoroutinefunction(function) else in_threads
    scenario.__name__ = item.name
    sweeper(item)(scenario, **marker.kwargs)
