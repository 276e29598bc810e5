"""Path rules (semantics.md section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol import paths
from pyzk.protocol.errors import BadArgumentsError
from pyzk.protocol.paths import join, validate_name, validate_path

GOOD = ["/", "/a", "/a/b", "/...", "/.x", "/..x", "/x.", "/ ", "/a b", "/\u00a0", "/é", "/日本", "/~"]
GOOD += ["/\u0020", "/\u007e", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/" + "x" * 10_000]
BAD = ["", "a", "a/b", "//", "/a/", "/a//b", "//a", "/.", "/..", "/a/.", "/a/..", "/./a", "/../a"]
BAD += ["/\0", "/\u0001", "/a\u001f", "/\u007f", "/\u0080b", "/\u009f", "/\ufff0", "/\ufffd", "/\uffff"]
BAD += ["/\ue000", "/\uf8ff", "/\ud800", "/\udfff", "/😀", "/\U00010000", "/\U0010ffff", "/a/\u0001/b"]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: ascii(path[:20]))
def test_allowed(path: str) -> None:
    validate_path(path)


@pytest.mark.parametrize("path", BAD, ids=ascii)
def test_forbidden(path: str) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        validate_path(path)
    assert caught.value.path == path


@given(st.characters())
def test_the_forbidden_characters_are_those_of_the_list(character: str) -> None:
    code = ord(character)
    forbidden = (
        code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0 or character == "/"
    )
    path = f"/a{character}"
    if forbidden:
        with pytest.raises(BadArgumentsError):
            validate_path(path)
    else:
        validate_path(path)


@pytest.mark.parametrize(
    ("first", "last"), [(0x00, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0xFFFF), (0x10000, 0x10FFFF)]
)
def test_the_edges_of_the_forbidden_ranges(first: int, last: int) -> None:
    for code in (first, last):
        with pytest.raises(BadArgumentsError):
            validate_name(chr(code), "/x")
    for code in {first - 1, last + 1} - {-1, 0xFFFF, 0x10000, 0x110000}:
        validate_name(chr(code), "/x")


@pytest.mark.parametrize("name", ["", ".", "..", "a\u0001"], ids=ascii)
def test_a_bad_name_is_reported_with_the_path_it_ends(name: str) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        validate_name(name, f"/p/{name}")
    assert caught.value.path == f"/p/{name}"


@pytest.mark.parametrize(
    ("path", "parent"),
    [("/a", "/"), ("/", "/"), ("/a/b", "/a"), ("/a/", "/a"), ("/a//b", "/a/"), ("x/b", "x"), ("//", "/")],
)
def test_the_parent_is_everything_before_the_last_slash(path: str, parent: str) -> None:
    assert paths.parent(path) == parent


@pytest.mark.parametrize("parent", ["/", "", "/a", "/a/b"])
def test_joining_undoes_parent(parent: str) -> None:
    assert paths.parent(join(parent, "name")) == (parent or "/")


@pytest.mark.parametrize(
    ("path", "parent", "name"),
    [("/a/b", "/a", "b"), ("/a", "/", "a"), ("/", "/", ""), ("/a/b/c", "/a/b", "c")],
)
def test_a_path_is_split_into_the_parent_and_the_last_component(path: str, parent: str, name: str) -> None:
    assert paths.parent(path) == parent
    assert paths.name(path) == name
    assert paths.split(path) == (parent, name)
