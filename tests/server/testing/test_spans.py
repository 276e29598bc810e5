"""Spans of what clients ask, at a small collector."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kazoo.client import KazooClient

from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ExistsRequest
from pyzk.server import open_server
from pyzk.server.testing import EmbeddedServer, open_ensemble, spans
from pyzk.server.testing.spans import Exporter, Spans
from tests.support.wire import ClosedError, StreamClient, WireClient

pytest_plugins = "pytester"


class Collector:
    """Keeps what it gets.

    :ivar paths: of the requests.
    :ivar waits: each answer waits for it.
    """

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.paths: list[str] = []
        self.status = 200
        self.waits = threading.Event()
        self.waits.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.headers["content-type"] == "application/json"
                collector.paths.append(self.path)
                collector.documents.append(json.loads(body))
                collector.waits.wait()
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def spans(self) -> list[dict[str, Any]]:
        """All spans, each with the attributes of its own and of its resource."""
        return [
            span | {"resource": plain(each["resource"])} | plain(span)
            for document in self.documents
            for each in document["resourceSpans"]
            for span in each["scopeSpans"][0]["spans"]
        ]


def plain(form: dict[str, Any]) -> dict[str, str]:
    return {each["key"]: next(iter(each["value"].values())) for each in form["attributes"]}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    thread = threading.Thread(target=found.http.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.waits.set()
    found.http.shutdown()
    thread.join()
    found.http.server_close()


def test_an_unmodified_client(collector: Collector) -> None:
    with EmbeddedServer(otlp=collector.url) as server:
        server.name_session("worker")
        client = KazooClient(server.hosts, timeout=30)
        client.start(timeout=30)
        client.create("/here", b"secret")
        assert client.exists("/nowhere") is None
        session = server.sessions()[0].id
        client.stop()
        client.close()
    assert set(collector.paths) == {"/v1/traces"}
    spans = {span["name"]: span for span in collector.spans}
    created = spans["create"]
    assert created["resource"]["service.name"] == "worker"
    assert created["resource"]["zookeeper.session"] == f"0x{session:x}"
    assert created["client.address"].startswith("127.0.0.1:")
    assert (created["zookeeper.path"], created["db.operation.name"]) == ("/here", "create")
    assert int(created["startTimeUnixNano"]) <= int(created["endTimeUnixNano"])
    assert (len(created["traceId"]), len(created["spanId"]), created["status"]) == (32, 16, {})
    assert spans["exists"]["status"] == {"code": 2, "message": "NoNodeError"}
    assert {"session begins", "session closed"} <= spans.keys()
    assert "secret" not in json.dumps(collector.documents)


async def test_events_link_to_their_cause(collector: Collector) -> None:
    exporter = Exporter(collector.url)
    async with open_server(clock="frozen") as server:
        Spans(server.running, exporter)
        watcher = await StreamClient(server.open_stream()).connect()
        await watcher.send(OpCode.EXISTS, ExistsRequest("/here", True))
        await watcher.next()
        other = await StreamClient(server.open_stream()).connect()
        await other.create("/here")
        with server.fault("create", "/lost"), pytest.raises(ClosedError):
            await other.create("/lost")
    exporter.close()
    spans = collector.spans
    (event,) = [span for span in spans if span["name"] == "watch event: created"]
    (created,) = [span for span in spans if span["name"] == "create" and not span["status"]]
    assert event["links"] == [{"traceId": created["traceId"], "spanId": created["spanId"]}]
    assert event["resource"]["zookeeper.session"] == f"0x{watcher.session_id:x}"
    ids = [span["spanId"] for span in spans]
    assert len(ids) == len(set(ids))


async def test_a_slow_collector_holds_nobody_up(collector: Collector) -> None:
    collector.waits.clear()
    exporter = Exporter(collector.url, most=10)
    async with open_server(clock="frozen") as server:
        spans = Spans(server.running, exporter)
        client = await StreamClient(server.open_stream()).connect()
        for number in range(100):
            await client.create(f"/{number}")
        spans.stop()
        await client.create("/unheard")
    assert exporter.dropped > 0
    collector.waits.set()
    exporter.close()
    assert exporter.sent + exporter.dropped == 101  # and the beginning of the session
    assert "/unheard" not in json.dumps(collector.documents)


async def test_a_collector_that_refuses(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.status = 503
    exporter = Exporter(f"{collector.url}/else/where")
    async with open_server(clock="frozen") as server:
        Spans(server.running, exporter)
        await StreamClient(server.open_stream()).connect()
    exporter.close()
    assert collector.paths == ["/else/where"]
    assert (exporter.sent, exporter.dropped) == (0, 1)
    assert "it answers 503" in caplog.text


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://there", "http://"])
def test_what_is_no_collector(url: str) -> None:
    with pytest.raises(ValueError, match="the URL of a collector must be like"):
        Exporter(url)


def test_no_password_is_shown() -> None:
    with pytest.raises(ValueError, match="leave out the user and the password") as refused:
        Exporter("http://me:hidden@127.0.0.1:4318")
    assert "hidden" not in str(refused.value)


async def test_a_query_is_sent_and_not_logged(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.status = 503
    exporter = Exporter(f"{collector.url}/v1/traces?key=hidden")
    async with open_server(clock="frozen") as server:
        Spans(server.running, exporter)
        await StreamClient(server.open_stream()).connect()
    exporter.close()
    assert collector.paths == ["/v1/traces?key=hidden"]
    assert "spans are lost" in caplog.text
    assert "hidden" not in caplog.text


async def test_the_oldest_requests_without_a_reply_are_forgotten(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "_MOST_OPEN", 2)
    exporter = Exporter(collector.url)
    async with open_server(clock="frozen") as server:
        Spans(server.running, exporter)
        server.hold("reply")
        first, second = [await StreamClient(server.open_stream()).connect() for _ in range(2)]
        for client in (first, second, second):
            await client.send(OpCode.EXISTS, ExistsRequest("/here", False))
        server.disconnect(first.session_id)
        server.disconnect(second.session_id)
    exporter.close()
    left = [span for span in collector.spans if span["name"] == "exists"]
    assert {span["resource"]["zookeeper.session"] for span in left} == {f"0x{second.session_id:x}"}
    assert ["no reply" in span["status"]["message"] for span in left] == [True, True]


async def test_a_server_and_an_ensemble_in_trio(collector: Collector) -> None:
    async with open_server(otlp=collector.url) as server:
        await StreamClient(server.open_stream()).connect()
    async with open_ensemble(otlp=collector.url) as ensemble:
        await StreamClient(ensemble[1].open_stream()).connect()
    begun = [span for span in collector.spans if span["name"] == "session begins"]
    assert [span.get("zookeeper.server", "") for span in begun] == ["", "3"]  # its leader


async def test_a_session_begins_once_where_servers_lag(collector: Collector) -> None:
    async with open_ensemble(clock="frozen", otlp=collector.url) as ensemble:
        ensemble.lag(1)
        await StreamClient(ensemble[2].open_stream()).connect()
        ensemble.advance(1)
        ensemble.catch_up(1)
        steps = [entry.facts.step for entry in ensemble.history() if entry.kind == "session"]
    assert steps == ["begins", "begins"]  # at server 1, a second later
    assert [span["name"] for span in collector.spans].count("session begins") == 1


@pytest.mark.parametrize("opening", [open_server, open_ensemble])
async def test_a_wrong_collector_is_refused(opening: Any) -> None:
    with pytest.raises(ValueError, match="the URL of a collector must be like http://"):
        async with opening(otlp="there"):
            pass
    with pytest.raises(TypeError, match="otlp must be"):
        opening(otlp=4318)


def test_fixtures(collector: Collector, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pyzk.server.testing import factories

        quiet_server = factories.zk_server(otlp=None)
        quiet_client = factories.zk_client("quiet_server")
        ensemble_client = factories.zk_client("zk_ensemble")

        def test_it(zk_client, ensemble_client, quiet_client):
            pass
        """
    )
    pytester.runpytest("--zk-otlp", collector.url).assert_outcomes(passed=1)
    begun = [span for span in collector.spans if span["name"] == "session begins"]
    assert sorted("zookeeper.server" in span for span in begun) == [False, True]


@pytest.mark.parametrize("flags", [[], ["--ensemble", "3"]])
def test_the_command(collector: Collector, flags: list[str]) -> None:
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0", "--otlp", collector.url, *flags]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split()[0].split(",")[0])
        with WireClient(("127.0.0.1", port)) as client:
            client.connect()
            client.create("/here")
        process.terminate()
        assert process.wait(60) == 0
    names = [span["name"] for span in collector.spans]
    assert names.count("create") == 1
    assert names.count("session begins") == 1
    ids = [span["spanId"] for span in collector.spans]
    assert len(ids) == len(set(ids))
