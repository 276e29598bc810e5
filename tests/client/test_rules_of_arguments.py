"""Each rule for an argument, at its edges: what is accepted, what is not, and what is said of it."""

from __future__ import annotations

import math
import random
import ssl
from typing import Any

import pytest

from pyzk.client import ACL, Id, Observer
from pyzk.client.arguments import RULES, check_arguments, complaint
from pyzk.protocol.errors import BadArgumentsError

NAN, INF = math.nan, math.inf
SURROGATE = "\ud800"
INT32: tuple[list[Any], list[Any]] = (
    [-(2**31), -1, 0, 2**31 - 1],
    [-(2**31) - 1, 2**31, 1.0, "1", None],
)
INT64: tuple[list[Any], list[Any]] = ([-(2**63), 2**63 - 1], [-(2**63) - 1, 2**63, 1.0, None])
COUNT: tuple[list[Any], list[Any]] = ([1, 2**31 - 1], [0, -1, 2**31, 1.5, None, "1"])
OPTIONAL_TEXT: tuple[list[Any], list[Any]] = ([None, "", "x"], [5, b"x"])
TEXT: tuple[list[Any], list[Any]] = (["", "x"], [None, 5, b"x"])
SECONDS: tuple[list[Any], list[Any]] = ([0, 0.5, 10**9, INF], [-0.001, -INF, NAN, "1", None])
FLAG: tuple[list[Any], list[Any]] = ([True, False], [0, 1, None, "yes"])
CALLABLE: tuple[list[Any], list[Any]] = ([print, lambda: None], [None, 5, "print"])
OPTIONAL_CALLABLE: tuple[list[Any], list[Any]] = ([None, print], [5, "print"])

CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "path": TEXT,
    "data": ([None, b"", bytearray(b"x"), memoryview(b"x")], ["", 5, [1]]),
    "version": INT32,
    "acl": (
        [[], (), [ACL(31, Id("a", "b"))], [ACL(0, Id(None, None)), ACL(2**31 - 1, Id("a", "b"))]],
        [
            *(None, 5, iter([])),
            [ACL(2**31, Id("a", "b"))],
            [ACL(31, Id(5, "b"))],  # type: ignore[arg-type]
            [ACL(31, Id("a", 5))],  # type: ignore[arg-type]
            [ACL(31, ("a", "b"))],  # type: ignore[arg-type]
            [ACL(31, Id("a", "b")), 5],
        ],
    ),
    "ttl": ([0.001, 10**15 - 1], [0, -1, 10**15, INF, NAN, "1", None]),
    "joining": OPTIONAL_TEXT,
    "leaving": OPTIONAL_TEXT,
    "new_members": OPTIONAL_TEXT,
    "from_config": INT64,
    "operations": ([[], (), iter([])], [None, 5]),
    "scheme": TEXT,
    "credential": ([b"", "", bytearray(b"x"), memoryview(b"x")], [None, 5, [1], SURROGATE]),
    "moved": CALLABLE,
    "buffer": COUNT,
    "function": CALLABLE,
    "prefix": OPTIONAL_TEXT,
    "paths": ([("/a",), ["/a"]], [(), []]),
    "hosts": TEXT,
    "session_timeout": ([0.001, 1, 10**9], [0, -1, INF, NAN, "1", None]),
    "connect_timeout": SECONDS,
    "close_grace": SECONDS,
    "auth": (
        [[], (), [("digest", b"a:b")], [["digest", "a:b"], ("", "")]],
        [
            *(None, 5, "ab"),
            [("digest",)],
            [("digest", b"a", b"b")],
            [(5, b"a")],
            [("digest", 5)],
            [("digest", SURROGATE)],
            ["ab"],
        ],
    ),
    "sasl": (
        [None, ("a", "b"), ["a", ""]],
        [
            5,
            "ab",
            ("a",),
            ("a", "b", "c"),
            ("", "b"),
            (b"a", "b"),
            ("a", b"b"),
            ("a", SURROGATE),
            ("a", None),
        ],
    ),
    "on_expired": (["cancel", "new_session"], ["", "stop", None, 5]),
    "resume": (
        [None, (0, b""), [2**63 - 1, bytes(16)], (-(2**63), b"x")],
        [5, (1,), (1, b"", b""), (2**63, b""), (1.0, b""), (1, "x"), (1, bytearray(16)), (None, b"")],
    ),
    "ssl_context": ([None, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)], [5, True, "tls"]),
    "connector": OPTIONAL_CALLABLE,
    "request_limit": COUNT,
    "reply_limit": COUNT,
    "follow_config": FLAG,
    "read_only": FLAG,
    "observer": ([None, Observer()], [5, Observer]),
    "rng": ([None, random.Random(1)], [5, random]),
}
HIDDEN = {"data", "credential", "auth", "sasl", "resume"}


def test_each_rule_is_tried() -> None:
    assert list(CASES) == list(RULES)


@pytest.mark.parametrize("name", RULES)
def test_what_is_accepted(name: str) -> None:
    for value in CASES[name][0]:
        assert complaint({name: value}) is None, value
        check_arguments(**{name: value})


@pytest.mark.parametrize("name", RULES)
def test_what_is_not_accepted_is_named(name: str) -> None:
    for value in CASES[name][1]:
        words = complaint({name: value})
        assert words is not None, value
        expected = RULES[name][1]
        shown = f"this {type(value).__name__}" if name in HIDDEN else f"{value!r:.100}"
        assert words.startswith(f"{name} must be {expected}, not {shown}")
        with pytest.raises(BadArgumentsError) as caught:
            check_arguments(**{name: value})
        assert (caught.value.path, caught.value.words) == (None, words)


def test_the_first_wrong_argument_is_named() -> None:
    words = complaint({"hosts": "a", "scheme": 5, "prefix": 5})
    assert words is not None
    assert words.startswith("scheme ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("path", 5, "path must be a str, not 5"),
        ("scheme", 5, "scheme must be a str, not 5"),
        ("version", "1", "version must be an int of 32 bits, not '1' (-1 stands for any version)"),
        ("from_config", None, "from_config must be an int of 64 bits, not None"),
        ("buffer", 0, "buffer must be an int from 1 to 2,147,483,647, not 0"),
        ("on_expired", "x", "on_expired must be 'cancel' or 'new_session', not 'x'"),
        ("data", "a secret", "data must be bytes or None, not this str (encode text with .encode())"),
        ("paths", (), "paths must be one path or more, not ()"),
        ("function", "x" * 200, f"function must be a function, not {repr('x' * 200)[:100]}"),
    ],
)
def test_what_is_said(name: str, value: Any, words: str) -> None:
    assert complaint({name: value}) == words


@pytest.mark.parametrize(
    "name", ["data", "version", "operations", "hosts", "session_timeout", "connect_timeout", "auth", "sasl"]
)
def test_some_arguments_come_with_advice(name: str) -> None:
    words = complaint({name: CASES[name][1][0]})
    assert words is not None
    assert words.endswith(")")
