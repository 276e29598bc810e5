"""What a test holds, loses, delays and reorders, message by message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import PING_XID, EventType
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.testing import EmbeddedServer, LocalServer, UnknownSessionError, holding

from ...support.waiting import wait_until
from ...support.wire import ClosedError, Event, Reply, StreamClient, WireClient, kinds
from .helpers import create


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[tuple[LocalServer, StreamClient, StreamClient]]:
    async with open_server(clock="frozen", **settings) as server:
        a, b = await connect(server), await connect(server)
        yield server, a, b


async def connect(server: LocalServer, **handshake: Any) -> StreamClient:
    return await StreamClient(server.open_stream()).connect(**handshake)


async def xids(client: StreamClient, count: int) -> list[int]:
    """The xids of the next replies."""
    return [int.from_bytes((await client.next_frame())[:4], signed=True) for _ in range(count)]


def exists(path: str) -> r.ExistsRequest:
    return r.ExistsRequest(path, False)


# --- each kind: hold, list, release ------------------------------------------------------------------------


async def test_a_request_that_is_held_has_not_arrived() -> None:
    async with world() as (server, a, b):
        hold = server.hold("request", op="create", path="/locks/*")
        server.load({"locks": {}})
        await a.create("/other")
        await a.send(OpCode.CREATE, create("/locks/x"))
        (held,) = server.held()
        assert attrs.asdict(held) == {
            "number": held.number,
            "kind": "request",
            "hold": hold,
            "session": a.session_id,
            "time": 0.0,
            "op": "create",
            "path": "/locks/x",
            "text": "create /locks/x",
        }
        assert (await b.exists("/locks/x")).err == -101
        assert await a.is_silent()
        server.release(held.number)
        assert (await b.exists("/locks/x")).err == 0
        assert (await a.next()).err == 0
        assert server.held() == []


async def test_a_reply_that_is_held_has_not_been_sent() -> None:
    async with world() as (server, a, b):
        server.hold("reply", op="create", session=a.session_id)
        await a.send(OpCode.CREATE, create("/a"))
        assert (await b.exists("/a")).err == 0
        assert (await b.create("/b")).err == 0, "another session"
        assert await a.is_silent()
        (held,) = server.held()
        assert (held.kind, held.op, held.path, held.text) == ("reply", "create", "/a", "create /a -> ok")
        server.release(held.number)
        assert (await a.next()).err == 0


async def test_an_event_that_is_held_may_be_overtaken() -> None:
    async with world() as (server, a, b):
        for path in ("/x", "/y"):
            await a.exists(path, watch=True)
        server.hold("event", path="/x")
        await b.create("/x")
        await b.create("/y")
        assert kinds([await a.next()]) == [(EventType.CREATED, "/y")]
        assert (await a.exists("/x")).err == 0
        (held,) = server.held()
        assert (held.kind, held.op, held.path, held.text) == ("event", None, "/x", "created /x")
        server.release(held.number)
        assert kinds([await a.next()]) == [(EventType.CREATED, "/x")]


async def test_a_handshake_that_is_held_is_not_answered() -> None:
    async with world() as (server, a, _):
        server.hold("handshake")
        late = StreamClient(server.open_stream())
        await late.stream.send_all(frame(r.ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode() + b"\0"))
        assert await late.is_silent()
        assert len(server.sessions()) == 2
        assert (await a.exists("/")).err == 0
        (held,) = server.held()
        assert (held.kind, held.session, held.text) == ("handshake", 0, "for a new session")
        server.release(held.number)
        assert (await late.next()).session_id
        assert len(server.sessions()) == 3


async def test_a_handshake_of_one_session_is_held() -> None:
    async with world() as (server, a, _):
        server.hold("handshake", session=a.session_id)
        assert (await connect(server)).session_id, "a new session"
        again = StreamClient(server.open_stream())
        request = r.ConnectRequest(0, 0, 10_000, a.session_id, a.password)
        await again.stream.send_all(frame(request.encode() + b"\0"))
        assert await again.is_silent()
        assert (await a.exists("/")).err == 0, "still served by its connection"
        server.stop_holding()
        assert (await again.next()).session_id == a.session_id


# --- order -------------------------------------------------------------------------------------------------


async def test_what_comes_behind_a_held_request_waits_with_it() -> None:
    async with world() as (server, a, b):
        server.hold("request", op="create", times=1)
        for path in ("/1", "/2"):
            await a.send(OpCode.CREATE, create(path))
        await a.send(OpCode.EXISTS, exists("/1"))
        await a.send(OpCode.PING, xid=PING_XID)
        assert await xids(a, 1) == [PING_XID], "the session lives on"
        held = server.held()
        assert [(m.op, m.path, bool(m.hold)) for m in held] == [
            ("create", "/1", True),
            ("create", "/2", False),
            ("exists", "/1", False),
        ]
        assert (await b.create("/other")).err == 0, "other sessions do not wait"
        server.release(held[0].number)
        assert await xids(a, 3) == [1, 2, 3]
        assert set(server.dump()) == {"/1", "/2", "/other"}


async def test_what_comes_behind_a_held_reply_waits_with_it() -> None:
    async with world() as (server, a, _):
        await a.exists("/w", watch=True)
        server.hold("reply", op="create")
        await a.send(OpCode.CREATE, create("/1"))
        await a.send(OpCode.EXISTS, exists("/1"))
        await a.send(OpCode.CREATE, create("/2"))
        await a.send(OpCode.PING, xid=PING_XID)
        assert await xids(a, 1) == [PING_XID]
        assert set(server.dump()) == {"/1", "/2"}
        first, _, third = server.held()
        server.release(first.number)
        assert await xids(a, 2) == [2, 3]
        assert await a.is_silent(), "the third meets the hold itself"
        server.release(third.number)
        assert await xids(a, 1) == [4]


async def test_requests_of_two_sessions_in_another_order() -> None:
    async with world() as (server, a, b):
        server.hold("request", op="create")
        await a.send(OpCode.CREATE, create("/a", flags=2))
        await b.send(OpCode.CREATE, create("/a", flags=2))
        first, second = server.held()
        server.release(second.number, first.number)
        paths = [(await client.next()).record.path for client in (a, b)]
        assert paths == ["/a0000000001", "/a0000000000"]


async def test_messages_of_one_connection_in_another_order() -> None:
    async with world() as (server, a, _):
        server.hold("reply")
        for path in ("/1", "/2", "/3"):
            await a.send(OpCode.CREATE, create(path))
        numbers = [message.number for message in server.held()]
        server.release(numbers[2], numbers[0])
        assert await xids(a, 2) == [3, 1]
        server.release()
        assert await xids(a, 1) == [2]


async def test_an_event_behind_the_reply_that_reveals_the_change() -> None:
    async with world() as (server, a, _):
        await a.exists("/a", watch=True)
        server.hold("event")
        await a.send(OpCode.CREATE, create("/a"))
        assert isinstance(await a.next(), Reply)
        server.release()
        assert isinstance(await a.next(), Event)


async def test_requests_are_released_while_the_connection_is_paused() -> None:
    async with world() as (server, a, _):
        server.hold("request")
        for path in ("/1", "/2"):
            await a.send(OpCode.CREATE, create(path))
        server.pause()
        server.release(*(message.number for message in server.held()))
        assert server.dump() == {}
        server.resume()
        assert await xids(a, 2) == [1, 2]


# --- losing and delaying -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["request", "reply"])
async def test_a_lost_message_never_comes_and_those_behind_it_do(kind: Any) -> None:
    async with world() as (server, a, _):
        server.hold(kind, op="create")
        await a.send(OpCode.CREATE, create("/a"))
        await a.send(OpCode.EXISTS, exists("/a"))
        server.lose(server.held()[0].number)
        assert await xids(a, 1) == [2]
        assert await a.is_silent()
        assert server.dump() == ({} if kind == "request" else {"/a": b""})
        assert server.held() == []


async def test_an_event_is_lost() -> None:
    async with world() as (server, a, b):
        await a.exists("/a", watch=True)
        server.hold("event", times=1)
        await b.create("/a")
        server.lose(*(message.number for message in server.held()))
        await a.exists("/b", watch=True)
        await b.create("/b")
        assert kinds([await a.next()]) == [(EventType.CREATED, "/b")]


async def test_a_lost_handshake_is_never_answered() -> None:
    async with world() as (server, _, __):
        server.hold("handshake")
        late = StreamClient(server.open_stream())
        await late.stream.send_all(frame(r.ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode() + b"\0"))
        server.lose(server.held()[0].number)
        server.stop_holding()
        assert await late.is_silent()
        server.clock.advance(60, keep_alive=True)
        with pytest.raises(ClosedError):
            await late.next()


@pytest.mark.parametrize("kind", ["request", "reply"])
async def test_messages_are_delayed_by_the_servers_clock(kind: Any) -> None:
    async with world() as (server, a, _):
        server.hold(kind, op="create", seconds=3)
        await a.send(OpCode.CREATE, create("/a"))
        server.clock.advance(2.9)
        assert await a.is_silent()
        server.clock.advance(0.1)
        assert (await a.next()).err == 0


async def test_events_and_handshakes_are_delayed_by_the_servers_clock() -> None:
    async with world() as (server, a, b):
        await a.exists("/a", watch=True)
        server.hold("event", seconds=3)
        server.hold("handshake", seconds=2)
        await b.create("/a")
        late = StreamClient(server.open_stream())
        await late.stream.send_all(frame(r.ConnectRequest(0, 0, 10_000, 0, bytes(16)).encode() + b"\0"))
        assert await a.is_silent()
        assert await late.is_silent()
        server.clock.advance(2)
        assert (await late.next()).session_id
        assert await a.is_silent()
        server.clock.advance(1)
        assert kinds([await a.next()]) == [(EventType.CREATED, "/a")]


async def test_a_session_whose_requests_are_held_expires_without_pings() -> None:
    async with world() as (server, a, b):
        server.hold("request")
        await a.send(OpCode.CREATE, create("/a"))
        server.clock.advance(8)
        await a.send(OpCode.EXISTS, exists("/a"))
        await b.send(OpCode.PING, xid=PING_XID)
        server.clock.advance(8)
        assert [session.id for session in server.sessions()] == [b.session_id]
        assert server.held() == [], "gone with their connection"


# --- beginning and end of a hold ---------------------------------------------------------------------------


async def test_a_hold_ends() -> None:
    async with world(record=False) as (server, a, _):
        one = server.hold("request", op="create")
        server.hold("request", op="exists")
        await a.send(OpCode.CREATE, create("/a"))
        server.stop_holding(one)
        assert await xids(a, 1) == [1]
        assert (await a.create("/b")).err == 0
        await a.send(OpCode.EXISTS, exists("/a"))
        assert await a.is_silent()
        server.stop_holding()
        assert (await a.next()).err == 0
        assert server.running.service.gate is None, "nobody stands in the way"


async def test_a_closed_session_is_over_when_its_reply_is_released() -> None:
    async with world() as (server, a, _):
        server.hold("reply")
        await a.send(OpCode.CLOSE_SESSION)
        assert len(server.sessions()) == 1
        assert await a.is_silent()
        server.release()
        assert await xids(a, 1) == [1]
        with pytest.raises(ClosedError):
            await a.next()


async def test_faults_see_a_request_when_it_is_released() -> None:
    async with world() as (server, a, _):
        server.hold("request", op="create")
        with server.fault("create", action="error", error=-7) as fault:
            await a.send(OpCode.CREATE, create("/a"))
            assert fault.seen == 0
            server.release()
            assert (await a.next()).err == -7


async def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "_MOST_HELD", 10_000)
    async with world() as (server, a, b):
        server.hold("request", op="create")
        await b.send(OpCode.CREATE, create("/b"))
        await a.stream.send_all(b"".join(a.encode(OpCode.CREATE, create(f"/{n}")) for n in range(100)))
        with pytest.raises(ClosedError):
            await a.next()
        assert [message.path for message in server.held()] == ["/b"]
        server.release()
        assert (await b.next()).err == 0


async def test_the_history_tells_what_was_held_and_lost() -> None:
    async with world() as (server, a, _):
        server.hold("request", op="create")
        await a.send(OpCode.CREATE, create("/a"))
        number = server.held()[0].number
        server.lose(number)
        texts = [entry.text for entry in server.history(kind="hold", session=a.session_id)]
        assert texts == [f"HELD as {number}: request create /a", f"LOST {number}: request create /a"]
        assert f"|| LOST {number}" in server.format_timeline()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "frame"}, "kind must be one of handshake, request, reply, event, not 'frame'"),
        ({"op": "make"}, "unknown op 'make'"),
        ({"kind": "event", "op": "create"}, "op= selects requests and replies"),
        ({"kind": "handshake", "path": "/a"}, "a handshake has no path"),
        ({"times": 0}, "times must be at least 1, not 0"),
        ({"seconds": -1}, "at least 0, not -1"),
    ],
)
async def test_a_hold_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    async with world() as (server, _, __):
        with pytest.raises(ValueError, match=message):
            server.hold(**arguments)
        with pytest.raises(UnknownSessionError):
            server.hold(session=5)


async def test_numbers_that_do_not_exist_are_refused() -> None:
    async with world() as (server, a, _):
        server.hold("request", op="create")
        await a.send(OpCode.CREATE, create("/a"))
        number = server.held()[0].number
        for call in (server.release, server.lose):
            with pytest.raises(ValueError, match=rf"no message 99 is held; there are: \[{number}\]"):
                call(number, 99)
        with pytest.raises(ValueError, match="there is no hold 99"):
            server.stop_holding(99)
        assert len(server.held()) == 1


def test_from_another_thread_over_a_socket() -> None:
    with EmbeddedServer() as server, WireClient((server.host, server.port)) as client:
        client.connect()
        server.hold("reply", op="create", times=1)
        client.send_together((OpCode.CREATE, create("/a"), 1), (OpCode.EXISTS, exists("/a"), 2))
        wait_until(lambda: len(server.held()) == 2)
        assert server.dump() == {"/a": b""}
        server.release()
        assert [client.receive_reply().xid for _ in range(2)] == [1, 2]


async def test_what_the_history_says_of_events_that_wait_is_bounded() -> None:
    async with open_server(clock="frozen") as server:
        client = await StreamClient(server.open_stream()).connect()
        await client.request(OpCode.ADD_WATCH, r.AddWatchRequest("/", 1))
        server.pause(client.session_id)
        for n in range(100):
            server.load({f"/n{n}": ""})
        [unsent] = server.running.gate.unsent.values()
        assert (len(unsent.first), unsent.count) == (32, 100)
        server.resume(client.session_id)
        assert len(server.history(kind="event")) == 32
        assert "and 68 more events" in [entry.text for entry in server.history(kind="connection")]
        server.pause(client.session_id)
        for n in range(100):
            server.load({f"/m{n}": ""})
        server.disconnect(client.session_id)
        [said] = [entry.text for entry in server.history() if "NEVER SENT" in entry.text]
        assert said.endswith(", and 94 more]")
