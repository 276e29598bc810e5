"""Write tests/long.txt anew, from what each test costs. On an idle machine::

    pytest -n auto --dist loadfile --long whole -p tests.support.costs

A test belongs there if all cases of its function cost ``LEAST`` seconds or more of the processor's time, with
the processes that it has started and awaited, or take ``LEAST_TAKEN`` seconds.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

LEAST = 0.25
LEAST_TAKEN = 2.0
WITH_A_START = ("recipes/beside/curator/", "server/page/")
"""Folders whose first test of a worker starts a JVM or a browser, which costs more than most tests. All their
tests are long."""
_costs: Counter[str] = Counter()


def function_of(nodeid: str) -> str:
    """A test's name in tests/long.txt: its file and function, without what makes a case of it."""
    return nodeid.removeprefix("tests/").partition("[")[0].partition("@")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before, begun = sum(os.times()[:4]), time.monotonic()
    result = yield
    cost, taken = sum(os.times()[:4]) - before, time.monotonic() - begun
    _costs[function_of(item.nodeid)] += max(cost, taken * LEAST / LEAST_TAKEN)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = dict(_costs)
    else:
        costly = (name for name, cost in _costs.items() if cost >= LEAST)
        long = sorted(name for name in costly if not name.startswith(WITH_A_START))
        Path(__file__).parents[1].joinpath("long.txt").write_text("".join(f"{name}\n" for name in long))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _costs.update(getattr(node, "workeroutput", {}).get("costs", {}))
