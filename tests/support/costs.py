"""Write tests/long.txt anew, from what each test costs. On an idle machine::

    pytest -n auto --dist loadfile --long whole -p tests.support.costs

A test belongs there if all cases of its function cost ``LEAST`` seconds or more of the processor's time, with
the processes that it has started and awaited.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

LEAST = 0.25
_costs: Counter[str] = Counter()


def function_of(nodeid: str) -> str:
    """A test's name in tests/long.txt: its file and function, without what makes a case of it."""
    return nodeid.removeprefix("tests/").partition("[")[0].partition("@")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = sum(os.times()[:4])
    result = yield
    _costs[function_of(item.nodeid)] += sum(os.times()[:4]) - before
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = dict(_costs)
    else:
        long = sorted(name for name, cost in _costs.items() if cost >= LEAST)
        Path(__file__).parents[1].joinpath("long.txt").write_text("".join(f"{name}\n" for name in long))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _costs.update(getattr(node, "workeroutput", {}).get("costs", {}))
