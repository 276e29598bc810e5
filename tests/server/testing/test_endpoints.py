"""Endpoints: addresses of one server, each with a network of its own."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import GetDataRequest
from pyzk.server import open_server
from pyzk.server.testing import EmbeddedServer
from tests.server.control.client import Api
from tests.support.wire import ClosedError, StreamClient


async def test_a_partition_lasts_however_often_the_client_connects_again() -> None:
    async with open_server(clock="frozen") as server:
        link = server.endpoint("worker-1")
        worker = await StreamClient(link.open_stream()).connect()
        other = await StreamClient(server.open_stream()).connect()
        await worker.create("/leader", flags=CreateMode.EPHEMERAL)
        link.cut()
        for _ in range(3):
            with pytest.raises(ClosedError):
                await StreamClient(link.open_stream()).connect()
        server.disconnect(other.session_id)
        other = await StreamClient(server.open_stream()).connect()  # who comes another way is served
        server.clock.advance(60, keep_alive=True)
        assert "/leader" not in server.dump()
        link.resume()
        await StreamClient(link.open_stream()).connect()


async def test_a_paused_endpoint_is_silent_to_old_and_new_connections() -> None:
    async with open_server(clock="frozen") as server:
        link = server.endpoint("worker-1")
        worker = await StreamClient(link.open_stream()).connect()
        other = await StreamClient(server.open_stream()).connect()
        await worker.create("/leader", flags=CreateMode.EPHEMERAL)
        link.pause()
        await worker.send(OpCode.GET_DATA, GetDataRequest("/leader", False))
        server.resume()  # of the server, which is another pause
        await other.create("/there")  # the others are served
        server.clock.advance(60, keep_alive=True)
        assert [each.id for each in server.sessions()] == [other.session_id]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(StreamClient(link.open_stream()).connect)
            await trio.testing.wait_all_tasks_blocked()
            assert len(server.sessions()) == 1
            link.resume()
        assert len(server.sessions()) == 2


async def test_a_slow_endpoint_takes_seconds_more() -> None:
    async with open_server(clock="frozen") as server:
        link = server.endpoint("worker-1")
        worker = await StreamClient(link.open_stream()).connect()
        other = await StreamClient(server.open_stream()).connect()
        link.delay(5)
        link.delay(2)  # in place of that
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.create, "/slow")
            await trio.testing.wait_all_tasks_blocked()
            await other.create("/fast")
            assert set(server.dump()) == {"/fast"}
            server.clock.advance(1.9)
            assert set(server.dump()) == {"/fast"}
            server.clock.advance(0.2)
        link.resume()
        await worker.create("/fast-again")
        lines = [entry.text for entry in server.history(kind="fault")]
        assert lines == ["endpoint worker-1: delayed: it will be applied and answered in 2 s"]


async def test_timelines_call_sessions_by_their_endpoint() -> None:
    async with open_server(clock="frozen") as server:
        link = server.endpoint("worker-1")
        assert repr(link) == f"<Endpoint worker-1 {link.hosts}>"
        await (await StreamClient(link.open_stream()).connect()).create("/here")
        server.expire("worker-1")
        assert "worker-1" in server.format_timeline()
        server.reset()
        link.cut()
        link.resume()
        named = await StreamClient(link.open_stream()).connect()
        assert server.running.names[named.session_id] == "worker-1"
        server.name_session("mine")
        other = await StreamClient(link.open_stream()).connect()
        assert server.running.names[other.session_id] == "mine"


async def test_a_reset_ends_what_was_done_to_endpoints() -> None:
    async with open_server(clock="frozen") as server:
        links = [server.endpoint(name) for name in ("a", "b", "c")]
        links[0].cut(), links[1].pause(), links[2].delay(3)
        server.restart(keep_data=True)
        api = Api(server)
        forms = (await api.get("/endpoints"))["endpoints"]
        assert [(each["cut"], each["paused"], each["delay"]) for each in forms] == [
            (True, False, 0),
            (False, True, 0),
            (False, False, 3),
        ]
        server.reset()
        for link in links:
            form = await api.get(f"/endpoints/{link.name}")
            assert (form["cut"], form["paused"], form["delay"]) == (False, False, 0)
            await (await StreamClient(link.open_stream()).connect()).create(f"/{link.name}")
        refused = await api.refused("POST", "/endpoints/x/cut")
        assert refused == (404, "there is no endpoint x; there are: a, b, c")


async def test_nothing_stands_in_the_way_without_an_endpoint() -> None:
    async with open_server(clock="frozen", record=False) as server:
        assert server.running.service.gate is None
        server.endpoint("worker-1")
        assert server.running.service.gate is not None
        with pytest.raises(ValueError, match="a name is a letter"):
            server.endpoint("no name")


@pytest.mark.parametrize("epoll", [True, False])
def test_an_endpoint_is_a_port_that_is_closed_with_the_server(
    monkeypatch: pytest.MonkeyPatch, epoll: bool
) -> None:
    if not epoll:
        monkeypatch.setattr("pyzk.server.net.server._HAS_HUB", False)
    with EmbeddedServer(clock="frozen") as server:
        link = server.endpoint("worker-1")
        assert link.port != server.port
        assert server.endpoint("worker-1").hosts == link.hosts
        with socket.create_connection((link.host, link.port)) as sock:
            sock.sendall(b"ruok")
            assert sock.recv(10) == b"imok"
        link.cut()
        with socket.create_connection((link.host, link.port)) as sock:
            sock.sendall(b"ruok")
            assert sock.recv(10) == b""
        ended = [entry.text for entry in server.history(kind="connection")]
        assert any(text.endswith("disconnected: the endpoint worker-1 is cut for now") for text in ended)
    with pytest.raises(ConnectionError):
        socket.create_connection((link.host, link.port))
    with server, pytest.raises(ValueError, match="has no endpoint worker-1"):
        link.cut()


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
async def test_a_delay_is_a_positive_number(seconds: float) -> None:
    async with open_server() as server:
        with pytest.raises(ValueError, match="a positive number of seconds"):
            server.endpoint("worker-1").delay(seconds)
