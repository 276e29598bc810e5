"""The table of operations is that of wire.md section 8."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyzk.protocol import operations
from pyzk.protocol.operations import Flags, OpCode

SPEC = Path(__file__).parents[2] / "docs" / "spec" / "wire.md"


def words(name: str) -> str:
    return name.replace("_", "").lower()


SECTION = SPEC.read_text().partition("## 8. Op codes")[2].partition("\n## 9.")[0]
LINES = [[cell.strip() for cell in line.split("|")[1:6]] for line in SECTION.splitlines()]
ROWS = [cells for cells in LINES if len(cells) == 5 and re.fullmatch("-?[0-9]+", cells[1])]


def test_every_operation_has_its_row_in_the_law() -> None:
    assert {(words(name), int(code)) for name, code, *_ in ROWS} == {
        (words(op.name), op.value) for op in OpCode
    }


@pytest.mark.parametrize(("name", "code", "request_", "response", "write"), ROWS)
def test_the_row_says_the_same(name: str, code: str, request_: str, response: str, write: str) -> None:
    op = OpCode(int(code))
    if op == OpCode.DELETE_CONTAINER:  # refused as unknown, so its record plays no role
        return
    declared = [record.__name__ if record else None for record in (op.request, op.response)]
    assert declared == [_record(request_), _record(response) or ("ErrorResponse" if op == -1 else None)]
    sent_alone = op.flags & (Flags.ALONE | Flags.CREDENTIALS)
    assert bool(op.flags & Flags.TAKES_ZXID) is (write == "y" and bool(sent_alone))


def _record(cell: str) -> str | None:
    """A multi's body is no record (wire.md section 10)."""
    return cell if re.fullmatch("[A-Z]\\w+", cell) and not cell.startswith("Multi") else None


def test_sets_of_op_codes_hold_plain_ints() -> None:
    for codes in (operations.CLIENTS, operations.WRITES, operations.CREDENTIALS):
        assert {type(code) for code in codes} == {int}
    assert type(operations.PING) is type(operations.CLOSE_SESSION) is int


def test_whatever_may_be_in_a_batch_has_a_record() -> None:
    for op in OpCode:
        if op.flags & (Flags.IN_MULTI | Flags.IN_MULTI_READ):
            assert op.request is not None
