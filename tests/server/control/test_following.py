"""The trace, followed over HTTP."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
import trio
import trio.testing
import trustme

from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ExistsRequest
from pyzk.server import lines, open_server
from pyzk.server.app.serve import make_server
from pyzk.server.config.settings import Settings
from pyzk.server.control.api import answer
from pyzk.server.control.calls import following
from pyzk.server.net.clock import Clock
from pyzk.server.net.http import Request
from pyzk.server.testing.host import LocalServer
from tests.server.control.client import JSON, Api, ask
from tests.support.wire import StreamClient


class Follower:
    """A client that reads the trace line by line."""

    def __init__(self, stream: trio.abc.Stream, port: int) -> None:
        self.stream = stream
        self.headers: dict[str, str] = {}
        self._host = f"127.0.0.1:{port}"
        self._http = h11.Connection(h11.CLIENT)
        self._received = b""

    async def begin(self, query: str = "", method: str = "GET", **headers: str) -> int:
        """Ask for the trace; returns the status of the answer."""
        request = h11.Request(
            method=method, target=f"/api/v1/trace{query}", headers=[("host", self._host), *headers.items()]
        )
        await self.stream.send_all(self._http.send(request) or b"")
        await self.stream.send_all(self._http.send(h11.EndOfMessage()) or b"")
        event: Any = await self._event()
        assert isinstance(event, h11.Response)
        self.headers = {name.decode(): value.decode() for name, value in event.headers}
        return event.status_code

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self.stream.receive_some(65536)))
        return event

    async def line(self) -> str:
        while b"\n" not in self._received:
            event = await self._event()
            assert isinstance(event, h11.Data), "the trace has ended"
            self._received += event.data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    async def said(self) -> str:
        """What a line says behind the time, the client and the session."""
        return (await self.line())[54:].partition("  ")[0].strip()


@asynccontextmanager
async def follower(port: int, query: str = "", **headers: str) -> AsyncIterator[Follower]:
    with trio.fail_after(20):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        found = Follower(stream, port)
        assert await found.begin(query, **headers) == 200
        try:
            yield found
        finally:
            await trio.aclose_forcefully(stream)


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    async with open_server(initial_zxid=0) as server:
        yield server


async def connect(server: LocalServer) -> StreamClient:
    return await StreamClient(server.open_stream()).connect()


async def ended(server: LocalServer) -> None:
    """Return once nobody follows any more."""
    recorder = server.running.recorder
    with trio.fail_after(10):
        while recorder is not None and recorder.listeners:
            await trio.sleep(0.001)


async def test_what_happens_is_told_at_once(server: LocalServer) -> None:
    a = await connect(server)
    async with follower(server.port) as trace:
        assert trace.headers["content-type"] == "text/plain; charset=utf-8"
        assert trace.headers["transfer-encoding"] == "chunked"
        await a.create("/a", b"1")
        line = await trace.line()
        assert "127.0.0.1:1 " in line, "a client that was there before"
        assert line[54:] == "-> create /a '1'", "the first line, as no request of ours counts"
        assert (await trace.said()).startswith("<- create /a: ok")


async def test_filters(server: LocalServer) -> None:
    a, b = await connect(server), await connect(server)
    query = f"?op=create,delete&path=/**/x&session=0x{a.session_id:x}"
    async with follower(server.port, query) as trace:
        for path in ("/a", "/a/x"):
            await a.create(path)
            await a.exists(path)
        await b.create("/a/b")
        await b.create("/a/b/x")
        await a.delete("/a/x")
        told = [await trace.said() for _ in range(4)]
        assert [line.split()[1:3] for line in told if line.startswith("->")] == [
            ["create", "/a/x"],
            ["delete", "/a/x"],
        ]


async def test_json(server: LocalServer) -> None:
    a = await connect(server)
    async with follower(server.port, "?format=json&op=create") as trace:
        assert trace.headers["content-type"] == "application/x-ndjson"
        await a.create("/ä")
        request, reply = [json.loads(await trace.line()) for _ in range(2)]
        assert (request["kind"], request["op"], request["path"]) == ("request", "create", "/ä")
        assert reply["latency_ms"] > 0


@pytest.mark.parametrize("style", ["text", "json"])
async def test_as_events(server: LocalServer, style: str) -> None:
    a = await connect(server)
    async with follower(server.port, f"?format={style}&op=create", accept="text/event-stream") as trace:
        assert trace.headers["content-type"] == "text/event-stream"
        await a.create("/a\nb")
        for _ in range(2):
            line = await trace.line()
            assert line.startswith("data: ")
            assert "create" in line
            assert await trace.line() == "", "an empty line ends an event"


async def test_it_costs_nothing_before_and_after() -> None:
    async with trio.open_nursery() as nursery:
        server = make_server(Settings(port=0), Clock())
        await nursery.start(server.run)
        service, port = server.service, server.address[1]

        def is_watched() -> bool:
            return not (service.gate is service.engine.on_txn is service.engine.on_refusal is None)

        a = await StreamClient(await trio.open_tcp_stream(*server.address)).connect()
        assert not is_watched()
        async with follower(port) as first:
            async with follower(port, "?op=delete") as second:
                await a.create("/a")
                assert (await first.said()).startswith("-> create /a")
                await a.delete("/a")
                assert (await second.said()).startswith("-> delete /a")
            assert is_watched()
        with trio.fail_after(10):
            while is_watched():
                await trio.sleep(0.001)
        assert server.controls is not None
        running = server.controls.running
        assert running.recorder is None, "no history was recorded either"
        await a.create("/b")
        async with follower(port):
            await ask(server.controls, "GET", "/api/v1/sessions")
            assert running.records, "any other request wants the history"
            await a.create("/c")
        await ended(server.controls)
        assert is_watched()
        assert [entry.path for entry in server.controls.history(kind="request")] == ["/c"]
        await a.stream.aclose()
        nursery.cancel_scope.cancel()


async def test_nobody_waits_for_a_slow_reader(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_WAITING", 50_000)
    monkeypatch.setattr(following, "_PIECE", 1000)
    near, far = trio.testing.memory_stream_pair()
    a = await connect(server)
    slow = Follower(far, server.port)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.running.server._serve_http, near, "127.0.0.1", b"")
        assert await slow.begin("?format=json&op=exists") == 200
        reads_again, pump = trio.Event(), near.send_stream.send_all_hook
        near.send_stream.send_all_hook = reads_again.wait
        for _ in range(500):
            assert (await a.exists("/")).err == 0
        near.send_stream.send_all_hook = pump
        reads_again.set()
        lost, whole = 0, 0
        with trio.fail_after(20):
            while not lost:
                line = json.loads(await slow.line())
                lost = line.get("count", 0)
                whole += line["kind"] in ("request", "reply")
            await a.exists("/")
            assert [json.loads(await slow.line())["kind"] for _ in range(2)] == ["request", "reply"]
        assert whole + lost == 1000
        assert whole < 500
        nursery.cancel_scope.cancel()


async def test_wrong_requests_are_refused(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for query, status, detail in (
        ("?op=nonsense", 400, "unknown op"),
        ("?format=xml", 400, "format is one of text, json"),
        ("?colour=red", 400, "unknown colour"),
        ("?session=nobody", 400, "nobody"),
    ):
        answered, text = await ask(server, "GET", f"/api/v1/trace{query}")
        assert (answered, detail in text) == (status, True), text
    monkeypatch.setattr(following, "_MOST", 1)
    async with follower(server.port):
        assert (await ask(server, "GET", "/api/v1/trace"))[0] == 409
    await ended(server)
    async with follower(server.port):
        pass


async def test_a_head_request_begins_nothing(server: LocalServer) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    assert await Follower(stream, server.port).begin(method="HEAD") == 200
    assert server.running.recorder is not None
    assert server.running.recorder.listeners == []
    await stream.aclose()


async def test_what_a_follower_says_meanwhile_is_dropped(server: LocalServer) -> None:
    a = await connect(server)
    async with follower(server.port, "?op=create") as trace:
        await trace.stream.send_all(b"DELETE /api/v1/holds HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1000)
        await a.create("/a")
        assert (await trace.said()).startswith("-> create /a")
        assert (await ask(server, "GET", "/api/v1/holds"))[0] == 200


async def test_it_goes_on_over_what_a_test_does_to_the_server(server: LocalServer) -> None:
    async with follower(server.port, "?op=create") as trace:
        for target in ("/server/pause", "/server/resume", "/connections/disconnect", "/reset"):
            assert (await ask(server, "POST", f"/api/v1{target}", JSON, b"{}"))[0] == 200
        a = await connect(server)
        await a.create("/a")
        assert (await trace.said()).startswith("-> create /a")


async def test_it_ends_with_the_server() -> None:
    async with open_server() as server:
        answer = json.loads((await ask(server, "POST", "/api/v1/servers", JSON, b"{}"))[1])
        async with follower(answer["port"]) as trace:
            assert (await ask(server, "DELETE", f"/api/v1/servers/{answer['server']}", JSON))[0] == 200
            with pytest.raises((h11.RemoteProtocolError, trio.BrokenResourceError, AssertionError)):
                await trace.line()


async def test_over_tls() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with open_server(secure_port=0, ssl_context=context) as server:
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        assert server.secure_port is not None
        stream = await trio.open_ssl_over_tcp_stream(
            "127.0.0.1", server.secure_port, ssl_context=trusting, https_compatible=True
        )
        trace = Follower(stream, server.secure_port)
        assert await trace.begin("?op=create") == 200
        a = await connect(server)
        await a.create("/a")
        assert (await trace.said()).startswith("-> create /a")
        await trio.aclose_forcefully(stream)
        await ended(server)
        await a.stream.aclose()


async def test_control_of_a_server_for_other_machines_needs_the_token() -> None:
    async with open_server(host="0.0.0.0", control_token="secret") as server:
        assert (await ask(server, "GET", "/api/v1/trace"))[0] == 401
        async with follower(server.port, authorization="Bearer secret"):
            pass


async def test_a_reader_may_bound_what_it_costs(autojump_clock: trio.testing.MockClock) -> None:
    """With a rate of 100 the entries of 2 s come at once, then those of 0.25 s at a time, selected or not."""
    async with open_server(record=None, clock="frozen") as server:
        api, lines = Api(server), list[Any]()

        async def send(data: bytes) -> None:
            lines.extend(json.loads(line) for line in data.splitlines())

        client = await api.client()
        query = "/api/v1/trace?rate=100&format=json&path=/seen"
        response = await answer(api.control, Request("GET", query))
        assert response.stream is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(response.stream, send)
            await trio.testing.wait_all_tasks_blocked()
            for path in 99 * ["/other"] + 20 * ["/seen"]:
                await client.request(OpCode.EXISTS, ExistsRequest(path, False))
            before = trio.current_time()
            await trio.testing.wait_all_tasks_blocked()
            assert server.running.recorder is None, "no request costs more now"
            await trio.sleep(0.3)
            told = [(line["kind"], line.get("count")) for line in lines]
            assert told[:2] == [("request", None), ("reply", None)]
            [(kind, count)] = [line for line in told[2:] if line[0] not in ("request", "reply")]
            assert kind == "lost"
            assert 18 <= count + len(told) // 2 <= 20, "a request may be under way when the ration ends"
            assert "too many to show" in lines[-1]["text"]
            await client.request(OpCode.EXISTS, ExistsRequest("/seen", False))
            await trio.testing.wait_all_tasks_blocked()
            assert lines[-1]["kind"] != "lost"
            assert trio.current_time() - before < 1
            nursery.cancel_scope.cancel()
        assert (await api.ask("GET", "/trace?rate=0"))[0] == 400
