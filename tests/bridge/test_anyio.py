"""anyio's scopes and task groups around pyzk.aio, on asyncio's loop and on uvloop: as Starlette uses them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from pyzk.aio import (
    Barrier,
    ClaimQueue,
    DoubleBarrier,
    LeaderElection,
    LeaderLatch,
    Lock,
    LockLost,
    Queue,
    RWLock,
    Semaphore,
    ZooKeeper,
    connect,
)
from pyzk.server.testing import EmbeddedServer

Wait = Callable[[ZooKeeper, EmbeddedServer], Awaitable[object]]
Run = Callable[[Callable[[ZooKeeper], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, server: EmbeddedServer) -> Run:
    """Run a function with a client in an event loop; nothing of it is left afterwards."""
    module = importlib.import_module(request.param)

    def run(function: Callable[[ZooKeeper], Awaitable[None]]) -> None:
        async def main() -> None:
            async with connect(server.hosts) as zk:
                await function(zk)
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            assert asyncio.all_tasks() == {task}

        module.run(main())

    return run


# --- everything that waits ---------------------------------------------------------------------------------


async def for_ever() -> None:
    await anyio.sleep(60)


async def holding(block: Any) -> None:
    async with block:
        await for_ever()


async def entering(block: Any) -> None:
    async with block:
        raise AssertionError("it was entered")


async def watching(zk: ZooKeeper) -> None:
    _, _, watch = await zk.get_and_watch("/")
    await watch.wait()


async def asking_a_paused_server(zk: ZooKeeper, server: EmbeddedServer) -> None:
    server.pause(zk.session.id)
    try:
        await zk.get("/")
    finally:
        server.resume(zk.session.id)


async def connecting() -> None:
    async with connect("127.0.0.1:1"):  # nobody listens there
        raise AssertionError("it is connected")


async def claiming(zk: ZooKeeper) -> None:
    async with ClaimQueue(zk, "/claims").claim():
        raise AssertionError("there is an item")


async def holding_a_claim(zk: ZooKeeper) -> None:
    queue = ClaimQueue(zk, "/claims")
    await queue.put(b"item")
    async with queue.claim():
        await for_ever()


async def leading(zk: ZooKeeper) -> None:
    async def lead(*_: object) -> None:
        await for_ever()

    await LeaderElection(zk, "/leader").run(lead)


WAITS: dict[str, Wait] = {
    "in a lock": lambda zk, server: holding(Lock(zk, "/lock")),
    "for a lock": lambda zk, server: entering(Lock(zk, "/held")),
    "in a semaphore": lambda zk, server: holding(Semaphore(zk, "/semaphore", limit=1)),
    "for a semaphore": lambda zk, server: entering(Semaphore(zk, "/full", limit=1)),
    "in a read lock": lambda zk, server: holding(RWLock(zk, "/rw").read()),
    "as the leader": lambda zk, server: leading(zk),
    "as the leader of a latch": lambda zk, server: holding(LeaderLatch(zk, "/latch")),
    "for a barrier": lambda zk, server: Barrier(zk, "/barrier").wait(),
    "for a double barrier": lambda zk, server: entering(DoubleBarrier(zk, "/double", 2)),
    "for an item": lambda zk, server: Queue(zk, "/queue").get(),
    "for a claim": lambda zk, server: claiming(zk),
    "in a claim": lambda zk, server: holding_a_claim(zk),
    "for an event": lambda zk, server: watching(zk),
    "for an answer": asking_a_paused_server,
    "for a session": lambda zk, server: connecting(),
}


@asynccontextmanager
async def obstacles(zk: ZooKeeper) -> AsyncIterator[None]:
    """What the waits above wait for, held by another client; nothing else is left of them."""
    assert zk.server is not None
    await zk.create("/barrier")
    async with (
        connect(f"127.0.0.1:{zk.server.port}") as other,
        Lock(other, "/held"),
        Semaphore(other, "/full", limit=1),
    ):
        yield
        await zk.sync()
        assert await zk.get_ephemerals() == []
        assert len(await other.get_ephemerals()) == 2


@pytest.fixture(params=WAITS)
def wait(request: pytest.FixtureRequest) -> Wait:
    """One wait after the other."""
    return WAITS[request.param]


def test_move_on_after(run: Run, server: EmbeddedServer, wait: Wait) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with obstacles(zk):
            with anyio.move_on_after(1) as scope:
                await wait(zk, server)
            assert scope.cancelled_caught
            await zk.sync()

    run(main)


def test_a_task_group_that_fails(run: Run, server: EmbeddedServer, wait: Wait) -> None:
    """The task that waits is cancelled, and adds no error of its own."""

    async def fail() -> None:
        await anyio.sleep(0.03)
        raise ZeroDivisionError

    async def main(zk: ZooKeeper) -> None:
        async with obstacles(zk):
            with pytest.raises(ExceptionGroup) as caught:
                async with anyio.create_task_group() as group:
                    group.start_soon(fail)
                    group.start_soon(wait, zk, server)
            assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
            await zk.sync()

    run(main)


# --- scopes in scopes --------------------------------------------------------------------------------------


def test_fail_after(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with obstacles(zk):
            with pytest.raises(TimeoutError), anyio.fail_after(0.03):
                async with Lock(zk, "/held"):
                    raise AssertionError("it was entered")

    run(main)


@pytest.mark.parametrize("which", ["inner", "outer"])
def test_only_the_scope_that_was_cancelled_ends(run: Run, which: str) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with obstacles(zk):
            with anyio.CancelScope() as outer:
                with anyio.CancelScope() as inner:
                    chosen = inner if which == "inner" else outer
                    asyncio.get_running_loop().call_later(0.03, chosen.cancel)
                    await Barrier(zk, "/barrier").wait()
                assert which == "inner"
                await zk.get("/")
            assert inner.cancelled_caught == (which == "inner")
            assert outer.cancelled_caught == (which == "outer")

    run(main)


def test_a_scope_inside_a_lock(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with Lock(zk, "/lock") as grant:
            with anyio.move_on_after(0.03):
                await Queue(zk, "/queue").get()
            await grant.verify()
        assert await zk.get_children("/lock") == []

    run(main)


def test_a_shielded_scope_inside_a_lock_is_not_cancelled(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        done = False
        with anyio.move_on_after(1) as scope:
            async with Lock(zk, "/lock"):
                try:
                    await for_ever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await zk.create("/cleaned")
                        done = True
        assert scope.cancelled_caught
        assert done
        assert await zk.exists("/cleaned")

    run(main)


def test_a_lost_lock_inside_a_scope(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with anyio.move_on_after(60) as scope, pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant:
                await zk.delete(grant.path)
                await for_ever()
        assert not scope.cancelled_caught

    run(main)


def test_a_lost_lock_inside_a_task_group(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as group:
                group.start_soon(for_ever)
                async with Lock(zk, "/lock") as grant:
                    await zk.delete(grant.path)
                    await for_ever()
        assert [type(error) for error in caught.value.exceptions] == [LockLost]

    run(main)


def test_a_task_group_inside_a_lock_that_is_lost(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        with pytest.raises(LockLost):
            async with Lock(zk, "/lock") as grant, anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(for_ever)
                await zk.delete(grant.path)
                await for_ever()

    run(main)


# --- cancels of asyncio and of anyio -----------------------------------------------------------------------


def test_a_cancel_of_asyncio_is_not_swallowed_by_a_scope(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async def wait() -> None:
            with anyio.CancelScope() as scope:
                await Barrier(zk, "/barrier").wait()
            assert not scope.cancelled_caught
            raise AssertionError("it went on")

        async with obstacles(zk):
            task = asyncio.create_task(wait())
            await asyncio.sleep(0.03)
            task.cancel("enough")
            with pytest.raises(asyncio.CancelledError, match="enough"):
                await task
            assert task.cancelled()

    run(main)


@pytest.mark.parametrize("first", ["asyncio", "anyio"])
def test_both_cancels_at_once_end_the_scope_and_the_task(run: Run, first: str) -> None:
    """While a call cleans up it may be cancelled by both: the scope takes its own, the task is cancelled."""

    async def main(zk: ZooKeeper) -> None:
        steps: list[str] = []

        async def wait(*, task_status: TaskStatus[anyio.CancelScope]) -> None:
            with anyio.CancelScope() as scope:
                task_status.started(scope)
                await Barrier(zk, "/barrier").wait()
            steps.append("behind the scope")
            await for_ever()
            steps.append("behind the wait")

        async with obstacles(zk), anyio.create_task_group() as group:
            scope = await group.start(wait)
            [task] = asyncio.all_tasks() - {asyncio.current_task()}
            await anyio.sleep(0.03)
            cancels = [task.cancel, scope.cancel]
            for cancel in cancels if first == "asyncio" else reversed(cancels):
                cancel()
        assert task.cancelled()
        assert "behind the wait" not in steps

    run(main)


def test_asyncios_timeout_inside_a_scope(run: Run) -> None:
    async def main(zk: ZooKeeper) -> None:
        async with obstacles(zk):
            with anyio.CancelScope() as scope, pytest.raises(TimeoutError):
                async with asyncio.timeout(0.03):
                    await Barrier(zk, "/barrier").wait()
            assert not scope.cancel_called

    run(main)


# --- Starlette ---------------------------------------------------------------------------------------------


def test_a_lock_in_a_handler_behind_starlettes_middleware(run: Run) -> None:
    """Its middleware runs each request in a task group, and cancels that when the response is complete."""
    from httpx import ASGITransport, AsyncClient
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def main(zk: ZooKeeper) -> None:
        async def passes(request: Request, following: Any) -> Response:
            response: Response = await following(request)
            return response

        async def report(request: Request) -> Response:
            with anyio.move_on_after(1) as scope:
                async with Lock(zk, request.path_params["lock"]) as grant:
                    await grant.verify()
                    return PlainTextResponse("mine")
            assert scope.cancelled_caught
            return PlainTextResponse("busy", 503)

        application = Starlette(
            routes=[Route("/report/{lock:path}", report)],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=passes)] * 2,
        )
        transport = ASGITransport(application)
        async with obstacles(zk), AsyncClient(transport=transport, base_url="http://test") as http:
            answers = [(await http.get(f"/report//{lock}")).status_code for lock in ("lock", "held", "lock")]
        assert answers == [200, 503, 200]

    run(main)
