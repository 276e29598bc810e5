"""The names of contenders: every one of recipe-rules.md B.2.1, and what is none."""

from __future__ import annotations

import re

import pytest

from pyzk.protocol.layouts import ContenderKind, in_order, parse
from pyzk.recipes.locks.role import LockKind, LockLayout, Role

U36 = "e5d7c9ac-3b4e-4c55-9b5b-0c6f3f7a1d2e"
H32 = U36.replace("-", "")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"_c_{U36}-lock-0000000012", ContenderKind.CURATOR_LOCK),
        (f"_c_{U36}-__READ__0000000012", ContenderKind.CURATOR_READ),
        (f"_c_{U36}-__WRIT__0000000012", ContenderKind.CURATOR_WRITE),
        (f"_c_{U36}-latch-0000000012", ContenderKind.CURATOR_LATCH),
        (f"_c_{U36}-lease-0000000012", ContenderKind.CURATOR_LEASE),
        (f"{H32}__lock__0000000012", ContenderKind.KAZOO_LOCK),
        (f"z{H32}__lock__0000000012", ContenderKind.KAZOO_LOCK),
        (f"{H32}__rlock__0000000012", ContenderKind.KAZOO_READ),
        (f"_c_{H32}-lock-0000000012", ContenderKind.CURATOR_LOCK),
        (f"lock-{H32}-0000000012", ContenderKind.AIOZK_LOCK),
        (f"read-{H32}-0000000012", ContenderKind.AIOZK_READ),
        (f"write-{H32}-0000000012", ContenderKind.AIOZK_WRITE),
        (f"candidate-{H32}-0000000012", ContenderKind.AIOZK_CANDIDATE),
        ("x-72057594037927937-0000000012", ContenderKind.ZOOKEEPER_LOCK),
        ("n_0000000012", ContenderKind.ZOOKEEPER_CANDIDATE),
    ],
)
def test_every_known_name_is_read(name: str, kind: ContenderKind) -> None:
    contender = parse(name)
    assert contender is not None
    assert (contender.kind, contender.sequence) == (kind, 12)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0",
        "-x",
        "lease_holder",
        "locks",
        f"_c_{U36}-lock-",
        f"_c_{U36}-lock-12",
        f"_c_{U36}-lock-00000000012",
        f"_c_{U36}-lock-000000001x",
        f"_c_{U36}-lock-+000000012",
        "n_٠٠٠٠٠٠٠٠١٢",
        f"party-{H32}-0000000012",
        f"lock-{H32[:-1]}-0000000012",
        "x-abc-0000000012",
        H32,
    ],
)
def test_what_is_no_contender_is_left_alone(name: str) -> None:
    assert parse(name) is None


def test_negative_numbers_are_read_behind_the_marker() -> None:
    """-lock-0000000012 is 12; the sign of a number that ran over has its own dash (recipe-rules.md 0.5)."""
    numbers = {"-2147483648": -2147483648, "-000000003": -3, "2147483647": 2147483647}
    for text, number in numbers.items():
        contender = parse(f"_c_{U36}-lock-{text}")
        assert contender is not None
        assert contender.sequence == number


def test_the_last_marker_counts() -> None:
    contender = parse(f"a__lock__-lock-{H32}__rlock__0000000001")
    assert contender is not None
    assert contender.kind is ContenderKind.KAZOO_READ


def test_the_number_orders_and_nothing_else() -> None:
    names = ["n_0000000003", f"{H32}__lock__0000000001", "junk", f"_c_{U36}-lock-0000000002"]
    contenders, unknown = in_order(names)
    assert [contender.sequence for contender in contenders] == [1, 2, 3]
    assert unknown == ["junk"]


@pytest.mark.parametrize("purpose", LockKind)
@pytest.mark.parametrize("layout", ["curator", "kazoo", "both"])
def test_our_names_are_those_of_the_libraries(purpose: LockKind, layout: LockLayout) -> None:
    prefixes = Role(purpose, layout).prefixes(U36)
    kinds = []
    for prefix in prefixes:
        contender = parse(prefix + "0000000007")
        assert contender is not None
        assert contender.kind.shared == purpose.shared
        kinds.append(contender.kind)
    assert kinds == list(purpose.value) if layout == "both" else len(kinds) == 1
    if layout != "kazoo":
        assert re.fullmatch(rf"_c_{U36}-(lock-|latch-|__READ__|__WRIT__)", prefixes[0])
    if layout == "kazoo":
        assert re.fullmatch(rf"{H32}__r?lock__", prefixes[0])
    if layout == "both":
        assert re.fullmatch(rf"z{H32}__r?lock__", prefixes[1])
