"""Sessions, connections and time, through memory streams: every step is exact."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.testing import Controls, Node, SessionInfo, UnknownSessionError

from ...support.wire import ClosedError, Event, Reply, StreamClient, kinds
from .helpers import create


@asynccontextmanager
async def frozen(**settings: Any) -> AsyncIterator[Controls]:
    async with open_server(clock="frozen", **settings) as server:
        yield server


def client(server: Controls) -> StreamClient:
    return StreamClient(server.open_stream())


async def test_sessions_are_listed() -> None:
    async with frozen() as server:
        a = await client(server).connect(timeout=10_000)
        await a.create("/e", flags=1)
        await a.exists("/x", watch=True)
        b = await client(server).connect(timeout=20_000)
        first, second = server.sessions()
        assert first == SessionInfo(a.session_id, 10_000, ("127.0.0.1", 1), ("/e",), ("/x",))
        assert first.connected
        await b.stream.aclose()
        second = server.sessions()[1]
        assert (second.id, second.timeout_ms, second.peer) == (b.session_id, 20_000, None)
        assert not second.connected


async def test_expiry_is_the_servers() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        b = await client(server).connect()
        await a.create("/e1", flags=1)
        await a.create("/e2", flags=1)
        for path in ("/e1", "/e2"):
            await b.exists(path, watch=True)
        before = (await b.exists("/")).zxid
        server.expire(a.session_id)
        assert {await b.next(), await b.next()} == {
            Event(before + 1, EventType.DELETED, "/e1"),
            Event(before + 1, EventType.DELETED, "/e2"),
        }
        assert (await b.exists("/")).zxid == before + 1, "all ephemerals go in one zxid"
        with pytest.raises(ClosedError):
            await a.next()
        with pytest.raises(trio.BrokenResourceError):
            await a.exists("/")
        again = await client(server).connect(session_id=a.session_id, password=a.password)
        assert (again.session_id, again.handshake.timeout) == (0, 0), "told that it is expired"
        assert [s.id for s in server.sessions()] == [b.session_id]


async def test_an_unknown_session() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        with pytest.raises(UnknownSessionError, match=f"no session 0x5; live sessions: 0x{a.session_id:x}"):
            server.expire(5)
        with pytest.raises(UnknownSessionError):
            server.disconnect(5)
        with pytest.raises(UnknownSessionError):
            server.fault(session=5)
        with pytest.raises(UnknownSessionError, match="no session a; live sessions: 0x"):
            server.expire("a")
        with pytest.raises(TypeError, match="its id, a text, its SessionInfo or its client"):
            server.expire(2.5)  # type: ignore[arg-type]
        server.expire(server.sessions()[0])
        with pytest.raises(UnknownSessionError, match="live sessions: none"):
            server.expire(a.session_id)


async def test_a_client_stands_for_its_session() -> None:
    class Kazoo:
        client_id: tuple[int, bytes] | None = None

    class Ours:
        session_id = 0

    async with frozen() as server:
        a = await client(server).connect()
        kazoo = Kazoo()
        with pytest.raises(UnknownSessionError, match="has no session"):
            server.disconnect(kazoo)
        with pytest.raises(UnknownSessionError, match="has no session"):
            server.disconnect(Ours())
        kazoo.client_id = (a.session_id, b"")
        server.disconnect(kazoo)
        assert not server.sessions()[0].connected


async def test_disconnect_leaves_the_session() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        b = await client(server).connect()
        await a.create("/e", flags=1)
        server.disconnect(a.session_id)
        with pytest.raises(ClosedError):
            await a.next()
        server.disconnect(a.session_id)  # already: nothing to do
        assert (await b.exists("/e")).err == 0
        again = await client(server).connect(session_id=a.session_id, password=a.password)
        assert again.session_id == a.session_id
        server.disconnect_all()
        for each in (again, b):
            with pytest.raises(ClosedError):
                await each.next()
        assert len(server.sessions()) == 2


async def test_refusing_and_accepting() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        server.refuse_connections()
        refused = client(server)
        with pytest.raises(trio.BrokenResourceError):
            await refused.connect()
        assert await refused.stream.receive_some() == b""
        assert (await a.exists("/")).err == 0, "those that are there stay"
        server.accept_connections()
        assert (await client(server).connect()).session_id


async def test_pause_and_resume(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server() as server:
        a = await client(server).connect()
        b = await client(server).connect()
        await b.exists("/x", watch=True)
        server.pause()
        await a.send(OpCode.CREATE, create("/x"))
        late = client(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(late.connect)
            assert await a.is_silent()
            assert await b.is_silent()
            assert "/x" not in server.dump()
            assert late.handshake is None
            server.resume()
        assert late.handshake.session_id
        assert server.dump() == {"/x": b""}
        assert await a.next()
        assert kinds([await b.next()]) == [(EventType.CREATED, "/x")]


async def test_pausing_one_client() -> None:
    """The classic: a holder is cut off without noticing, and the server gives up on it."""
    async with frozen(tick_time=1000) as server:
        a = await client(server).connect()
        b = await client(server).connect()
        await a.create("/lock", flags=1)
        await b.exists("/lock", watch=True)
        server.pause(a.session_id)
        await a.send(OpCode.SET_DATA, r.SetDataRequest("/lock", b"mine", -1))
        server.clock.advance(11, keep_alive=True)
        assert kinds([await b.next()]) == [(EventType.DELETED, "/lock")]
        with pytest.raises(ClosedError):
            await a.next()
        assert [s.id for s in server.sessions()] == [b.session_id]


async def test_a_paused_client_gets_through_by_no_new_connection_either(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with frozen(tick_time=1000) as server:
        a = await client(server).connect()
        b = await client(server).connect()
        server.pause(a.session_id)
        again = client(server)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(again.connect, session_id=a.session_id, password=a.password))
            assert await b.is_silent()
            assert again.handshake is None
            assert (await b.create("/b")).err == 0, "others are served"
            server.clock.advance(9)
            server.resume(b.session_id)  # which is not paused: nothing happens
            assert await a.is_silent()
            server.resume(a.session_id)
        assert again.session_id == a.session_id
        with pytest.raises(ClosedError):
            await a.next()


async def test_a_paused_clients_attempts_to_come_back_are_no_signs_of_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with frozen(tick_time=1000) as server:
        a = await client(server).connect(timeout=10_000)
        server.pause(a.session_id)
        server.clock.advance(6)
        again = client(server)
        with trio.move_on_after(1):
            await again.connect(session_id=a.session_id, password=a.password)
        server.clock.advance(6)
        assert server.sessions() == []
        told = await client(server).connect(session_id=a.session_id, password=a.password)
        assert told.session_id == 0, "the pause has ended with the session"


async def test_one_of_two_paused_clients_is_let_through() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        b = await client(server).connect()
        server.pause(a.session_id)
        server.pause(b.session_id)
        for each in (a, b):
            await each.send(OpCode.PING)
        server.resume(a.session_id)
        assert isinstance(await a.next(), Reply)
        server.pause()
        server.resume(b.session_id)
        assert len(server.running.gate._frozen) == 2
        server.resume()
        assert isinstance(await b.next(), Reply)


async def test_replies_said_before_a_pause_arrive() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        await a.send(OpCode.EXISTS, r.ExistsRequest("/", False), xid=7)
        server.pause()
        reply = await a.next()
        assert isinstance(reply, Reply)
        assert reply.xid == 7


async def test_advance_expires_sessions_before_it_returns() -> None:
    async with frozen(tick_time=1000) as server:
        a = await client(server).connect(timeout=10_000)
        b = await client(server).connect(timeout=20_000)
        await a.create("/e", flags=1)
        server.clock.advance(9.9)
        assert len(server.sessions()) == 2
        server.clock.advance(1.2)
        assert [s.id for s in server.sessions()] == [b.session_id]
        assert server.dump() == {}
        server.clock.advance(0)
        assert len(server.sessions()) == 1


async def test_advance_can_keep_connected_clients_alive() -> None:
    async with frozen(tick_time=1000) as server:
        a = await client(server).connect(timeout=4_000)
        gone = await client(server).connect(timeout=4_000)
        await gone.stream.aclose()
        server.clock.advance(3600, keep_alive=True)
        assert [s.id for s in server.sessions()] == [a.session_id]
        server.clock.advance(3.9)
        assert len(server.sessions()) == 1, "its whole timeout runs from the end of the jump"


async def test_a_jump_reaps_containers_and_ttl_znodes() -> None:
    async with frozen(extended_types=True) as server:
        server.load({"/ttl": Node(kind="ttl", ttl=5_000), "/c": Node(kind="container")})
        a = await client(server).connect(timeout=40_000)
        await a.create("/c/x")
        await a.request(OpCode.DELETE, r.DeleteRequest("/c/x", -1))
        server.clock.advance(59, keep_alive=True)
        assert set(server.dump()) == {"/ttl", "/c"}
        server.clock.advance(2, keep_alive=True)
        assert server.dump() == {}
        assert [e.path for e in server.history(kind="reaper")] == ["/c", "/ttl"]


async def test_a_frozen_clock_stands_still(autojump_clock: trio.testing.MockClock) -> None:
    async with frozen() as server:
        before = server.clock.now()
        await trio.sleep(3600)
        assert server.clock.now() == before == 0
        server.clock.advance(2.5)
        assert server.clock.now() == 2.5


async def test_a_jump_moves_the_wall_clock_too() -> None:
    async with frozen() as server:
        a = await client(server).connect(timeout=40_000)
        await a.create("/a")
        server.clock.advance(10)
        await a.create("/b")
        times = [r.Stat.decode((await a.exists(path)).body).ctime for path in ("/a", "/b")]
        assert times[1] - times[0] == 10_000


async def test_a_running_clock_that_jumped_runs_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server(tick_time=1000) as server:
        await client(server).connect(timeout=10_000)
        server.clock.advance(5)
        await trio.sleep(4)
        assert len(server.sessions()) == 1
        await trio.sleep(2.5)
        assert server.sessions() == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
async def test_time_does_not_run_backwards(seconds: float) -> None:
    async with frozen() as server:
        with pytest.raises(ValueError, match="seconds must be from 0 to"):
            server.clock.advance(seconds)


async def test_a_restart_that_keeps_the_data() -> None:
    async with frozen(tick_time=1000) as server:
        hosts = server.hosts
        a = await client(server).connect(timeout=10_000)
        await a.create("/e", b"1", flags=1)
        server.clock.advance(8)
        server.pause()
        server.refuse_connections()
        server.restart(keep_data=True)
        with pytest.raises(ClosedError):
            await a.next()
        assert server.hosts == hosts
        assert server.dump() == {"/e": b"1"}
        server.clock.advance(8)  # timers have restarted in full
        again = await client(server).connect(session_id=a.session_id, password=a.password)
        assert again.session_id == a.session_id


async def test_a_restart_that_loses_the_data() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        await a.create("/a")
        zxid = (await a.exists("/")).zxid
        server.restart(keep_data=False)
        with pytest.raises(ClosedError):
            await a.next()
        assert server.dump() == {}
        # a client that knows a later zxid than the server's would be dropped without a word
        told = await client(server).connect(session_id=a.session_id, password=a.password, last_zxid=zxid)
        assert told.session_id == 0
        fresh = await client(server).connect()
        assert fresh.session_id != a.session_id
        assert (await fresh.create("/a")).zxid > zxid
        assert server.dump() == {"/a": b""}
        assert server.history(op="create", kind="reply")[-1].zxid > zxid


async def test_leaks() -> None:
    async with frozen() as server:
        a = await client(server).connect()
        b = await client(server).connect()
        await a.create("/e", flags=1)
        await a.exists("/x", watch=True)
        await b.stream.aclose()
        first, second = server.leaks()
        assert first == (
            f"session 0x{a.session_id:x} is still connected; ephemerals left: /e; watches not fired: /x"
        )
        assert second == f"session 0x{b.session_id:x} was never closed"
        await a.request(OpCode.CLOSE_SESSION)
        server.expire(b.session_id)
        assert server.leaks() == []


async def test_a_pause_that_finds_a_client_gone_holds_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server() as server:
        clients = [await StreamClient(server.open_stream()).connect() for _ in range(3)]
        doomed = next(iter(server.running.service.connections))
        monkeypatch.setattr(doomed, "wake", lambda: doomed.abort("it has gone away"))
        server.pause()
        for client in clients[1:]:
            await client.send(OpCode.PING)
            assert await client.is_silent()
        server.resume()
        for client in clients[1:]:
            assert isinstance(await client.next(), Reply)
        with pytest.raises(ClosedError):
            await clients[0].next()
