"""No addition is lost or made twice, and whoever cannot know says so (recipe-rules.md D.9, I-12)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, Id, NoAuthError, NoNodeError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes.codecs import ASCII_FLOAT, ASCII_INT, INT32, INT64, MalformedValue
from pyzk.recipes.counter import Counter
from pyzk.recipes.errors import AmbiguousResult

from ..support.lab import Lab

PATH = "/counters/one"
MARKERS = f"{PATH}.ops"


def data_of(lab: Lab, path: str = PATH) -> bytes | None:
    return lab.server.dump().get(path)  # type: ignore[return-value]


async def no_marker_is_left(lab: Lab, *clients: ZooKeeper) -> None:
    for zk in clients:
        await zk.cleanup.idle()
    assert [path for path in lab.server.dump() if path.startswith(f"{MARKERS}/")] == []


LAYOUTS: list[tuple[dict[str, Any], Any, bytes]] = [
    ({"codec": INT32}, 7, b"\0\0\0\x07"),
    ({"codec": INT32}, -2, b"\xff\xff\xff\xfe"),
    ({"codec": INT64}, 2**40, b"\0\0\x01\0\0\0\0\0"),
    ({}, -1, b"\xff" * 8),
    ({"codec": ASCII_INT}, 12, b"12"),
    ({"codec": ASCII_INT}, -(10**30), b"-1" + b"0" * 30),
    ({"codec": ASCII_FLOAT, "default": 0.0}, 3.5, b"3.5"),
]


@pytest.mark.parametrize(("options", "value", "data"), LAYOUTS)
async def test_layouts(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, options: dict[str, Any], value: Any, data: bytes
) -> None:
    counter = Counter(zk, PATH, **options)
    assert await counter.add(value) == (0, value)
    assert data_of(lab) == data
    assert await Counter(zk, PATH, **options).get() == value
    assert await counter.add(-value) == (value, 0)


async def test_it_begins_with_the_default(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    counter = Counter(zk, PATH, codec=ASCII_INT, default=100)
    assert await counter.get() == 100
    assert data_of(lab) is None, "reading creates nothing"
    assert await counter.add(1) == (100, 101)
    assert lab.server.dump(form="nodes")["/counters"].kind == "container"


@pytest.mark.parametrize("codec", [INT32, INT64, ASCII_INT])
async def test_empty_stands_for_the_default(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, codec: Any
) -> None:
    """kazoo creates its counters empty."""
    lab.server.load({PATH: b""})
    counter = Counter(zk, PATH, codec=codec, default=5)
    assert await counter.get() == 5
    assert await counter.add(1) == (5, 6)


@pytest.mark.row("E-39")
@pytest.mark.parametrize(
    ("codec", "data"),
    [(INT64, b"\0\0\0\x01"), (INT32, b"1"), (ASCII_INT, b"\0\0\0\x01"), (ASCII_INT, b"1.5")],
)
async def test_data_that_are_no_number_are_an_error_that_says_so(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, codec: Any, data: bytes
) -> None:
    lab.server.load({PATH: data})
    with pytest.raises(MalformedValue, match=rf"{PATH} holds .* \({len(data)} bytes\), which is no int"):
        await Counter(zk, PATH, codec=codec).add(1)
    assert data_of(lab) == data


async def test_an_error_does_not_repeat_long_data_in_full(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    await zk.create("/counters")
    await zk.create(PATH, b"x" * 100_000)
    with pytest.raises(MalformedValue) as caught:
        await Counter(zk, PATH, codec=ASCII_FLOAT, default=0.0).get()
    assert len(str(caught.value)) < 400


async def test_comparing_and_setting(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    counter = Counter(zk, PATH)
    assert await counter.compare_and_set(1, 2) is False
    assert await counter.compare_and_set(0, 2) is True
    assert await counter.compare_and_set(0, 3) is False
    await counter.set(9)
    assert await counter.get() == 9


async def test_blocks_do_not_overlap(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    counters = [Counter(zk, PATH), Counter(await lab.client(), PATH)]
    blocks: list[range] = []

    async def take(counter: Counter[int]) -> None:
        blocks.extend([await counter.reserve(size) for size in (1, 10, 3)])

    async with trio.open_nursery() as nursery:
        for counter in counters:
            nursery.start_soon(take, counter)
    assert sorted(number for block in blocks for number in block) == list(range(28))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        await counters[0].reserve(0)


async def test_a_block_is_taken_anew_when_the_reply_is_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    counter = Counter(zk, PATH)
    await counter.set(0)
    with lab.server.fault(op="set_data", when="after", action="disconnect"):
        assert await counter.reserve(5) == range(5, 10)


async def test_floats(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    assert repr(await Counter(zk, PATH, codec=ASCII_FLOAT).get()) == "0.0"
    counter = Counter(zk, PATH, codec=ASCII_FLOAT, default=1.0)
    assert await counter.add(2.5) == (1.0, 3.5)
    assert await counter.add(1) == (3.5, 4.5)
    with pytest.raises(TypeError):
        await counter.reserve(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Counter(zk, PATH, codec=INT32, default=1.0)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        await Counter(zk, "/other").add(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="codec"):
        Counter(zk, PATH, codec="int16")  # type: ignore[call-overload]


@pytest.mark.parametrize(("codec", "limit"), [(INT32, 2**31), (INT64, 2**63)])
async def test_the_range_is_checked_before_anything_is_sent(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, codec: Any, limit: int
) -> None:
    counter = Counter(zk, PATH, codec=codec)
    await counter.set(limit - 1)
    writes = lab.requests(zk)["set_data"]
    with pytest.raises(OverflowError, match=str(limit)):
        await counter.add(1)
    with pytest.raises(OverflowError):
        await counter.set(limit)
    with pytest.raises(OverflowError):
        await counter.compare_and_set(limit - 1, -limit - 1)
    with pytest.raises(OverflowError):
        Counter(zk, "/other", codec=codec, default=limit)
    assert lab.requests(zk)["set_data"] == writes
    await counter.set(-limit)
    assert await counter.add(1) == (-limit, 1 - limit)


# --- a znode that is gone -----------------------------------------------------------------------------------


@pytest.mark.row("E-62", "F15")
async def test_a_counter_that_was_deleted_does_not_begin_again_unasked(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    counter = Counter(zk, PATH)
    await counter.add(5)
    await zk.delete(PATH)
    for call in (counter.get, lambda: counter.add(1), lambda: counter.compare_and_set(0, 1)):
        with pytest.raises(NoNodeError):
            await call()
    assert data_of(lab) is None
    await counter.set(7)
    assert await counter.add(1) == (7, 8)


@pytest.mark.row("F15", "F17")
async def test_it_begins_again_where_that_is_wanted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """The parents too."""
    counter = Counter(zk, PATH, missing="create", default=1)
    await counter.add(5)
    await zk.delete("/counters", recursive=True)
    assert await counter.get() == 1
    assert await counter.add(1) == (1, 2)


async def test_a_read_that_is_older_than_the_first_value(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """A task that has found no znode goes on after another task of the same counter has created it."""
    counter = Counter(zk, PATH)
    number = lab.server.hold("reply", op="get_data", path=PATH, times=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counter.add, 1)
        await trio.sleep(1)
        counter._seen = True  # as the other task does
        lab.server.stop_holding(number)
        lab.server.release()
    assert await counter.get() == 1


@pytest.mark.row("F11")
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_server_that_has_lost_everything(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool
) -> None:
    strict = Counter(zk, PATH, exactly_once=exactly_once)
    lenient = Counter(zk, PATH, missing="create", exactly_once=exactly_once)
    await strict.add(1)
    await lenient.add(1)
    lab.server.restart(keep_data=False)
    await trio.sleep(60)
    with pytest.raises(NoNodeError):
        await strict.add(1)
    assert await lenient.add(1) == (0, 1)


# --- many at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_many_add_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool
) -> None:
    clients = [zk, await lab.client(), await lab.client()]
    changes: list[tuple[int, int]] = []

    async def count(zk: ZooKeeper) -> None:
        counter = Counter(zk, PATH, exactly_once=exactly_once)
        changes.extend([await counter.add(1) for _ in range(10)])

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(count, client)
            nursery.start_soon(count, client)
    assert sorted(changes) == [(n, n + 1) for n in range(60)]
    await no_marker_is_left(lab, *clients)


async def test_those_who_lose_the_race_pause(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """A conflict is followed by a pause of random length, not by the next try at once."""
    other, counter = await lab.client(), Counter(zk, PATH)
    await counter.set(0)
    began = trio.current_time()
    with lab.server.fault(op="set_data", session=zk.session.id, when="before", action="delay", seconds=0.001):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(counter.add, 1)
            await other.get(PATH)
            await Counter(other, PATH).add(1)
    assert await counter.get() == 2
    assert trio.current_time() > began + 0.001


# --- connections and sessions -------------------------------------------------------------------------------


@pytest.mark.row("F1")
@pytest.mark.parametrize("new", [True, False])
async def test_a_request_that_did_not_arrive_is_repeated(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, new: bool
) -> None:
    counter = Counter(zk, PATH)
    if not new:
        await counter.set(0)
    with lab.server.fault(op="create" if new else "set_data", path=PATH, when="before", action="disconnect"):
        assert await counter.add(1) == (0, 1)
    assert await counter.get() == 1


@pytest.mark.row("F2", "F3", "E-38")
@pytest.mark.parametrize("new", [True, False])
async def test_a_lost_reply_to_an_addition_is_ambiguous(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, new: bool
) -> None:
    """The addition may have been made: AmbiguousResult says so."""
    counter = Counter(zk, PATH)
    await counter.set(0)
    if new:
        await zk.delete(PATH)
        counter = Counter(zk, PATH)
    with (
        lab.server.fault(op="create" if new else "set_data", path=PATH, when="after", action="disconnect"),
        pytest.raises(AmbiguousResult, match=PATH),
    ):
        await counter.add(1)
    assert lab.requests(zk)["multi"] == 1, "it may be proposed, and not yet committed"
    assert await counter.get() == 1


@pytest.mark.row("F1", "F2", "E-38")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("new", [True, False])
async def test_exactly_once(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, new: bool, when: Any) -> None:
    other = await lab.client()
    counter = Counter(zk, PATH, exactly_once=True)
    await counter.add(0)
    if new:
        await zk.delete(PATH)
        counter = Counter(zk, PATH, exactly_once=True)
    with lab.server.fault(op="multi", session=zk.session.id, when=when, action="disconnect"):
        assert await counter.add(1) == (0, 1)
    assert await Counter(other, PATH, exactly_once=True).add(1) == (1, 2)
    await no_marker_is_left(lab, zk, other)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_another_has_added_since_the_reply_was_lost(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool
) -> None:
    other = await lab.client()
    counter = Counter(zk, PATH, exactly_once=exactly_once)
    await counter.add(0)
    outcome: list[object] = []

    async def add() -> None:
        try:
            outcome.append(await counter.add(1))
        except AmbiguousResult:
            outcome.append(AmbiguousResult)

    op = "multi" if exactly_once else "set_data"
    with lab.server.fault(op=op, session=zk.session.id, when="after", action="drop_reply"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await trio.sleep(1)
            await Counter(other, PATH).add(10)
    assert outcome == [(0, 1) if exactly_once else AmbiguousResult]
    assert await counter.get() == 11


@pytest.mark.row("F6", "F7", "F14")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_an_addition_whose_session_expires_is_cleared_up_in_the_next(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool, when: Any
) -> None:
    """Nothing is repeated in the next session, but what became of it is found out there."""
    counter = Counter(zk, PATH, exactly_once=exactly_once)
    await counter.add(0)
    op, outcome = "multi" if exactly_once else "set_data", []

    async def add() -> None:
        try:
            outcome.append(await counter.add(1))
        except (AmbiguousResult, SessionExpiredError) as error:
            outcome.append(type(error))

    with lab.server.fault(op=op, when=when, action="drop_reply"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await trio.sleep(1)
            lab.cut_off(zk)
            await trio.sleep(60)
            lab.let_through(zk)
    if when == "before":
        assert outcome == [SessionExpiredError]
        assert await counter.get() == 0
    else:
        assert outcome == [(0, 1) if exactly_once else AmbiguousResult]
        assert await counter.get() == 1
    await no_marker_is_left(lab, zk)


@pytest.mark.row("F6")
async def test_reading_goes_on_in_the_next_session(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    counter = Counter(zk, PATH)
    await counter.set(3)
    with lab.server.fault(op="get_data", when="before", action="drop_reply"):
        async with trio.open_nursery() as nursery:
            values = []

            async def read() -> None:
                values.append(await counter.get())

            nursery.start_soon(read)
            await trio.sleep(1)
            lab.server.expire(zk.session.id)
    assert values == [3]


@pytest.mark.row("F10")
async def test_additions_go_on_after_a_restart(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    counter = Counter(zk, PATH, exactly_once=True)
    await counter.add(1)
    lab.server.restart(keep_data=True)
    assert await counter.add(1) == (1, 2)


@pytest.mark.row("I-3")
async def test_markers_go_though_the_session_ends(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The cleanup of one session stops with it; the next one has to go on."""
    counter = Counter(zk, PATH, exactly_once=True)
    with lab.server.fault(op="delete", path=f"{MARKERS}/*", when="before", action="drop_reply"):
        await counter.add(1)
        await trio.sleep(1)
        lab.server.expire(zk.session.id)
        await trio.sleep(10)
    await no_marker_is_left(lab, zk)


