"""The cleanup finishes what cancelled and failed tasks could not."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import (
    BadArgumentsError,
    ConnectionLossError,
    Create,
    NodeExistsError,
    NotEmptyError,
    ZooKeeper,
)
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls
from pyzk.server.testing.faults import When

from .memory import client


async def test_it_deletes_through_trouble(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    await zk.create("/a")
    with server.fault(op="delete", when="before"), server.fault(op="delete", when="after"):
        zk.cleanup.delete("/a")
        zk.cleanup.delete("/never-there")
        await zk.cleanup.idle()
    assert await zk.exists("/a") is None
    assert zk.metrics.requests[OpCode.DELETE] >= 3


async def test_it_waits_for_a_create_that_nobody_waits_for_any_more(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    with server.fault(op="create", when="after", action="delay", seconds=3):
        pending = zk.submit(Create("/a", ephemeral=True))
        with trio.move_on_after(1):
            await pending.wait()
    zk.cleanup.delete_when_settled(pending)
    assert await zk.exists("/a") is not None
    await zk.cleanup.idle()
    assert await zk.exists("/a") is None


@pytest.mark.parametrize("when", ["before", "after"])
async def test_it_finds_a_create_whose_reply_was_lost(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper, when: When
) -> None:
    await zk.create("/locks/other-me-0000000007", make_parents=True)
    async with client(server) as other:
        await other.create("/locks/_c_me-lock-0000000003", ephemeral=True)
        with server.fault(op="create", when=when):
            pending = zk.submit(Create("/locks/_c_me-lock-", ephemeral=True, sequential=True))
            zk.cleanup.delete_when_settled(pending, "_c_me-")
            with pytest.raises(ConnectionLossError):
                await pending.wait()
        await zk.cleanup.idle()
        assert sorted(await zk.get_children("/locks")) == [
            "_c_me-lock-0000000003",
            "other-me-0000000007",
        ], "another session's and another's name stay"


async def test_leaving_the_client_waits_for_it(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, close_grace=20) as zk:
        await zk.create("/a")
        server.disconnect_all()
        zk.cleanup.delete("/a")
    async with client(server) as zk:
        assert await zk.exists("/a") is None


async def test_it_gives_up_with_the_session(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, on_expired="new_session") as zk:
        await zk.create("/a")
        server.pause()
        zk.cleanup.delete("/a")
        await wait_all_tasks_blocked()
        server.expire(zk.session.id)
        server.resume()
        await zk.cleanup.idle()
        await zk.session.wait_connected()
        assert zk.session.generation == 2
        assert await zk.exists("/a") is not None


async def test_what_cannot_be_done_is_logged(
    autojump_clock: MockClock, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/a/b", make_parents=True)
    with caplog.at_level(logging.WARNING, "pyzk.client"):
        zk.cleanup.delete("/a")
        await zk.cleanup.idle()
    assert "has children (recursive=True deletes them too): /a" in caplog.text


async def test_a_job_says_when_it_has_ended_and_why_it_could_not_be_done(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/a/b", make_parents=True)
    done, not_there, failed = zk.cleanup.delete("/a/b"), zk.cleanup.delete("/x"), zk.cleanup.delete("/a")
    await zk.create("/a/c")
    assert not any(job.done.is_set() for job in (failed,))
    for job in (done, not_there, failed):
        await job.done.wait()
    assert (done.error, not_there.error) == (None, None)
    await zk.cleanup.idle()
    failed = zk.cleanup.delete("/a")
    await failed.done.wait()
    assert isinstance(failed.error, NotEmptyError)
    await zk.cleanup.idle()


async def test_several_znodes_go_in_one_transaction_or_one_by_one(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    for name in "abcd":
        await zk.create(f"/{name}")
    zk.metrics.requests.clear()
    await zk.cleanup.delete("/a", "/b").done.wait()
    assert zk.metrics.requests == {OpCode.MULTI: 1}
    await zk.cleanup.delete("/c", "/none", "/d").done.wait()
    assert zk.metrics.requests == {OpCode.MULTI: 2, OpCode.DELETE: 3}
    assert await zk.get_children("/") == ["zookeeper"]
    zk.metrics.requests.clear()
    await zk.cleanup.delete("/none").done.wait()
    assert zk.metrics.requests == {OpCode.DELETE: 1}


async def test_a_znode_is_deleted_if_it_is_ours(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk, client(server) as other:
        await zk.create("/mine", ephemeral=True)
        await other.create("/theirs", ephemeral=True)
        await zk.create("/lasting")
        for path in ("/mine", "/theirs", "/lasting", "/none"):
            job = zk.cleanup.delete_own(path)
            await job.done.wait()
            assert job.error is None
        assert sorted(await zk.get_children("/")) == ["lasting", "theirs", "zookeeper"]


async def test_a_create_that_may_come_yet_is_waited_for(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    """A transaction without operations comes behind it: a read alone would come too early."""
    zk.metrics.requests.clear()
    await zk.create("/mine", ephemeral=True)
    await zk.cleanup.delete_own("/mine").done.wait()
    await zk.cleanup.delete_prefixed("/", "none").done.wait()
    assert zk.metrics.requests[OpCode.MULTI] == 2


async def test_names_with_another_prefix_stay(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    for name in ("me-1", "me-2", "other", "a-me-3"):
        await zk.create(f"/l/{name}", ephemeral=True, make_parents=True)
    await zk.cleanup.delete_prefixed("/l", "me-").done.wait()
    assert sorted(await zk.get_children("/l")) == ["a-me-3", "other"]
    job = zk.cleanup.delete_prefixed("/none", "me-")
    await job.done.wait()
    assert job.error is None


async def test_a_create_that_failed_leaves_nothing_to_delete(
    autojump_clock: MockClock, zk: ZooKeeper
) -> None:
    await zk.create("/theirs")
    pending = zk.submit(Create("/theirs"))
    zk.cleanup.delete_when_settled(pending, "theirs")
    with pytest.raises(NodeExistsError):
        await pending.wait()
    await zk.cleanup.idle()
    assert await zk.exists("/theirs") is not None


async def test_a_lost_create_without_a_prefix_is_left(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    with server.fault(op="create", when="after"):
        pending = zk.submit(Create("/mine", ephemeral=True))
        zk.cleanup.delete_when_settled(pending)
        with pytest.raises(ConnectionLossError):
            await pending.wait()
    await zk.cleanup.idle()
    assert await zk.exists("/mine") is not None


async def test_a_client_that_closes_takes_no_jobs(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server) as zk:
        await zk.create("/a")
    job = zk.cleanup.delete("/a")
    assert job.done.is_set()
    assert job.error is None
    with trio.fail_after(1):
        await zk.cleanup.idle()


async def test_all_jobs_are_waited_for(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    await zk.create("/a")
    await zk.create("/b")
    with server.fault(op="delete", path="/a", action="delay", seconds=1), trio.fail_after(5):
        jobs = [zk.cleanup.delete("/a"), zk.cleanup.delete("/b")]
        await zk.view("/x").cleanup.idle()
        assert all(job.done.is_set() for job in jobs)
        later = zk.cleanup.delete("/c")
        await zk.cleanup.idle()
        assert later.done.is_set()


async def test_arguments_are_checked_at_once(autojump_clock: MockClock, zk: ZooKeeper) -> None:
    with pytest.raises(BadArgumentsError, match="paths must be one path or more"):
        zk.cleanup.delete()
    for call in (
        lambda: zk.cleanup.delete_prefixed("/", 5),  # type: ignore[arg-type]
        lambda: zk.cleanup.delete_when_settled(zk.submit(Create("/a")), 5),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadArgumentsError, match="prefix must be a str or None"):
            call()


async def test_a_cancelled_client_still_takes_a_connection_to_close_its_session(
    autojump_clock: MockClock, server: Controls
) -> None:
    with trio.CancelScope() as scope:
        async with client(server, close_grace=5) as zk:
            server.disconnect_all()
            await zk.session.wait_change()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert server.sessions() == []
