"""HTTP on the ports of ZooKeeper's clients."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trustme

from pyzk.server import open_server
from pyzk.server.testing import Controls, EmbeddedServer
from tests.server.control.client import JSON, ask
from tests.support.wire import ClosedError, StreamClient


@pytest.fixture
async def server() -> AsyncIterator[Controls]:
    async with open_server() as server:
        yield server


async def test_the_port_of_clients_answers_browsers_and_programs(server: Controls) -> None:
    status, page = await ask(server, "GET", "/")
    assert (status, "control API" in page) == (200, True)
    status, answer = await ask(server, "GET", "/api/v1/server")
    assert (status, json.loads(answer)["hosts"]) == (200, server.hosts)
    assert (await ask(server, "GET", "/commands/ruok"))[0] == 200
    assert "znode_count" in (await ask(server, "GET", "/metrics"))[1]
    assert json.loads((await ask(server, "GET", "/openapi.json"))[1])["openapi"] == "3.1.0"
    assert (await ask(server, "GET", "/nothing"))[0] == 404
    assert server.url == f"http://127.0.0.1:{server.port}/"


@pytest.mark.parametrize("pieces", [1, 3, 4, 5, 17])
async def test_a_request_may_come_in_pieces(server: Controls, pieces: int) -> None:
    body = json.dumps({"znodes": {"/a": "x"}}).encode()
    assert await ask(server, "POST", "/api/v1/tree", JSON, body, pieces=pieces) == (200, '{"loaded": 1}\n')
    assert server.dump() == {"/a": b"x"}


async def test_one_connection_serves_many_requests(server: Controls) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    for _ in range(3):
        assert (await ask(server, "GET", "/api/v1/clock", stream=stream))[0] == 200
    await stream.aclose()


async def test_clients_of_both_kinds_are_served_at_once(server: Controls) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    zookeeper = await StreamClient(stream).connect()
    assert (await zookeeper.create("/a")).err == 0
    session = f"0x{zookeeper.session_id:x}"
    assert (await ask(server, "POST", f"/api/v1/sessions/{session}/expire", JSON, b"{}"))[0] == 200
    with pytest.raises(ClosedError):
        await zookeeper.next()
    assert server.sessions() == []
    await stream.aclose()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
async def test_every_method_is_answered(server: Controls, method: str) -> None:
    assert (await ask(server, method, "/nothing"))[0] in (404, 405)


async def test_an_http_client_is_no_client_of_zookeeper(server: Controls) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    assert (await ask(server, "GET", "/", stream=stream))[0] == 200
    assert list(server.running.service.connections) == []
    assert server.history(kind="connection") == []
    assert server.running.engine.stats.connect_requests == 0, "no metric counts it as a client"
    await stream.aclose()
    zookeeper = await StreamClient(await trio.open_tcp_stream("127.0.0.1", server.port)).connect()
    told = [
        entry.text.partition(",")[0].partition(" from ")[0] for entry in server.history(kind="connection")
    ]
    assert told == ["opened", "new session"], "one that opened before its first bytes were known"
    assert server.running.engine.stats.connect_requests == 1
    await zookeeper.stream.aclose()


async def test_a_client_that_says_nothing_is_in_the_history_once_it_is_over() -> None:
    async with open_server(clock="frozen") as server:
        stream = server.open_stream()
        await trio.testing.wait_all_tasks_blocked()
        server.clock.advance(100)
        opened, closed = server.history(kind="connection")
        assert (opened.text, opened.time) == ("opened from 127.0.0.1:1", 0.0)
        assert "disconnected: no handshake" in closed.text
        await stream.aclose()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET /a b c HTTP/1.1\r\n\r\n", "refused, illegal request line"),
        (b"GET / HTTP/1.1\r\nhost: \x00\r\n\r\n", "refused, illegal header line"),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n", "GET /: refused, it is for 'evil.example'"),
        (b"GET /\x1b[2J HTTP/1.1\r\nhost: localhost\r\n\r\n", "refused, illegal request line"),
    ],
)
async def test_refused_input_is_told_with_its_reason(
    server: Controls, sent: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(sent)
    with trio.fail_after(10):
        assert (await stream.receive_some()).startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "pyzk.server")
    assert told in record.getMessage()
    assert "\x1b" not in record.getMessage()
    await stream.aclose()


async def test_it_can_be_switched_off() -> None:
    async with open_server(http_on_client_port=False) as server:
        assert server.url is None
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert await stream.receive_some() == b""
        await stream.aclose()


async def test_control_of_a_server_for_other_machines_needs_the_token() -> None:
    async with open_server(host="0.0.0.0") as server:
        status, answer = await ask(server, "GET", "/api/v1/sessions")
        assert (status, "control.token" in answer) == (403, True)
        assert (await ask(server, "GET", "/"))[0] == 200
    async with open_server(host="0.0.0.0", control_token="secret") as server:
        assert (await ask(server, "GET", "/api/v1/sessions"))[0] == 401
        token = {"authorization": "Bearer secret"}
        assert (await ask(server, "GET", "/api/v1/sessions", token))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "192.0.2.1:2181"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"referer": "http://evil.example/"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"user-agent": "Mozilla/5.0"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data"}, 415),
    ],
)
@pytest.mark.parametrize("target", ["/server/restart", "/sessions/{}/expire", "/tree"])
async def test_a_web_page_changes_nothing(
    server: Controls, headers: dict[str, str], status: int, target: str
) -> None:
    client = await StreamClient(server.open_stream()).connect()  # type: ignore[attr-defined]
    body = json.dumps({"keep_data": False} if "restart" in target else {"znodes": {"/a": "x"}}).encode()
    target = "/api/v1" + target.format(f"0x{client.session_id:x}")
    assert (await ask(server, "POST", target, {**JSON, **headers}, body))[0] == status
    assert len(server.sessions()) == 1
    assert server.dump() == {}


async def test_no_answer_lets_another_origin_in(server: Controls) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    preflight = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    assert (await ask(server, "OPTIONS", "/api/v1/tree", preflight, stream=stream))[0] == 403
    await stream.aclose()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [(bytes(4 * 2**20 + 1), JSON, 413), (b"{}", {**JSON, "x": "y" * 100_000}, 431)],
)
async def test_what_a_client_sends_is_bounded(
    server: Controls, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert (await ask(server, "POST", "/api/v1/tree", headers, body))[0] == status


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
        assert (await ask(server, "GET", "/api/v1/server", stream=stream))[0] == 200
        await trio.aclose_forcefully(stream)


def test_the_embedded_server_answers_too() -> None:
    async def main(server: EmbeddedServer) -> tuple[int, str]:
        return await ask(server, "POST", "/api/v1/clock/advance", JSON, b'{"seconds": 60}')

    with EmbeddedServer(clock="frozen") as server:
        assert trio.run(main, server) == (200, '{"seconds": 60.0, "frozen": true}\n')
        assert server.clock.now() == 60.0


IDLE = """
import sys, trio
from pyzk.server.config.settings import Settings
from pyzk.server.net.clock import Clock
from pyzk.server.app.serve import make_server

