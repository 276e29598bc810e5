"""The option ``pytest --zk-advise``: after the run, the advice about each server of a test is shown.

* The plugin is called for each server of this process that ends: servers of fixtures and servers that a test
  has started itself.
* The advice is part of the report of the test in which the server ended. So a worker of pytest-xdist sends it
  too.
* With ``error``, this test fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import attrs
import pytest

from ...protocol.text import printable
from . import host
from .advisor.engine import RULES
from .advisor.finding import Finding

_MODES = ("warn", "error")
_KEY = "zk_advice"
_NARROWEST = 60
"""The smallest number of characters of a line, for very narrow terminals."""
_SHOWN = 5
"""The largest number of findings of one rule that are shown. The other findings are only counted."""


@attrs.define(eq=False)
class Advising:
    """
    :ivar fails: whether tests with a finding fail.
    :ivar ignored: the names of the rules that are not used.
    """

    fails: bool
    ignored: frozenset[str]
    _new: list[dict[str, Any]] = attrs.field(factory=list, init=False)  # not in a report yet
    _all: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list, init=False)  # by test

    @classmethod
    def of(cls, mode: str, ignored: Iterable[str]) -> Advising:
        """:raises pytest.UsageError: the mode or a rule is unknown."""
        if mode not in _MODES:
            text = f"--zk-advise is {' or '.join(_MODES)}, not {mode!r}; before a path write --zk-advise=warn"
            raise pytest.UsageError(text)
        known = {rule.name for rule in RULES}
        if unknown := set(ignored) - known:
            text = f"no rule {', '.join(sorted(unknown))}; there are: {', '.join(sorted(known))}"
            raise pytest.UsageError(f"zk_advise_ignore: {text}")
        return cls(mode == "error", frozenset(ignored))

    def pytest_sessionstart(self) -> None:
        host.at_end.append(self._look)

    def pytest_unconfigure(self) -> None:
        if self._look in host.at_end:
            host.at_end.remove(self._look)

    def _look(self, advice: Callable[[], list[Finding]]) -> None:
        """Keep the findings about a server that ends, in the server's thread."""
        for finding in advice():
            if finding.rule not in self.ignored:
                self._new.append(attrs.asdict(finding) | {"text": str(finding)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        found, self._new = self._new, []
        if found:
            report.__dict__[_KEY] = found  # pytest-xdist brings it from its workers
            if self.fails and report.passed:
                report.outcome = "failed"
                report.longrepr = "\n".join(printable(each["text"]) for each in found)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._all += [(report.nodeid, each) for each in getattr(report, _KEY, ())]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._all:
            return
        terminalreporter.section("advice about ZooKeeper clients", yellow=True)
        rules = Counter(found["rule"] for _, found in self._all)
        for rule, times in rules.items():
            ours = [(test, found) for test, found in self._all if found["rule"] == rule]
            width = get_terminal_size().columns
            for part in (f"{rule}: {ours[0][1]['explanation']}", ours[0][1]["remedy"]):
                for line in wrap(part, max(width, _NARROWEST), subsequent_indent="  "):
                    terminalreporter.line(line, yellow=True)
            for test, found in ours[:_SHOWN]:
                terminalreporter.line(f"  {test}: {printable(found['evidence'])}")
            if times > _SHOWN:
                terminalreporter.line(f"  and {times - _SHOWN} more")