async def test_markers_go_before_the_client_does(autojump_clock: MockClock, lab: Lab) -> None:
    async with lab.connect() as own:
        await Counter(own, PATH, exactly_once=True).add(1)
    await no_marker_is_left(lab)


# --- markers of processes that were killed ------------------------------------------------------------------

AGE = 100.0
"""Seconds instead of an hour, which is 36,000 ticks of the server."""


@pytest.fixture
def short_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyzk.recipes.markers._ABANDONED_AFTER", AGE)


async def add_and_be_killed(lab: Lab) -> str:
    """Returns the path of the marker that stays."""
    before = set(lab.server.dump())
    async with lab.connect(close_grace=0) as own:
        with lab.server.fault(op="delete", session=own.session.id, when="before", action="drop_reply"):
            await Counter(own, PATH, exactly_once=True).add(1)
            await trio.sleep(1)
            lab.cut_off(own)
    [marker] = [path for path in lab.server.dump() if path.startswith(f"{MARKERS}/") and path not in before]
    return marker


async def test_a_marker_that_was_left_behind_is_deleted_by_those_who_come_later(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, short_hour: None
) -> None:
    note = f"{MARKERS}/swept"
    for _ in range(3):
        marker = await add_and_be_killed(lab)
        stat = await zk.exists(marker)
        assert stat is not None
        await Counter(zk, PATH, exactly_once=True).add(1)
        await trio.sleep(0.8 * AGE)
        assert marker in lab.server.dump(), "whoever has made it may still ask for it"
        await trio.sleep(0.4 * AGE)
        await Counter(zk, PATH, exactly_once=True).add(1)
        await trio.sleep(1)
        assert lab.server.dump(MARKERS) == {MARKERS: b"", note: b"%d" % stat.czxid}
    assert await Counter(zk, PATH).get() == 9


