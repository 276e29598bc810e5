"""A queue meets the faults of recipe-rules.md D.13: no item is lost or doubled unless somebody is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ACL, ClosingError, Id, NoAuthError, Perms, SessionExpiredError, ZooKeeper
from pyzk.recipes.errors import AmbiguousResult, SequenceExhausted
from pyzk.recipes.queues.items import UndecidedItem
from pyzk.recipes.queues.queue import Queue, QueueLayout

from ...support.lab import SESSION_TIMEOUT, Lab
from .scene import LAYOUTS, contents, left, nothing_left, prepare, waiter


@pytest.mark.row("F1")
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_a_put_that_never_arrived_is_repeated(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: QueueLayout
) -> None:
    """With a connection that is known to be lost, the request never leaves."""
    queue = Queue(zk, "/q", layout=layout)
    lab.cut_off(zk)
    lab.server.disconnect(zk.session.id)
    await trio.sleep(0.1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.put, b"x")
        await trio.sleep(3)
        lab.let_through(zk)
    assert await contents(queue) == [b"x"]


@pytest.mark.row("F2", "F3")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("size", [1, 3])
async def test_a_lost_reply_makes_no_second_item(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, size: int
) -> None:
    queue = Queue(zk, "/q")
    await prepare(queue)
    with lab.server.fault(op="multi", path="/q/*", when=when, action="disconnect"):
        await queue.put_all([b"x"] * size)
    assert "multi []" in [entry.text for entry in lab.server.history(kind="request", session=zk.session.id)]
    assert await contents(queue) == [b"x"] * size
    await nothing_left(lab, zk)


@pytest.mark.row("F2")
async def test_a_lost_reply_makes_no_second_item_if_the_first_is_taken_at_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """An id in the name is not enough for that."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(queue, other)
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await waiter(other, nursery, found)
        with lab.server.fault(op="multi", path="/q/*", when="after", action="drop_reply"):
            await queue.put(b"x")
    assert found == [b"x"]
    assert await queue.size() == 0
    await nothing_left(lab, zk)


