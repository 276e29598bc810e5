"""The examples, run as a user would run them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = "pytester"

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(("name", "passed"), [("test_with_kazoo.py", 8), ("test_with_trio.py", 1)])
def test_an_example(pytester: pytest.Pytester, name: str, passed: int) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    shutil.copy(EXAMPLES / name, pytester.path)
    pytester.runpytest(name, "--zk-check-leaks").assert_outcomes(passed=passed)
