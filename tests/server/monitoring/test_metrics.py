"""Figures of mntr that count what happens seldom."""

from __future__ import annotations

from pathlib import Path

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ...support.world import World
from .asking import ask, operated


def mntr(world: World) -> dict[str, str]:
    lines = world.open().exchange(b"mntr").decode().splitlines()
    return dict(line.removeprefix("zk_").split("\t") for line in lines)


def test_the_sizes_of_responses() -> None:
    world = World()
    sizes = ("last_client_response_size", "min_client_response_size", "max_client_response_size")
    assert [mntr(world)[size] for size in sizes] == ["-1", "-1", "-1"]
    client = world.connect()
    client.create("/n", bytes(100))
    body = client.get("/n").body
    client.ping()
    assert [mntr(world)[size] for size in sizes] == ["16", "16", str(16 + len(body))]


def test_clients_that_go_without_a_word() -> None:
    world = World()
    gone, closed = world.connect(), world.connect()
    gone.connection.receive_eof()
    closed.close_session()
    closed.connection.receive_eof()
    assert mntr(world)["connection_drop_count"] == "1"


def test_large_requests() -> None:
    world = World(large_request_threshold=1000, large_request_max_bytes=1500)
    world.connect().send(OpCode.CREATE, r.CreateRequest("/n", bytes(2000), r.OPEN_ACL, 0))
    assert mntr(world)["large_requests_rejected"] == "1"


def test_snapshots_and_restores_over_http() -> None:
    world = operated()
    data = ask(world, "/commands/snapshot", auth="ip").body
    assert ask(world, "/commands/snapshot", auth="ip").status == 429
    assert ask(world, "/commands/restore", "POST", b"nonsense", auth="ip").status == 500
    assert ask(world, "/commands/restore", "POST", data, auth="ip").status == 429
    world.pass_time(400)
    assert ask(world, "/commands/restore", "POST", data, auth="ip").status == 200
    found = mntr(world)
    assert [found[f"cnt_{name}"] for name in ("snapshottime", "restore_time")] == ["1", "1"]
    assert found["snapshot_rate_limited_count"] == found["restore_rate_limited_count"] == "1"
    assert (found["snapshot_error_count"], found["restore_error_count"]) == ("0", "1")


def test_files(tmp_path: Path) -> None:
    first = World(data=tmp_path)
    client = first.connect()
    for number in range(5):
        client.create(f"/n{number}")
    assert mntr(first)["cnt_snapshottime"] == "1"
    assert first.storage is not None
    first.storage.close()
    found = mntr(world := World(data=tmp_path))
    assert (found["cnt_dbinittime"], found["sum_startup_txns_loaded"]) == ("1", "6")  # with the session
    stats = ask(world, "/commands/server_stats").body
    assert b'"data_dir_size": 0' not in stats
    assert b'"log_dir_size": 0' not in stats
