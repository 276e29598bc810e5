"""Snapshots that are written while clients write (files.md sections 2.1 and 4.1); files that are too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyzk.protocol.files.snapshot import SnapshotReader
from pyzk.protocol.operations import OpCode
from pyzk.server.storage import snapshots
from pyzk.server.storage.directory import StorageError
from pyzk.server.storage.snapshots import export
from pyzk.server.testing import tree_io

from ...support.histories import Run
from ...support.requests import create_op, set_op
from ...support.world import World
from .files import SET, all_entries, killed, read, sizes_when_named, world, write_meanwhile


def test_a_snapshot_written_while_the_tree_changes_has_the_digest_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # files.md section 2.1
    run = Run(world(tmp_path, tree_digest=True))
    write_meanwhile(run, monkeypatch)
    storage = run.world.storage
    assert storage is not None
    name = storage.directory.listing().snapshots[-1]
    with storage.directory.read(name.text) as file:
        reader = SnapshotReader(file)
        assert len(list(reader.nodes())) > 10
    assert reader.last_zxid == name.zxid
    assert reader.digest is not None
    zxid, digest = reader.digest
    assert name.zxid < zxid <= run.world.zxid
    logged = {entry.zxid: entry.digest for entry in all_entries(tmp_path)}
    assert logged[zxid] == digest
    killed(run.world)  # before anything more is written
    told: list[str] = []
    read(tmp_path, told)
    assert told == []
    again = world(tmp_path, tree_digest=True)
    again.connect().create("/later")
    assert again.storage is not None
    again.storage.write_journal()
    read(tmp_path, told)
    assert told == []
    killed(again)


def test_the_log_goes_as_far_as_the_digest_of_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another transaction could get the zxid of the digest after a kill."""
    monkeypatch.setattr(snapshots, "_STEP", 1)
    run = Run(world(tmp_path, tree_digest=True))
    for letter in "abc":
        run.peer(0).create(f"/{letter}")
    storage, engine = run.world.storage, run.world.engine
    assert storage is not None
    for _ in storage.snapshot_steps():  # entered, and not written as long as nobody is answered
        engine.handle(run.peer(0).connection, OpCode.SET_DATA, bytes(8) + SET, 0)
    name = storage.directory.listing().snapshots[-1]
    with storage.directory.read(name.text) as file:
        reader = SnapshotReader(file)
        assert list(reader.nodes())
    assert reader.digest is not None
    assert max(entry.zxid for entry in all_entries(tmp_path)) >= reader.digest.zxid > name.zxid
    killed(run.world)


def test_a_znode_that_no_server_would_read_is_not_read(tmp_path: Path) -> None:
    run = Run(world(tmp_path, max_buffer=2_000_000))
    tree_io.load(run.world.engine, {"/large": b"x" * 3_000_000}, 0)
    with pytest.raises(ValueError, match=r"could not be read again; raise jute\.maxbuffer"):
        tree_io.load(run.world.engine, {"/larger": b"x" * 4_000_001}, 0)
    storage = run.world.storage
    assert storage is not None
    storage.write_snapshot()
    for log in (tmp_path / "version-2").glob("log.*"):
        log.unlink()
    killed(run.world)
    with pytest.raises(StorageError, match=r"3,000,000 bytes is too large: set jute\.maxbuffer=1500000"):
        world(tmp_path, max_buffer=1_400_000)
    again = world(tmp_path, max_buffer=1_500_000)
    assert len(again.tree.nodes["/large"].data or b"") == 3_000_000
    killed(again)


@pytest.mark.parametrize("name", ["log.1", "snapshot.1"])
def test_a_file_without_an_end_is_not_read(tmp_path: Path, name: str) -> None:
    """A device was read for ever, and a pipe waited for."""
    folder = tmp_path / "version-2"
    run = Run(world(tmp_path, initial_zxid=0))
    run.peer(0).create("/a")
    killed(run.world)
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo):
        place = folder / name
        place.unlink(missing_ok=True)
        make(place)
        with pytest.raises(StorageError, match=f"cannot read .*{name}: it is not a regular file"):
            world(tmp_path)


def test_an_export_is_whole_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds it, after a kill too, can read it."""
    sizes = sizes_when_named(monkeypatch)
    server = World()
    server.connect().create("/a", b"x" * 1000)
    path = export(server.engine, tmp_path)
    assert sizes == [path.stat().st_size]
    assert sizes[0] > 1000


def test_entries_have_the_time_of_their_transactions(tmp_path: Path) -> None:
    server = world(tmp_path)
    client = server.connect()
    for number in range(3):
        for act in (
            lambda: client.create(f"/a{number}"),  # noqa: B023
            lambda: client.set(f"/a{number}", b"x"),  # noqa: B023
            lambda: client.multi(create_op(f"/m{number}")),  # noqa: B023
            lambda: client.delete(f"/a{number}"),  # noqa: B023
            lambda: client.delete("/none"),
        ):
            server.pass_time(1.25)
            act()
    assert server.storage is not None
    server.storage.write_journal()
    times = {txn.zxid: txn.time for txn in server.txns}
    found = {entry.zxid: entry.time for entry in all_entries(tmp_path)}
    assert found == times
    assert len(set(found.values())) >= 15
    killed(server)


@pytest.mark.parametrize("data", [None, b"", b"x"])
def test_no_data_is_not_empty_data(tmp_path: Path, data: bytes | None) -> None:
    server = world(tmp_path)
    client = server.connect()
    for path in ("/alone", "/part"):
        client.create(path, b"before")
    client.set("/alone", data)
    client.multi(set_op("/part", data), create_op("/behind"))
    assert server.storage is not None
    server.storage.write_journal()
    tree, _, _ = read(tmp_path)
    assert [tree.nodes[path].data for path in ("/alone", "/part")] == [data, data]
    assert "/behind" in tree.nodes
    killed(server)
