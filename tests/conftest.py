"""How much hypothesis tries: HYPOTHESIS_PROFILE=nightly tries far more, and something else each time. What
makes the whole suite quicker. And the rules that every test with an ensemble is held against."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchmarks.compiled import keep_compiled

from .support.ensemble_rules.recording import checked

_SLOW_MACHINE = [HealthCheck.too_slow]

# The same examples in every run, so that a change is judged by what it changed.
settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, suppress_health_check=_SLOW_MACHINE
)
settings.register_profile(
    "nightly", deadline=None, max_examples=3000, print_blob=True, suppress_health_check=_SLOW_MACHINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

keep_compiled()  # hundreds of processes are started

LONG_FIRST = (
    "ensemble/test_lease.py",
    "ensemble/compared",
    "ensemble/test_recipes_leader_kills.py",
    "ensemble/test_leader_kills.py",
    "ensemble/test_lock_leader_kills.py",
    "ensemble/test_everywhere.py",
    "attacks",
    "ensemble",
    "recipes/locks",
    "recipes",
    "cli",
    "conformance",
)
"""How the paths of the files begin that take long, the longest first. A worker that comes to one of them in
the end would still be at work while the others have nothing left to do."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto`` is two more than there are cores: whoever waits for a real server's timeout needs none."""
    return (os.cpu_count() or 1) + 2


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist takes the files with the most tests first otherwise


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.relative_to(Path(__file__).parent).as_posix()))


def _rank(path: str) -> int:
    return next((n for n, start in enumerate(LONG_FIRST) if path.startswith(start)), len(LONG_FIRST))


@pytest.fixture(autouse=True)
def rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """No pretend ensemble breaks the rules of ensemble.md section 15.2, but where a test says why."""
    if request.node.get_closest_marker("breaks_rules"):
        yield
    else:
        with checked():
            yield