@pytest.mark.row("F6")
@pytest.mark.parametrize("taken", [False, True])
async def test_a_put_in_doubt_whose_session_ends_is_looked_for_in_the_queue(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, taken: bool
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    outcome: list[str] = []

    async def put() -> None:
        try:
            await queue.put(b"x")
            outcome.append("put")
        except AmbiguousResult:
            outcome.append("ambiguous")

    await prepare(queue)
    with lab.server.fault(op="multi", path="/q/*", when="after", action="drop_reply"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(put)
            await trio.sleep(1)
            lab.server.expire(zk.session.id)
            if taken:
                assert (await other.get()).data == b"x"
    assert outcome == ["ambiguous" if taken else "put"]
    assert await contents(other) == ([] if taken else [b"x"])


@pytest.mark.row("F2")
@pytest.mark.parametrize("layout", ["simple", "kazoo"])
async def test_a_lost_reply_to_a_put_without_an_id_is_ambiguous(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: QueueLayout
) -> None:
    queue, stubborn = Queue(zk, "/q", layout=layout), Queue(zk, "/q", layout=layout, retry=True)
    await prepare(queue)
    fault = {"op": "multi", "path": "/q/*", "when": "after", "action": "disconnect"}
    with lab.server.fault(**fault), pytest.raises(AmbiguousResult):  # type: ignore[arg-type]
        await queue.put(b"1")
    with lab.server.fault(**fault):  # type: ignore[arg-type]
        await stubborn.put(b"2")
    assert await contents(queue) == [b"1", b"2", b"2"]


@pytest.mark.row("F4", "F5", "E-40")
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["disconnect", "drop_reply"])
async def test_a_lost_reply_loses_and_doubles_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, nth: int, action: Any
) -> None:
    """To the claim (the first multi) and to the deletion (the second)."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put_all([b"a", b"b"])
    session = zk.session.id
    with lab.server.fault(op="multi", session=session, nth=nth, when=when, action=action):
        assert (await queue.get()).data == b"a"
    assert "multi []" in [entry.text for entry in lab.server.history(kind="request", session=session)], "F3"
    assert await contents(other) == [b"b"]
    await nothing_left(lab, zk)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_at_most_once_says_when_it_does_not_know(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    queue = Queue(zk, "/q", layout="simple", safe=False)
    await queue.put(b"x")
    with lab.server.fault(op="multi", when=when, action="disconnect"):
        if when == "before":
            assert (await queue.get()).data == b"x"
        else:
            with pytest.raises(UndecidedItem) as caught:
                await queue.get()
            assert caught.value.item.data == b"x"
    assert await contents(queue) == []
    await nothing_left(lab, zk)


@pytest.mark.row("F7")
async def test_waiting_goes_on_in_the_next_session(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await waiter(queue, nursery, found)
        lab.server.expire(zk.session.id)
        await trio.sleep(1)
        assert lab.watch_count == 2
        await other.put(b"x")
    assert found == [b"x"]
    await nothing_left(lab, zk)


@pytest.mark.row("F7")
async def test_without_a_next_session_the_waiting_ends(autojump_clock: MockClock, lab: Lab) -> None:
    async with trio.open_nursery() as nursery:

        async def expire(zk: ZooKeeper) -> None:
            await trio.sleep(1)
            lab.server.expire(zk.session.id)

        with pytest.raises(SessionExpiredError):
            async with lab.connect(on_expired="cancel") as zk:
                nursery.start_soon(expire, zk)
                await Queue(zk, "/q").get()


@pytest.mark.row("F6")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_session_ends_while_an_item_is_claimed(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    """The claim has gone with the session, and the item is taken in the next."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put(b"x")
    async with trio.open_nursery() as nursery:
        found: list[bytes] = []
        with lab.server.fault(op="multi", path="/q/*", when=when, action="drop_reply"):
            await waiter(queue, nursery, found)
        lab.server.expire(zk.session.id)
    assert found == [b"x"]
    await nothing_left(lab, zk)


@pytest.mark.row("F9")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_session_ends_while_an_item_is_deleted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put(b"x")
    outcome: list[object] = []

    async def get() -> None:
        try:
            outcome.append((await queue.get()).data)
        except UndecidedItem as error:
            outcome.append(error.item)

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="multi", path="/q/*", nth=2, when=when, action="drop_reply"):
            nursery.start_soon(get)
            await trio.sleep(1)
        lab.server.expire(zk.session.id)
    if when == "before":
        assert outcome == [b"x"]
    else:
        assert [item.data for item in outcome] == [b"x"]  # type: ignore[attr-defined]
    assert await contents(other) == []


