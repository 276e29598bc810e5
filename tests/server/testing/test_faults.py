"""What goes wrong with exactly one request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AUTH_XID, PING_XID, CreateMode, EventType
from pyzk.protocol.errors import NoNodeError, OperationTimeoutError, QuotaExceededError
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import CLIENTS, WRITES, OpCode
from pyzk.server import open_server
from pyzk.server.testing import Controls, FaultNeverFired
from pyzk.server.testing.operations import name_of

from ...support.wire import ClosedError, Reply, StreamClient, kinds
from .helpers import create


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[tuple[Controls, StreamClient]]:
    async with open_server(clock="frozen", **settings) as server:
        yield server, await StreamClient(server.open_stream()).connect()


async def connect(server: Controls) -> StreamClient:
    return await StreamClient(server.open_stream()).connect()


async def test_applied_reply_lost() -> None:
    async with world() as (server, a):
        with server.fault("create", "/a", when="after") as fault, pytest.raises(ClosedError):
            await a.create("/a")
        assert (fault.fired, fault.seen) == (1, 1)
        assert "/a" in server.dump()
        assert len(server.sessions()) == 1


async def test_lost_before_it_was_applied() -> None:
    async with world() as (server, a):
        with server.fault("create", "/a"), pytest.raises(ClosedError):
            await a.create("/a")
        assert server.dump() == {}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_dropped_reply_leaves_a_silent_connection(when: Any) -> None:
    async with world() as (server, a):
        with server.fault("create", "/a", when=when, action="drop_reply"):
            await a.send(OpCode.CREATE, create("/a"))
            await a.send(OpCode.CREATE, create("/b"))
        assert await a.is_silent()
        assert set(server.dump()) == ({"/a"} if when == "after" else set()), "it hears nothing more"
        assert server.sessions()[0].connected
        again = await StreamClient(server.open_stream()).connect(session_id=a.session_id, password=a.password)
        assert again.session_id == a.session_id
        with pytest.raises(ClosedError):
            await a.next()


@pytest.mark.parametrize(
    ("error", "code"), [(OperationTimeoutError, -7), (QuotaExceededError("/a"), -125), (-4, -4)]
)
async def test_an_error_instead(error: Any, code: int) -> None:
    async with world() as (server, a):
        before = (await a.exists("/")).zxid
        with server.fault("create", action="error", error=error):
            reply = await a.create("/a")
        assert (reply.err, reply.zxid, reply.body) == (code, before + 1, b"")
        with server.fault("exists", action="error", error=error):
            assert (await a.exists("/")).zxid == before + 1, "a read takes no zxid"
        assert server.dump() == {}
        assert (await a.create("/a")).err == 0


async def test_every_write_that_is_refused_takes_a_zxid() -> None:
    for op in OpCode:
        if op not in CLIENTS or op == OpCode.PING:
            continue
        async with world() as (server, a):
            before = server.running.engine.zxid
            with server.fault(name_of(op), action="error", error=OperationTimeoutError):
                reply = await a.request(op)
            assert (reply.err, reply.zxid) == (-7, before + (op in WRITES)), op.name


async def test_applied_but_answered_with_an_error() -> None:
    async with world() as (server, a):
        with server.fault("delete", when="after", action="error", error=NoNodeError):
            await a.create("/a")
            assert (await a.request(OpCode.DELETE, r.DeleteRequest("/a", -1))).err == -101
        assert server.dump() == {}


async def test_delayed_before_it_is_applied() -> None:
    async with world() as (server, a):
        b = await connect(server)
        with server.fault("create", "/a", action="delay", seconds=3) as fault:
            await a.send(OpCode.CREATE, create("/a"))
            await a.send(OpCode.EXISTS, r.ExistsRequest("/a", False))
            assert fault.fired == 1
            assert (await b.exists("/a")).err == -101
            server.clock.advance(2.9)
            assert await a.is_silent()
            server.clock.advance(0.1)
            assert (await b.exists("/a")).err == 0
        replies = [await a.next(), await a.next()]
        assert [reply.err for reply in replies if isinstance(reply, Reply)] == [0, 0]
        assert fault.seen == 1, "its second coming does not count"


async def test_the_reply_delayed() -> None:
    async with world() as (server, a):
        b = await connect(server)
        await a.exists("/late", watch=True)
        with server.fault("create", "/a", when="after", action="delay", seconds=3):
            await a.send(OpCode.CREATE, create("/a"))
            await a.send(OpCode.CREATE, create("/b"))
            assert set(server.dump()) == {"/a"}
            await b.create("/late")
            assert await a.is_silent()
            server.clock.advance(3)
        first, second, third = await a.next(), await a.next(), await a.next()
        assert isinstance(first, Reply), "later events come behind the reply"
        assert kinds([second]) == [(EventType.CREATED, "/late")]
        assert isinstance(third, Reply)
        assert set(server.dump()) == {"/a", "/b", "/late"}


async def test_a_delay_survives_its_with_and_a_disconnect() -> None:
    async with world() as (server, a):
        with server.fault("create", action="delay", seconds=3):
            await a.send(OpCode.CREATE, create("/a"))
        with server.fault("create", action="delay", seconds=5):
            b = await connect(server)
            await b.send(OpCode.CREATE, create("/b"))
        server.disconnect(b.session_id)
        server.clock.advance(10, keep_alive=True)
        assert server.dump() == {"/a": b""}
        assert isinstance(await a.next(), Reply)


async def test_only_the_meant_reply_is_lost() -> None:
    """Three requests in one segment: the first is answered, the second is lost, the third never happens."""
    async with world() as (server, a):
        requests = b"".join(a.encode(OpCode.CREATE, create(f"/{n}")) for n in (1, 2, 3))
        with server.fault("create", "/2", when="after"):
            await a.stream.send_all(requests)
        reply = await a.next()
        assert isinstance(reply, Reply)
        assert reply.xid == 1
        with pytest.raises(ClosedError):
            await a.next()
        assert set(server.dump()) == {"/1", "/2"}


HELLO = wire.hello(10_000)
AUTH = wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"a:b"), AUTH_XID)
SASL = wire.request(OpCode.SASL, r.GetSASLRequest(b""), 5)
GET = wire.request(OpCode.GET_DATA, r.GetDataRequest("/", False), 6)
CREATE = wire.request(OpCode.CREATE, create("/a"), 7)


@pytest.mark.parametrize("transport", ["memory", "tcp"])
@pytest.mark.parametrize("action", ["disconnect", "drop_reply"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("said", "heard"),
    [(b"", [0]), (AUTH, [0, AUTH_XID]), (SASL, [0, 5]), (GET, [0, 6]), (AUTH + GET, [0, AUTH_XID, 6])],
    ids=["hello", "auth", "sasl", "get", "auth and get"],
)
async def test_what_comes_before_in_the_same_packet_is_answered(
    said: bytes, heard: list[int], when: Any, action: Any, transport: str
) -> None:
    async with open_server() as server:
        with server.fault("create", when=when, action=action):
            stream = server.open_stream()
            if transport == "tcp":
                stream = await trio.open_tcp_stream(server.host, server.port)
            client = StreamClient(stream)
            await stream.send_all(HELLO + said + CREATE)
            with trio.fail_after(10):
                xids = [int.from_bytes((await client.next_frame())[:4], signed=True) for _ in heard]
        assert xids == heard
        await stream.aclose()


async def test_nth_and_times() -> None:
    async with world() as (server, a):
        with server.fault("create", nth=2, times=2, action="error", error=-7) as fault:
            errors = [(await a.create(f"/{n}")).err for n in range(5)]
        assert errors == [0, -7, -7, 0, 0]
        assert (fault.seen, fault.fired) == (5, 2)
        with server.fault("exists", times=None, action="error", error=-7) as fault:
            for _ in range(4):
                await a.exists("/")
        assert fault.fired == 4
        assert (await a.exists("/")).err == 0, "over with its `with`"


async def test_matching_by_session_and_path() -> None:
    async with world() as (server, a):
        b = await connect(server)
        server.load({"locks": {"x": {}}})
        with server.fault("create", "/locks/*", session=b.session_id, action="error", error=-7) as fault:
            assert (await a.create("/locks/1")).err == 0
            assert (await b.create("/other")).err == 0
            assert (await b.create("/locks/x/deep")).err == 0, "* stays within one name"
            assert (await b.exists("/locks/1")).err == 0
            assert (await b.create("/locks/2", flags=3)).err == -7
        assert fault.seen == 1
        with server.fault(path="/locks/**", action="error", error=-7):
            assert (await a.exists("/locks/x/deep")).err == -7


async def test_every_kind_of_create_is_a_create() -> None:
    async with world() as (server, a):
        with server.fault("create", times=3, action="error", error=-7) as fault:
            await a.request(OpCode.CREATE2, create("/a"))
            await a.request(OpCode.CREATE_CONTAINER, create("/a", 4))
            await a.request(OpCode.CREATE_TTL, r.CreateTTLRequest("/a", b"", r.OPEN_ACL, 5, 100))
        assert fault.fired == 3


async def test_a_multi_matches_by_any_path_in_it() -> None:
    async with world() as (server, a):
        body = encode_multi([MultiOp(OpCode.CREATE, create("/a")), MultiOp(OpCode.CREATE, create("/b"))])
        with server.fault("create", "/b", required=False) as fault:
            pass
        with server.fault("multi", "/b", when="after"), pytest.raises(ClosedError):
            await a.request(OpCode.MULTI, body)
        assert fault.fired == 0
        assert set(server.dump()) == {"/a", "/b"}


async def test_pings_are_not_meant_by_default() -> None:
    async with world() as (server, a):
        with server.fault(action="error", error=-7) as fault:
            await a.send(OpCode.PING)
            assert await a.next() == Reply(PING_XID, server.running.engine.zxid, 0, b"", OpCode.PING)
            assert fault.seen == 0
            assert (await a.exists("/")).err == -7


async def test_two_faults_at_once() -> None:
    async with world() as (server, a):
        with (
            server.fault("create", action="error", error=-7) as one,
            server.fault("create", nth=2, action="error", error=-8) as other,
        ):
            errors = [(await a.create(f"/{n}")).err for n in range(3)]
        assert errors == [-7, -8, 0]
        assert (one.seen, other.seen) == (3, 3)


async def test_closing_a_session() -> None:
    async with world() as (server, a):
        with server.fault("close_session", when="after"), pytest.raises(ClosedError):
            await a.request(OpCode.CLOSE_SESSION)
        assert server.sessions() == []
        b = await connect(server)
        with server.fault("close", action="drop_reply"):
            await b.send(OpCode.CLOSE_SESSION)
        assert len(server.sessions()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_session_ends_with_a_request(when: Any) -> None:
    async with world() as (server, a):
        other = await connect(server)
        await a.create("/own", flags=CreateMode.EPHEMERAL)
        with server.fault("create", when=when, action="expire"), pytest.raises(ClosedError):
            await a.create("/a")
        assert set(server.dump()) == ({"/a"} if when == "after" else set())
        assert [session.id for session in server.sessions()] == [other.session_id]
        assert "the session ends" in server.format_timeline(width=400)
        with server.fault("close", when="after", action="expire"), pytest.raises(ClosedError):
            await other.request(OpCode.CLOSE_SESSION)
        assert server.sessions() == []


async def test_a_fault_that_never_fired_fails_the_test() -> None:
    async with world() as (server, a):
        with pytest.raises(FaultNeverFired, match="no request came at all"), server.fault("create"):
            pass
        other = server.fault("create", "/b")
        seen = r"create on /b.*exists / \(2 times\), create /a/b \(1 times\); .* \*\* does"
        with pytest.raises(FaultNeverFired, match=seen), other:
            await _ask_for_others(a)
        second = server.fault("create", nth=2)
        with pytest.raises(FaultNeverFired, match="1 such requests came, but it waits for number 2"), second:
            await a.create("/a")
        with server.fault("create", required=False):
            pass


async def _ask_for_others(client: StreamClient) -> None:
    await client.exists("/")
    await client.exists("/")
    await client.create("/a/b")


async def test_the_bodys_own_error_comes_first() -> None:
    async with world() as (server, _):
        with pytest.raises(KeyError), server.fault("create"):
            raise KeyError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"op": "make"}, "unknown op 'make'; there are: .*create.*set_data"),
        ({"op": "auth"}, "not a request that passes the engine"),
        ({"op": ["create", "createSession"]}, "not a request that passes the engine"),
        ({"action": "explode"}, "when is 'before' or 'after', action is 'disconnect'"),
        ({"when": "during"}, "when is 'before' or 'after'"),
        ({"action": "error"}, "needs error="),
        ({"error": -7}, "no other action takes it"),
        ({"action": "error", "error": 5}, "neither a ZooKeeperError nor a negative error code"),
        ({"action": "error", "error": ValueError}, "neither"),
        ({"action": "delay"}, "needs seconds="),
        ({"seconds": 1}, "no other action takes it"),
        ({"action": "delay", "seconds": -1}, "at least 0, not -1"),
        ({"nth": 0}, "count from 1"),
        ({"times": 0}, "count from 1"),
    ],
)
async def test_nonsense_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    async with world() as (server, _):
        with pytest.raises(ValueError, match=message):
            server.fault(**arguments)


@pytest.mark.parametrize("op", ["getData", "get_data", "GETDATA", "get"])
async def test_spellings_of_an_operation(op: str) -> None:
    async with world() as (server, a):
        with server.fault(op, action="error", error=-7):
            assert (await a.request(OpCode.GET_DATA, r.GetDataRequest("/", False))).err == -7


@pytest.mark.parametrize("op", ["create2", "createContainer", "create_ttl"])
async def test_the_name_of_one_create_stands_for_all_of_them(op: str) -> None:
    async with world() as (server, a):
        with server.fault(op), pytest.raises(ClosedError):
            await a.create("/a")


async def test_without_faults_requests_go_straight_to_the_engine() -> None:
    async with open_server(record=False) as server:
        service = server.running.service
        engine = service.engine
        assert (service.gate, engine.on_txn) == (None, None)
        with server.fault("create", required=False):
            assert service.gate is server.running.gate
        assert service.gate is None
        server.pause()
        assert service.gate is server.running.gate
        server.resume()
        assert service.gate is None
        server.restart(keep_data=False)
        assert service.gate is None
        assert server.history() == []
        assert server.format_timeline() == "Nothing was recorded: record=False."


async def test_faults_without_a_recorder() -> None:
    async with world(record=False) as (server, a):
        with server.fault("create", "/a", when="after"), pytest.raises(ClosedError):
            await a.create("/a")
        assert "/a" in server.dump()
