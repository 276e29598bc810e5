"""Each name of tests/long.txt is a test."""

from __future__ import annotations

import re

import pytest

from .conftest import LONG, TESTS, runs
from .support.costs import WITH_A_START
from .support.sharing import GROUPS, ROOT, group_of


@pytest.mark.parametrize("file", sorted({name.partition("::")[0] for name in LONG}))
def test_the_long_tests_are_there(file: str) -> None:
    path = TESTS / file
    assert path.is_file(), "moved or gone: correct tests/long.txt"
    there = set(re.findall(r"\bdef (\w+)", path.read_text()))
    named = {name.rpartition("::")[2] for name in LONG if name.startswith(f"{file}::")} - {"runTest"}
    assert named - there == set(), "renamed or gone: correct tests/long.txt"


def test_the_rest_is_what_the_sample_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTED_COMMIT", "9130775")
    items = [f"tests/x.py::test_it[{n}]" for n in range(1000)]
    sample = [item for item in items if runs(item, "sample", long=True)]
    rest = [item for item in items if runs(item, "rest", long=True)]
    assert 50 < len(sample) < 140
    assert sorted([*sample, *rest]) == sorted(items)
    assert all(runs(item, "whole", long=True) for item in items)
    assert runs(items[0], "sample", long=False)
    assert not runs(items[0], "rest", long=False)
    monkeypatch.setenv("TESTED_COMMIT", "12e31dd")
    assert sample != [item for item in items if runs(item, "sample", long=True)], "the next commit has others"


def test_the_folders_whose_tests_are_long_are_there() -> None:
    for folder in WITH_A_START:
        assert (TESTS / folder).is_dir()


def test_what_shares_a_server_goes_to_one_worker() -> None:
    for start in GROUPS:
        assert (ROOT / start).exists(), "moved or gone: correct tests/support/sharing.py"
    assert group_of("tests/server/page/test_tree.py::test_it[1]") == "page"
    assert group_of("tests/test_long.py::test_it[a::b]") == "tests/test_long.py"
