"""Calls: in order, many at a time, cancelled, and each method once against our server."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import (
    BadArgumentsError,
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    GetData,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SetData,
    ZooKeeper,
)
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls

from .memory import client


async def test_a_hundred_tasks_share_a_client(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    async def work(number: int) -> None:
        path = await zk.create(f"/task-{number}", str(number).encode())
        for turn in range(20):
            await zk.set(path, f"{number} {turn}".encode())
            data, stat = await zk.get(path)
            assert data == f"{number} {turn}".encode()
            assert stat.version == turn + 1

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(work, number)
    assert len(await zk.get_children("/")) == 101


async def test_operations_are_carried_out_in_the_order_of_submission(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/n")
    pending = [zk.submit(SetData("/n", str(i).encode(), i)) for i in range(500)]
    read = zk.submit(GetData("/n"))
    stats = [await each.wait() for each in pending]
    assert [stat.version for stat in stats] == list(range(1, 501))
    assert (await read.wait())[0] == b"499"


async def test_a_call_is_submitted_before_anything_else_can_run(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(zk.set, "/n", b"background")
        call = zk.set("/n", b"first")
        assert (await call).version == 1
    assert (await zk.get("/n"))[0] == b"background"


async def test_cancelling_a_call_on_its_way_loses_neither_it_nor_the_connection(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    with server.fault(op="create", when="after", action="delay", seconds=5):
        with trio.move_on_after(1) as scope:
            await zk.create("/a")
    assert scope.cancelled_caught
    assert await zk.exists("/a") is not None
    assert zk.metrics.connections == 1


async def test_cancelling_a_call_in_the_queue_takes_it_back(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    server.refuse_connections()
    server.disconnect_all()
    await zk.session.wait_change()
    with trio.move_on_after(1):
        await zk.create("/a")
    server.accept_connections()
    await zk.session.wait_connected()
    assert await zk.exists("/a") is None
    assert zk.metrics.requests[OpCode.CREATE2] == 0


async def test_cancelling_a_wait_leaves_what_was_submitted_alone(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    server.refuse_connections()
    server.disconnect_all()
    await zk.session.wait_change()
    pending = zk.submit(Create("/a"))
    with trio.move_on_after(1):
        await pending.wait()
    server.accept_connections()
    path, stat = await pending.wait()
    assert path == "/a"
    assert stat == await zk.exists("/a")
    settled: list[object] = []
    pending.on_settled(settled.append)
    assert settled == [pending]


async def test_a_listener_may_cancel_whoever_waits_for_the_same_outcome(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    pending = zk.submit(Create("/a"))
    with trio.CancelScope() as scope:
        pending.on_settled(lambda _: scope.cancel())
        await pending.wait()
    assert scope.cancelled_caught
    assert await zk.exists("/a") is not None


async def test_many_cancelled_calls_among_others(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/n", b"data")
    answers = []

    async def call(number: int) -> None:
        with trio.move_on_after(0.5 if number % 2 else 5):
            answers.append((number, await zk.get("/n")))

    with server.fault(op="get_data", when="after", action="delay", seconds=1):
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, number)
    assert sorted(number for number, _ in answers) == list(range(0, 100, 2))
    assert {data for _, (data, _) in answers} == {b"data"}
    assert zk.metrics.connections == 1


async def test_creating_parents(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, "server/app/x") as zk:
        with pytest.raises(NoNodeError, match="/a/b"):
            await zk.create("/a/b")
        assert await zk.create("/a/b/c", make_parents=True) == "/a/b/c"
        await zk.ensure_path("/a/b")
        await zk.ensure_path("/d/e", container=True)
        assert sorted(await zk.get_children("/")) == ["a", "d"]
        with pytest.raises(NodeExistsError):
            await zk.create("/a/b/c", make_parents=True)
    async with client(server) as zk:
        assert await zk.get_children("/app/x") in (["a", "d"], ["d", "a"])


@pytest.mark.parametrize("refused", ["/a", "/a/b"])
async def test_creating_parents_ends_although_the_server_refuses_forever(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, refused: str
) -> None:
    refusal = server.fault(op="create", path=refused, times=None, action="error", error=NoNodeError)
    with refusal, pytest.raises(NoNodeError, match=refused):
        await zk.create("/a/b", make_parents=True)
    assert await zk.create("/a/b", make_parents=True) == "/a/b"


async def test_deleting_a_subtree(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    for path in ("/a/b/c", "/a/b/d/e", "/a/f"):
        await zk.create(path, make_parents=True)
    with pytest.raises(NotEmptyError):
        await zk.delete("/a")
    await zk.delete("/a", recursive=True)
    assert await zk.exists("/a") is None
    with pytest.raises(NoNodeError):
        await zk.delete("/a", recursive=True)


async def test_deleting_a_subtree_that_keeps_growing(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a/b", make_parents=True)

    async def grow() -> None:
        await trio.sleep(0.5)
        async with client(server) as other:
            await other.create("/a/late")

    with server.fault(op="delete", when="after", action="delay", seconds=1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(grow)
            await zk.delete("/a", recursive=True)
    assert await zk.exists("/a") is None


async def test_transactions(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    async with zk.transaction() as t:
        t.create("/a", b"1")
        t.set("/a", b"2", version=0)
        t.check("/a", version=1)
        t.create("/a/n-", sequential=True)
    created, stat, checked, child = t.results
    assert (created, stat.version, checked, child) == ("/a", 1, None, "/a/n-0000000000")
    with pytest.raises(BadVersionError) as caught:
        await zk.multi([Create("/b"), Check("/a", 7)])
    assert (caught.value.index, caught.value.path) == (1, "/a")
    assert await zk.exists("/b") is None
    with pytest.raises(KeyError):
        async with zk.transaction() as t:
            t.delete("/a/n-0000000000")
            raise KeyError
    assert await zk.exists("/a/n-0000000000") is not None


async def test_null_and_empty_data_are_different(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    await zk.create("/null", None)
    await zk.create("/empty")
    assert (await zk.get("/null"))[0] is None
    assert (await zk.get("/empty"))[0] == b""


async def test_a_request_that_is_too_large_never_leaves(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/a")
    with pytest.raises(BadArgumentsError, match="request_limit"):
        await zk.set("/a", bytes(2**20))
    assert zk.metrics.connections == 1
    async with client(server, request_limit=2**21) as careless:
        with pytest.raises(ConnectionLossError) as caught:
            await careless.set("/a", bytes(2**20))
        assert caught.value.sent


async def test_one_caller_does_not_wait_for_another(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    """A batch goes out at once: nobody holds a lock while waiting for a reply."""
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(zk.sync)
        await wait_all_tasks_blocked()
    assert zk.metrics.requests[OpCode.SYNC] == 50


async def test_each_way_to_read_children_tells_the_same(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    await zk.create("/parent")
    await zk.create("/parent/x")
    names, stat, watch = await zk.get_children_stat_and_watch("/parent")
    assert (names, stat.numChildren) == (["x"], 1)
    assert await zk.get_children("/parent") == names
    assert await zk.get_children_and_stat("/parent") == (names, stat)
    others, other = await zk.get_children_and_watch("/parent")
    assert others == names
    await zk.create("/parent/y")
    for each in (watch, other):
        event = await each.wait()
        assert event.path == "/parent"


async def test_parents_are_tried_for_100_times(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    refusal = server.fault(op="create", path="/a/b", times=None, action="error", error=NoNodeError)
    with refusal, pytest.raises(NoNodeError):
        await zk.create("/a/b", make_parents=True)
    assert zk.metrics.requests[OpCode.CREATE2] == 101 + 100, "the znode, and its parent in between"
    zk.metrics.requests.clear()
    with pytest.raises(NoNodeError):
        await zk.create("/x/y")
    with pytest.raises(NodeExistsError):
        await zk.create("/", make_parents=True)
    assert zk.metrics.requests == {OpCode.CREATE2: 2}


async def test_the_root_is_not_created(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        zk.metrics.requests.clear()
        await zk.ensure_path("/")
        assert zk.metrics.requests == {}
        await zk.ensure_path("/a")
        assert zk.metrics.requests == {OpCode.CREATE2: 1}
        await zk.ensure_path("/b/c/d")
        assert zk.metrics.requests == {OpCode.CREATE2: 1 + 5}, "up to what is there, and down again"
    async with client(server, "server/new/root") as zk:
        assert await zk.exists("/") is None
        zk.metrics.requests.clear()
        with pytest.raises(NoNodeError):
            await zk.create("/", make_parents=True)
        assert zk.metrics.requests == {OpCode.CREATE2: 1}, "the chroot is not one of its parents"
        await zk.ensure_path("/")
        assert await zk.exists("/") is not None


async def test_what_a_client_counts(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    assert zk.watch_count == zk.event_count == 0
    _, watch = await zk.exists_and_watch("/a")
    await zk.exists_and_watch("/a")
    assert zk.watch_count == 2
    await zk.create("/a")
    assert (zk.watch_count, zk.event_count) == (0, 1)
    watch.cancel()
    assert zk.server is not None
    assert zk.metrics is zk.view("/a").metrics
    server.pause()
    pending = zk.submit(Delete("/a"))
    other = zk.submit(Delete("/a"))
    await trio.testing.wait_all_tasks_blocked()
    assert (zk.requests_in_flight, zk.requests_waiting) == (2, 0)
    assert not zk.withdraw(pending), "it has left the client"
    server.resume()
    await pending.wait()
    with pytest.raises(NoNodeError):
        await other.wait()


async def test_what_has_not_left_the_client_can_be_withdrawn(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    server.disconnect_all()
    await zk.session.wait_change()
    pending = zk.submit(Delete("/a"))
    assert zk.withdraw(pending)
    assert not zk.withdraw(pending)
    with pytest.raises(ConnectionLossError, match="withdrawn") as caught:
        await pending.wait()
    assert not caught.value.sent


async def test_only_operations_are_submitted(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    with pytest.raises(BadArgumentsError, match=r"only an operation can be submitted, .* not '/a'"):
        zk.submit("/a")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="function must be a function"):
        zk.start_soon(5)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="moved must be a function without arguments"):
        zk.keep_lease(5)  # type: ignore[arg-type]


async def test_each_submission_is_told(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    """Whoever is told sees all calls, so no thread may make some by itself."""
    told: list[str | None] = []
    assert zk.source is not None
    view = zk.view("/")
    view.on_submit = lambda pending: told.append(pending.path)
    assert view.source is None
    await view.create("/a")
    await zk.create("/b")
    assert await view.view("/a").exists("/") is not None
    assert told == ["/a", "/"]


async def test_a_server_without_watches_is_not_asked_to_remove_one(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server) as zk:
        *_, watch = await zk.get_and_watch("/")
        *_, late = await zk.get_and_watch("/")
        server.disconnect_all()
        await zk.session.wait_change()
        watch.cancel()
        late.cancel()
        assert zk.requests_waiting == 0
        await zk.sync("/")
        assert zk.metrics.requests[OpCode.REMOVE_WATCHES] == 0
        *_, watch = await zk.get_and_watch("/")
        watch.cancel()
        await zk.sync("/")
        assert zk.metrics.requests[OpCode.REMOVE_WATCHES] == 1
        *_, watch = await zk.get_and_watch("/")
    watch.cancel()
    assert zk.metrics.requests[OpCode.REMOVE_WATCHES] == 1


async def test_what_is_deleted_below(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    for path in ("/a/b/c", "/a/b/d", "/a/e"):
        await zk.create(path, make_parents=True)
    zk.metrics.requests.clear()
    await zk.delete("/a", recursive=True)
    assert zk.metrics.requests == {OpCode.GET_CHILDREN: 5, OpCode.DELETE: 5}
    assert await zk.get_children("/") == ["zookeeper"]


async def test_keeping_the_lease_ends_as_often_as_it_is_asked_for(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    def moved() -> None:
        calls.append(zk.session.lease_deadline())

    calls: list[float] = []
    first, second = zk.keep_lease(moved), zk.keep_lease(moved)
    await trio.sleep(10)
    assert len(calls) >= 4
    assert len(calls) % 2 == 0
    first()
    first()
    before = len(calls)
    await trio.sleep(10)
    assert len(calls) - before >= 2, "the second one goes on"
    second()
    before = len(calls)
    await trio.sleep(30)
    assert len(calls) == before
