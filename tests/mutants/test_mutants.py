"""The mutation run itself: on a small project, with changes that its tests notice, and others."""

from __future__ import annotations

import ast
import gc
import json
import runpy
from pathlib import Path

import pytest

from .changes import make, places_of, sample
from .rooms import ROOMS, ROOT

pytest.importorskip("coverage", reason="it says which test executes which line")
from .__main__ import in_copy, trial_of
from .measuring import Measured
from .trying import replace

MODULE = '''"""A docstring."""

from logging import root as logger
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import json

LIMIT = 4


def allowed(number: int) -> bool:
    """Another one."""
    logger.warning("it is %d", number)
    return 0 < number < LIMIT


def unseen(number: int) -> int:
    return number + 1


class Thing:
    def __repr__(self) -> str:
        return "<thing>"


def more_than(least: int):
    def check(number: int) -> bool:
        return number > least

    return check


positive = more_than(0)
'''
LATE = "def twice(number: int) -> int:\n    return number * 2\n\n\nFACTOR = 3\n"
TEST = """
from pyzk.client.thing import LIMIT, allowed, positive, unseen


def test_allowed():
    assert allowed(1) and allowed(3)
    assert not allowed(0) and not allowed(4)
    assert LIMIT == 4


def test_unseen():
    unseen(1)


def test_positive():
    assert positive(1)
    assert not positive(0)


def test_late():
    from pyzk.client.late import FACTOR, twice

    twice(1)
    assert FACTOR
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one module of the room ``client``, and the program that changes it."""
    root = tmp_path / "project"
    for folder in ("client", "pyzk", "tests", "tests/client", "tests/bridge"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").touch()
    (root / "client" / "thing.py").write_text(MODULE)
    (root / "client" / "late.py").write_text(LATE)
    (root / "tests" / "client" / "test_thing.py").write_text(TEST)
    (root / "pyzk" / "client").symlink_to("../client")
    for tests in ROOMS["client"].tests:
        (root / tests).touch()
    (root / "tests" / "conftest.py").touch()
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n')
    (root / "tests" / "mutants").symlink_to(ROOT / "tests" / "mutants")
    return root


def test_what_is_noticed_and_what_survives(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["client", "--number", "100", "--seed", "2", "--in-copy"]
    assert in_copy(project, tmp_path, ["-m", "tests.mutants", *arguments]) == 0
    output = capfd.readouterr().out
    late = [line for line in output.splitlines() if " client/late.py:" in line]
    late_noticed = [line for line in late if "SURVIVED" not in line]
    assert late_noticed
    assert all(
        line.endswith("-> `pass`: noticed by tests/client/test_thing.py::test_late") for line in late_noticed
    ), "a test imports it as it runs, and looks only whether FACTOR is there"
    assert any("FACTOR" in line for line in late)
    assert any("return number * 2" in line for line in late)
    found = [
        line.partition("client/thing.py:")[2] for line in output.splitlines() if " client/thing.py:" in line
    ]
    noticed = {line for line in found if "`: noticed by " in line}
    survived = {line for line in found if "`: SURVIVED " in line}
    assert f"{len(noticed) + len(late_noticed)} of {len(found) + len(late)} noticed, seed 2" in output
    assert len(noticed) + len(survived) == len(found)
    test = "tests/client/test_thing.py::test_allowed"
    assert f"15: returned: `return 0 < number < LIMIT` -> `return None`: noticed by {test}" in noticed
    assert any(line.startswith("9: ") for line in noticed), "a change that takes effect at import"
    test = "tests/client/test_thing.py::test_positive"
    inner = f"29: comparison: `return number > least` -> `return number >= least`: noticed by {test}"
    assert inner in noticed, "a function that another one has made at import"
    assert {line.partition(":")[0] for line in survived} == {"19"}, "nobody looks at the result of unseen"
    assert not any(line.startswith("19:") for line in noticed)
    assert (project / "client" / "thing.py").read_text() == MODULE


def test_text_types_and_logs_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(MODULE)
    path = Path("thing.py")
    made = [
        make(tmp_path, place, which) for place in places_of(tmp_path, path) for which in range(place.changes)
    ]
    lines = {mutant.lines.start for mutant in made}
    assert lines == {9, 15, 19, 29, 31, 34}
    for mutant in made:
        assert ast.unparse(mutant.tree) != ast.unparse(ast.parse(MODULE)), mutant.text
    functions = {line: {mutant.function for mutant in made if mutant.lines.start == line} for line in lines}
    assert functions == {
        9: {None},
        15: {"allowed"},
        19: {"unseen"},
        29: {"more_than"},
        31: {"more_than"},
        34: {None},
    }
    scopes = {mutant.lines.start: (mutant.scope.start, mutant.scope.stop) for mutant in made}
    assert scopes == {9: (1, 35), 15: (13, 16), 19: (19, 20), 29: (29, 30), 31: (28, 32), 34: (1, 35)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", {"a <= b", "a >= b"}),
        ("a == b", {"a != b"}),
        ("a is None", {"a is not None"}),
        ("a in b not in c", {"a not in b not in c", "a in b in c"}),
        ("a and b", {"a or b"}),
        ("not a", {"a"}),
        ("-a", {"a"}),
        ("a + 1", {"a - 1", "a + 2", "a + 0"}),
        ("a if b else c", {"a if not b else c"}),
        ("f(True)", {"f(False)"}),
        ("(b'1', 'word')", {"(b'1x', 'word')", "(b'1', 'wordx')"}),
        ("f'{a}'", set()),
        ("ContextVar('word')", set()),
        (
            "ContextVar('word', default=True)",
            {"ContextVar('wordx', default=True)", "ContextVar('word', default=False)"},
        ),
        ("'some words'", set()),
    ],
)
def test_changes_of_expressions(tmp_path: Path, before: str, after: set[str]) -> None:
    assert changed(tmp_path, f"x: int = {before}") == {f"x: int = {text}" for text in after}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x += y", {"x -= y", "pass"}),
        ("raise x", {"pass"}),
        ("x = y", {"pass"}),
        ("f()", {"pass"}),
        ("del x[y]", {"pass"}),
        ("assert x == y", set()),
        ("while x:\n    break", {"while not x:\n    break", "while x:\n    continue"}),
        ("if x:\n    pass", {"if not x:\n    pass"}),
        ("def f():\n    return x", {"def f():\n    return None"}),
    ],
)
def test_changes_of_statements(tmp_path: Path, before: str, after: set[str]) -> None:
    assert changed(tmp_path, before) == after


