"""An item is handled at least once, and exactly once unless a claim is lost; who loses a claim is told."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.recipes.errors import AmbiguousResult, LockLost, LossReason
from pyzk.recipes.queues.claim_queue import ClaimLayout, ClaimQueue
from pyzk.recipes.queues.consumer import Removal
from pyzk.recipes.queues.items import QueueEmpty, QueueFull, decode_frame, encode_frame
from pyzk.recipes.queues.queue import Queue

from ...support.lab import SESSION_TIMEOUT, Lab

LAYOUTS: list[ClaimLayout] = ["kazoo-locking", "curator"]
ITEMS = {"kazoo-locking": "/q/entries", "curator": "/q"}
CLAIMS = {"kazoo-locking": "/q/taken", "curator": "/q.claims"}


async def contents(queue: ClaimQueue) -> list[bytes]:
    """All that nobody has claimed, handled."""
    found = []
    try:
        while True:
            async with queue.claim(wait=False) as item:
                found.append(item.data)
    except QueueEmpty:
        return found


async def prepare(queue: ClaimQueue) -> None:
    """Have the directories created, so that the requests of a test can be counted."""
    await queue.put(b"first")
    assert await contents(queue) == [b"first"]


async def nothing_left(lab: Lab, layout: ClaimLayout, *clients: ZooKeeper) -> None:
    await trio.sleep(2)
    for zk in clients:
        await zk.cleanup.idle()
        assert zk.watch_count == 0
    parents = {"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/q"}
    assert set(lab.server.dump()) - parents <= {ITEMS[layout], CLAIMS[layout]}
    assert lab.watch_count == 0


# --- what it does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_items_are_handled_in_order(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout
) -> None:
    queue = ClaimQueue(zk, "/q", layout=layout)
    for n in range(5):
        await queue.put(b"%d" % n)
    await queue.put_all([b"5", b"6"])
    assert await contents(queue) == [b"%d" % n for n in range(7)]
    await nothing_left(lab, layout, zk)


async def test_priorities_of_kazoo(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/q")
    await queue.put(b"low", priority=999)
    await queue.put(b"default")
    await queue.put(b"high", priority=0)
    with pytest.raises(ValueError, match="between 0 and 999"):
        await queue.put(b"x", priority=1000)
    assert sorted(await zk.get_children("/q/entries")) == [
        "entry-000-0000000002",
        "entry-100-0000000001",
        "entry-999-0000000000",
    ]
    assert await contents(queue) == [b"high", b"default", b"low"]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_znodes_of_a_claim(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout
) -> None:
    queue = ClaimQueue(zk, "/q", layout=layout)
    await queue.put(b"AB")
    async with queue.claim() as item:
        assert item.data == b"AB"
        (name,) = await zk.get_children(ITEMS[layout])
        data, _ = await zk.get(f"{ITEMS[layout]}/{name}")
        assert data == (b"AB" if layout == "kazoo-locking" else bytes.fromhex("000100010100000002414202"))
        claim, stat = await zk.get(f"{CLAIMS[layout]}/{name}")
        assert stat.ephemeralOwner == zk.session.id
        assert claim is not None
        assert len(claim) == 32
        assert await queue.size() == 1
    await nothing_left(lab, layout, zk)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_an_item_that_was_not_handled_is_free_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout
) -> None:
    queue = ClaimQueue(zk, "/q", layout=layout)
    await queue.put_all([b"a", b"b"])
    with pytest.raises(KeyError):
        async with queue.claim() as item:
            assert item.data == b"a"
            raise KeyError
    with trio.move_on_after(1) as scope:
        async with queue.claim() as item:
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert sorted(await contents(queue)) == [b"a", b"b"]
    await nothing_left(lab, layout, zk)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_what_a_claim_costs(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout
) -> None:
    queue = ClaimQueue(zk, "/q", layout=layout)
    await prepare(queue)
    await queue.put_all([b"a", b"b"])
    for fails in (True, False):
        with suppress(KeyError):
            async with queue.claim():
                before = lab.requests(zk)
                if fails:
                    raise KeyError
        await trio.sleep(1)
        assert lab.requests(zk) - before == ({"delete": 1} if fails else {"multi": 1})


async def test_each_item_has_one_handler(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queues = [ClaimQueue(each, "/q") for each in (zk, zk, await lab.client(), await lab.client())]
    await queues[0].put_all([b"%d" % n for n in range(40)])
    at_work: list[bytes] = []
    done: list[bytes] = []

    async def work(queue: ClaimQueue) -> None:
        try:
            while True:
                async with queue.claim(wait=False) as item:
                    assert item.data not in at_work
                    at_work.append(item.data)
                    await trio.sleep(1)
                    at_work.remove(item.data)
                    done.append(item.data)
        except QueueEmpty:
            pass

    async with trio.open_nursery() as nursery:
        for queue in queues:
            for _ in range(3):
                nursery.start_soon(work, queue)
    assert sorted(map(int, done)) == list(range(40))
    assert trio.current_time() < 40 / 12 + 2, "they work side by side"
    await nothing_left(lab, "kazoo-locking", zk)


async def test_a_claim_of_another_process_ends_the_wait(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """By its session's end: the claims are watched too."""
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await queue.put(b"x")
    found = []
    with pytest.raises(LockLost):
        async with other.claim(), trio.open_nursery() as nursery:

            async def wait() -> None:
                async with queue.claim() as item:
                    found.append(item.data)

            nursery.start_soon(wait)
            await trio.sleep(1)
            assert found == []
            with trio.CancelScope(shield=True):
                lab.server.expire(other.zk.session.id)
                await trio.sleep(1)
                assert found == [b"x"]
    await nothing_left(lab, "kazoo-locking", zk)


