"""The janitor finishes what cancelled and failed tasks could not."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyzk.client import ConnectionLossError, Create, ZooKeeper
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import Controls
from pyzk.server.testing.faults import When

from .memory import client


async def test_it_deletes_through_trouble(autojump_clock: MockClock, server: Controls, zk: ZooKeeper) -> None:
    await zk.create("/a")
    with server.fault(op="delete", when="before"), server.fault(op="delete", when="after"):
        zk.janitor.delete("/a")
        zk.janitor.delete("/never-there")
        await zk.janitor.idle()
    assert await zk.exists("/a") is None
    assert zk.metrics.requests[OpCode.DELETE] >= 3


async def test_it_waits_for_a_create_that_nobody_waits_for_any_more(
    autojump_clock: MockClock, server: Controls, zk: ZooKeeper
) -> None:
    with server.fault(op="create", when="after", action="delay", seconds=3):
        pending = zk.submit(Create("/a", ephemeral=True))
        with trio.move_on_after(1):
            await pending.wait()
    zk.janitor.delete_when_settled(pending)
    assert await zk.exists("/a") is not None
    await zk.janitor.idle()
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
            zk.janitor.delete_when_settled(pending, "_c_me-")
            with pytest.raises(ConnectionLossError):
                await pending.wait()
        await zk.janitor.idle()
        assert sorted(await zk.get_children("/locks")) == [
            "_c_me-lock-0000000003",
            "other-me-0000000007",
        ], "another session's and another's name stay"


async def test_leaving_the_client_waits_for_it(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, close_grace=20) as zk:
        await zk.create("/a")
        server.disconnect_all()
        zk.janitor.delete("/a")
    async with client(server) as zk:
        assert await zk.exists("/a") is None


async def test_it_gives_up_with_the_session(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, on_expired="new_session") as zk:
        await zk.create("/a")
        server.pause()
        zk.janitor.delete("/a")
        await wait_all_tasks_blocked()
        server.expire(zk.session.id)
        server.resume()
        await zk.janitor.idle()
        await zk.session.wait_connected()
        assert zk.session.generation == 2
        assert await zk.exists("/a") is not None


async def test_what_cannot_be_done_is_logged(
    autojump_clock: MockClock, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    await zk.create("/a/b", make_parents=True)
    with caplog.at_level(logging.WARNING, "pyzk.client"):
        zk.janitor.delete("/a")
        await zk.janitor.idle()
    assert "has children (recursive=True deletes them, too): /a" in caplog.text
