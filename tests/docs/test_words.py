"""The English of README and docs/: a sentence is read once.

Subject, verb, object; one fact a sentence; the noun again instead of "that of". The words below make a reader
go back to the beginning of the sentence, so no page has them. Code, output and quoted text are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = {"performance-table.md", "stalls-table.md"}  # by programs
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in MADE),
]
RULES = {
    r"\b(?:is|are|was|were|be|been|being) told\b|\btold apart\b|\btold\b": "notified, learns, given",
    r"\b(?:stands|stand) (?!alone|for\b|still)": "is, is written, is in",
    r"\bgo(?:es)? on\b|\bwent on\b|\bgone on\b": "continues, keeps, is sent",
    r"\b(?:is|are|be|was) had\b|\bcan be had\b": "exists, is held",
    r"\bas ever\b": "as usual, or nothing",
    r"(?:^|(?<=[.:] ))(?:Of|Those of)\b": "begin with the subject",
}
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`]*`|<!--.*?-->|\]\([^)]*\)|\"[^\"\n]*\"", re.MULTILINE | re.DOTALL)
_STARTS = re.compile(r"^(?:[-*>] |\d+\. |\| )", re.MULTILINE)


def prose(text: str) -> str:
    """The text without code, links' targets and quotations, line by line as before."""
    return _CODE.sub(lambda found: re.sub(r"[^\n]", "~", found[0]), text)


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, words and better words."""
    paragraphs = re.sub(r"(?<=[^\n])\n(?![\n|#>]| *[-*] | *\d+\. )", " ", prose(text))
    for line in paragraphs.split("\n"):
        cells = line.split(" | ") if line.startswith("|") else [line]
        for cell in cells:
            sentence = _STARTS.sub("", cell.strip())
            for rule, better in RULES.items():
                for match in re.finditer(rule, sentence):
                    yield match.start(), sentence[max(0, match.start() - 30) : match.end() + 30], better


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_words_that_are_read_twice(page: Path) -> None:
    bad = [f"'{words}': {better}" for _, words, better in found_in(page.read_text(encoding="utf-8"))]
    assert not bad, "\n".join(bad)


def test_the_rules() -> None:
    text = "Its watchers are told. Of these some\ngo on.\n\n- Those of a client.\n\n`Of code` told\n"
    assert len(list(found_in(text))) == 5
    assert not list(found_in('A lock stands for a session. The server that stands alone. `told` "as ever".'))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