async def test_a_bounded_queue(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/q", layout="curator", limit=1)
    await queue.put(b"x")
    async with queue.claim():
        with pytest.raises(QueueFull):
            await queue.put(b"y", wait=False)
    await queue.put(b"y", wait=False)
    assert await contents(queue) == [b"y"]


async def test_frames_of_several_payloads(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    """Curator's putMulti writes them: none must go unnoticed."""
    queue = ClaimQueue(zk, "/q", layout="curator")
    await zk.create("/q/queue-", encode_frame([b"a", b""]), sequential=True, make_parents=True)
    async with queue.claim() as item:
        assert item.payloads == (b"a", b"")
        with pytest.raises(ValueError, match="too many"):
            _ = item.data


@pytest.mark.parametrize(
    "data",
    ["", "00010001", "0001000101", "00010001010000000241", "000100010300000000", "0001000101ffffffff02"],
)
async def test_what_is_no_frame_is_skipped_and_reported(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"begin|middle|payload"):
        decode_frame(bytes.fromhex(data))
    queue = ClaimQueue(zk, "/q", layout="curator")
    path = await zk.create("/q/queue-", bytes.fromhex(data), sequential=True, make_parents=True)
    await queue.put(b"good")
    with caplog.at_level(logging.WARNING):
        assert await contents(queue) == [b"good"]
        assert await contents(queue) == []
    assert caplog.text.count(path) == 1
    assert await zk.exists(path) is not None


async def test_parameters(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/q", layout="curator", lock_path="/locks")
    await queue.put(b"x")
    async with queue.claim():
        assert await zk.get_children("/locks") == await zk.get_children("/q")
    with pytest.raises(ValueError, match="kazoo-locking"):
        ClaimQueue(zk, "/q", lock_path="/locks")
    with pytest.raises(ValueError, match="safe"):
        async with Queue(zk, "/q", safe=False).claim():
            pass


# --- faults (recipe-rules.md D.13) --------------------------------------------------------------------------


@pytest.mark.row("F2")
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_an_ambiguous_put(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout
) -> None:
    await prepare(ClaimQueue(zk, "/q", layout=layout))
    fault = {"op": "multi", "when": "before", "action": "disconnect"}
    with lab.server.fault(**fault), pytest.raises(AmbiguousResult):  # type: ignore[arg-type]
        await ClaimQueue(zk, "/q", layout=layout).put(b"x")
    with lab.server.fault(**fault):  # type: ignore[arg-type]
        await ClaimQueue(zk, "/q", layout=layout, retry=True).put(b"x")
    assert await contents(ClaimQueue(zk, "/q", layout=layout)) == [b"x"]


@pytest.mark.row("F4", "F5")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("action", ["disconnect", "drop_reply"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
async def test_lost_replies_to_claim_and_consume(
    autojump_clock: MockClock,
    lab: Lab,
    zk: ZooKeeper,
    nth: int,
    when: Any,
    action: Any,
    layout: ClaimLayout,
) -> None:
    queue, other = (ClaimQueue(each, "/q", layout=layout) for each in (zk, await lab.client()))
    await prepare(other)
    await other.put_all([b"a", b"b"])
    with lab.server.fault(op="multi", session=zk.session.id, nth=nth, when=when, action=action):
        async with queue.claim() as item:
            assert item.data == b"a"
    assert await contents(other) == [b"b"], "a was handled once"
    await nothing_left(lab, layout, zk)


@pytest.mark.row("F4", "F5")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_lost_replies_to_release(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any, layout: ClaimLayout
) -> None:
    """If another has claimed it meanwhile, that claim stays."""
    queue, other = (ClaimQueue(each, "/q", layout=layout) for each in (zk, await lab.client()))
    await other.put(b"a")
    found = []

    async def wait() -> None:
        async with other.claim() as item:
            found.append(item.data)
            await trio.sleep(5)

    async with trio.open_nursery() as nursery:
        with pytest.raises(KeyError), lab.server.fault(op="delete", when=when, action="disconnect"):
            async with queue.claim():
                nursery.start_soon(wait)
                await trio.sleep(1)
                raise KeyError
    assert found == [b"a"]
    await nothing_left(lab, layout, zk)


@pytest.mark.row("F8")
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_session_expires_while_an_item_is_handled(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, layout: ClaimLayout, same: bool
) -> None:
    queue, other = (ClaimQueue(each, "/q", layout=layout) for each in (zk, await lab.client()))
    await queue.put(b"x")
    with pytest.raises(LockLost) as caught:
        async with queue.claim():
            lab.server.expire(zk.session.id)
            await trio.sleep_forever()
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    assert await contents(queue if same else other) == [b"x"], "it is there for all"
    await nothing_left(lab, layout, zk)


@pytest.mark.row("F9")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_session_expires_while_an_item_is_consumed(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, when: Any
) -> None:
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await prepare(other)
    await other.put(b"x")

    async def expire() -> None:
        await trio.sleep(1)
        lab.server.expire(zk.session.id)

    async with trio.open_nursery() as nursery:
        with lab.server.fault(op="multi", session=zk.session.id, nth=2, when=when, action="drop_reply"):
            with pytest.raises(LockLost) as caught:
                async with queue.claim():
                    nursery.start_soon(expire)
            assert caught.value.reason is LossReason.SESSION_EXPIRED
    assert await contents(other) == ([b"x"] if when == "before" else [])
    await nothing_left(lab, "kazoo-locking", zk)


@pytest.mark.row("F10")
async def test_a_short_restart_keeps_the_claim(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/q")
    await queue.put(b"x")
    async with queue.claim():
        lab.server.restart(keep_data=True)
        await trio.sleep(5)
    assert await contents(queue) == []
    await nothing_left(lab, "kazoo-locking", zk)


@pytest.mark.row("F11")
async def test_a_server_that_lost_its_data(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/q")
    await queue.put(b"x")
    with pytest.raises(LockLost):
        async with queue.claim():
            lab.server.restart(keep_data=False)
            await trio.sleep_forever()
    await queue.put(b"y")
    assert await contents(queue) == [b"y"]


@pytest.mark.row("F14")
async def test_a_partition_ends_the_block_before_another_gets_the_item(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await queue.put(b"x")
    times = {}

    async def wait() -> None:
        async with other.claim():
            times["other"] = trio.current_time()

    async with trio.open_nursery() as nursery:
        with pytest.raises(LockLost) as caught:
            async with queue.claim():
                nursery.start_soon(wait)
                lab.cut_off(zk)
                try:
                    await trio.sleep_forever()
                finally:
                    times["ours"] = trio.current_time()
        assert caught.value.reason is LossReason.LEASE_EXPIRED
    assert times["ours"] < times["other"]
    lab.let_through(zk)
    await nothing_left(lab, "kazoo-locking", zk)


@pytest.mark.row("F14")
async def test_if_the_session_survives_the_item_is_free_again(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = ClaimQueue(zk, "/q", margin=SESSION_TIMEOUT - 1), ClaimQueue(await lab.client(), "/q")
    await queue.put(b"x")
    with pytest.raises(LockLost):
        async with queue.claim():
            lab.cut_off(zk)
            await trio.sleep_forever()
    lab.let_through(zk)
    await trio.sleep(SESSION_TIMEOUT)
    assert zk.session.generation == 1
    assert await contents(other) == [b"x"]
    await nothing_left(lab, "kazoo-locking", zk)


@pytest.mark.row("F15")
@pytest.mark.parametrize("victim", ["claim", "item"])
async def test_somebody_deletes_the_claim_or_the_item(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, victim: str
) -> None:
    queue, other = ClaimQueue(zk, "/q"), await lab.client()
    await queue.put(b"x")
    with pytest.raises(LockLost) as caught:
        async with queue.claim() as item:
            await other.delete(item.path if victim == "item" else item.path.replace("entries", "taken"))
            await trio.sleep(1)
    assert caught.value.reason is LossReason.NODE_DELETED
    assert await contents(queue) == ([] if victim == "item" else [b"x"])
    await nothing_left(lab, "kazoo-locking", zk)


@pytest.mark.row("F15")
async def test_the_claim_of_another_is_not_taken_away(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await queue.put(b"x")
    async with trio.open_nursery() as nursery:
        done = []

        async def wait() -> None:
            async with other.claim() as item:
                await trio.sleep(5)
                done.append(item.data)

        with pytest.raises(LockLost), trio.CancelScope(shield=True):
            async with queue.claim() as item:
                nursery.start_soon(wait)
                await trio.sleep(1)
                await other.zk.delete(item.path.replace("entries", "taken"))
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
    assert done == [b"x"]


@pytest.mark.row("F19")
async def test_a_process_that_slept_too_long(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await queue.put(b"x")
    with pytest.raises(LockLost):
        async with queue.claim():
            lab.cut_off(zk)
            with trio.CancelScope(shield=True):
                await trio.sleep(2 * SESSION_TIMEOUT)
                assert await contents(other) == [b"x"]


@pytest.mark.row("F20")
@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_at_any_time(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, seconds: float, fails: bool
) -> None:
    """Every reply takes a second: two lists, the claim, two reads, the end."""
    queue, other = ClaimQueue(zk, "/q"), ClaimQueue(await lab.client(), "/q")
    await prepare(other)
    await other.put_all([b"a", b"b"])
    handled = []
    slow = lab.server.fault(session=zk.session.id, when="after", action="delay", seconds=1, times=None)
    with slow, trio.move_on_after(seconds):
        try:
            async with queue.claim() as item:
                if fails:
                    raise KeyError
                handled.append(item.data)
        except KeyError:
            pass
    await trio.sleep(5)
    assert handled + await contents(other) == [b"a", b"b"]
    assert bool(handled) is (seconds > 5 and not fails)
    await nothing_left(lab, "kazoo-locking", zk)


async def test_what_the_block_raises_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = ClaimQueue(zk, "/q")
    await queue.put(b"x")
    with pytest.raises(KeyError) as caught:
        async with queue.claim():
            lab.server.expire(zk.session.id)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("mine")
    assert any("expired" in note for note in caught.value.__notes__)


async def test_a_client_that_closes_gives_its_claims_back(autojump_clock: MockClock, lab: Lab) -> None:
    reasons = []

    async def handle(queue: ClaimQueue) -> None:
        try:
            async with queue.claim():
                await trio.sleep_forever()
        except LockLost as error:
            reasons.append(error.reason)

    async with trio.open_nursery() as nursery, lab.connect() as own:
        queue = ClaimQueue(own, "/q")
        await queue.put(b"x")
        nursery.start_soon(handle, queue)
        await trio.sleep(1)
    assert reasons == [LossReason.CLIENT_CLOSED]
    assert await contents(ClaimQueue(await lab.client(), "/q")) == [b"x"]


# --- within one session -------------------------------------------------------------------------------------


async def test_the_claim_of_another_task_is_not_taken_for_ones_own(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    """It belongs to the same session, so that alone proves nothing."""
    queue, sibling = ClaimQueue(zk, "/q"), ClaimQueue(zk, "/q")
    await queue.put(b"x")
    async with sibling.claim() as item:
        late = Removal(queue._location, queue._supply, item.path.rpartition("/")[2])
        with lab.server.fault(op="multi", when="after", action="disconnect"):
            assert not await late.begin()
        await trio.sleep(1)
        assert await zk.get_children("/q/taken") != [], "nor is it removed"
    await nothing_left(lab, "kazoo-locking", zk)


async def test_an_item_that_is_given_back_goes_to_a_task_of_the_same_process(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    queue = ClaimQueue(zk, "/q")
    await queue.put(b"x")
    handled = []

    async def handle() -> None:
        async with queue.claim() as item:
            handled.append(item.data)

    async with trio.open_nursery() as nursery:
        with pytest.raises(KeyError):
            async with queue.claim():
                nursery.start_soon(handle)
                await trio.sleep(1)
                assert lab.watch_count == 3, "the directories, and the claim that is held"
                raise KeyError
    assert handled == [b"x"]
    await nothing_left(lab, "kazoo-locking", zk)