async def test_a_counter_that_lives_long_looks_for_old_markers_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, short_hour: None
) -> None:
    counter = Counter(zk, PATH, exactly_once=True)
    await counter.add(1)
    marker = await add_and_be_killed(lab)
    lists = lab.requests(zk)["get_children"]
    for _ in range(10):
        await counter.add(1)
        await trio.sleep(AGE / 4)
    assert marker not in lab.server.dump()
    assert lab.requests(zk)["get_children"] == lists + 2


async def test_a_marker_of_a_value_that_nobody_writes_any_more_is_deleted_by_readers(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, short_hour: None
) -> None:
    counter = Counter(zk, PATH, exactly_once=True)
    marker = await add_and_be_killed(lab)
    writes = lab.requests(zk)["multi"]
    for _ in range(20):
        assert await counter.get() == 1
        await trio.sleep(AGE / 5)
    assert marker in lab.server.dump(), "whoever has made it may still ask for it"
    for _ in range(5):
        assert await counter.get() == 1
        await trio.sleep(AGE / 5)
    assert marker not in lab.server.dump()
    assert lab.requests(zk)["multi"] == writes + 1
    assert lab.requests(zk)["get_children"] == 2


async def test_more_markers_than_one_transaction_takes_are_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, short_hour: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyzk.recipes.markers._AT_ONCE", 2)
    markers = [await add_and_be_killed(lab) for _ in range(5)]
    await trio.sleep(1.1 * AGE)
    await Counter(zk, PATH, exactly_once=True).add(1)
    await trio.sleep(1)
    assert not lab.server.dump().keys() & set(markers)


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_client_back_late_is_told_that_its_marker_may_be_gone(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, short_hour: None, when: Any, swept: bool
) -> None:
    """What was left behind before he wrote tells him nothing; what was left after that may be his own."""
    other = await lab.client()
    await add_and_be_killed(lab)
    await trio.sleep(0.2 * AGE)
    counter, outcome = Counter(zk, PATH, exactly_once=True), []
    await counter.get()

    async def add() -> None:
        try:
            outcome.append(await counter.add(1))
        except (AmbiguousResult, SessionExpiredError) as error:
            outcome.append(type(error))

    with lab.server.fault(op="multi", session=zk.session.id, when=when, action="drop_reply"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await trio.sleep(1)
            lab.cut_off(zk)
            if swept:
                await add_and_be_killed(lab)
            await trio.sleep(1.1 * AGE if swept else 0.9 * AGE)
            await Counter(other, PATH, exactly_once=True).add(1)
            await trio.sleep(1)
            lab.let_through(zk)
    if swept:
        assert outcome == [AmbiguousResult]
    else:
        assert outcome == [(1, 2) if when == "after" else SessionExpiredError]


@pytest.mark.parametrize("data", [b"", b"?"])
async def test_an_unreadable_note_means_that_any_marker_may_be_gone(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, data: bytes
) -> None:
    counter = Counter(zk, PATH, exactly_once=True)
    await counter.add(1)
    await zk.create(f"{MARKERS}/swept", data)
    with (
        lab.server.fault(op="multi", when="before", action="disconnect"),
        pytest.raises(AmbiguousResult, match=PATH),
    ):
        await counter.add(1)


# --- cancellation, refusals ---------------------------------------------------------------------------------


@pytest.mark.row("F20")
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("seconds", [number / 2 for number in range(1, 14)])
async def test_a_cancelled_addition_leaves_a_number(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, exactly_once: bool, seconds: float
) -> None:
    """In the middle of each request, and between them."""
    counter = Counter(zk, PATH, exactly_once=exactly_once)
    with (
        lab.server.fault(when="after", action="delay", seconds=1, times=None, required=False),
        trio.move_on_after(seconds),
    ):
        await counter.add(1)
    await trio.sleep(10)
    assert await Counter(zk, PATH).get() in (0, 1)
    await no_marker_is_left(lab, zk)
    assert zk.watch_count == 0


@pytest.mark.row("F20")
async def test_an_addition_cancelled_while_it_is_cleared_up_leaves_no_marker(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    counter = Counter(zk, PATH, exactly_once=True)
    await counter.add(0)
    with (
        lab.server.fault(op="multi", when="after", action="disconnect"),
        lab.server.fault(op="multi", nth=2, when="before", action="delay", seconds=5),
        trio.move_on_after(3) as scope,
    ):
        await counter.add(1)
    assert scope.cancelled_caught
    assert await counter.get() == 1
    await no_marker_is_left(lab, zk)


@pytest.mark.row("F21")
@pytest.mark.parametrize("allowed", [Perms.READ, Perms.WRITE])
async def test_what_is_not_allowed_is_said_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, allowed: Perms
) -> None:
    await zk.create("/counters")
    await zk.create(PATH, b"1", acl=[ACL(allowed, Id("world", "anyone"))])
    for exactly_once in (False, True):
        with pytest.raises(NoAuthError):
            await Counter(zk, PATH, codec=ASCII_INT, exactly_once=exactly_once).add(1)
    await no_marker_is_left(lab, zk)
    assert data_of(lab) == b"1"
