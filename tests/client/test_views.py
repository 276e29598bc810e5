"""Clients of a sub-path that share a session."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import BadArgumentsError, NoNodeError, WatchEvent, ZooKeeper
from pyzk.recipes import Lock
from pyzk.server.testing import Controls

from .memory import SERVER, client, watched


async def test_a_view_has_its_own_paths_and_the_same_session(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    view = zk.view("/app").view("/jobs")
    with pytest.raises(NoNodeError):
        await view.get("/")
    await view.ensure_path("/")
    assert await view.create("/a", b"data", ephemeral=True) == "/a"
    assert (await zk.get("/app/jobs/a"))[0] == b"data"
    assert await view.get_children("/") == ["a"]
    assert await view.get_ephemerals() == ["/a"]
    assert view.session is zk.session
    assert view.metrics is zk.metrics
    assert len(server.sessions()) == 1
    assert zk.metrics.connections == 1
    assert zk.view("/").chroot == zk.chroot


async def test_watches_of_a_view_speak_of_its_paths(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/app/a", make_parents=True)
    view = zk.view("/app")
    _, _, watch = await view.get_and_watch("/a")
    _, _, other = await zk.get_and_watch("/app/a")
    await view.set("/a", b"")
    for each, path in ((watch, "/a"), (other, "/app/a")):
        event = await each.wait()
        assert isinstance(event, WatchEvent)
        assert event.path == path
    _, _, watch = await view.get_and_watch("/a")
    watch.cancel()
    await view.sync()
    assert watched(server) == []


async def test_a_view_of_a_client_with_a_chroot(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, f"{SERVER}/root") as zk:
        view = zk.view("/app")
        await view.create("/a", make_parents=True)
        assert server.dump("/root").keys() == {"/root", "/root/app", "/root/app/a"}
        with pytest.raises(BadArgumentsError, match="must start with /"):
            zk.view("app")


async def test_recipes_run_on_views(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    async with Lock(zk.view("/app"), "/lock") as grant:
        assert await Lock(zk, "/app/lock").is_locked()
        assert grant.path.startswith("/lock/")
    assert not await Lock(zk, "/app/lock").is_locked()


async def test_leaving_the_client_waits_for_the_jobs_of_views(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    await zk.create("/app/a", make_parents=True)
    async with client(server) as other:
        with server.fault(op="delete", action="delay", seconds=0.5):
            other.view("/app").cleanup.delete("/a")
            began = trio.current_time()
            await other.cleanup.idle()
            assert trio.current_time() - began == pytest.approx(0.5)
    assert await zk.exists("/app/a") is None
