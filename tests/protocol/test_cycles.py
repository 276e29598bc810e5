"""Cycles of waiting."""

from __future__ import annotations

import pytest

from pyzk.protocol.layouts import Layout, Participant, Shape, Wait, find_cycles, waits
from pyzk.protocol.layouts.waiting import Child
from pyzk.protocol.records import Stat


def wait(session: int, path: str, *holders: int) -> Wait:
    return Wait(session, path, frozenset(holders))


@pytest.mark.parametrize(
    ("given", "cycles"),
    [
        ([], []),
        ([wait(1, "/a", 2)], []),
        ([wait(1, "/a", 2), wait(2, "/b", 3), wait(4, "/a", 2)], []),
        ([wait(1, "/a", 1)], []),
        ([wait(1, "/a", 2), wait(2, "/b", 1)], [{(1, "/a"), (2, "/b")}]),
        (
            [wait(1, "/a", 2), wait(2, "/b", 3), wait(3, "/c", 1), wait(9, "/a", 2)],
            [{(1, "/a"), (2, "/b"), (3, "/c")}],
        ),
        # one that waits in between is a victim, and no part of the cycle
        (
            [wait(1, "/a", 3), wait(2, "/a", 3), wait(3, "/b", 1)],
            [{(1, "/a"), (3, "/b")}],
        ),
        # of several readers one is enough
        ([wait(1, "/a", 5, 2, 6), wait(2, "/b", 7, 1)], [{(1, "/a"), (2, "/b")}]),
        (
            [wait(1, "/a", 2), wait(2, "/b", 1), wait(3, "/c", 4), wait(4, "/d", 3)],
            [{(1, "/a"), (2, "/b")}, {(3, "/c"), (4, "/d")}],
        ),
    ],
)
def test_cycles(given: list[Wait], cycles: list[set[tuple[int, str]]]) -> None:
    assert [set(cycle) for cycle in find_cycles(given)] == cycles


def test_each_waits_for_the_next_one() -> None:
    found = [wait(n, f"/{n}", (n + 1) % 100) for n in range(100)]
    [cycle] = find_cycles(reversed(found))
    assert len(cycle) == 100
    for (session, path), (following, _) in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert path == f"/{session}"
        assert following == (session + 1) % 100


def test_no_more_than_20_are_returned() -> None:
    everybody = frozenset(range(1, 61))
    assert len(find_cycles([Wait(session, "/a", everybody) for session in everybody])) == 20


def entry(name: str, session: int, waits_for: str | None = None) -> Participant:
    stat = Stat(1, 1, 0, 0, 0, 0, 0, session, 0, 0, 1)
    return Participant((name,), "lock", None, child=Child(stat), waits_for=waits_for)


@pytest.mark.parametrize(
    ("shape", "holders", "found"),
    [
        (Shape.LOCK, [1], [wait(2, "/x", 1), wait(3, "/x", 1)]),
        (Shape.READ_WRITE_LOCK, [1, 4], [wait(2, "/x", 1, 4), wait(3, "/x", 1, 4)]),
        (Shape.SEMAPHORE, [1], [wait(2, "/x", 1), wait(3, "/x", 1)]),
        (Shape.SEMAPHORE, [1, 4], []),
        (Shape.ELECTION, [1], []),
        (Shape.DOUBLE_BARRIER, [], []),
        (Shape.LOCK, [0], []),
    ],
)
def test_who_waits_for_whom(shape: Shape, holders: list[int], found: list[Wait]) -> None:
    held = tuple(entry(f"h{session}", session) for session in holders)
    waiting = (entry("a", 2, "h1"), entry("b", 3, "a"), entry("c", 0, "b"))
    assert list(waits("/x", Layout(shape, held, waiting))) == found