def changed(folder: Path, source: str) -> set[str]:
    """All mutants of a module."""
    path = Path("one.py")
    (folder / path).write_text(source)
    places = places_of(folder, path)
    return {
        ast.unparse(make(folder, place, which).tree) for place in places for which in range(place.changes)
    }


def test_a_seed_gives_the_same_mutants_again() -> None:
    files = ROOMS["core"].files()
    one, again, other = (sample(ROOT, files, 5, seed) for seed in (1, 1, 2))
    assert [mutant.name for mutant in one] == [mutant.name for mutant in again]
    assert [mutant.name for mutant in one] != [mutant.name for mutant in other]


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_sources_and_tests(room: str) -> None:
    assert ROOMS[room].files()
    assert all((ROOT / tests).exists() for tests in ROOMS[room].tests)


def test_the_tests_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps({"tests": {"a.py": {"3": ["one"], "4": ["two", ""]}}, "seconds": {"one": 1}}))
    measured = Measured.read(file)
    assert measured.of(Path("a.py"), range(3, 4)) == {"one"}
    assert measured.of(Path("a.py"), range(3, 5)) == {"one", "two", ""}
    assert measured.of(Path("b.py"), range(1, 99)) == set()


def test_a_function_is_replaced_although_the_collector_does_not_list_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests' conftest freezes what is there when the tests are collected. A mutant that is not replaced
    needs a process of its own, which takes a hundred times as long."""
    path = Path("one.py")
    (tmp_path / path).write_text("def next_of(number):\n    return number + 1\n")
    next_of = runpy.run_path(str(tmp_path / path))["next_of"]
    mutant = next(
        mutant
        for place in places_of(tmp_path, path)
        if (mutant := make(tmp_path, place, 0)).text.endswith("`return number - 1`")
    )
    monkeypatch.chdir(tmp_path)
    gc.freeze()
    try:
        replace(mutant)
    finally:
        gc.freeze()
    assert next_of(5) == 4


def test_those_that_execute_the_line_itself_come_first(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(MODULE)
    mutant = make(tmp_path, next(places_of(tmp_path, Path("thing.py"))), 0)
    assert mutant.lines == range(9, 10)
    tests = {9: ["", "slow"], 15: ["quick"], 19: ["", "slow", "quicker"]}
    measured = Measured({"thing.py": tests}, {"slow": 3.0, "quick": 2.0, "quicker": 1.0})
    assert trial_of(mutant, measured, 60).tests == ["slow", "quicker", "quick"]
    assert trial_of(mutant, measured, 4.5).tests == ["slow", "quicker"]
