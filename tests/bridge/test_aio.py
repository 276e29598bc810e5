"""What is particular to asyncio: cancellation in its own terms, with asyncio's loop and with uvloop."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import trio

from pyzk import client
from pyzk.aio import (
    ClosingError,
    LeaderElection,
    Lock,
    LockLost,
    LossReason,
    MultiLock,
    NodeExistsError,
    PersistentNode,
    Queue,
    SessionExpiredError,
    ZooKeeper,
    connect,
)
from pyzk.server.testing import EmbeddedServer

Run = Callable[[Callable[[ZooKeeper], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, server: EmbeddedServer) -> Run:
    """Run a function with a client in an event loop."""
    module = importlib.import_module(request.param)

    def run(function: Callable[[ZooKeeper], Awaitable[None]]) -> None:
        async def main() -> None:
            async with connect(server.hosts, on_expired="new_session") as zk:
                await function(zk)
            assert len(asyncio.all_tasks()) == 1

        module.run(main())

    return run


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


# --- loss -------------------------------------------------------------------------------------------------


def test_a_lost_lock_cancels_the_body(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost) as caught:
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    assert cancelling() == 1
                    raise
        assert caught.value.reason is LossReason.NODE_DELETED
        assert cancelling() == 0
        await asyncio.sleep(0)
        await zk.exists("/")

    run(main)


def test_a_lost_lock_cancels_a_call_of_the_body(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                await Queue(zk, "/queue").get()
        assert cancelling() == 0

    run(main)


def test_a_body_that_swallows_the_cancellation_raises_the_loss_all_the_same(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    await asyncio.sleep(0)
                with suppress(asyncio.CancelledError):
                    await zk.exists("/")
        assert cancelling() == 0
        await asyncio.sleep(0)

    run(main)


def test_an_error_of_the_body_comes_out_with_the_loss_as_a_note(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(KeyError) as caught:
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                try:
                    await asyncio.sleep(10)
                finally:
                    raise KeyError("mine")
        assert any("lost" in note for note in caught.value.__notes__)
        assert cancelling() == 0

    run(main)


def test_a_lock_that_was_lost_and_a_task_that_was_cancelled(run: Run) -> None:
    """A cancel from outside stays one."""

    async def main(zk: ZooKeeper) -> None:
        async def body() -> None:
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                try:
                    await asyncio.sleep(10)
                finally:
                    task.cancel()

        task = asyncio.create_task(body())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main)


def test_the_loss_of_an_outer_block_reaches_an_inner_one(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost) as caught:
            async with Lock(zk, "/outer") as outer:
                try:
                    async with Lock(zk, "/inner"):
                        await zk.delete(outer.path)
                        await asyncio.sleep(10)
                finally:
                    assert cancelling() == 1
        assert caught.value.path == outer.path
        assert cancelling() == 0
        assert await zk.get_children("/inner") == []

    run(main)


def test_the_loss_of_both_of_two_blocks(run: Run, server: EmbeddedServer) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost) as caught:
            async with Lock(zk, "/outer") as outer, Lock(zk, "/inner") as inner:
                server.expire(zk.session.id)
                await asyncio.sleep(10)
        assert caught.value.reason is LossReason.SESSION_EXPIRED
        assert caught.value.path in (outer.path, inner.path)
        assert cancelling() == 0
        await zk.session.wait_connected()

    run(main)


def test_one_of_several_locks(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost) as caught:
            async with MultiLock([Lock(zk, "/a"), Lock(zk, "/b")]) as (_, b):
                await zk.delete(b.path)
                await asyncio.sleep(10)
        assert caught.value.path == b.path

    run(main)


def test_what_ends_a_block_without_a_grant(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        await zk.create("/held")
        with pytest.raises(NodeExistsError):
            async with PersistentNode(zk, "/held", conflict="raise"):
                await asyncio.sleep(10)
        assert cancelling() == 0

    run(main)


def test_an_expired_session_cancels_the_block_of_the_client(server: EmbeddedServer) -> None:
    async def main() -> None:
        with pytest.raises(SessionExpiredError):
            async with connect(server.hosts) as zk:
                server.expire(zk.session.id)
                await asyncio.sleep(10)
        assert cancelling() == 0

    asyncio.run(main())


def test_a_group_in_a_lost_body_ends(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        ended = []

        async def child() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                ended.append(1)

        with pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant, asyncio.TaskGroup() as group:
                group.create_task(child())
                group.create_task(child())
                await asyncio.sleep(0)
                await zk.delete(grant.path)
        assert ended == [1, 1]
        assert cancelling() == 0

    run(main)


def test_a_loss_in_a_group_ends_the_group(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async def holder() -> None:
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                await asyncio.sleep(10)

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(holder())
                group.create_task(Queue(zk, "/queue").get())
        assert caught.group_contains(LockLost, depth=1)
        assert len(caught.value.exceptions) == 1

    run(main)


# --- cancellation from outside ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["waiting", "holding", "in a call"])
def test_a_timeout_around_a_lock(run: Run, where: str) -> None:
    async def main(zk: ZooKeeper) -> None:
        lock = Lock(zk, "/lock")

        async def end_the_wait(limit: asyncio.Timeout) -> None:
            while len(await lock.contenders()) < 2:
                await asyncio.sleep(0.001)
            limit.reschedule(0)

        assert zk.server is not None
        async with connect(f"127.0.0.1:{zk.server.port}") as other, AsyncExitStack() as stack:
            if where == "waiting":
                await stack.enter_async_context(Lock(other, "/lock"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                    if where == "waiting":
                        group.create_task(end_the_wait(limit))
                    async with lock:
                        limit.reschedule(asyncio.get_running_loop().time() + 0.05)
                        if where == "holding":
                            await asyncio.sleep(10)
                        await Queue(zk, "/queue").get()
            assert cancelling() == 0
            await zk.sync()
            assert len(await zk.get_children("/lock")) == (where == "waiting")

    run(main)


def test_a_timeout_inside_a_lock(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with Lock(zk, "/lock") as grant:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await Queue(zk, "/queue").get()
            await grant.verify()
        assert cancelling() == 0

    run(main)


def test_a_cancelled_task_stays_cancelled(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async def hold(lock: Lock) -> None:
            async with lock:
                await asyncio.sleep(10)

        lock = Lock(zk, "/lock")
        tasks = [asyncio.create_task(hold(lock)) for _ in range(3)]
        while len(await lock.contenders()) < 3:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        await zk.sync()
        assert await lock.contenders() == []

    run(main)


def test_a_queue_loses_no_item_to_a_cancelled_consumer(run: Run) -> None:
    """What a cancelled call has got is returned, and the cancellation comes at the next wait."""

    async def main(zk: ZooKeeper) -> None:
        queue = Queue(zk, "/queue")
        got: list[bytes] = []

        async def consume() -> None:
            while True:
                got.append((await queue.get()).data)

        for number in range(30):
            task = asyncio.create_task(consume())
            put = asyncio.create_task(queue.put(b"%d" % number))
            await asyncio.sleep(0.0002 * number)
            task.cancel()
            await asyncio.wait([task, put])
            assert task.cancelled()
        while await queue.size():  # the last claim may not have been given back yet: get() waits for that
            got.append((await queue.get()).data)
        assert sorted(got) == sorted(b"%d" % number for number in range(30))

    run(main)


def test_a_deposed_leader_stands_again_and_a_cancelled_one_does_not(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        terms: list[Any] = []
        again = asyncio.Event()

        async def lead(term: Any) -> None:
            terms.append(term)
            if len(terms) == 1:
                await zk.delete(term.path)
            else:
                again.set()
            await asyncio.sleep(10)

        election = LeaderElection(zk, "/leader")
        task = asyncio.create_task(election.run(lead))
        await again.wait()
        assert len(terms) == 2
        assert task.cancelling() == 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await election.contenders() == []

    run(main)


def test_a_notice_comes_in_the_event_loop(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        loops: list[object] = []

        def note() -> None:
            loops.append(asyncio.get_running_loop())

        with pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant:
                grant.on_lost(note)
                await zk.delete(grant.path)
                await asyncio.sleep(10)
        assert loops == [asyncio.get_running_loop()]

    run(main)


def test_the_function_of_a_revocation_may_raise(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        def refuse(grant: Any) -> None:
            raise KeyError("revoked")

        with pytest.raises(KeyError):
            async with Lock(zk, "/lock", on_revoke=refuse) as held:
                await zk.set(held.path, b"__REVOKE__")
                await asyncio.sleep(10)

    run(main)


# --- tasks ------------------------------------------------------------------------------------------------


def test_a_block_may_be_left_by_another_task(run: Run) -> None:
    """As the fixtures of test runners do."""

    async def main(zk: ZooKeeper) -> None:
        stack = AsyncExitStack()
        grant = await asyncio.create_task(stack.enter_async_context(Lock(zk, "/lock")))
        await grant.verify()
        await asyncio.create_task(stack.aclose())
        assert await zk.get_children("/lock") == []

    run(main)


def test_many_tasks_share_a_client(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        await zk.create("/n", b"")
        await asyncio.gather(*[zk.set("/n", b"x") for _ in range(500)])
        _, stat = await zk.get("/n")
        assert stat.version == 500

    run(main)


def test_two_event_loops_of_one_process(server: EmbeddedServer) -> None:
    import threading

    async def main() -> None:
        async with connect(server.hosts) as zk, Lock(zk, "/lock"):
            await zk.exists("/")

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert server.sessions() == []


def test_an_event_loop_that_ends_with_an_open_client(server: EmbeddedServer) -> None:
    """asyncio.run() cancels the task, which closes the client."""

    async def hold(opened: asyncio.Event) -> None:
        async with connect(server.hosts) as zk, Lock(zk, "/lock"):
            opened.set()
            await asyncio.sleep(60)

    async def main() -> None:
        opened = asyncio.Event()
        task = asyncio.create_task(hold(opened))
        await opened.wait()
        assert not task.done()

    asyncio.run(main())
    assert server.sessions() == []


def test_a_closed_client(server: EmbeddedServer) -> None:
    async def main() -> None:
        async with connect(server.hosts) as zk:
            pass
        with pytest.raises(ClosingError):
            await zk.get("/")

    asyncio.run(main())


# --- mistakes ---------------------------------------------------------------------------------------------


def test_under_trio() -> None:
    async def main() -> None:
        async with connect("127.0.0.1:1"):
            pass

    with pytest.raises(RuntimeError, match=r"pyzk\.client"):
        trio.run(main)


def test_the_client_of_trio_under_asyncio() -> None:
    async def main() -> None:
        async with client.connect("127.0.0.1:1"):
            pass

    with pytest.raises(RuntimeError, match=r"pyzk\.aio"):
        asyncio.run(main())