async def main():
    async with trio.open_nursery() as nursery:
        server = make_server(Settings(port=0), Clock())
        await nursery.start(server.run)
        for first, expected in ((b"ruok", False), (b"GET / HTTP/1.1\\r\\nhost: 127.0.0.1\\r\\n\\r\\n", True)):
            stream = await trio.open_tcp_stream(*server.address)
            await stream.send_all(first)
            assert await stream.receive_some()
            for module in ("h11", "pyzk.server.control.port", "pyzk.server.testing.controls"):
                assert (module in sys.modules) == expected, (module, expected)
        nursery.cancel_scope.cancel()

trio.run(main)
"""


def test_nothing_of_it_is_loaded_before_somebody_speaks_http() -> None:
    done: Any = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shut", "opened"),
    [("/server/pause", "/server/resume"), ("/connections/refuse", "/connections/accept")],
)
async def test_control_gets_through_where_clients_do_not(server: Controls, shut: str, opened: str) -> None:
    assert (await ask(server, "POST", f"/api/v1{shut}", JSON, b"{}"))[0] == 200
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    client = StreamClient(stream)
    with trio.move_on_after(0.05), pytest.raises(ClosedError):
        await client.connect()
    assert server.sessions() == []
    assert (await ask(server, "POST", f"/api/v1{opened}", JSON, b"{}", pieces=1))[0] == 200
    other = await trio.open_tcp_stream("127.0.0.1", server.port)
    assert (await (await StreamClient(other).connect()).create("/a")).err == 0
    await other.aclose()
    await stream.aclose()


async def test_control_survives_what_ends_all_connections(server: Controls) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    for target, body in (("/connections/disconnect", b"{}"), ("/server/restart", b'{"keep_data": false}')):
        assert (await ask(server, "POST", f"/api/v1{target}", JSON, body, stream=stream))[0] == 200
    assert (await ask(server, "POST", "/api/v1/reset", JSON, b"{}", stream=stream))[0] == 200
    await stream.aclose()
