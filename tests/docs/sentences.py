"""Sentences at random from all English of this project: ``python -m tests.docs.sentences SEED [COUNT]``.

What is drawn from: README, CONTRIBUTING, SECURITY and docs/ without code and figures; the docstrings of all
modules; the texts of help, errors and logs. A sentence has five words or more. ``docs/sentences.txt`` keeps a
sample with a verdict for each sentence.
"""

from __future__ import annotations

import ast
import functools
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("aio", "blocking", "bridge", "cli", "client", "protocol", "pyzk", "recipes", "server")
MADE = {"performance-table.md", "stalls-table.md"}  # by programs, as are modules that begin so:
_GENERATED = '"""Made by ``python -m'
_MARKDOWN_CODE = re.compile(r"^ *(```+|:::+).*?^ *\1$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"\n\n(?: {4}.*\n|\n(?= {4}))+")
_FIELD = re.compile(r"^:\w+ ?[^:\n]*:", re.MULTILINE)
_ITEM = re.compile(r"\n(?= *(?:[-*] |\d+\. |#+ |> ))")
_END = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z`\"(\[*])")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def split(text: str) -> Iterator[str]:
    """The sentences of a paragraph."""
    text = " ".join(_LINK.sub(r"\1", text).split())
    for sentence in _END.split(re.sub(r"^(?:[-*#>]+|\d+\.) ", "", text)):
        letters = [word for word in sentence.split() if re.search(r"[A-Za-z]{2}", word)]
        if len(letters) >= 5:
            yield sentence.strip()


def of_markdown(text: str) -> Iterator[str]:
    text = _MARKDOWN_CODE.sub("\n\n", text)
    for paragraph in re.split(r"\n\s*\n", text):
        for part in _ITEM.split(paragraph):
            if part.lstrip().startswith("|"):
                for cell in re.split(r"(?<!\\)\||\n", part):
                    yield from split(cell)
            else:
                yield from split(part)


def of_docstring(text: str) -> Iterator[str]:
    text = _FIELD.sub("\n\n", _INDENTED.sub("\n\n", f"{text}\n"))
    yield from of_markdown(text)


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "X" for part in node.values)
    return ""


def of_module(text: str) -> Iterator[str]:
    """The docstrings of a module, the strings below its fields, and the texts that it prints."""
    tree = ast.parse(text)
    documents, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and text_of(node.value):
            documents.add(node.value)
            yield from of_docstring(ast.unparse(node.value) and text_of(node.value).replace("\n    ", "\n"))
        if isinstance(node, ast.JoinedStr):
            parts |= set(node.values)
    for node in ast.walk(tree):
        if node not in documents and node not in parts and not re.search(r"[{}<]\w*\n|SELECT", text_of(node)):
            yield from split(text_of(node))


@functools.cache
def population() -> list[str]:
    """``page: sentence``, sorted."""
    found = []
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for path in [*pages, *(ROOT / "docs").rglob("*.md")]:
        found += [
            (path, each) for each in of_markdown(path.read_text(encoding="utf-8")) if path.name not in MADE
        ]
    for folder in PACKAGES:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not path.is_symlink() and not text.startswith(_GENERATED):
                found += [(path, each) for each in of_module(text)]
    return sorted({f"{path.relative_to(ROOT).as_posix()}: {sentence}" for path, sentence in found})


def draw(seed: str, count: int = 200) -> list[str]:
    return sorted(random.Random(seed).sample(population(), count))


if __name__ == "__main__":
    print(*draw(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 200), sep="\n")
