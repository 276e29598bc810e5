"""How a server writes its files: the log, when a snapshot is due, what is deleted, and who may write."""

from __future__ import annotations

import gc
import io
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.files.image import Image
from pyzk.protocol.files.snapshot import SnapshotReader
from pyzk.protocol.files.txnlog import FILE_HEADER, ErrorTxn, LogReader
from pyzk.protocol.operations import OpCode
from pyzk.server.config.settings import Settings
from pyzk.server.core.engine import Engine
from pyzk.server.core.txn import Refused
from pyzk.server.storage import entries, snapshots
from pyzk.server.storage import storage as storages
from pyzk.server.storage.building import build, collector_paused
from pyzk.server.storage.directory import DataDirectory, StorageError
from pyzk.server.storage.journal import Journal, JournalFailed
from pyzk.server.storage.snapshots import SnapshotWriter, export
from pyzk.server.storage.storage import Storage

from ...support.world import World


def storage_of(server: World) -> Storage:
    assert server.storage is not None
    return server.storage


def killed(server: World) -> None:
    storage_of(server).directory.close()
    server.engine.log.journal.close()  # type: ignore[union-attr]


# --- the directory -----------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    made = DataDirectory(tmp_path)
    made.open()
    yield made
    made.close()


def put(directory: DataDirectory, *names: str, size: int = 1) -> None:
    for name in names:
        (directory.folder / name).write_bytes(b"x" * size)


def test_a_directory_is_its_folder(tmp_path: Path) -> None:
    assert DataDirectory(tmp_path).folder == DataDirectory(tmp_path / "version-2").folder
    assert str(DataDirectory(tmp_path)) == str(tmp_path / "version-2")
    apart = DataDirectory(tmp_path / "a", tmp_path / "b")
    assert (apart.folder, apart.log_folder) == (tmp_path / "a" / "version-2", tmp_path / "b" / "version-2")


def test_the_sizes_are_those_of_each_kind(directory: DataDirectory) -> None:
    assert (directory.size("snapshot"), directory.size("log")) == (0, 0)
    put(directory, "snapshot.1", "snapshot.2", size=10)
    put(directory, "log.1", size=7)
    put(directory, "other", size=500)
    assert (directory.size("snapshot"), directory.size("log")) == (20, 7)


def test_the_last_snapshot_is_the_one_written_last(directory: DataDirectory) -> None:
    assert directory.last_snapshot() == (0, -1)
    put(directory, "snapshot.9", "snapshot.4")
    os.utime(directory.folder / "snapshot.9", (100, 100))
    os.utime(directory.folder / "snapshot.4", (200, 200))
    assert directory.last_snapshot() == (4, 200)


def test_a_new_log_is_for_its_owner_alone_and_is_appended_to(directory: DataDirectory) -> None:
    fd = directory.create_log(0x1F)
    path = directory.folder / "log.1f"
    os.write(fd, b"one")
    path.write_bytes(b"other")
    os.write(fd, b"two")
    os.close(fd)
    assert path.read_bytes() == b"othertwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not os.get_inheritable(directory._locks[0])


def test_what_is_set_aside_is_kept_in_folders_by_number(directory: DataDirectory) -> None:
    put(directory, "log.1", "log.2")
    assert directory.set_aside(["log.1"]) == "set-aside-1"
    put(directory, "log.1")
    assert directory.set_aside(["log.1", "log.2"]) == "set-aside-2"
    found = {str(path.relative_to(directory.folder)) for path in directory.folder.rglob("log*")}
    assert found == {"set-aside-1/log.1", "set-aside-2/log.1", "set-aside-2/log.2"}
    assert stat.S_IMODE((directory.folder / "set-aside-2").stat().st_mode) == 0o700
    assert directory.listing().logs == []


def test_a_file_without_a_name_is_no_snapshot_until_it_is_finished(directory: DataDirectory) -> None:
    with directory.unfinished() as (path, file), directory.unfinished() as (other, _):
        assert path != other
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        file.write(b"data")
        file.seek(0)
        assert file.read() == b"data"
        assert directory.listing().snapshots == []
        directory.finish(path, 0x2A, "gz")
        assert [name.text for name in directory.listing().snapshots] == ["snapshot.2a.gz"]
    assert sorted(os.listdir(directory.folder)) == ["snapshot.2a.gz"]


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (9, {"snapshot.0", "snapshot.3", "snapshot.6", "log.1", "log.3", "log.4", "log.7"}),
        (2, {"snapshot.3", "snapshot.6", "log.3", "log.4", "log.7"}),
        (1, {"snapshot.6", "log.4", "log.7"}),
    ],
)
def test_old_files_go_but_those_that_newer_snapshots_need(
    directory: DataDirectory, keep: int, left: set[str]
) -> None:
    every = {"snapshot.0", "snapshot.3", "snapshot.6", "log.1", "log.3", "log.4", "log.7"}
    put(directory, *every)
    assert set(directory.purge(keep)) == every - left
    assert set(os.listdir(directory.folder)) == left


