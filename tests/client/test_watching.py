"""Watches as values, through reconnects, overflow and the end of their users."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import (
    ClosingError,
    ConnectionLossError,
    EventType,
    Missed,
    MissedReason,
    NoNodeError,
    Watch,
    WatchEvent,
    WatchStream,
    ZooKeeper,
)
from pyzk.client.operations import CONFIG_PATH
from pyzk.client.registry import WatchRegistry
from pyzk.server.testing import Controls, Fault

from .memory import client, open_memory_server, watched


async def take(stream: WatchStream, count: int) -> list[tuple[EventType, str]]:
    """The next events, without their zxids."""
    events = []
    for _ in range(count):
        event = await anext(stream)
        assert isinstance(event, WatchEvent), event
        events.append((event.type, event.path))
    return events


async def _cancelled(watch: Watch) -> None:
    watch.cancel()


async def test_the_end_of_a_watch_sets_an_event_however_it_ends(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/a")
    for end in (lambda watch: zk.set("/a", b"1"), _cancelled):
        _, _, watch = await zk.get_and_watch("/a")
        before, woken = trio.Event(), trio.Event()
        watch.wakes(before)
        watch.wakes(woken)
        assert not woken.is_set()
        await end(watch)
        await woken.wait()
        assert not before.is_set()
        late = trio.Event()
        watch.wakes(late)
        assert late.is_set()


async def test_a_change_of_state_sets_the_events_of_open_blocks(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    inside, outside = trio.Event(), trio.Event()
    with zk.session.waking(outside):
        pass
    with zk.session.waking(inside):
        zk.session.wake()
    assert inside.is_set()
    assert not outside.is_set()
    again = trio.Event()
    with zk.session.waking(again):  # each block waits for the next change
        assert not again.is_set()
        zk.session.wake()
        assert again.is_set()


async def test_one_shot_watches_fire_once_with_the_zxid_of_the_change(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/a", b"1")
    data, _, changed = await zk.get_and_watch("/a")
    names, grown = await zk.get_children_and_watch("/a")
    nothing, created = await zk.exists_and_watch("/b")
    assert (data, names, nothing) == (b"1", [], None)
    stat = await zk.set("/a", b"2")
    assert await changed.wait() == WatchEvent(EventType.CHANGED, "/a", stat.mzxid)
    await zk.set("/a", b"3")
    assert changed.event == WatchEvent(EventType.CHANGED, "/a", stat.mzxid)
    await zk.create("/a/b")
    await zk.create("/b")
    assert (grown.event, created.event) != (None, None)
    assert await grown.wait() == WatchEvent(EventType.CHILD, "/a", zk.session.last_zxid - 1)
    assert await created.wait() == WatchEvent(EventType.CREATED, "/b", zk.session.last_zxid)
    assert zk.watch_count == 0
    assert zk.event_count == 3


async def test_an_event_is_delivered_before_the_reply_that_reveals_it(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a", b"1")
    _, _, watch = await zk.get_and_watch("/a")
    async with client(server) as other:
        await other.set("/a", b"2")
    data, _ = await zk.get("/a")
    assert data == b"2"
    assert watch.event is not None


async def test_watches_speak_the_paths_of_the_chroot(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, "server/app") as zk, client(server) as outside:
        await zk.ensure_path("/a")
        _, watch = await zk.get_children_and_watch("/")
        async with zk.watch("/", recursive=True) as everything:
            await zk.create("/a/b")
            await outside.set("/app", b"x")
            await outside.create("/app2")
            await zk.create("/c")
            assert await take(everything, 3) == [
                (EventType.CREATED, "/a/b"),
                (EventType.CHANGED, "/"),
                (EventType.CREATED, "/c"),
            ]
        event = await watch.wait()
        assert isinstance(event, WatchEvent)
        assert (event.type, event.path) == (EventType.CHILD, "/")


async def test_what_happened_while_away_fires_a_one_shot_watch_and_nothing_else_does(
    autojump_clock: MockClock, server: Controls
) -> None:
    away = False

    async def reach(host: str, port: int) -> trio.abc.Stream:
        if away:
            raise OSError("away")
        return server.open_stream()

    async with client(server, connector=reach) as zk:
        for path in ("/changed", "/same", "/gone", "/parent"):
            await zk.create(path)
        watches: dict[str, Watch] = {}
        for path in ("/changed", "/same", "/gone"):
            _, _, watches[path] = await zk.get_and_watch(path)
        _, watches["/parent"] = await zk.get_children_and_watch("/parent")
        _, watches["/new"] = await zk.exists_and_watch("/new")
        _, watches["/never"] = await zk.exists_and_watch("/never")
        away = True
        server.disconnect_all()
        async with client(server) as other:
            await other.set("/changed", b"x")
            await other.delete("/gone")
            await other.create("/parent/child")
            await other.create("/new")
        assert not any(watch.event for watch in watches.values())
        away = False
        await zk.sync()
        fired = {path: watch.event for path, watch in watches.items() if watch.event}
        assert fired == {
            "/changed": WatchEvent(EventType.CHANGED, "/changed"),
            "/gone": WatchEvent(EventType.DELETED, "/gone"),
            "/parent": WatchEvent(EventType.CHILD, "/parent"),
            "/new": WatchEvent(EventType.CREATED, "/new"),
        }
        assert zk.event_count == 4
        await zk.set("/same", b"x")
        assert watches["/same"].event is not None, "it was armed again"


async def test_a_lasting_watch_says_that_it_may_have_missed_something(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    async with zk.watch("/", recursive=True) as everything, zk.watch("/") as flat:
        await zk.create("/a")
        assert await take(everything, 1) == [(EventType.CREATED, "/a")]
        assert await take(flat, 1) == [(EventType.CHILD, "/")]
        for _ in range(3):
            server.disconnect_all()
            assert await anext(everything) == Missed("/", MissedReason.RECONNECTED)
            assert await anext(flat) == Missed("/", MissedReason.RECONNECTED)
        await zk.create("/b")
        assert await take(everything, 1) == [(EventType.CREATED, "/b")]
        assert await take(flat, 1) == [(EventType.CHILD, "/")]


async def test_reading_after_missed_leaves_no_gap(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    """A mirror of one znode, rebuilt after each Missed, ends up right whatever is cut when."""
    await zk.create("/n", b"0")
    seen = b""

    async def mirror(task_status: trio.TaskStatus[None]) -> None:
        nonlocal seen
        async with zk.watch("/n") as events:
            seen = (await zk.get("/n"))[0] or b""
            task_status.started()
            async for _ in events:
                seen = (await zk.get("/n"))[0] or b""

    def lose_a_reply() -> Fault:
        return faults.enter_context(server.fault(op="get_data", when="after", required=False))

    async with AsyncExitStack() as faults, trio.open_nursery() as nursery, client(server) as other:
        await nursery.start(mirror)
        fault = lose_a_reply()
        for turn in range(100):
            if turn % 3 == 0:
                server.disconnect_all()
            if turn % 4 == 0 and fault.fired:  # one at a time: a read is not repeated for ever
                fault = lose_a_reply()
            await trio.sleep(0.01)
            with trio.move_on_after(30):
                try:
                    await other.set("/n", str(turn).encode())
                except ConnectionLossError:
                    continue
        expected, _ = await other.get("/n")
        await trio.sleep(20)
        assert seen == expected
        nursery.cancel_scope.cancel()


async def test_a_slow_reader_gets_one_missed_instead_of_everything(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/n")
    async with zk.watch("/n", buffer=10) as events:
        for _ in range(10):
            await zk.set("/n", b"")
        assert await take(events, 10) == [(EventType.CHANGED, "/n")] * 10
        for _ in range(15):
            await zk.set("/n", b"")
        assert await anext(events) == Missed("/n", MissedReason.OVERFLOW)
        assert await take(events, 4) == [(EventType.CHANGED, "/n")] * 4


async def test_unread_events_with_long_paths_give_way_early() -> None:
    stream = WatchStream("/app/a", "/app", WatchRegistry(), 1024)
    long = WatchEvent(EventType.CREATED, "/app/a/" + "x" * 2**20)
    for _ in range(3):
        stream.deliver(long)
    assert await anext(stream) == WatchEvent(EventType.CREATED, long.path.removeprefix("/app"))
    stream.deliver(long)
    stream.deliver(long)
    assert await anext(stream) == Missed("/app/a", MissedReason.OVERFLOW)
    for _ in range(10):
        stream.deliver(long)
        assert await anext(stream) == WatchEvent(EventType.CREATED, long.path.removeprefix("/app"))


async def test_the_configuration_has_its_own_path_under_a_chroot(autojump_clock: MockClock) -> None:
    async with (
        open_memory_server(skip_acl=True) as server,
        client(server) as plain,
        client(server, "server/app") as zk,
    ):
        _, _, watch = await zk.get_config_and_watch()
        assert watch.path == CONFIG_PATH
        await plain.set(CONFIG_PATH, b"changed")
        event = await watch.wait()
        assert isinstance(event, WatchEvent)
        assert (event.type, event.path) == (EventType.CHANGED, CONFIG_PATH)


async def test_expiry_ends_one_shot_watches_and_moves_lasting_ones_to_the_next_session(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, on_expired="new_session") as zk:
        _, watch = await zk.exists_and_watch("/a")
        async with zk.watch("/", recursive=True) as events:
            server.expire(zk.session.id)
            assert await watch.wait() == Missed("/a", MissedReason.EXPIRED)
            assert await anext(events) == Missed("/", MissedReason.EXPIRED)
            assert zk.session.generation == 2
            await zk.create("/a")
            assert await take(events, 1) == [(EventType.CREATED, "/a")]


async def test_the_last_user_removes_the_servers_watch(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a")
    async with zk.watch("/a"), zk.watch("/a"):
        assert watched(server) == ["/a"]
    await zk.sync()
    assert watched(server) == []
    _, _, first = await zk.get_and_watch("/a")
    _, second = await zk.exists_and_watch("/a")
    with first:
        with second:
            assert watched(server) == ["/a"]
        await zk.sync()
        assert watched(server) == ["/a"]
    await zk.sync()
    assert watched(server) == []
    assert zk.watch_count == 0


async def test_cancelling_removes_the_servers_watch(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a")

    async def listen() -> None:
        async with zk.watch("/a") as events:
            await anext(events)

    async def wait() -> None:
        _, _, watch = await zk.get_and_watch("/a")
        with watch:
            await watch.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(listen)
            nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert watched(server) == ["/a"]
        nursery.cancel_scope.cancel()
    await zk.sync()
    assert watched(server) == []
    assert zk.watch_count == 0


@pytest.mark.parametrize("op", ["get_data", "add_watch"])
async def test_a_watch_whose_request_was_cancelled_does_not_stay(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, op: str
) -> None:
    await zk.create("/a")
    with server.fault(op=op, when="after", action="delay", seconds=5):
        with trio.move_on_after(1) as scope:
            if op == "get_data":
                await zk.get_and_watch("/a")
            else:
                async with zk.watch("/a"):
                    raise AssertionError("not armed yet")
    assert scope.cancelled_caught
    assert watched(server) == ["/a"]
    await trio.sleep(10)
    assert watched(server) == []
    assert zk.watch_count == 0


async def test_a_failed_read_arms_nothing(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    with pytest.raises(NoNodeError):
        await zk.get_and_watch("/none")
    with pytest.raises(NoNodeError):
        await zk.get_children_and_watch("/none")
    assert (zk.watch_count, watched(server)) == (0, [])


async def test_a_one_shot_and_a_lasting_watch_at_the_same_path(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a")
    async with zk.watch("/a") as events:
        _, _, watch = await zk.get_and_watch("/a")
        await zk.set("/a", b"1")
        await zk.set("/a", b"2")
        assert watch.event is not None
        assert await take(events, 2) == [(EventType.CHANGED, "/a")] * 2
        _, _, rider = await zk.get_and_watch("/a")
    await zk.set("/a", b"3")
    assert rider.event is not None, "it outlives the watch that it rides on"
    await zk.sync()
    assert watched(server) == []


async def test_the_end_of_the_client_ends_every_wait(autojump_clock: MockClock, server: Controls) -> None:
    errors = []

    async def wait(watch: Watch) -> None:
        try:
            await watch.wait()
        except ClosingError as error:
            errors.append(error)

    async def listen(zk: ZooKeeper) -> None:
        try:
            async with zk.watch("/a") as events:
                async for _ in events:
                    raise AssertionError("there is no event")
        except ClosingError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery, client(server) as zk:
        _, watch = await zk.exists_and_watch("/a")
        nursery.start_soon(wait, watch)
        nursery.start_soon(listen, zk)
        await wait_all_tasks_blocked()
    assert len(errors) == 2


async def test_a_cancelled_watch_cannot_be_waited_for(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    _, watch = await zk.exists_and_watch("/a")
    watch.cancel()
    watch.cancel()
    with pytest.raises(ClosingError):
        await watch.wait()
