"""The documentation as a site: what Sphinx would refuse, said sooner and in words that help.

``sphinx-build -EWq --keep-going docs build/docs`` checks the rest: links, headings, included files.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LOOKED_UP = {"advisor", "client", "http", "operations", "pyzk", "recipes"}  # tables, a section for each word
_TOCTREE = re.compile(r"^```\{toctree\}\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """The text of each page, by its name in a toctree."""
    return {
        path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(DOCS.rglob("*.md"))
    }


def in_toctrees(texts: dict[str, str]) -> Counter[str]:
    return Counter(
        line
        for text in texts.values()
        for toctree in _TOCTREE.finditer(text)
        for line in toctree["lines"].split("\n")
        if line and not line.startswith(":")
    )


def test_each_page_is_in_one_toctree() -> None:
    texts = pages()
    listed = in_toctrees(texts)
    missing = sorted(set(texts) - set(listed) - {"index"})
    assert not missing, (
        f"add {', '.join(missing)} to a toctree of docs/index.md: 'How do I' (a task), 'Why' (an explanation)"
        " or 'Reference' (to look things up)"
    )
    gone = sorted(set(listed) - set(texts))
    assert not gone, f"docs/index.md lists pages that are not there: {', '.join(gone)}"
    twice = sorted(name for name, count in listed.items() if count > 1)
    assert not twice, f"pages in more than one toctree: {', '.join(twice)}"


def test_each_public_name_is_in_the_reference() -> None:
    """The pages in docs/api name each class, function and error that a user imports."""
    for name in ("client", "recipes", "server.testing"):
        text = (DOCS / "api" / f"{name.rpartition('.')[2]}.md").read_text(encoding="utf-8")
        module = import_module(f"pyzk.{name}")
        kinds = (type, FunctionType)
        public = [each for each in module.__all__ if isinstance(getattr(module, each), kinds)]
        listed = set(re.findall(rf":: pyzk\.{re.escape(name)}\.(\w+)$", text, re.MULTILINE))
        for block in re.findall(
            rf"^```\{{api\}} pyzk\.{re.escape(name)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        ):
            listed |= set(block.split())
        missing = sorted(set(public) - listed)
        assert not missing, f"add to docs/api: {', '.join(missing)}"


def test_pages_are_short() -> None:
    """A page that is read from its beginning has 250 lines at most; what is looked up may have more."""
    texts = pages()
    long = {name for name, text in texts.items() if text.count("\n") > 250 and not name.startswith("spec/")}
    assert long <= LOOKED_UP, f"split {', '.join(sorted(long - LOOKED_UP))}: more than 250 lines"
    assert set(texts) >= LOOKED_UP