def test_without_a_snapshot_no_log_goes(directory: DataDirectory) -> None:
    put(directory, "log.1", "log.5")
    assert directory.purge(3) == []
    assert set(os.listdir(directory.folder)) == {"log.1", "log.5"}


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path), DataDirectory(tmp_path)
    first.open()
    with pytest.raises(StorageError, match="another pyzk-server uses it"):
        second.open()
    assert second._locks == []
    first.close()
    first.close()
    second.open()
    second.close()


def test_a_file_in_the_wrong_directory_is_refused_and_the_locks_are_given_back(tmp_path: Path) -> None:
    for wrong, place in (("a/version-2/log.1", "b"), ("b/version-2/snapshot.1", "a")):
        apart = DataDirectory(tmp_path / "a", tmp_path / "b")
        apart.open()
        apart.close()
        (tmp_path / wrong).touch()
        with pytest.raises(
            StorageError, match=rf"must be in .*/{place}/version-2: logs have their own directory"
        ):
            apart.open()
        (tmp_path / wrong).unlink()
    apart.open()
    apart.close()


def test_a_file_that_cannot_be_read_refuses_the_start_and_gives_the_lock_back(tmp_path: Path) -> None:
    folder = tmp_path / "version-2"
    folder.mkdir()
    (folder / "snapshot.5").symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"cannot read .*snapshot\.5"):
            World(data=tmp_path)
    (folder / "snapshot.5").unlink()
    killed(World(data=tmp_path))


# --- the log -----------------------------------------------------------------------------------------------


def entry(zxid: int) -> bytes:
    return entries.of_other(7, bytes(4), zxid, 1000 + zxid, Refused(-101))


def found(directory: DataDirectory, name: str) -> list[tuple[int, int]]:
    with directory.read(name) as file:
        return [(each.zxid, each.txn.err) for each in LogReader(file).entries()]  # type: ignore[union-attr]


def test_each_zxid_gets_an_entry(directory: DataDirectory) -> None:
    journal = Journal(directory, 4)
    journal.write(4, 0)
    assert directory.listing().logs == [], "there is nothing to write"
    journal.add(entry(6))
    journal.add(entry(8))
    journal.write(9, 77)
    assert (journal.last, journal.count, journal.waiting) == (9, 5, [])
    assert journal.size == (directory.folder / "log.5").stat().st_size
    assert found(directory, "log.5") == [(5, -1), (6, -101), (7, -1), (8, -101), (9, -1)]
    with directory.read("log.5") as file:
        filled = next(iter(LogReader(file).entries()))
    assert (filled.session, filled.cxid, filled.time, filled.txn) == (0, 0, 77, ErrorTxn(-1))
    before = journal.size
    journal.add(entry(10))
    journal.write(10, 0)
    assert (journal.count, journal.size - before) == (6, len(entry(10)) + 13)
    journal.close()
    journal.close()
    assert (journal.count, journal.size, journal.last) == (0, 0, 10)
    journal.add(entry(11))
    journal.write(11, 0)
    assert found(directory, "log.b") == [(11, -101)]
    assert (journal.count, journal.size) == (1, len(FILE_HEADER) + len(entry(11)) + 13)
    journal.close()


