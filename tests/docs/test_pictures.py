"""The pictures of docs/ show what the programs print."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
MAKE = runpy.run_path(str(FOLDER / "make.py"))


@pytest.mark.parametrize("name", MAKE["PICTURES"])
def test_a_picture(name: str) -> None:
    picture = (FOLDER / name).read_text(encoding="utf-8")
    lines = MAKE["PICTURES"][name]()
    assert MAKE["normal"](MAKE["shown"](picture)) == MAKE["normal"](lines), "run docs/pictures/make.py"
    assert picture == MAKE["draw"](MAKE["shown"](picture))
    assert sum(mark in picture for mark in MAKE["MARKED"]) == 1


def test_each_picture_is_shown() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parent.rglob("*.md"))
    assert {path.name for path in FOLDER.glob("*.svg")} == set(MAKE["PICTURES"])
    for name in MAKE["PICTURES"]:
        assert f"pictures/{name}" in pages
