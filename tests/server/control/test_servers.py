"""A fresh server for each test, inside one process."""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from pyzk.server import open_server
from pyzk.server.control import serve_http
from pyzk.server.control.servers import Servers
from tests.server.control.client import Api
from tests.support.counting import CountingCalls
from tests.support.wire import StreamClient

MANY = 200
MOST_CALLS = 1000
"""Of Python functions, to start a server: less than 1 ms on a usual machine."""


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_server(clock="frozen") as server, trio.open_nursery() as nursery:
        api = Api(server)
        api.control.servers = Servers(nursery, serve_http)
        yield api
        nursery.cancel_scope.cancel()


async def client_of(server: dict[str, Any]) -> StreamClient:
    stream = await trio.open_tcp_stream("127.0.0.1", server["port"])
    return await StreamClient(stream).connect()


async def test_servers_come_and_go(api: Api) -> None:
    first = await api.post("/servers", config={"tickTime": 100}, clock="frozen", record=False)
    second = await api.post("/servers")
    assert first["hosts"] == f"127.0.0.1:{first['port']}"
    assert first["url"] == f"http://{first['hosts']}/"
    assert (await api.get("/servers"))["servers"] == [first, second]
    assert await api.get(f"/servers/{first['server']}") == first
    client = await client_of(first)
    await client.create("/a")
    assert [each.controls.dump() for each in api.control.servers.running.values()] == [{"/a": b""}, {}]  # type: ignore[union-attr]
    started = api.control.servers.running[first["server"]].controls  # type: ignore[union-attr]
    assert started.clock.frozen
    assert started.running.recorder is None
    assert started.running.service.settings.tick_time == 100
    assert (await api.ask("DELETE", f"/servers/{first['server']}"))[0] == 200
    with pytest.raises(OSError, match=r"refused|failed"):
        await client_of(first)
    assert (await api.refused("DELETE", f"/servers/{first['server']}"))[0] == 404
    await client.stream.aclose()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"config": {"tickTime": "x"}}, "tickTime"),
        ({"config": {"nonsense": 1}}, "there is no key 'nonsense'"),
        ({"config": {"ticktime": 100}}, "there is no key 'ticktime'; perhaps tickTime"),
        ({"ensmble": 3}, "unknown ensmble (perhaps ensemble); POST /servers has: config, clock"),
        ({"tick_time": 100}, "unknown tick_time (perhaps a key of config)"),
        ({"config": {"clientPortAddress": "0.0.0.0"}}, "loopback"),
        ({"config": {"clientPortAddress": "example.org"}}, "loopback"),
        ({"config": {"tickTime": "100\nclientPortAddress=0.0.0.0"}}, "one line"),
        ({"config": {"a\nclientPortAddress": "0.0.0.0"}}, "one line"),
        ({"config": {"tickTime": None}}, "one line"),
        ({"config": {"tickTime": [1]}}, "one line"),
        ({"clock": "slow"}, "frozen"),
    ],
)
async def test_bad_servers_are_refused(api: Api, fields: dict[str, Any], words: str) -> None:
    status, detail = await api.refused("POST", "/servers", **fields)
    assert (status, words in detail) == (400, True), detail
    assert await api.get("/servers") == {"servers": []}


async def test_a_hostile_server(api: Api) -> None:
    """Its children come in any order; seed 5 keeps the first connection for 100 requests."""
    server = await api.post("/servers", hostile=5)
    client = await client_of(server)
    for n in range(8):
        await client.create(f"/{n}")
    assert len({tuple((await client.children("/")).record.children) for _ in range(5)}) > 1
    await client.stream.aclose()


async def test_a_port_that_is_taken(api: Api) -> None:
    taken = (await api.post("/servers"))["port"]
    status, detail = await api.refused("POST", "/servers", config={"clientPort": taken})
    assert (status, str(taken) in detail) == (409, True), detail
    assert len((await api.get("/servers"))["servers"]) == 1


async def test_a_server_that_fails_takes_no_other_with_it(
    api: Api, monkeypatch: pytest.MonkeyPatch, tracebacks: list[str]
) -> None:
    number = (await api.post("/servers"))["server"]
    await api.post("/servers")
    started = api.control.servers.running[number]  # type: ignore[union-attr]

    async def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(started.controls.running.clock, "sleep_until", fail)
    started.controls.running.clock.wake()
    with trio.fail_after(60):
        await started.stopped.wait()
    assert any("server 1" in report for report in tracebacks)
    assert [each["server"] for each in (await api.get("/servers"))["servers"]] == [number + 1]


async def test_a_server_that_starts_no_others() -> None:
    async with open_server() as server:
        assert (await Api(server).refused("POST", "/servers"))[0] == 409


async def test_many_at_once_leave_nothing_behind(api: Api) -> None:
    await api.post("/servers")
    open_before, threads_before = len(os.listdir("/proc/self/fd")), threading.active_count()
    found: list[dict[str, Any]] = []

    async def start() -> None:
        found.append(await api.post("/servers", clock="frozen"))

    async with trio.open_nursery() as nursery:
        for _ in range(MANY):
            nursery.start_soon(start)
    assert len({server["port"] for server in found}) == MANY
    clients = [await client_of(server) for server in found]
    for client in clients:
        assert (await client.create("/a")).err == 0
    for client in clients:
        await client.stream.aclose()
    async with trio.open_nursery() as nursery:
        for server in found:
            nursery.start_soon(api.ask, "DELETE", f"/servers/{server['server']}")
    assert len((await api.get("/servers"))["servers"]) == 1
    assert len(os.listdir("/proc/self/fd")) <= open_before  # fewer: of a test before this one
    assert threading.active_count() <= threads_before


async def test_to_start_a_server_takes_few_calls(api: Api) -> None:
    counts = []
    for _ in range(5):
        with CountingCalls() as counted:
            number = (await api.post("/servers", clock="frozen"))["server"]
        counts.append(counted.calls)
        await api.ask("DELETE", f"/servers/{number}")
    assert statistics.median(counts) <= MOST_CALLS
