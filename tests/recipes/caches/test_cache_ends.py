"""How the block of a cache ends: refused, cancelled, without a session or a client."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ClosingError, NoAuthError, SessionExpiredError, ZooKeeper
from pyzk.recipes.caches.cache import Cache, TreeCache

from ...support.lab import Lab
from .scene import UNREADABLE, contents


@pytest.mark.row("F21")
async def test_what_the_server_refuses_ends_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({"/app/a": b""})
    await zk.set_acl("/app/a", UNREADABLE)
    with pytest.raises(NoAuthError) as caught:
        async with TreeCache(zk, "/app") as cache:
            await cache.synced()
    assert caught.value.path == "/app/a"
    await zk.sync()
    assert (zk.watch_count, lab.watch_count) == (0, 0)
    with pytest.raises(RuntimeError):
        await cache.synced()


async def test_what_the_selector_raises_ends_the_block(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({"/app/a": b""})

    def selector(path: str) -> bool:
        raise ValueError(path)

    with pytest.raises(ValueError, match="/app/a"):
        async with TreeCache(zk, "/app", selector=selector):
            await trio.sleep_forever()


async def test_the_users_exception_comes_out_as_it_is(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with TreeCache(zk, "/app") as cache:
            await cache.synced()
            raise ValueError("mine")


@pytest.mark.row("F20")
@pytest.mark.parametrize("tenths", range(0, 30, 3))
async def test_a_cancelled_block_leaves_nothing(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str, tenths: int
) -> None:
    lab.server.load({f"/app/{name}/{name}": b"" for name in "abc"})
    ops = ["sync", "get_data", "get_children", "add_watch"]
    faults = [
        lab.server.fault(op=op, when="after", action="delay", seconds=0.5, required=False)
        for op in ops
        if (op, watches) != ("add_watch", "one-shot")
    ]
    for fault in faults:
        fault.__enter__()
    with trio.move_on_after(tenths / 10):
        async with TreeCache(zk, "/app") as cache:
            await cache.synced()
            await trio.sleep_forever()
    for fault in faults:
        fault.__exit__(None, None, None)
    await trio.sleep(5)
    assert (zk.watch_count, lab.watch_count) == (0, 0)


async def test_a_session_that_is_not_renewed(autojump_clock: MockClock, lab: Lab, watches: str) -> None:
    with pytest.raises(SessionExpiredError):
        async with lab.connect(on_expired="cancel") as own, TreeCache(own, "/app") as cache:
            await cache.synced()
            lab.server.expire(own.session.id)
            await trio.sleep_forever()


async def test_the_client_closes(autojump_clock: MockClock, lab: Lab, watches: str) -> None:
    raised = []

    async def follow(own: ZooKeeper, task_status: trio.TaskStatus[None]) -> None:
        try:
            async with TreeCache(own, "/app") as cache:
                await cache.synced()
                task_status.started()
                async for _ in cache.events():
                    pass
                await trio.sleep_forever()
        except ClosingError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery, lab.connect() as own:
        await nursery.start(follow, own)
    assert len(raised) == 1


async def test_one_block_after_the_other(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({"/app/a": b"1"})
    cache = TreeCache(zk, "/app")
    async with cache:
        await cache.synced()
    await zk.delete("/app/a")
    async with cache:
        await cache.synced()
        assert sorted(cache.nodes) == ["/app"]


async def test_without_a_connection_at_the_start(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, watches: str
) -> None:
    lab.server.load({"/app": b"1"})
    lab.cut_off(zk)
    async with TreeCache(zk, "/app") as cache:
        await trio.sleep(60)
        assert not cache.is_synced
        lab.let_through(zk)
        await cache.synced()
        assert contents(cache) == {"/app": b"1"}


async def test_a_negative_depth() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Cache(None, "/app", -1)  # type: ignore[arg-type]
