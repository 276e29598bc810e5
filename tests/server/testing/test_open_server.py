"""The server in the test's own trio run."""

from __future__ import annotations

import itertools
import socket

import pytest
import trio
import trio.testing

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.testing import Controls

from ...support.wire import ClosedError, StreamClient


async def test_sessions_expire_in_no_real_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_server() as server:
        a = await StreamClient(server.open_stream()).connect(timeout=30_000)
        started = trio.current_time()
        with pytest.raises(ClosedError):
            await a.next()
        assert 30 < trio.current_time() - started <= 32.1


async def test_tcp_clients_are_served_too() -> None:
    async with open_server() as server:
        stream = await trio.open_tcp_stream(server.host, server.port)
        async with stream:
            a = await StreamClient(stream).connect()
            await a.create("/a")
            assert server.dump() == {"/a": b""}
            server.expire(a.session_id)
            with pytest.raises(ClosedError):
                await a.next()
    with pytest.raises(OSError, match=r"\w"):
        await trio.open_tcp_stream(server.host, server.port)


@pytest.mark.parametrize("record", [True, False])
async def test_a_request_that_takes_long_is_answered_without_a_socket_too(record: bool) -> None:
    async with open_server(record=record) as server:
        server.running.service.stopwatch = itertools.count(
            0.0, 1.0
        ).__next__  # each turn is over with its first step
        a = await StreamClient(server.open_stream()).connect()
        paths = [f"/n{number}" for number in range(1000)]
        assert (await a.request(OpCode.SET_WATCHES, r.SetWatches(0, [], paths, []))).err == 0
        assert len(server.sessions()[0].watches) == 1000


async def test_the_bodys_error_comes_out_as_it_is() -> None:
    for error in (ZeroDivisionError, KeyboardInterrupt, pytest.skip.Exception):
        with pytest.raises(error):
            async with open_server():
                raise error


async def test_a_server_that_dies_ends_the_body() -> None:
    async def bug(deadline: float) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        async with open_server() as server:
            server.running.clock.sleep_until = bug  # type: ignore[method-assign]
            server.running.clock.wake()
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as info:
        await run()
    assert info.group_contains(ZeroDivisionError)


async def test_cancelling_the_body() -> None:
    with trio.move_on_after(0.01) as scope:
        async with open_server():
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_an_address_that_cannot_be_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        async with open_server(port=taken.getsockname()[1]):
            pass


async def test_many_requests_in_one_send() -> None:
    async with open_server() as server:
        a = await StreamClient(server.open_stream()).connect()
        for n in range(1000):
            await a.send(OpCode.CREATE, r.CreateRequest(f"/{n}", bytes(100), r.OPEN_ACL, 0))
        assert len(server.dump()) == 1000
        for _ in range(1000):
            await a.next()
        await a.send(OpCode.GET_CHILDREN, r.GetChildrenRequest("/", False))
        assert await a.next()


async def test_output_that_is_not_taken_stops_the_input() -> None:
    async with open_server() as server:
        server.load({"/big": bytes(100_000)})
        a = await StreamClient(server.open_stream()).connect()
        for _ in range(200):
            await a.send(OpCode.GET_DATA, r.GetDataRequest("/big", False))
        for _ in range(200):
            assert await a.next()


async def test_the_stream_keeps_trios_rules() -> None:
    async with open_server() as server:
        stream = server.open_stream()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect_closed, stream)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await stream.receive_some()
            await stream.wait_send_all_might_not_block()
            await stream.aclose()
        await stream.aclose()
        for use in (stream.receive_some, stream.send_eof, stream.wait_send_all_might_not_block):
            with pytest.raises(trio.ClosedResourceError):
                await use()
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")
        with pytest.raises(ValueError, match="at least 1"):
            await server.open_stream().receive_some(0)


async def _expect_closed(stream: trio.abc.ReceiveStream) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()


async def test_eof_from_the_client() -> None:
    async with open_server() as server:
        stream = server.open_stream()
        a = await StreamClient(stream).connect()
        await a.send(OpCode.PING)
        await stream.send_eof()
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")
        assert await a.next(), "what was answered already still comes"
        assert await stream.receive_some(1) == b""
        assert not server.sessions()[0].connected


async def test_a_fault_must_not_wait_in_the_servers_own_thread() -> None:
    async with open_server() as server:
        with server.fault("create", required=False) as fault, pytest.raises(RuntimeError, match="fired"):
            fault.wait()


async def test_two_servers_side_by_side() -> None:
    async with open_server() as one, open_server() as other:
        assert one.port != other.port
        one.load({"a": "1"})
        assert other.dump() == {}
        assert isinstance(other, Controls)


async def test_virtual_time_passes_with_any_tick(autojump_clock: trio.testing.MockClock) -> None:
    """Ticks are no whole numbers of seconds: rounding must never make the next one the present."""
    async with open_server(tick_time=100):
        with trio.move_on_after(120):
            await trio.sleep_forever()
    assert trio.current_time() >= 120


async def test_what_was_recorded_can_be_asked_for_afterwards() -> None:
    async with open_server() as server:
        a = await StreamClient(server.open_stream()).connect()
        await a.create("/a")
        recorded = server.history(kind="reply")
    assert recorded
    assert server.history(kind="reply") == recorded
    assert server.dump() == {"/a": b""}
    server.format_timeline()
