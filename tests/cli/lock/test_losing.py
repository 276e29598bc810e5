"""The command ends before anybody else can have the lock."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from kazoo.client import KazooClient
from trio.testing import MockClock

from pyzk.cli.lock.running import contend, grace
from pyzk.client import ZooKeeper
from pyzk.recipes import LockLost
from pyzk.server.testing import EmbeddedServer

from ...support.lab import SESSION_TIMEOUT, Lab
from ...support.waiting import wait_until
from .process import BUSY_WAIT, Start, contenders, holding, options


def test_a_lost_session_ends_the_command(server: EmbeddedServer, start: Start) -> None:
    # It does not want to go; but another may hold the lock by now.
    process, session = holding(start, "/x", first="trap '' TERM", script=BUSY_WAIT)
    server.expire(session)
    assert process.end() == (
        76,
        "",
        "pyzk-lock: /x was lost: the session expired; the command was ended\n",
    )
    assert contenders(server) == []


def test_an_operator_who_deletes_the_znode_ends_the_command(
    server: EmbeddedServer, start: Start, other: KazooClient
) -> None:
    process, _ = holding(start, "/x", script=BUSY_WAIT)
    (node,) = contenders(server)
    other.delete(node)
    assert process.end() == (
        76,
        "",
        "pyzk-lock: /x was lost: its znode was deleted; the command was ended\n",
    )


def test_a_silent_server_ends_the_command_before_the_session_ends(start: Start) -> None:
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000, clock="frozen") as server:
        process = start(
            *("--session-timeout", "20", "/x", "--", "sh", "-c"),  # a tenth of it is there to go in
            "trap 'echo asked; exit' TERM; echo; sleep 1000 & wait",  # which ends the wait at once
            PYZK_HOSTS=server.hosts,
        )
        process.line()
        server.pause()
        status, output, complaint = process.end()
        assert (status, output) == (76, "asked\n")
        assert "the session may have ended" in complaint
        assert len(contenders(server)) == 1, "to the server, we hold it"


def test_with_suspended_cancel_a_command_has_time_to_clean_up(server: EmbeddedServer, start: Start) -> None:
    # What it starts to clean up is not asked to go.
    trap = "trap 'sleep 0.2 && echo bye; exit' TERM"
    process, session = holding(start, "--suspended", "cancel", "/x", first=trap, script=BUSY_WAIT)
    server.disconnect(session)
    assert process.end() == (
        76,
        "bye\n",
        "pyzk-lock: /x was lost: the connection was lost; the command was ended\n",
    )


def test_a_command_that_does_not_end_in_time_is_killed(server: EmbeddedServer, start: Start) -> None:
    process, session = holding(
        start,
        *("--suspended", "cancel", "--kill-after", "2", "/x"),
        first="trap 'echo asked' TERM",
        script=BUSY_WAIT,
    )
    server.disconnect(session)
    status, output, _ = process.end()
    assert (status, output) == (76, "asked\n")


def test_a_short_loss_of_connection_does_not_matter(server: EmbeddedServer, start: Start) -> None:
    process, session = holding(start, "/x")
    server.disconnect(session)
    wait_until(lambda: server.sessions()[0].connected)
    process.write("\n")
    assert process.end() == (0, "", "")


async def test_the_time_to_go_is_over_before_the_lease(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            assert grace(grant, 3.0) == 3.0
            lab.cut_off(zk)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            left = zk.session.lease_deadline() - trio.current_time()
            assert grace(grant, 5.0) == pytest.approx(left / 2) == pytest.approx(1.0)
            assert grace(grant, 0.5) == 0.5
            lab.let_through(zk)
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


async def test_the_time_to_go_is_over_before_the_lease_if_another_server_has_granted_a_longer_timeout(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            zk._machine.data.timeout = 4 * SESSION_TIMEOUT
            lab.cut_off(zk)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            assert grace(grant, 5.0) <= zk.session.lease_deadline() - trio.current_time()
            lab.let_through(zk)
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


async def test_there_is_no_time_to_go_when_it_is_too_late(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper
) -> None:
    async def rely() -> None:
        async with contend(zk, options("/x", "--", "true")) as grant:
            lab.server.expire(zk.session.id)
            with trio.CancelScope(shield=True):
                await grant.lost.wait()
            assert grace(grant, 5.0) == 0.0
            await trio.sleep_forever()

    with pytest.raises(LockLost):
        await rely()


def test_children_of_the_command_are_killed_when_the_lock_is_lost(
    server: EmbeddedServer, start: Start
) -> None:
    script = "trap '' TERM; sleep 1000 & echo left; exit 3"
    process, session = holding(start, "--kill-after", "1000", "/x", script=script)
    assert process.line() == "left"
    server.expire(session)
    assert process.end()[0] == 76
