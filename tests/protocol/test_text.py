"""Text of others, and ids of sessions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyzk.protocol.text
from pyzk.protocol.text import session_number, session_text

ROOT = Path(pyzk.protocol.text.__file__).parents[1]


@pytest.mark.parametrize(
    ("session", "text"),
    [
        (0x0100_0000_0000_00AB, "0x1000000000000ab"),
        (2**63 - 1, "0x7fffffffffffffff"),
        (-(2**63), "0x8000000000000000"),
        (-1, "0xffffffffffffffff"),
    ],
)
def test_ids_of_sessions_are_unsigned(session: int, text: str) -> None:
    assert session_text(session) == text
    assert session_number(text) == session


def test_what_is_no_number_is_no_id() -> None:
    with pytest.raises(ValueError, match="0x-"):
        session_number("0x-")


def test_nothing_else_prints_ids_of_sessions() -> None:
    """Written as a number in Python, the id of a server above 127 has a minus."""
    signed = re.compile(r"session 0x%x|0x\{[\w.]*(session[\w.]*|owner|\.id):x\}")
    folders = ("protocol", "server", "client", "recipes", "bridge", "blocking", "aio", "cli")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    assert [file.name for file in files if signed.search(file.read_text())] == []
