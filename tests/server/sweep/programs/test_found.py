"""What docs/found.md says of programs in Go and Java: the sweep finds the cell at which each fails."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyzk.server.sweep.programs.command import main

from ....support import jvm
from ....support.languages import go_variables
from ....support.needs import need

EXAMPLES = Path(__file__).parents[4] / "examples" / "found"
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
GO_LOCK = ("--patience", "2")
BARRIER = ("--patience", "3", "--faults", "lost,reply-lost")


@pytest.fixture
def go_lock(tmp_path: Path) -> list[str]:
    variables = os.environ | go_variables(tmp_path)
    program = tmp_path / "go_lock"
    subprocess.run(["go", "build", "-o", program, EXAMPLES / "go_lock.go"], env=variables, check=True)
    return [str(program)]


@pytest.fixture
def barrier(tmp_path: Path) -> list[str]:
    need(jvm.missing(jvm.CURATOR, "javac"))
    path = jvm.class_path(jvm.CURATOR)
    source = EXAMPLES / "CuratorDoubleBarrier.java"
    subprocess.run(["javac", "-nowarn", "-d", tmp_path, "-cp", path, source], check=True)
    return jvm.java("CuratorDoubleBarrier", jars=jvm.CURATOR, folders=(tmp_path,), log_level="off")


def findings(folder: Path, command: Sequence[str], *options: str) -> dict[str, str]:
    """Sweep a command; returns the words of each finding by its token."""
    report = folder / "report.json"
    assert main(["--clients", "a", "--orders", "none", "--json", str(report), *options, "--", *command]) == 1
    return {each["token"]: each["detail"] for each in json.loads(report.read_text())["findings"]}


def test_the_cell_of_the_go_lock(go_lock: list[str], tmp_path: Path) -> None:
    token = "f1-a4-cut-after"
    assert findings(tmp_path, go_lock, *GO_LOCK, "--replay", token) == {token: "nobody acts any more"}


def test_the_cell_of_the_barrier(barrier: list[str], tmp_path: Path) -> None:
    token = "f1-a3-lost"
    assert findings(tmp_path, barrier, *BARRIER, "--replay", token) == {token: "one of three has got through"}


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
def test_the_go_lock_is_found_unaided(go_lock: list[str], tmp_path: Path) -> None:
    assert "nobody acts any more" in findings(tmp_path, go_lock, *GO_LOCK).values()


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
def test_the_barrier_is_found_unaided(barrier: list[str], tmp_path: Path) -> None:
    words = list(findings(tmp_path, barrier, *BARRIER).values())
    assert "one of three has got through" in words
    assert [each for each in words if "NodeExists" in each]
