"""Each verb can be used in Python, over HTTP and with ``pyzk``, with the same arguments."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from pyzk.cli.ensembles import VERBS as COMMANDS
from pyzk.cli.parser import verb_parser
from pyzk.server.control.calls.ensemble import VERBS as ROUTES
from pyzk.server.testing import EnsembleControls

SPEC = (Path(__file__).parents[3] / "docs" / "spec" / "ensemble.md").read_text()
QUESTIONS = {"leader", "role", "applied", "zxid", "sessions", "outstanding", "troubles"}
"""``GET /ensemble``, ``GET /sessions`` and ``pyzk ensemble`` answer them."""
OF_A_SERVER_TOO = {
    *("dump", "load", "snapshot", "restore", "format_tree"),
    *("history", "advice", "note", "format_timeline", "leaks"),
}
"""What there is of one server too, with a route and a command of its own."""
OF_PYTHON = {"run", "running", "hosts", "url", "numbers"}


def verbs_of_python() -> set[str]:
    names = {name for name in dir(EnsembleControls) if not name.startswith("_")}
    return names - QUESTIONS - OF_A_SERVER_TOO - OF_PYTHON


def test_no_list_of_verbs_falls_behind() -> None:
    assert verbs_of_python() == set(ROUTES) == {name.replace("-", "_") for name in COMMANDS}


def test_there_is_each_verb_of_the_specification() -> None:
    table = SPEC.partition("### 15.1")[2].partition("\n### ")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    specified = {name for cell in cells for name in re.findall(r"`(\w+)\(", cell)}
    assert len(specified) >= 20
    assert specified <= verbs_of_python() | QUESTIONS


@pytest.mark.parametrize("verb", ROUTES)
def test_the_arguments_are_the_same(verb: str) -> None:
    of_python = set(inspect.signature(getattr(EnsembleControls, verb)).parameters) - {"self"}
    assert set(ROUTES[verb][1]) == of_python
    actions = verb_parser("ensemble", verb.replace("_", "-"))._actions
    assert {action.dest for action in actions} - {"help", "json", "yes"} == of_python
