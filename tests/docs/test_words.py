"""The English of README, CONTRIBUTING, docs/ and of docstrings: a sentence is read once.

Subject, verb, object; one fact a sentence; the noun again instead of "that of". The words below make a reader
go back to the beginning of the sentence, so no page and no docstring in ``CODE`` has them. Code, output and
quoted text are not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = {"performance-table.md", "stalls-table.md"}  # by programs
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in MADE),
]
CODE = ("client", "recipes", "protocol", "server/testing")
RULES = {
    r"\b(?:is|are|was|were|be|been|being) told\b|\btold apart\b|\btold\b": "notified, learns, given",
    r"\b(?:stands|stand) (?!alone|for\b|still)": "is, is written, is in",
    r"\bgo(?:es)? on\b|\bwent on\b|\bgone on\b": "continues, keeps, is sent",
    r"\b(?:is|are|be|was) had\b|\bcan be had\b": "exists, is held",
    r"\bas ever\b": "as usual, or nothing",
    r"(?:^|(?<=[.:] ))(?:Of|Those of)\b": "begin with the subject",
}
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`]*`|<!--.*?-->|\]\([^)]*\)|\"[^\"\n]*\"", re.MULTILINE | re.DOTALL)
_ANY = re.compile(r"\b(?:told|stands?|go(?:es)?|went|gone|had|ever|Of|Those)\b")
_NO_NOUN = re.compile(r"^ *:(?:param|ivar|cvar) [^:]*: (?:(?:that|those) )?(?:of|likewise)\b.*", re.MULTILINE)
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


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """The names of a module's classes and functions, and their docstrings."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", path.stem), ast.get_docstring(node) or ""


@pytest.mark.parametrize("folder", CODE)
def test_no_docstring_has_words_that_are_read_twice(folder: str) -> None:
    bad = [
        f"{path.relative_to(ROOT)} {name}: '{words}': {better}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, text in docstrings(path)
        if _ANY.search(text)  # most docstrings have none of these words, and need no closer look
        for _, words, better in found_in(text)
    ]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("folder", CODE)
def test_a_parameter_is_described_by_a_noun(folder: str) -> None:
    """``:param path: the path of the znode``, not ``:param path: of the znode``."""
    bad = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for found in _NO_NOUN.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not bad, "\n".join(bad)


def test_the_rules() -> None:
    text = "Its watchers are told. Of these some\ngo on.\n\n- Those of a client.\n\n`Of code` told\n"
    assert len(list(found_in(text))) == 5
    assert not list(found_in('A lock stands for a session. The server that stands alone. `told` "as ever".'))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
