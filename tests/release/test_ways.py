"""The program that measures each way to get the server: what needs no index of packages."""

from __future__ import annotations

import sys
from pathlib import Path

from release import ways

PAGE = Path(__file__).parents[2] / "docs/install.md"


def test_starts_are_measured_until_a_session() -> None:
    (found,) = ways.in_turns([[sys.executable, "-m", "pyzk.server"]], rounds=2)
    assert found.ready.startswith("pyzk-server is ready at 127.0.0.1:")
    assert found.processor > 0
    assert found.seconds > 0


def test_bytes_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(b"12345")
    (tmp_path / "folder/link").symlink_to("file")
    assert ways.size(tmp_path, tmp_path / "folder/file") == 10


def test_the_page_has_the_tables_that_it_prints() -> None:
    for head in ways.HEADS.values():
        assert head in PAGE.read_text()
