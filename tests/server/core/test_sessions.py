"""The SessionTracker alone: ids, passwords, expiry in buckets of a tick (semantics.md section 12)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.server.core.sessions import NEVER, SERVER_ID, RandomPool, Session, SessionTracker
from pyzk.server.net.service import milliseconds

TICK = 500


def tracker(tick: int = TICK, clock_ms: int = 0x1F3482) -> SessionTracker:
    return SessionTracker(tick, clock_ms, lambda session_id: bytes(range(16)))


# --- ids and passwords -------------------------------------------------------------------------------------


def test_ids_are_made_of_server_clock_and_counter() -> None:
    # semantics.md section 12.1: one byte, five bytes, two bytes
    sessions = tracker(clock_ms=0x1F3482)
    ids = [sessions.create(1000, 0).id for _ in range(3)]
    assert ids == [0x0100_001F_3482_0000, 0x0100_001F_3482_0001, 0x0100_001F_3482_0002]


@pytest.mark.parametrize("clock_ms", [0, 1, 2**40 - 1, 2**40, 1_700_000_000_000, 2**63])
def test_an_id_is_positive_and_its_top_byte_is_the_server(clock_ms: int) -> None:
    # semantics.md section 18, trap 44
    first = tracker(clock_ms=clock_ms).create(1000, 0).id
    assert first >> 56 == SERVER_ID == 1
    assert first >> 16 & (2**40 - 1) == clock_ms % 2**40


def test_a_password_has_16_bytes() -> None:
    # wire.md section 4.3
    assert tracker().create(1000, 0).password == bytes(range(16))


@pytest.mark.parametrize(
    ("password", "right"),
    [
        (bytes(range(16)), True),
        (None, False),
        (b"", False),
        (bytes(16), False),
        (bytes(range(15)), False),
        (bytes(range(17)), False),
    ],
)
def test_only_the_right_password_opens(password: bytes | None, right: bool) -> None:
    assert tracker().create(1000, 0).check_password(password) is right


def test_a_password_is_not_shown() -> None:
    assert "password" not in repr(tracker().create(1000, 0))


# --- deadlines ---------------------------------------------------------------------------------------------

# tick, timeout, time of the touch: the deadline (section 12.3)
DEADLINES = [
    (500, 1000, 0, 1500),
    (500, 1000, 1, 1500),
    (500, 1000, 499, 1500),
    (500, 1000, 500, 2000),
    (500, 1100, 0, 1500),
    (500, 1100, 399, 1500),
    (500, 1100, 400, 2000),
    (2000, 4000, 0, 6000),
    (2000, 4000, 1999, 6000),
    (2000, 30_000, 123_456, 154_000),
    (1, 5, 7, 13),
]


@pytest.mark.parametrize(("tick", "timeout", "now", "deadline"), DEADLINES)
def test_deadlines_fall_on_ticks(tick: int, timeout: int, now: int, deadline: int) -> None:
    sessions = tracker(tick)
    session = sessions.create(timeout, now)
    assert session.deadline == deadline == sessions.next_deadline()
    assert sessions.due(deadline - 1) == []
    assert sessions.due(deadline) == [session]


@given(
    tick=st.integers(1, 5000),
    timeout=st.integers(1, 100_000),
    now=st.floats(0, 10**6),
    later=st.floats(0, 10**3),
)
def test_expiry_is_never_early_and_at_most_one_tick_late(
    tick: int, timeout: int, now: float, later: float
) -> None:
    # semantics.md section 12.3: more than the timeout, at most a tick more, after the last touch
    sessions = tracker(tick)
    session = sessions.create(timeout, milliseconds(now))
    sessions.touch(session, milliseconds(now + later))
    silence = session.deadline - Fraction(now + later) * 1000
    assert timeout < silence <= timeout + tick + Fraction(1, 10**6)


def test_all_sessions_of_a_bucket_are_due_together() -> None:
    sessions = tracker()
    first, second = sessions.create(1000, 0), sessions.create(1400, 90)
    third = sessions.create(1000, 500)
    assert sessions.due(1499) == []
    assert sessions.due(1500) == [first, second]
    assert sessions.due(10_000) == [first, second, third]
    assert list(sessions.by_deadline()) == [(1500, [first, second]), (2000, [third])]


def test_a_session_that_is_due_stays_until_it_is_removed() -> None:
    sessions = tracker()
    session = sessions.create(1000, 0)
    assert sessions.due(1500) == [session] == sessions.due(1500)
    assert sessions.get(session.id) is session
    sessions.remove(session)
    assert session.closed
    assert sessions.due(10**6) == []
    assert (sessions.get(session.id), len(sessions), sessions.next_deadline()) == (None, 0, NEVER)


def test_a_touch_moves_the_deadline_and_uses_the_present_timeout() -> None:
    # semantics.md section 12.3: a reconnect may change it, up or down
    sessions = tracker()
    session = sessions.create(1000, 0)
    sessions.touch(session, 700)
    assert (session.deadline, sessions.due(1999), sessions.next_deadline()) == (2000, [], 2000)
    session.timeout = 10_000
    sessions.touch(session, 700)
    assert session.deadline == sessions.next_deadline() == 11_000
    session.timeout = 1000
    sessions.touch(session, 700)
    assert session.deadline == sessions.next_deadline() == 2000


def test_an_idle_tracker_has_no_deadline() -> None:
    assert tracker().next_deadline() == NEVER


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["create", "touch", "remove", "expire"]), st.integers(0, 9), st.integers(0, 3000)
        ),
        max_size=30,
    )
)
def test_buckets_agree_with_the_sessions(steps: list[tuple[str, int, int]]) -> None:
    sessions, alive, now = tracker(), list[Session](), 0
    for what, which, pause in steps:
        now += pause
        if what == "create":
            alive.append(sessions.create(1000 + 700 * which, now))
        elif what == "expire":
            due = sessions.due(now)
            assert due == sorted(due, key=lambda session: session.deadline)
            assert set(map(id, due)) == {id(session) for session in alive if session.deadline <= now}
            for session in due:
                sessions.remove(session)
                alive.remove(session)
        elif alive:
            session = alive[which % len(alive)]
            if what == "touch":
                sessions.touch(session, now)
                assert session.deadline > now + session.timeout
            else:
                sessions.remove(session)
                alive.remove(session)
        assert list(sessions) == alive
        assert sessions.next_deadline() == min((session.deadline for session in alive), default=NEVER)
        assert sum(len(bucket) for _, bucket in sessions.by_deadline()) == len(alive)


def test_no_random_byte_is_handed_out_twice() -> None:
    pool = RandomPool()
    taken = [pool.take(16) for _ in range(500)]
    assert {len(piece) for piece in taken} == {16}
    assert len(set(taken)) == 500
