"""The commands snapshot and restore of the admin server, and what it says of files (files.md section 7)."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from pathlib import Path

import pytest

from pyzk.protocol.files.image import Image, ImageNode
from pyzk.protocol.files.snapshot import STAT, SnapshotReader
from pyzk.protocol.files.writing import encoded
from pyzk.protocol.records import OPEN_ACL
from pyzk.server.monitoring import admin
from pyzk.server.net.http import Request

from ...support.invariants import check_tree_invariants
from .asking import ask, operated


@pytest.mark.parametrize(("name", "method"), [("snapshot", "GET"), ("snap", "GET"), ("rest", "POST")])
def test_snapshots_need_credentials_and_can_be_switched_off(name: str, method: str) -> None:
    world = operated(admin_snapshot=False, admin_restore=False)
    assert ask(world, f"/commands/{name}", method).status == 401
    response = ask(world, f"/commands/{name}", method, auth="ip")
    assert response.status == 503
    assert json.loads(response.body)["error"] is None
    other = "POST" if method == "GET" else "GET"
    assert ask(world, f"/commands/{name}", other, auth="ip").status == 500


def test_a_snapshot_is_streamed_and_restored() -> None:
    world = operated()
    peer = world.connect()
    peer.create("/a", b"data")
    peer.create("/e", b"", flags=1)
    response = ask(world, "/commands/snapshot", auth="ip")
    data = response.body
    assert response.status == 200
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["last_zxid"] == f"0x{world.zxid:x}"
    assert response.headers["snapshot_size"] == str(len(data))
    assert data.startswith(b"ZKSN")
    zxid = world.zxid
    peer.set("/a", b"other")
    peer.create("/b")
    late = world.connect()
    restored = ask(world, "/commands/restore", "POST", data, "ip")
    assert (restored.status, json.loads(restored.body)) == (
        200,
        {"last_zxid": zxid, "command": "restore", "error": None},
    )
    assert world.tree.nodes["/a"].data == b"data"
    assert "/b" not in world.tree.nodes
    assert peer.closed
    assert late.closed
    assert world.engine.sessions.get(late.session_id) is None
    assert peer.reconnect().session_id == peer.session_id, "its session is in the snapshot"
    world.pass_time(60)
    assert "/e" not in world.tree.nodes, "sessions expire after a restore too"
    check_tree_invariants(world.tree)


def test_a_restore_leaves_the_configuration_as_it_is() -> None:
    """It tells of the servers, not of the data."""
    world = operated()
    before = world.connect().get("/zookeeper/config").body
    data = ask(world, "/commands/snapshot", auth="ip").body
    assert ask(world, "/commands/restore", "POST", data, "ip").status == 200
    assert world.connect().get("/zookeeper/config").body == before


def test_a_tree_goes_to_a_server_that_is_behind_and_no_zxid_falls_back() -> None:
    ahead, behind = operated(initial_zxid=1000), operated()
    ahead.connect().create("/a")
    data = ask(ahead, "/commands/snapshot", auth="ip").body
    assert ask(behind, "/commands/restore", "POST", data, "ip").status == 200
    assert behind.zxid > ahead.zxid
    assert "/a" in behind.tree.nodes


def test_how_large_a_snapshot_is_without_it() -> None:
    world = operated()
    response = ask(world, "/commands/snapshot?streaming=no", auth="ip")
    assert json.loads(response.body) == {"command": "snapshot", "error": None}
    assert int(response.headers["snapshot_size"]) > 400
    assert response.headers["last_zxid"] == f"0x{world.zxid:x}"


def test_a_snapshot_during_which_something_changes_is_made_again() -> None:
    world = operated()
    peer = world.connect()
    for number in range(300):
        peer.create(f"/{number}")
    request = Request("GET", "/commands/snapshot", {"authorization": "ip"})
    response = admin.answer(request, world.service, world.now)
    pieces: list[bytes] = []
    created = []
    for piece in response.rest:
        pieces.append(piece)
        if not piece:  # it is being made
            created.append(f"/later{len(pieces)}")
            peer.create(created[-1])
    with_all = SnapshotReader(io.BytesIO(b"".join(pieces)))
    paths = {node.path for node in with_all.nodes()}
    assert with_all.digest is not None
    assert f"0x{with_all.digest.zxid:x}" == response.headers["last_zxid"]
    assert created
    assert set(created) <= paths


def test_a_large_snapshot_is_not_made_in_one_piece() -> None:
    """Others wait while 100 MB are put together, and again while they are sent."""
    world = operated()
    peer = world.connect()
    for number in range(12):
        peer.create(f"/{number}", bytes(1_000_000))
    request = Request("GET", "/commands/snapshot", {"authorization": "ip"})
    sizes = [len(piece) for piece in admin.answer(request, world.service, world.now).rest]
    assert sum(sizes) > 12_000_000
    assert max(sizes) < 3_000_000


def test_what_is_no_snapshot_is_refused_and_the_tree_stays() -> None:
    world = operated()
    peer = world.connect()
    peer.create("/a")
    data = ask(world, "/commands/snapshot", auth="ip").body
    for body in (b"", b"x" * 100, data[:-70], data[:100] + b"y" + data[101:]):
        world.service.asked_at.clear()
        response = ask(world, "/commands/restore", "POST", body, "ip")
        assert (response.status, json.loads(response.body)["error"]) == (500, None)
    assert "/a" in world.tree.nodes
    assert not peer.closed


def bomb(znodes: int, size: int) -> bytes:
    """A small file that is a large snapshot."""
    image = Image.fresh()
    for number in range(znodes):
        image.nodes[f"/{number:04}"] = ImageNode(bytes(size), OPEN_ACL, STAT.pack(*[1] * 4, 0, 0, 0, 0, 1))
    return gzip.compress(b"".join(encoded(image)))


@pytest.mark.parametrize(
    ("znodes", "size", "said"),
    [(1, 100_000_000, "a znode of 100,000,000 bytes is too large"), (200, 500_000, "compressed too well")],
)
def test_what_unpacks_to_very_much_is_refused_before_it_is_unpacked(
    znodes: int, size: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = operated()
    world.connect().create("/a")
    body = bomb(znodes, size)
    assert len(body) < 200_000
    tracemalloc.start()
    try:
        response = ask(world, "/commands/restore", "POST", body, "ip")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (response.status, "/a" in world.tree.nodes) == (500, True)
    assert said in caplog.text
    assert peak < 50_000_000, "100,000,000 bytes are in it"


def test_the_rates_of_snapshots_and_restores_are_limited() -> None:
    world = operated()
    data = ask(world, "/commands/snapshot", auth="ip").body
    assert ask(world, "/commands/snapshot", auth="ip").status == 429
    world.now += 0.31
    assert ask(world, "/commands/snapshot", auth="ip").status == 200
    for status, seconds in ((200, 299), (429, 2), (200, 0)):
        assert ask(world, "/commands/restore", "POST", data, "ip").status == status
        world.now += seconds


def test_only_who_may_restore_sends_much() -> None:
    world = operated()
    for method, path, auth, most in (
        ("POST", "/commands/restore", "ip", 2**30),
        ("POST", "/commands/restore", None, 7),
        ("POST", "/commands/restore", "digest a:b", 7),
        ("POST", "/commands/shed", "ip", 7),
        ("POST", "/other", "ip", 7),
    ):
        headers = {} if auth is None else {"authorization": auth}
        request = Request(method, path, headers, peer="127.0.0.1")
        assert admin.body_limit(request, world.service, 7) == most


def test_where_data_is_kept_in_files_a_snapshot_is_written_and_a_restore_lasts(tmp_path: Path) -> None:
    world = operated(data=tmp_path)
    peer = world.connect()
    peer.create("/a")
    data = ask(world, "/commands/snapshot", auth="ip").body
    last = json.loads(ask(world, "/commands/lsnp").body)
    assert last["zxid"] == f"{world.zxid:x}"
    assert last["timestamp"] > 1_700_000_000
    peer.create("/b")
    assert ask(world, "/commands/restore", "POST", data, "ip").status == 200
    sizes = json.loads(ask(world, "/commands/dirs").body)
    assert min(sizes["datadir_size"], sizes["logdir_size"]) > 100
    assert json.loads(ask(world, "/commands/conf").body)["data_dir"] == str(tmp_path / "version-2")
    assert world.storage is not None
    world.storage.close()
    again = operated(data=tmp_path)
    assert {"/a", "/b"} & set(again.tree.nodes) == {"/a"}
    assert again.storage is not None
    again.storage.close()
