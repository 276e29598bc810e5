"""Programs in Go, Node and Java, and with greenlets: the same bug is found in each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyzk.server.sweep.programs.command import main

from ....support import jvm
from ....support.languages import go_variables, link_node_modules
from ....support.needs import need

EXAMPLES = Path(__file__).parents[4] / "examples" / "sweep"


def check(folder: Path, *command: str | Path) -> None:
    """Sweep a command: a reply that is lost makes it count twice, whatever it has written."""
    report = folder / "report.json"
    options = ("--faults", "reply-lost", "--budget", "600", "--json", str(report))
    assert main([*options, "--", *map(str, command)]) == 1
    found = json.loads(report.read_text())
    assert found["bad_cells"] == {"a2-reply-lost": "wrong", "b4-reply-lost": "wrong"}
    assert found["cells"] == found["all_cells"]
    assert found["all_orders"], "all orders hold"
    assert {each["token"][:2] for each in found["findings"]} == {"f1"}
    assert "two increments, and the number is 3" in found["findings"][0]["written"]


def test_go(tmp_path: Path) -> None:
    variables = os.environ | go_variables(tmp_path)
    program = tmp_path / "increment"
    subprocess.run(["go", "build", "-o", program, EXAMPLES / "increment.go"], env=variables, check=True)
    check(tmp_path, program)


def test_node(tmp_path: Path) -> None:
    link_node_modules(tmp_path)
    check(tmp_path, "node", shutil.copy(EXAMPLES / "increment.mjs", tmp_path))


def test_greenlets(tmp_path: Path) -> None:
    pytest.importorskip("gevent", reason="gevent is not installed: pip install -e '.[frameworks]'")
    report = tmp_path / "report.json"
    options = ("--faults", "reply-lost", "--orders", "none", "--budget", "600", "--json", str(report))
    assert main([*options, "--", sys.executable, str(EXAMPLES / "greenlets.py")]) == 1
    assert json.loads(report.read_text())["bad_cells"]["a2-reply-lost"] == "wrong"


def test_java(tmp_path: Path) -> None:
    need(jvm.missing(jvm.ZOOKEEPER, "javac"))
    path = jvm.class_path(jvm.ZOOKEEPER)
    subprocess.run(["javac", "-d", tmp_path, "-cp", path, EXAMPLES / "Increment.java"], check=True)
    check(tmp_path, *jvm.java("Increment", jars=jvm.ZOOKEEPER, folders=(tmp_path,), log_level="off"))
