"""docs/advisor.md has every rule, in the order of the engine, with what its faulty client is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.advisor.engine import RULES
from pyzk.server.testing.advisor.finding import Finding

from .clients import FAULTY, Clients
from .ensembles import Scene, counters, overwrites

PAGE = (Path(__file__).parents[4] / "docs" / "advisor.md").read_text()
ROWS = re.findall(
    r"(?m)^\| ([a-z-]+) \| (.*) \|$", PAGE.partition("## The rules")[2].partition("## False alarms")[0]
)
SAID = dict(ROWS)


def row(finding: Finding) -> str:
    (rule,) = (rule for rule in RULES if rule.name == finding.rule)
    return f"{rule.threshold} | {finding.evidence} | {rule.remedy}"


def test_the_rules_of_the_page() -> None:
    assert [name for name, _ in ROWS] == [rule.name for rule in RULES]


def test_each_false_alarm_is_of_a_rule() -> None:
    named = re.findall(r"(?m)^\| ([a-z-]+) \|", PAGE.partition("## False alarms")[2])
    assert len(named) == 6
    assert set(named) <= {rule.name for rule in RULES}


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    exec(code, {"KazooClient": KazooClient})
    promised = re.search(r"# (polling: .*) \.\.\.", code)
    assert promised
    assert capsys.readouterr().out.startswith(promised[1])


@pytest.mark.parametrize("name", FAULTY)
def test_a_rule(server: EmbeddedServer, name: str) -> None:
    with Clients(server) as clients:
        FAULTY[name](clients)
    (finding,) = server.advice()
    assert SAID[name] == row(finding)


def test_the_rule_of_an_ensemble(scene: Scene) -> None:
    overwrites(scene, lambda: None)
    (finding,) = scene.ensemble.advice()
    found, promised = counters(row(finding)), counters(SAID[finding.rule])
    assert promised == found
