"""docs/recipe-features.md says of nothing that a test shows it, unless there is that test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import attrs
import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "recipe-features.md"
COLUMNS = ["Feature", "Curator", "kazoo", "Go", "aiozk", "ours"]
LINK = re.compile(r'\[(Y|P|\+)\]\(([^\s)]+) "([^"]+)"\)')
OTHERS = re.compile(r"[YPN-]( \(.+\))?")


@attrs.frozen
class Row:
    feature: str
    others: list[str]
    ours: str

    @property
    def links(self) -> list[tuple[str, Path, list[str]]]:
        """What each link says, where it leads and which tests it names."""
        return [
            (mark, DOCUMENT.parent / target, title.split(", "))
            for mark, target, title in LINK.findall(self.ours)
        ]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read() -> list[Row]:
    lines = [cells(line) for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("|")]
    for line in lines:
        assert len(line) == len(COLUMNS), line
    body = [line for line in lines if line != COLUMNS and set(line[0]) != {"-"}]
    return [Row(line[0].replace("**", ""), line[1:-1], line[-1]) for line in body]


ROWS = read()
each_row = pytest.mark.parametrize("row", ROWS, ids=[row.feature for row in ROWS])


@cache
def defined_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_the_table_is_there() -> None:
    assert len(ROWS) > 80
    assert len({row.feature for row in ROWS}) == len(ROWS)


@each_row
def test_no_answer_is_missing(row: Row) -> None:
    assert all(OTHERS.fullmatch(answer) for answer in row.others), row.others
    if row.ours != "N":
        assert row.links, row.ours
        assert LINK.sub("", row.ours).strip() == "", "nothing but links"
        marks = [mark for mark, _, _ in row.links]
        assert marks[0] in ("Y", "P")
        assert set(marks[1:]) <= {"+"}


@each_row
def test_what_is_said_of_ours_is_shown_by_a_test(row: Row) -> None:
    for _, path, names in row.links:
        assert path.is_file(), path
        assert set(names) <= defined_in(path)


def test_partly_and_no_are_explained() -> None:
    text = DOCUMENT.read_text("utf-8")
    for mark, begin, end in [("P", "\nPartly:\n", "\nNo:\n"), ("N", "\nNo:\n", "\nSome features hold")]:
        part = text[text.index(begin) : text.index(end)]
        explained = re.findall(r"^- \*\*(.+?)\*\*: ", part, re.MULTILINE)
        assert explained == [row.feature for row in ROWS if row.ours.strip("[").startswith(mark)]
