"""What docs/found.md says: each file's scenario fails at its cell, and the sweep finds a cell by itself."""

from __future__ import annotations

import importlib.util
import os
import runpy
from pathlib import Path

import pytest

from pyzk.server.sweep import SweepFailed, sweep

EXAMPLES = Path(__file__).parents[3] / "examples" / "found"
CELLS = {
    "kazoo_counter": ("f1-a3-reply-lost", "two were added, and it is not 2"),
    "kazoo_double_barrier": ("f1-a2-cut-after", "no client acts any more"),
    "kazoo_locking_queue": ("f1-b5-reply-lost", "a wait of 60 s did not see it"),
    "kazoo_locking_queue_watch": ("f1-consumer1-cut-after", "a wait of 30 s did not see it"),
    "kazoo_queue": ("f1-a4-reply-lost", "two entries were put, and these came"),
    "kombu_lost_job": ("f1-worker3-reply-lost", "three jobs were sent, and these came"),
    "lost_registration": ("f1-a1-ghost", "nobody can find it"),
    "patroni_leader_key": ("f1-a4-gone-after", "A has taken it back"),
    "patroni_version_zero": ("o1-", "both have written over version 0"),
}
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def scenario_of(name: str) -> object:
    package = "kazoo" if name == "lost_registration" else name.partition("_")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install -e '.[found]'")
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["scenario"]


def test_each_file_is_here_and_on_the_page() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == CELLS.keys()
    page = (EXAMPLES.parents[1] / "docs" / "found.md").read_text()
    files = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert [name for name in files if f"examples/found/{name}" not in page] == []


@pytest.mark.parametrize("name", CELLS)
def test_the_cell(name: str) -> None:
    token, words = CELLS[name]
    with pytest.raises(SweepFailed, match=words):
        sweep(scenario_of(name), replay=token)  # type: ignore[arg-type]


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
@pytest.mark.parametrize("name", CELLS)
def test_it_is_found_unaided(name: str) -> None:
    _, words = CELLS[name]
    with pytest.raises(SweepFailed, match=words):
        sweep(scenario_of(name), orders=None, budget=30)  # type: ignore[arg-type]
