"""The metrics for Prometheus (operator-surface.md section 3.1)."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyzk.server.monitoring.metrics import java_double, metrics
from pyzk.server.monitoring.prometheus import answer
from pyzk.server.net.http import Request, Response

from ...support.network import served, talk
from ...support.world import World


def ask(world: World, target: str = "/metrics", method: str = "GET") -> Response:
    return answer(Request(method, target), world.service, world.now)


def lines_of(world: World) -> list[str]:
    return ask(world).body.decode().splitlines()


def sample(world: World, name: str) -> str:
    (value,) = (line.rpartition(" ")[2] for line in lines_of(world) if line.startswith(f"{name} "))
    return value


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/metrics?name[]=x", 200),
        ("HEAD", "/metrics", 200),
        ("POST", "/metrics", 200),
        ("PUT", "/metrics", 405),
        ("TRACE", "/metrics", 403),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/commands", 404),
    ],
)
def test_the_url_and_the_methods(method: str, target: str, status: int) -> None:
    assert ask(World(), target, method).status == status


def test_the_format() -> None:
    response = ask(World())
    assert response.headers == {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
    families = list(text_string_to_metric_families(response.body.decode()))
    assert len(families) > 140


def test_names_of_release_3_9() -> None:
    world = World()
    lines = lines_of(world)
    for expected in (
        ["# HELP znode_count znode_count", "# TYPE znode_count gauge", "znode_count 5.0"],
        ["# HELP response_bytes response_bytes", "# TYPE response_bytes counter", "response_bytes 0.0"],
        [
            "# HELP fsynctime fsynctime",
            "# TYPE fsynctime summary",
            'fsynctime{quantile="0.5"} NaN',
            "fsynctime_count 0.0",
            "fsynctime_sum 0.0",
        ],
    ):
        start = lines.index(expected[0])
        assert lines[start : start + len(expected)] == expected
    ours = [line for line in lines if not re.search("python_|process_", line)]
    assert not [line for line in ours if "_total" in line]


def test_every_metric_of_mntr_is_there() -> None:
    world = World()
    names = {re.split("[{ ]", line)[0] for line in lines_of(world)}
    for key, _ in metrics(world.service, world.now):
        name = re.sub("^(avg|min|max|sum|cnt|p50|p95|p99|p999)_", "", key)
        assert {key, name} & names


def test_summaries_have_quantiles() -> None:
    world = World()
    for latency in range(1, 101):
        world.engine.stats.read_latency.add(latency)
    for key, value in {
        'readlatency{quantile="0.5"}': "50.0",
        'readlatency{quantile="0.9"}': "90.0",
        'readlatency{quantile="0.99"}': "99.0",
        "readlatency_count": "100.0",
        "readlatency_sum": "5050.0",
    }.items():
        assert sample(world, key) == value


def test_quotas_are_labelled_by_top_level_znode() -> None:
    world = World()
    peer = world.connect()
    peer.create("/a")
    for path, data in (
        ("/zookeeper/quota/a", b""),
        ("/zookeeper/quota/a/zookeeper_limits", b"count=5,bytes=-1"),
        ("/zookeeper/quota/a/zookeeper_stats", b"count=1,bytes=0"),
    ):
        assert peer.create(path, data).err == 0
    assert sample(world, 'quota_count_limit_per_namespace{key="a"}') == "5.0"
    assert sample(world, 'quota_count_usage_per_namespace{key="a"}') == "1.0"
    assert lines_of(world).count("# TYPE quota_bytes_limit_per_namespace gauge") == 1


def test_the_metrics_of_the_process_can_be_left_out() -> None:
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines_of(World()))
    without = lines_of(World(metrics_of_process=False))
    assert not any(line.startswith(("process_", "python_")) for line in without)


def test_mntr_uses_the_names_of_this_provider_while_it_is_on() -> None:
    world = World(metrics_port=0)
    rows = dict(line.split("\t") for line in world.open().exchange(b"mntr").decode().splitlines())
    assert rows["zk_server_state"] == "standalone"
    assert rows["zk_znode_count"] == "5.0"
    assert rows['zk_readlatency{quantile="0.5"}'] == "NaN"
    assert rows["zk_readlatency_sum"] == "0.0"
    assert "zk_avg_readlatency" not in rows
    assert not [key for key in rows if key.startswith(("zk_process_", "zk_python_"))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (2.25, "2.25"),
        (1 / 3, "0.3333"),
        (0.0001, "1.0E-4"),
        (0.00025, "3.0E-4"),
        (9_999_999, "9999999.0"),
        (10_000_000, "1.0E7"),
        (12_345_678.25, "1.234567825E7"),
        (-12_345_678, "-1.2345678E7"),
    ],
)
def test_numbers_are_printed_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.trio
async def test_over_http() -> None:
    async with served(metrics_port=0) as server:
        assert server.metrics_address is not None
        assert server.admin_address is None
        request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        answered = await talk(server.metrics_address, request)
        assert answered.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\nnum_alive_connections 0.0\n" in answered
