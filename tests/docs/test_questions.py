"""The questions that people ask have an answer two clicks from the first page, at the top of its section.

A click is a link in the text of a page; the list of pages at the side of the site does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from posixpath import dirname, join, normpath

import attrs
import pytest

from .blocks import BLOCKS, ROOT, Block

DOCS = ROOT / "docs"
SCREEN = 40  # lines that a reader sees after the click
QUESTIONS = {
    "expire a session": "sessions",
    "in the debugger": "sessions",
    "simulate connection loss": "sessions",
    "was the write done": "sessions",
    "NodeExists for my own ephemeral": "sessions",
    "SUSPENDED or LOST": "sessions",
    "Two leaders after a blip": "locks",
    "came back empty": "locks",
    "who holds it": "locks",
    "the race in my lock": "sweep",
    "against several servers": "locks",
    "What do my ACLs say": "locks",
    "What does my program ask": "locks",
    "Which embedded server": "ci",
    "Address already in use": "ci",
    "makes my CI slow": "ci",
    "In GitHub Actions": "ci",
    "A health check": "ci",
    "bitnami/zookeeper is gone": "ci",
    "Apple silicon": "ci",
    "no Docker": "ci",
    "curator-test clashes": "ci",
    "Spring Boot and JUnit 5": "ci",
    "A command line without Java": "clients",
    "kazoo with asyncio": "clients",
    "ClickHouse Keeper": "clients",
    "Moving from TestingServer": "moving",
    "Too many connections": "troubleshooting",
    "Refusing session request": "troubleshooting",
    "Packet len": "troubleshooting",
    "xids do not match": "troubleshooting",
    "not in the whitelist": "troubleshooting",
}
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]+))?\)")
_TOCTREE = re.compile(r"^```\{toctree\}\n.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,4} (?P<text>.+)$", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Link:
    text: str
    page: str
    anchor: str | None


@cache
def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@cache
def links(page: str) -> list[Link]:
    """The links of a page's text to pages of the documentation."""
    found = []
    for match in _LINK.finditer(_TOCTREE.sub("", read(page))):
        target = normpath(join(dirname(page), match["target"])) if match["target"] else page
        if target.endswith(".md") and (DOCS / target).is_file():
            found.append(Link(match["text"], target, match["anchor"]))
    return found


def at_two_clicks() -> Iterator[Link]:
    """What a reader of the first page reaches with one click or two."""
    for first in links("index.md"):
        yield first
        yield from links(first.page)


def anchor(heading: str) -> str:
    """The anchor that GitHub and MyST make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def section(link: Link) -> tuple[int, int]:
    """The first line of what a link leads to, and the line after its end or after a screen."""
    text = _CODE.sub(lambda code: re.sub(r"^", "~", code[0], flags=re.MULTILINE), read(link.page))
    headings = [
        (text.count("\n", 0, match.start()) + 1, anchor(match["text"])) for match in _HEADING.finditer(text)
    ]
    if link.anchor is None:
        return 1, SCREEN + 1
    starts = [line for line, name in headings if name == link.anchor]
    assert starts, f"{link.page} has no heading #{link.anchor}"
    later = [line for line, _ in headings if line > starts[0]]
    return starts[0], min([*later, starts[0] + SCREEN + 1])


def code(link: Link) -> list[Block]:
    """The blocks of code that begin on the first screen of an answer."""
    first, end = section(link)
    return [block for block in BLOCKS if block.page == link.page and first <= block.line < end]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_its_answer(question: str) -> None:
    """Two clicks from the first page, on the first screen, with code that a test runs."""
    answers = {link for link in at_two_clicks() if question in link.text}
    assert len(answers) == 1, f"{answers or 'no link'}: write one answer to '{question}'"
    (answer,) = answers
    assert QUESTIONS[question] in answer.page
    run = [
        block for block in code(answer) if not block.mark.startswith("<!-- not run") or "tests/" in block.mark
    ]
    assert run, f"{answer.page}#{answer.anchor}: no code that a test runs in its first {SCREEN} lines"


def test_each_question_of_the_page_has_its_answer() -> None:
    """The page has the questions above, and others."""
    asked = re.findall(r"^\d+\. \[", read("how-to.md"), re.MULTILINE)
    assert len(asked) >= len(QUESTIONS) == 32
    for link in links("how-to.md"):
        section(link)
