"""Globs of paths: what they match, and what they cost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.server.testing.globs import LONGEST, Glob
from pyzk.server.testing.operations import Selection
from tests.support.counting import count_instructions

WORDS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def as_expression(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", glob)
    return re.compile("".join(WORDS.get(part) or re.escape(part) for part in parts), re.DOTALL)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a**a", "/a", False),
        ("**/lock-?", "/a/b/lock-1", True),
        ("**/lock-?", "/a/b/lock-", False),
        ("/*/lock-*", "/a/lock-1", True),
        ("/*/lock-*", "/a/b/lock-1", False),
        ("/**/x/**", "/a\nb/x/", True),
        ("/?", "//", False),
        ("/a.b", "/a-b", False),
    ],
)
def test_what_a_glob_matches(glob: str, path: str, matches: bool) -> None:
    assert Glob(glob).matches(path) is matches


@given(
    st.lists(st.sampled_from(["a", "b", "/", "?", "*", "**"]), max_size=8).map("".join),
    st.text("ab/\n", max_size=10),
)
def test_a_glob_means_the_same_as_an_expression(glob: str, path: str) -> None:
    assert Glob(glob).matches(path) is (as_expression(glob).fullmatch(path) is not None)


@pytest.mark.parametrize("glob", ["/**a**a**a**a**b/*c", "/*a*a*a*a*b?c", "/**a*a**a*a**b/?**c"])
def test_a_long_path_costs_as_much_as_it_is_long(glob: str) -> None:
    """With a regular expression 400 characters take hours: then this test does not end."""
    costs = []
    for size in (20_000, 40_000):
        path = "/" + "a" * size + "c"
        costs.append(count_instructions(lambda path=path: Glob(glob).matches(path)))  # type: ignore[misc]
        assert not Glob(glob).matches(path)
    assert costs[1] < 2.5 * costs[0]


def test_a_glob_has_a_longest_length() -> None:
    assert Glob("/" + "x" * 2 * LONGEST).matches("/" + "x" * 2 * LONGEST), (
        "without wildcards any path will do"
    )
    with pytest.raises(ValueError, match="1,000 characters"):
        Selection.of("create", "/*" + "x" * LONGEST, None)
