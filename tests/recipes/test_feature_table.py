"""docs/recipe-features.md says of nothing that a test shows it, unless there is that test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import attrs
import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "recipe-features.md"
COLUMNS = ["Feature", "Curator", "kazoo", "aiozk", "pyzk"]
ALONE = ["Feature", "pyzk"]  # the table of what was looked at in pyzk alone
LINK = re.compile(r'\[(Y|P)\]\(([^\s)]+) "(\w+)"\)')
OTHERS = re.compile(r"[YPN-]( \(.+\))?")


@attrs.frozen
class Row:
    feature: str
    others: list[str]
    ours: str


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read() -> list[Row]:
    tables = DOCUMENT.read_text("utf-8").partition("\n## Where pyzk has P or N\n")[0]
    lines = [cells(line) for line in tables.splitlines() if line.startswith("|")]
    for line in lines:
        assert len(line) in (len(COLUMNS), len(ALONE)), line
    body = [line for line in lines if line not in (COLUMNS, ALONE) and set(line[0]) != {"-"}]
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
    assert row.ours == "N" or LINK.fullmatch(row.ours), row.ours


@each_row
def test_what_is_said_of_ours_is_shown_by_a_test(row: Row) -> None:
    for _, target, name in LINK.findall(row.ours):
        path = DOCUMENT.parent / target
        assert path.is_file(), path
        assert name in defined_in(path)


def test_partly_and_no_are_explained() -> None:
    text = DOCUMENT.read_text("utf-8")
    for mark, begin, end in [("P", "\nPartly:\n", "\nNo:\n"), ("N", "\nNo:\n", "\nSome features need")]:
        part = text[text.index(begin) : text.index(end)]
        explained = re.findall(r"^- \*\*(.+?)\*\*: ", part, re.MULTILINE)
        assert explained == [row.feature for row in ROWS if row.ours.strip("[").startswith(mark)]
