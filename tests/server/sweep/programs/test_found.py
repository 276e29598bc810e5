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
LATCH_IS_MENDED = jvm.version_of("curator-recipes") >= (5, 8)


@pytest.fixture
def go_lock(tmp_path: Path) -> list[str]:
    variables = os.environ | go_variables(tmp_path)
    program = tmp_path / "go_lock"
    subprocess.run(["go", "build", "-o", program, EXAMPLES / "go_lock.go"], env=variables, check=True)
    return [str(program)]


def compiled(folder: Path, name: str) -> list[str]:
    """Compile a program for Curator; returns its command."""
    need(jvm.missing(jvm.CURATOR, "javac"))
    path = jvm.class_path(jvm.CURATOR)
    source = EXAMPLES / f"{name}.java"
    subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", path, source], check=True)
    return jvm.java(name, jars=jvm.CURATOR, folders=(folder,), log_level="off")


@pytest.fixture
def barrier(tmp_path: Path) -> list[str]:
    return compiled(tmp_path, "CuratorDoubleBarrier")


@pytest.fixture
def latch(tmp_path: Path) -> list[str]:
    return compiled(tmp_path, "CuratorLeaderLatch")


def findings(folder: Path, command: Sequence[str], *options: str) -> dict[str, str]:
    """Sweep a command; returns the words of each finding by its token."""
    report = folder / "report.json"
    status = main(["--clients", "a", "--orders", "none", "--json", str(report), *options, "--", *command])
    found = {each["token"]: each["detail"] for each in json.loads(report.read_text())["findings"]}
    assert status == (1 if found else 0)
    return found


def test_the_cell_of_the_go_lock(go_lock: list[str], tmp_path: Path) -> None:
    token = "f1-a4-cut-after"
    assert findings(tmp_path, go_lock, *GO_LOCK, "--replay", token) == {token: "no client acts any more"}


def test_the_cell_of_the_barrier(barrier: list[str], tmp_path: Path) -> None:
    token = "f1-a3-lost"
    assert findings(tmp_path, barrier, *BARRIER, "--replay", token) == {token: "one of three has got through"}


def test_the_cell_of_the_latch_before_and_after_it_was_mended(latch: list[str], tmp_path: Path) -> None:
    token = "f1-a6-restart-empty"
    found = {} if LATCH_IS_MENDED else {token: "the only candidate does not lead"}
    assert findings(tmp_path, latch, "--replay", token) == found


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
def test_the_latch_that_does_not_lead_is_found_unaided(latch: list[str], tmp_path: Path) -> None:
    words = findings(tmp_path, latch, "--faults", "restart-empty").values()
    assert list(words) == ([] if LATCH_IS_MENDED else ["the only candidate does not lead"])


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
def test_the_go_lock_is_found_unaided(go_lock: list[str], tmp_path: Path) -> None:
    assert "no client acts any more" in findings(tmp_path, go_lock, *GO_LOCK).values()


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
def test_the_barrier_is_found_unaided(barrier: list[str], tmp_path: Path) -> None:
    words = list(findings(tmp_path, barrier, *BARRIER).values())
    assert "one of three has got through" in words
    assert [each for each in words if "NodeExists" in each]
