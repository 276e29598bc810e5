"""Which test executes which line: ``python -m tests.mutants.measuring OUTPUT FILES -- PYTEST ARGUMENTS``."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pytest
from coverage import Coverage

from .trying import PYTEST, without_shrinking


@attrs.frozen
class Measured:
    """
    :ivar tests: for each module and line the tests that execute it; "" stands for the import.
    :ivar seconds: how long each test took that passed.
    """

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    @classmethod
    def read(cls, file: Path) -> Measured:
        raw = json.loads(file.read_text())
        tests = {
            path: {int(line): names for line, names in lines.items()} for path, lines in raw["tests"].items()
        }
        return cls(tests, raw["seconds"])

    def of(self, path: Path, lines: range) -> set[str]:
        """The tests that execute one of these lines."""
        known = self.tests.get(str(path), {})
        return {test for line in lines for test in known.get(line, ())}


class _Recorder:
    """A plugin of pytest: the context of a line is the test."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)


def measure(files: list[str], arguments: list[str]) -> dict[str, Any]:
    root = Path.cwd()
    coverage = Coverage(data_file=None, include=[str(root / file) for file in files], config_file=False)
    recorder = _Recorder(coverage)
    without_shrinking()
    coverage.start()
    pytest.main([*PYTEST, *arguments], plugins=[recorder])
    coverage.stop()
    data = coverage.get_data()
    passed = {test: s for test, s in recorder.seconds.items() if test not in recorder.failed}
    if not passed or not data.measured_files():
        raise RuntimeError("nothing was measured: did the tests run?")
    tests = {
        str(Path(file).relative_to(root)): {
            line: [name for name in names if not name or name in passed]
            for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return {"tests": tests, "seconds": passed}


if __name__ == "__main__":
    output, *rest = sys.argv[1:]
    middle = rest.index("--")
    Path(output).write_text(json.dumps(measure(rest[:middle], rest[middle + 1 :])))