def test_a_write_that_takes_a_part_goes_on_with_the_rest(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    journal = Journal(directory, 0)
    journal.add(entry(1))
    journal.write(1, 0)
    monkeypatch.undo()
    journal.close()
    assert found(directory, "log.1") == [(1, -101)]


def test_a_log_that_cannot_be_written_says_what_to_do(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    journal = Journal(directory, 0)
    journal.add(entry(1))
    with pytest.raises(
        JournalFailed, match=r"cannot write the log in .*: No space left on device; the server sends no more"
    ):
        journal.write(1, 0)
    assert (journal.last, journal.count, journal.size) == (0, 0, 0)
    monkeypatch.undo()
    with pytest.raises(
        JournalFailed, match="no longer written"
    ):  # what waited is gone: it is not passed over
        journal.write(1, 0)
    journal.close()


def test_the_packers_of_some_lengths_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_KEPT", 3)
    monkeypatch.setattr(entries, "_LONGEST", 10)
    packers = entries.Packers(">q4sq8s8s{}s4s{}si", lambda path, data: bytes([path, data]))
    (pack, head, length, size), data = packers.make(4, b"abc")
    assert (head, length, data) == (b"\4\3\0\0\0\4", b"\0\0\0\3", b"abc")
    assert len(pack(1, b"fram", 2, b"timetime", b"headhead", b"path", length, data, 5)) == size
    (_, head, length, _), data = packers.make(4, None)
    assert (head, length, data) == (b"\4\0\0\0\0\4", b"\xff\xff\xff\xff", b"")
    assert packers.by_length == {4: {3: packers.by_length[4][3]}}, "null has no length of its own"
    for path, size in ((10, 10), (11, 1), (1, 11), (5, 0)):
        packers.make(path, b"x" * size)
    assert {path: list(sizes) for path, sizes in packers.by_length.items()} == {4: [3], 10: [10], 5: [0]}
    packers.make(6, b"")
    assert {path: list(sizes) for path, sizes in packers.by_length.items()} == {6: [0]}
    packers.make(7, b"")
    packers.make(8, b"")
    assert len(packers.by_length) == 3
    packers.make(9, b"")
    assert list(packers.by_length) == [9]


# --- when --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "least"), [(20, 10), (21, 10), (3, 1), (2, 1)])
def test_a_snapshot_is_due_after_half_of_snap_count_and_as_many_again_at_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, least: int
) -> None:
    """As the real server: members of an ensemble do not write theirs at the same time."""
    drawn: list[int] = []
    more = 0

    def draw(below: int) -> int:
        drawn.append(below)
        return more

    monkeypatch.setattr(storages.random, "randrange", draw)
    server = World(data=tmp_path, snap_count=count)
    assert set(drawn) == {least}
    journal = server.engine.log.journal  # type: ignore[union-attr]
    for more in (0, least - 1):
        storage_of(server).write_snapshot()
        assert (journal.count, journal.size) == (0, 0)
        journal.count = least + more - 1
        assert not storage_of(server).is_due
        journal.count += 1
        assert storage_of(server).is_due
    killed(server)


def test_a_snapshot_is_due_when_the_log_is_large(tmp_path: Path) -> None:
    server = World(data=tmp_path, snap_count=1000, snap_size_limit=3)
    journal = server.engine.log.journal  # type: ignore[union-attr]
    journal.size = 3 * 1024 - 1
    assert not storage_of(server).is_due
    journal.size += 1
    assert storage_of(server).is_due
    killed(server)


@pytest.mark.parametrize("interval", [0, 1, 2])
def test_old_files_are_deleted_every_so_many_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, interval: int
) -> None:
    caplog.set_level(logging.INFO)
    clock = [1000.0]
    monkeypatch.setattr(storages.time, "monotonic", lambda: clock[0])
    server = World(data=tmp_path, purge_interval=3600 * interval, snap_retain_count=3)
    storage = storage_of(server)
    client = server.connect()
    names = iter(range(99))

    def old_ones() -> int:
        for _ in range(5):
            client.create(f"/{next(names)}")
            storage.write_snapshot()
        before = len(storage.directory.listing().snapshots)
        storage.purge()
        return before - len(storage.directory.listing().snapshots)

    assert old_ones() == 0
    clock[0] += 3600 * interval - 0.5
    assert old_ones() == 0
    caplog.clear()
    clock[0] += 0.5
    expected = 13 if interval else 0
    assert old_ones() == expected
    lines = [record.getMessage() for record in caplog.records if "old files" in record.getMessage()]
    assert len(lines) == bool(interval)
    assert old_ones() == 0
    clock[0] += 3600 * interval - 0.5
    assert old_ones() == 0
    clock[0] += 0.5
    storage.purge()
    assert len(storage.directory.listing().snapshots) == (3 if interval else 26)
    killed(server)


def test_what_waits_is_in_the_log_before_a_snapshot_begins(tmp_path: Path) -> None:
    server = World(data=tmp_path)
    client = server.connect()
    client.create("/a", b"")
    server.engine.handle(client.connection, OpCode.SET_DATA, bytes(8) + SET, 0)
    storage = storage_of(server)
    storage.write_snapshot()
    assert [name.text for name in storage.directory.listing().logs] == ["log.1"]
    with storage.directory.read("log.1") as file:
        assert [each.zxid for each in LogReader(file).entries()] == [1, 2, 3]
    client.create("/b")
    assert [name.text for name in storage.directory.listing().logs] == ["log.1", "log.4"]
    assert server.engine.stats.snapshot_time.count == 2, "that of the start, and this one"
    killed(server)


