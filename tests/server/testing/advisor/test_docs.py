"""docs/advisor.md has every rule, in the order of the engine; each faulty client gets its evidence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.advisor.engine import RULES

from .clients import FAULTY, Clients
from .ensembles import Scene, counters, overwrites

PAGE = (Path(__file__).parents[4] / "docs" / "advisor.md").read_text()
ROWS = re.findall(
    r"(?m)^\| ([a-z-]+) \| (.*) \|$", PAGE.partition("## The rules")[2].partition("## False alarms")[0]
)
EVIDENCE = {
    "watches-only-grow": "a session has 510 watches that wait, and 0 have fired",
    "watch-set-again": "the data watch on /config was set 6 times before it fired",
    "everybody-watches-everybody": "6 sessions with znodes below /members each watch 4 or more others",
    "herd": (
        "3 changes of /lock have each woken 5 or more sessions, the last one 5, which asked again in vain"
    ),
    "children-one-by-one": "the same children of /tasks were read one by one 4 times",
    "polling": "exists of /ready had the same answer 25 times in turn",
    "check-then-act": "/count was written 1 times by a client that had read an older value",
    "blind-set": "/state was written 6 times over others' data, which its writer had not read",
    "sequential-create-again": "after a lost reply /queue- was created again 1 times",
    "blind-retry": "a write to /state was sent again 1 times after a lost reply, without a read",
    "read-without-sync": (
        "/count was overwritten 1 times by a client that had read the state of 0x6880c9b00000003 at"
        " server 1, 1 transaction behind the set_data 0x6880c9b00000004 that server 3 had answered "
        "before"
    ),
    "left-to-expire": "3 sessions from 127.0.0.1 were left to expire",
    "session-per-request": "11 sessions in turn from 127.0.0.1 made 3 requests at most",
    "ephemeral-of-old-session": (
        "/me was deleted 1 times with the old session of a client that took the znode for the "
        "ephemeral of its new session"
    ),
    "many-ephemerals": "a session has 501 ephemerals",
    "held-too-long": "/lock has been held for 15 s, while a session has given up 3 times",
    "request-near-limit": "a request (create of /report) was nearly too large 1 times: 9,054 of 10,000 bytes",
    "children-near-limit": (
        "a list of children (get_children of /tasks) was nearly too large 1 times: 8,720 of 10,000 bytes"
    ),
}
"""What is said to the faulty client of each rule."""


def test_the_rows_of_the_page() -> None:
    assert dict(ROWS) == {rule.name: f"{rule.threshold} | {rule.remedy}" for rule in RULES}


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
    assert (finding.rule, finding.evidence) == (name, EVIDENCE[name])


def test_the_rule_of_an_ensemble(scene: Scene) -> None:
    overwrites(scene, lambda: None)
    (finding,) = scene.ensemble.advice()
    assert counters(EVIDENCE[finding.rule]) == counters(finding.evidence)
