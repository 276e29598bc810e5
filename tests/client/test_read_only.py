"""Read-only servers serve reads, and the client looks for a full one (ensemble.md sections 7 and 13)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import (
    ConnectionLossError,
    GetData,
    Missed,
    NotReadOnlyError,
    SessionState,
    SetData,
    WatchEvent,
    ZooKeeper,
    connect,
)
from pyzk.client.repeating import repeat
from pyzk.recipes import Lock, LockLost
from pyzk.server.testing import Controls

from .memory import client as ordinary
from .pretend import Ensemble, Mode, open_ensemble

RO, FULL, DOWN, LEADERLESS = Mode.READ_ONLY, Mode.FULL, Mode.DOWN, Mode.LEADERLESS
READ_ONLY, CONNECTED = SessionState.CONNECTED_READ_ONLY, SessionState.CONNECTED


@pytest.fixture
async def ensemble(server: Controls) -> AsyncIterator[Ensemble]:
    async with open_ensemble(server) as ensemble:
        yield ensemble


def client(
    ensemble: Ensemble, servers: str = "a,b,c", **options: Any
) -> AbstractAsyncContextManager[ZooKeeper]:
    defaults: dict[str, Any] = {"read_only": True, "rng": random.Random(1)}
    return connect(servers, connector=ensemble.connector, **(defaults | options))


async def until(zk: ZooKeeper, state: SessionState) -> None:
    while zk.session.state is not state:
        await zk.session.wait_change()


async def test_a_client_begins_with_a_read_only_server(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    server.load({"/a": b"data"})
    await ensemble.become(a=RO, b=DOWN, c=DOWN)
    async with client(ensemble) as zk:
        assert zk.session.state is READ_ONLY
        assert zk.session.id == 0, "it has none that lasts"
        assert zk.session.lease_deadline() < 0
        assert (await zk.get("/a"))[0] == b"data"
        assert await zk.exists("/b") is None
        began = trio.current_time()
        for write in (
            lambda: zk.create("/b"),
            lambda: zk.set("/a", b""),
            lambda: zk.delete("/a"),
            lambda: zk.sync(),
            lambda: zk.multi([SetData("/a", b"")]),
        ):
            with pytest.raises(NotReadOnlyError):
                await write()
        assert trio.current_time() == began, "at once"
        await ensemble.become(b=FULL)
        await zk.session.wait_connected()
        assert zk.server is not None
        assert zk.server.name == "b"
        assert zk.session.id != 0
        assert zk.session.generation == 1
        await zk.set("/a", b"new")
        assert zk.session.id in [session.id for session in server.sessions()]
    assert zk.session.id not in [session.id for session in server.sessions()]


async def test_without_the_option_a_read_only_server_does_not_serve(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    await ensemble.become(a=RO, b=RO, c=RO)
    with pytest.raises(ConnectionLossError, match="no session"):
        async with client(ensemble, read_only=False, connect_timeout=5):
            raise AssertionError


async def test_a_server_without_sessions_of_its_own_says_so(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    await ensemble.become(a=Mode.READ_ONLY_WITHOUT_SESSIONS)
    with pytest.raises(ConnectionLossError, match=r"read-only, and takes no sessions .localSessionsEnabled"):
        async with client(ensemble, "a", connect_timeout=5):
            raise AssertionError


async def test_a_session_outlives_the_read_only_time(autojump_clock: MockClock, ensemble: Ensemble) -> None:
    """Read-only servers refuse it, so they give the client another for the time being; then ours goes on."""
    async with client(ensemble, session_timeout=30) as zk:
        await zk.create("/mine", b"data", ephemeral=True)
        session, password = zk.session.id, zk.session.password
        await ensemble.become(a=RO, b=RO, c=RO)
        await until(zk, READ_ONLY)
        assert zk.session.id == session
        assert zk.session.password == password
        assert zk.session.negotiated_timeout == 30
        assert (await zk.get("/mine"))[1].ephemeralOwner == session
        with pytest.raises(NotReadOnlyError):
            await zk.set("/mine", b"")
        deadline = zk.session.lease_deadline()
        await trio.sleep(5)
        assert zk.session.lease_deadline() == deadline, "it proves nothing about our session"
        await ensemble.become(a=FULL, b=FULL, c=FULL)
        await zk.session.wait_connected()
        assert (zk.session.id, zk.session.generation) == (session, 1)
        await zk.set("/mine", b"")


async def test_a_read_only_server_does_not_end_a_session_that_it_does_not_know(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    """The session began after the server was cut off."""
    behind = Mode.READ_ONLY_AND_BEHIND
    async with client(ensemble, session_timeout=30) as zk:
        session = zk.session.id
        await ensemble.become(a=behind, b=behind, c=behind)
        await until(zk, READ_ONLY)
        await zk.get("/")
        await ensemble.become(a=FULL)
        await zk.session.wait_connected()
        assert (zk.session.id, zk.session.generation) == (session, 1)


async def test_a_session_that_has_ended_meanwhile_is_replaced(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    async with client(ensemble, session_timeout=4, on_expired="new_session") as zk:
        await ensemble.become(a=RO, b=RO, c=RO)
        await until(zk, READ_ONLY)
        await trio.sleep(20)
        assert zk.session.generation == 1
        await ensemble.become(a=FULL)
        await zk.session.wait_connected()
        assert zk.session.generation == 2


async def test_a_full_server_is_looked_for_at_growing_intervals(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    await ensemble.become(a=RO, b=LEADERLESS, c=DOWN)
    async with client(ensemble, "a,b") as zk:
        assert zk.session.state is READ_ONLY
        ensemble.asked_at.clear()
        began = trio.current_time()
        await trio.sleep(400)
        times = [began, *ensemble.asked_at]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert pauses == pytest.approx([0.1 * 2**n for n in range(10)] + [60.0] * (len(pauses) - 10))
        assert len(pauses) > 12
        await ensemble.become(b=FULL)
        await zk.session.wait_connected()
        assert zk.server is not None
        assert zk.server.name == "b"
        asked = len(ensemble.asked_at)
        await trio.sleep(400)
        assert len(ensemble.asked_at) == asked, "nobody is looked for any more"


async def test_the_move_loses_nothing(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    server.load({"/a": b"data"})
    await ensemble.become(a=RO, b=LEADERLESS)
    async with client(ensemble, "a,b") as zk:
        await ensemble.become(b=FULL)
        with server.fault(op="get_data", action="delay", seconds=0.5):
            reads = [zk.submit(GetData("/a")) for _ in range(10)]
            await trio.sleep(0.2)
            late = zk.submit(GetData("/a"))
            for read in [*reads, late]:
                assert (await read.wait())[0] == b"data"
        await zk.session.wait_connected()


async def test_a_write_that_waits_for_a_connection_is_refused_too(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    async with client(ensemble, session_timeout=30) as zk:
        await ensemble.become(a=DOWN, b=DOWN, c=DOWN)
        await until(zk, SessionState.SUSPENDED)
        write, read = zk.submit(SetData("/", b"")), zk.submit(GetData("/"))
        await ensemble.become(a=RO)
        with pytest.raises(NotReadOnlyError):
            await write.wait()
        await read.wait()
        assert zk.session.state is READ_ONLY


async def test_watches_work_and_are_armed_again_at_the_full_server(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    server.load({"/a": b"data"})
    await ensemble.become(a=RO, b=LEADERLESS)
    async with client(ensemble, "a,b") as zk, ordinary(server) as other:
        _, _, watch = await zk.get_and_watch("/a")
        async with zk.watch("/a") as events:
            await ensemble.become(b=FULL)
            await zk.session.wait_connected()
            await zk.sync()
            await other.set("/a", b"new")
            assert isinstance(await watch.wait(), WatchEvent)
            assert isinstance(await anext(events), Missed)
            assert isinstance(await anext(events), WatchEvent)


async def test_what_is_repeated_waits_for_a_full_server(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    """Also what the cleanup deletes."""
    server.load({"/a": b"data", "/b": b""})
    await ensemble.become(a=RO, b=LEADERLESS)
    async with client(ensemble, "a,b") as zk:
        job = zk.cleanup.delete("/b")
        with trio.move_on_after(20):
            await repeat(zk, lambda: zk.set("/a", b"new"))
            raise AssertionError
        await ensemble.become(b=FULL)
        await repeat(zk, lambda: zk.set("/a", b"new"))
        await job.done.wait()
        assert job.error is None
    assert "/b" not in server.dump("/")


@pytest.mark.row("F22")
async def test_a_read_only_server_grants_nothing_and_keeps_nothing(
    autojump_clock: MockClock, ensemble: Ensemble
) -> None:
    async with client(ensemble, session_timeout=10) as zk:
        with pytest.raises(LockLost):
            async with Lock(zk, "/lock"):
                await ensemble.become(a=RO, b=RO, c=RO)
                await until(zk, READ_ONLY)
                with pytest.raises(NotReadOnlyError):
                    await Lock(zk, "/other").acquire()
                await trio.sleep_forever()
        assert trio.current_time() < 10, "before its session could end"


async def test_closing_while_read_only_leaves_nothing(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    await ensemble.become(a=RO)
    before = trio.lowlevel.current_statistics().tasks_living
    async with client(ensemble, "a") as zk:
        assert zk.session.state is READ_ONLY
        assert len(server.sessions()) == 1
        began = trio.current_time()
    assert trio.current_time() == began
    assert server.sessions() == []
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_server_that_is_full_again_is_not_left_with_a_second_session(
    autojump_clock: MockClock, server: Controls, ensemble: Ensemble
) -> None:
    """It has become full between the word and the handshake."""
    async with client(ensemble, "a", session_timeout=30) as zk:
        session = zk.session.id
        await ensemble.become(a=RO)
        ask = ensemble.asked["a"]
        while ensemble.asked["a"] == ask:
            await trio.sleep(0.001)
        await ensemble.become(a=FULL)
        await zk.session.wait_connected()
        assert zk.session.id == session
        assert zk.session.generation == 1


async def test_states_and_log(
    autojump_clock: MockClock, ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    await ensemble.become(a=RO, b=LEADERLESS)
    async with client(ensemble, "a,b") as zk:
        changes = zk.session.changes()
        await ensemble.become(b=FULL)
        await zk.session.wait_connected()
        await ensemble.become(a=RO, b=RO)
        await until(zk, READ_ONLY)
    states = [change.state.name async for change in changes]
    assert states == ["CONNECTING", "CONNECTED", "SUSPENDED", "CONNECTED_READ_ONLY", "CLOSED"]
    assert "it is read-only and refuses writes" in caplog.text
    assert "moving to b:2181, which serves writes" in caplog.text