SET = r.SetDataRequest("/a", b"y", -1).encode()


def test_a_snapshot_that_cannot_be_written_is_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = World(data=tmp_path)
    server.connect()
    before = os.listdir(tmp_path / "version-2")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match=r"cannot write a snapshot in .*: No space left on device$"):
        storage_of(server).write_snapshot()
    assert server.engine.stats.snapshots.failed == 1
    assert server.engine.stats.snapshot_time.count == 1, "that of the start alone"
    assert sorted(os.listdir(tmp_path / "version-2")) == sorted(before)
    killed(server)


def test_what_was_loaded_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = World(data=tmp_path)
    assert (storage_of(server).entries_loaded, storage_of(server).load_time >= 0) == (0, True)
    client = server.connect()
    for number in range(4):
        client.create(f"/{number}", b"")
    killed(server)
    caplog.clear()
    again = World(data=tmp_path)
    assert storage_of(again).entries_loaded == 5
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        "8 znodes and 1 sessions at zxid 0x5, from snapshot.0 and 5 transactions of logs" in each
        for each in lines
    )
    names = [name.text for name in storage_of(again).directory.listing().snapshots]
    assert names == ["snapshot.0"], "nothing was wrong, so no other one is needed"
    killed(again)


# --- snapshots ---------------------------------------------------------------------------------------------


def test_a_snapshot_is_made_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_STEP", 3)
    monkeypatch.setattr(snapshots, "_SOME", 1000)
    server = World()
    client = server.connect(timeout=5000)
    for number in range(6):
        client.create(f"/{number}", b"")
    for number in range(3):
        client.create(f"/large-{number}", b"x" * 1001)
    body, target = io.BytesIO(), io.BytesIO()
    writer = SnapshotWriter(server.engine, body, target, 1500)
    counts = list(writer.steps())
    znodes = len(server.tree) - 1
    distinct = sorted(set(counts))
    assert distinct[:3] == [3, 6, 9], "so many in a step"
    assert distinct[-3:] == [znodes - 2, znodes - 1, znodes], "but a large one is the last of its step"
    pieces = -(-len(body.getvalue()) // 1500)
    assert counts[-pieces:] == [znodes] * pieces
    reader = SnapshotReader(io.BytesIO(target.getvalue()))
    assert len(list(reader.nodes())) == znodes
    assert reader.sessions == {client.session_id: 5000}
    assert reader.digest is not None


def test_an_export_needs_a_place_without_data(tmp_path: Path) -> None:
    server = World()
    server.connect().create("/a", b"x")
    path = export(server.engine, tmp_path / "new")
    assert path == tmp_path / "new" / "version-2" / f"snapshot.{server.zxid:x}"
    with pytest.raises(StorageError, match="already contains data; name another directory"):
        export(server.engine, tmp_path / "new")
    again = World(data=tmp_path / "new")
    assert again.tree.nodes["/a"].data == b"x"
    killed(again)


def test_an_export_that_fails_is_told_and_gives_the_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match=r"cannot write a snapshot in .*: No space left on device"):
        export(World().engine, tmp_path)
    monkeypatch.undo()
    export(World().engine, tmp_path)


@pytest.mark.parametrize("was_on", [True, False])
def test_a_tree_is_made_without_the_garbage_collector(was_on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
        build(Image.fresh())
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if before else gc.disable)()


def test_a_later_engine_is_empty_and_its_zxids_go_on(tmp_path: Path) -> None:
    first = World(data=tmp_path)
    client = first.connect()
    client.create("/a")
    storage = storage_of(first)
    first.engine.handle(client.connection, OpCode.SET_DATA, bytes(8) + SET, 0)
    under_way = storage.snapshot_steps()
    next(under_way)
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=0)
    assert engine.zxid == first.zxid == 3
    assert "/a" not in engine.tree.nodes
    assert len(engine.sessions) == 0
    assert list(under_way) == [], "it is given up: no log could make it right"
    with storage.directory.read("log.1") as file:
        assert [each.zxid for each in LogReader(file).entries()] == [1, 2, 3]
    assert [name.text for name in storage.directory.listing().snapshots] == ["snapshot.0", "snapshot.3"]
    storage.close()
    again = World(data=tmp_path)
    assert (again.zxid, "/a" in again.tree.nodes) == (3, False)
    killed(again)
