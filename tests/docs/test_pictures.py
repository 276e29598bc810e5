"""The pictures of docs/ show what the programs print."""

from __future__ import annotations

import runpy
from pathlib import Path

MAKE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "pictures" / "make.py"))


def test_the_timeline_of_the_first_page() -> None:
    picture = MAKE["PICTURE"].read_text(encoding="utf-8")
    lines = MAKE["timeline"](MAKE["report"]())
    assert MAKE["normal"](MAKE["shown"](picture)) == MAKE["normal"](lines), "run docs/pictures/make.py"
    assert picture == MAKE["draw"](MAKE["shown"](picture))
    assert MAKE["DECIDING"] in picture
