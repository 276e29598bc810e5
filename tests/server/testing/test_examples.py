"""The examples, run as a user would run them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = "pytester"

EXAMPLES = Path(__file__).parents[3] / "examples"
CASES = [("test_with_kazoo.py", 8), ("test_with_trio.py", 2), ("first/test_lock.py", 1)]


@pytest.mark.parametrize(("name", "passed"), CASES)
def test_an_example(pytester: pytest.Pytester, name: str, passed: int) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    shutil.copy(EXAMPLES / name, pytester.path)
    pytester.runpytest(Path(name).name, "--zk-check-leaks").assert_outcomes(passed=passed)
