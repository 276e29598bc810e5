"""The code blocks of the documentation and of the README."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
LANGUAGES = {"python", "sh", "console", "java", "go", "js", "yaml"}
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^ *<!-- (?P<kind>not run: |run by )(?P<text>.+) -->$")


@attrs.frozen
class Block:
    page: str
    line: int
    language: str
    code: str
    mark: str  # what the line before it says, or ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        page = path.name if path.parent == ROOT else path.relative_to(ROOT / "docs").as_posix()
        for fence in _FENCE.finditer(text):
            before = text[: fence.start()].rstrip("\n").rpartition("\n")[2]
            mark = before.strip() if _MARK.match(before) else ""
            line = text.count("\n", 0, fence.start()) + 1
            if fence["language"] in LANGUAGES:
                yield Block(page, line, fence["language"], inspect.cleandoc("\n" + fence["code"]), mark)


BLOCKS = list(blocks())