@pytest.mark.row("F10", "F11")
@pytest.mark.parametrize("keep_data", [True, False])
async def test_the_server_is_restarted(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, keep_data: bool
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await waiter(queue, nursery, found)
        lab.server.restart(keep_data=keep_data)
        await trio.sleep(1)
        await other.put(b"x")
    assert found == [b"x"]
    await nothing_left(lab, zk)


@pytest.mark.row("F14")
async def test_a_partition_longer_than_the_session(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await waiter(queue, nursery, found)
        lab.cut_off(zk)
        await other.put(b"x")
        await trio.sleep(3 * SESSION_TIMEOUT)
        assert found == []
        lab.let_through(zk)
    assert found == [b"x"]


@pytest.mark.row("F17")
async def test_directories_are_created_again(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue, other = Queue(zk, "/a/q"), await lab.client()
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        await waiter(queue, nursery, found)
        await other.delete("/a", recursive=True)
        await trio.sleep(1)
        await queue.put(b"x")
    await other.delete("/a", recursive=True)
    await queue.put(b"y")
    await other.create("/a/q.claims")
    await other.delete("/a/q.claims", recursive=True)
    assert [*found, (await queue.get()).data] == [b"x", b"y"]


@pytest.mark.row("F18")
async def test_foreign_children_are_skipped_and_reported_once(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(zk, "/q", layout="simple")
    await queue.put(b"x")
    for name in ("qn-", "qn-1", "qn-0000000000x", "aaa-0000000001", "item-0000000002"):
        await zk.create(f"/q/{name}")
    with caplog.at_level(logging.WARNING):
        assert await contents(queue) == [b"x"]
        assert await contents(queue) == []
    assert len(caplog.records) == 1
    assert "qn-1" in caplog.text


@pytest.mark.row("F20")
@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
async def test_cancelled_at_any_time(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, seconds: float
) -> None:
    """Every reply takes a second: the list, the claim, the data, the deletion. What was not returned is still
    in the queue, and free."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put_all([b"a", b"b"])
    found = []
    slow = lab.server.fault(
        session=zk.session.id, when="after", action="delay", seconds=1, times=None, required=False
    )
    with slow, trio.move_on_after(seconds):
        found.append((await queue.get()).data)
    await trio.sleep(3)
    assert left(lab) == [path for path in left(lab) if path.startswith("/q/")]
    assert found + await contents(other) == [b"a", b"b"]
    assert bool(found) is (seconds > 4)
    await nothing_left(lab, zk)


@pytest.mark.row("F20")
async def test_cancelled_while_cut_off(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """What has not left the client is withdrawn, without waiting for a connection."""
    queue = Queue(zk, "/q")
    await prepare(queue)
    await queue.put(b"x")
    with lab.server.fault(op="get_data", when="after", action="disconnect", session=zk.session.id):
        lab.refuse(zk)
        with trio.move_on_after(3) as scope:
            await queue.get()
    assert scope.cancelled_caught
    assert trio.current_time() < 4
    lab.let_through(zk)
    await trio.sleep(2)
    assert await contents(queue) == [b"x"]


@pytest.mark.row("F20")
async def test_cancelled_while_the_deletion_has_to_be_repeated(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """It is not: the item stays."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put(b"x")
    with lab.server.fault(op="multi", path="/q/*", nth=2, when="before", action="disconnect"):
        lab.refuse(zk)
        async with trio.open_nursery() as nursery:

            async def let_through() -> None:
                await trio.sleep(3)
                lab.let_through(zk)

            nursery.start_soon(let_through)
            with trio.move_on_after(2) as scope:
                await queue.get()
    assert scope.cancelled_caught
    await trio.sleep(2)
    assert await contents(other) == [b"x"]
    await nothing_left(lab, zk)


@pytest.mark.row("F15", "F17")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_others_do_before_a_lost_reply_is_cleared_up(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    """Somebody deletes the claim of an item that is still there; or another item gets the same name."""
    queue, other = Queue(zk, "/q", layout="simple"), Queue(await lab.client(), "/q", layout="simple")
    await zk.create("/q.claims")
    await other.put(b"x")
    found: list[bytes] = []
    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="multi", path="/q/*", nth=2, when=when, action="disconnect"):
            lab.refuse(zk)
            await waiter(queue, nursery, found)
        if when == "before":
            await other.zk.delete("/q.claims/qn-0000000000")
        else:
            await other.zk.delete("/q")
            await other.put(b"y")
        lab.let_through(zk)
    assert await zk.get_children("/q") == (["qn-0000000000"] if when == "after" else [])
    assert found + await contents(other) == ([b"x"] if when == "before" else [b"x", b"y"])
    await nothing_left(lab, zk)


@pytest.mark.row("F20")
async def test_cancelled_while_nobody_can_know(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """The deletion is on its way and the connection is dead: the caller is told, once the lease is over."""
    queue, other = Queue(zk, "/q"), Queue(await lab.client(), "/q")
    await prepare(other)
    await other.put(b"x")
    with lab.server.fault(op="multi", path="/q/*", nth=2, when="after", action="drop_reply"):
        lab.refuse(zk)
        with pytest.raises(UndecidedItem) as caught, trio.move_on_after(3):
            await queue.get()
    assert caught.value.item.data == b"x"
    assert 3 < trio.current_time() < 2 * SESSION_TIMEOUT
    lab.let_through(zk)


@pytest.mark.row("F20")
async def test_cancelled_by_a_client_that_has_long_only_pinged(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """Its lease is over, as nothing has kept it, but the answer is on its way."""
    queue = Queue(zk, "/q", layout="simple", safe=False)
    other = Queue(await lab.client(), "/q", layout="simple", safe=False)
    await trio.sleep(3 * SESSION_TIMEOUT)
    await other.put(b"x")
    with lab.server.fault(op="multi", path="/q/*", when="after", action="delay", seconds=1):
        with trio.move_on_after(0.5):
            assert (await queue.get()).data == b"x"
            return
    raise AssertionError("it was taken")


@pytest.mark.row("F20")
async def test_a_cancelled_put_leaves_no_marker(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = Queue(zk, "/q")
    await prepare(queue)
    with lab.server.fault(op="multi", when="after", action="delay", seconds=1), trio.move_on_after(0.5):
        await queue.put(b"x")
    await trio.sleep(2)
    assert await contents(queue) == [b"x"], "it had left the client"
    await nothing_left(lab, zk)


READ_ONLY = [ACL(Perms.READ, Id("world", "anyone"))]


async def test_a_put_of_a_process_that_is_killed_leaves_no_marker(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """It goes with the session: longer than that nobody asks for it."""
    async with lab.connect(close_grace=0) as own:
        with lab.server.fault(op="delete", session=own.session.id, when="before", action="drop_reply"):
            await Queue(own, "/q").put(b"x")
            await trio.sleep(1)
            lab.cut_off(own)
    assert len(await zk.get_children("/q.puts")) == 1
    await trio.sleep(2 * SESSION_TIMEOUT)
    assert await zk.get_children("/q.puts") == []
    assert (await Queue(zk, "/q").get()).data == b"x"


@pytest.mark.row("F21")
@pytest.mark.parametrize("protected", ["/q", "/q.claims"])
async def test_access_is_denied(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, protected: str) -> None:
    queue = Queue(zk, "/q")
    await queue.put(b"x")
    await contents(queue)
    await queue.put(b"x")
    await zk.set_acl(protected, READ_ONLY)
    with pytest.raises(NoAuthError):
        await (queue.put(b"y") if protected == "/q" else queue.get())
    if protected == "/q":
        with pytest.raises(NoAuthError):
            await queue.get()
    await trio.sleep(1)
    assert len(left(lab)) == 1, "the item"
    assert lab.watch_count == 0


@pytest.mark.row("F24")
async def test_the_numbers_run_out(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = Queue(zk, "/q", layout="simple")
    await zk.create("/q")
    lab.count_children("/q", 2**31 - 2)
    await queue.put(b"last")
    for _ in range(2):
        with pytest.raises(SequenceExhausted):
            await queue.put(b"x")
    assert await contents(queue) == [b"last"]


@pytest.mark.row("E-59")
async def test_a_closed_client_gives_nothing(autojump_clock: MockClock, lab: Lab) -> None:
    errors: list[Exception] = []

    async def get(queue: Queue, started: Callable[[], None]) -> None:
        started()
        try:
            await queue.get()
        except ClosingError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        async with lab.connect() as zk:
            queue = Queue(zk, "/q")
            nursery.start_soon(get, queue, lambda: None)
            await trio.sleep(1)
        with pytest.raises(ClosingError):
            await queue.get()
        with pytest.raises(ClosingError):
            await queue.put(b"x")
    assert len(errors) == 1
