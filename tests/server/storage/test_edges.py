"""The numbers of the storage at their edges: what just fits and what is one too many, and what is counted."""

from __future__ import annotations

import gzip
import io
import logging
import os
import sys
import zlib
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pyzk.protocol.files.digest import LIST, LISTED
from pyzk.protocol.files.image import Image, ImageNode
from pyzk.protocol.files.snapshot import STAT
from pyzk.protocol.files.streams import COMPRESSIONS, FileError
from pyzk.protocol.files.txnlog import LogReader, encode
from pyzk.protocol.files.writing import encoded
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import OPEN_ACL
from pyzk.server.config.settings import Settings
from pyzk.server.core.engine import Engine
from pyzk.server.core.failures import OutOfMemory
from pyzk.server.core.txn import SetData
from pyzk.server.storage import entries, log_writer, online, snapshots
from pyzk.server.storage import storage as storages
from pyzk.server.storage.building import build, stored_stat
from pyzk.server.storage.directory import DataDirectory, StorageError
from pyzk.server.storage.journal import Journal, JournalFailed
from pyzk.server.storage.log_writer import DigestedTree
from pyzk.server.storage.snapshots import SnapshotWriter
from pyzk.server.storage.storage import Storage

from ...support.requests import create_op, delete_op, set_op
from ...support.world import World, creation
from .files import SET, all_entries, killed, read, sizes_when_named, stored, world


def storage_of(server: World) -> Storage:
    assert server.storage is not None
    return server.storage


def snapshots_of(server: World) -> list[str]:
    return [name.text for name in storage_of(server).directory.listing().snapshots]


def ticking(monkeypatch: pytest.MonkeyPatch, *, by: float) -> list[float]:
    """A clock that shows so many seconds more each time; the list holds its last time."""
    clock = [1000.0]

    def monotonic() -> float:
        clock[0] += by
        return clock[0]

    monkeypatch.setattr(storages.time, "monotonic", monotonic)
    return clock


# --- entries -----------------------------------------------------------------------------------------------

_LARGEST = 1_572_864
"""Bytes of an entry: a real server reads 2 MiB."""
_AROUND = 58
"""Bytes of the entry of a multi that sets the data of ``/a``, without the data."""


@pytest.mark.parametrize("more", [0, 1])
def test_an_entry_has_so_many_bytes_at_most(tmp_path: Path, more: int) -> None:
    """A larger one becomes a snapshot, and has no entry. What was entered before it is in the log."""
    server = world(tmp_path, max_buffer=4_000_000)
    client = server.connect()
    client.create("/a")
    server.engine.handle(client.connection, OpCode.SET_DATA, bytes(8) + SET, 0)  # it waits
    client.multi(set_op("/a", b"x" * (_LARGEST - _AROUND + more)))
    large = server.zxid
    found = sorted(entry.zxid for entry in all_entries(tmp_path))
    assert found == list(range(1, large + 1 - more))
    assert snapshots_of(server) == ["snapshot.0", f"snapshot.{large:x}"][: 1 + more]
    times = {txn.zxid: txn.time for txn in server.txns}
    assert all(entry.time == times[entry.zxid] for entry in all_entries(tmp_path))
    client.create("/b")
    assert stored(read(tmp_path)[0]) == stored(server.tree)
    killed(server)


def test_no_data_is_logged_as_such_beside_a_digest(tmp_path: Path) -> None:
    """By the record of the log: other bytes would be read back in the same way, and have another checksum."""
    server = world(tmp_path, tree_digest=True)
    client = server.connect()
    client.create("/a", b"x")
    client.set("/a", None)
    client.multi(set_op("/a", b""), set_op("/a", None))
    killed(server)
    (log,) = (tmp_path / "version-2").glob("log.*")
    assert log.read_bytes()[16:] == b"".join(map(encode, all_entries(tmp_path)))


def test_a_zxid_before_a_large_multi_that_nobody_has_entered_has_its_time(tmp_path: Path) -> None:
    server = world(tmp_path, max_buffer=4_000_000)
    client = server.connect()
    client.create("/a")
    server.engine.zxid += 1
    server.pass_time(2.5)
    client.multi(set_op("/a", b"x" * (_LARGEST - _AROUND + 1)))
    filled = all_entries(tmp_path)[-1]
    assert (filled.zxid, filled.time) == (server.zxid - 1, server.epoch_ms)
    killed(server)


def test_an_error_that_is_no_lack_of_memory_does_not_end_the_log(tmp_path: Path) -> None:
    server = world(tmp_path)
    engine = server.engine
    engine.write_failed(ValueError("a bug"))
    journal = engine.log.journal  # type: ignore[union-attr]
    assert not journal.is_broken
    with pytest.raises(OutOfMemory):
        engine.write_failed(MemoryError())
    assert journal.is_broken
    killed(server)


def test_memory_that_runs_out_as_the_log_is_written_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world(tmp_path)
    client = server.connect()
    server.engine.handle(client.connection, OpCode.DELETE, bytes(8) + b"\0\0\0\2/x\0\0\0\0", 0)

    def fail(fd: int, data: bytes) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OutOfMemory):
        storage_of(server).write_journal()
    monkeypatch.undo()
    with pytest.raises(JournalFailed, match="is no longer written"):
        storage_of(server).write_journal()
    storage_of(server).close()  # says nothing: nobody was answered
    assert [entry.zxid for entry in all_entries(tmp_path)] == [1]


@pytest.mark.parametrize(("path", "data", "kept"), [(4096, 4096, True), (4097, 1, False), (1, 4097, False)])
def test_the_packers_of_up_to_4096_bytes_are_kept(path: int, data: int, kept: bool) -> None:
    packers = entries.Packers("{}s{}s", lambda path, data: b"")
    packers.make(path, bytes(data))
    assert (path in packers.by_length) is kept


def test_4096_packers_are_kept() -> None:
    packers = entries.Packers("{}s{}s", lambda path, data: b"")
    for data in range(4096):
        packers.make(1, bytes(data))
    assert len(packers.by_length[1]) == 4096
    packers.make(2, b"")
    assert list(packers.by_length) == [2]


# --- digests -----------------------------------------------------------------------------------------------


def test_the_last_digests_are_listed(tmp_path: Path) -> None:
    """1,024 of them: of each 128th transaction."""
    directory = DataDirectory(tmp_path)
    directory.open()
    journal = Journal(directory, 0)
    for number in range(1, 1026):
        for zxid in (128 * number - 1, 128 * number, 128 * number + 1):
            journal.add_digested(b"entry", zxid, zxid + 7)
    assert (LISTED, LIST) == (128, 1024)
    assert list(journal.digests) == [(128 * n, 128 * n + 7) for n in range(2, 1026)]
    directory.close()


def test_only_so_many_numbers_of_znodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are remembered to save time: without them the digest is the same."""
    monkeypatch.setattr(log_writer, "_VALUES", 5)
    tree, most = DigestedTree(), 0
    for number in range(1, 30):
        tree.apply(creation(f"/{number}", b"x"), number, number)
        most = max(most, len(tree._values))
        image = Image()
        for path, node in tree.nodes.items():
            if path != "/":
                image.nodes[path] = ImageNode(node.data, node.acl, stored_stat(node))
        assert tree.digest == image.count_digest()
    assert most == 6, "so many, and the znode of the last change"


def test_the_numbers_of_4096_znodes_are_remembered() -> None:
    tree, most = DigestedTree(), 0
    for number in range(4100):
        tree.apply(creation(f"/{number}", b"x"), number, number)
        most = max(most, len(tree._values))
    assert most == 4097


def test_the_digest_is_right_behind_a_multi_that_was_undone() -> None:
    tree = DigestedTree()
    tree.apply(creation("/a", b"x"), 1, 1)
    before = tree.digest
    tree.begin()
    tree.apply(SetData("/a", b"undone", 1), 2, 2)
    tree.apply(creation("/a/b"), 2, 2)
    tree.roll_back()
    assert tree.digest == before
    tree.apply(SetData("/a", b"y", 1), 3, 3)
    tree.apply(creation("/a/c"), 4, 4)
    again = DigestedTree()
    again.adopt(tree.nodes["/"])
    assert tree.digest == again.digest != before


def test_the_root_and_the_reserved_znodes_have_their_part_in_the_digest() -> None:
    assert DigestedTree().digest == Image.fresh().count_digest() == 0x51C6D660


@pytest.mark.parametrize("tree_digest", [False, True])
@pytest.mark.parametrize("has_history", [False, True])
def test_watchers_and_the_history_hear_of_what_is_logged(
    tmp_path: Path, has_history: bool, tree_digest: bool
) -> None:
    server = world(tmp_path, tree_digest=tree_digest)
    client, watcher = server.connect(), server.connect()
    client.create("/a")
    server.txns.clear()
    if not has_history:
        server.engine.on_txn = None
    client.set("/a", b"unwatched")
    client.multi(set_op("/a", b"unwatched"))
    watcher.get("/a", watch=True)
    client.set("/a", b"1")
    watcher.get("/a", watch=True)
    client.multi(set_op("/a", b"2"), create_op("/m"), delete_op("/m"))
    watcher.children("/", watch=True)
    client.create("/b")
    watcher.exists("/b", watch=True)
    client.delete("/b")
    events = [(event.type, event.path) for event in watcher.take_events()]
    assert events == [(3, "/a"), (3, "/a"), (4, "/"), (2, "/b")]
    client.delete("/none")
    told = [type(txn.effect).__name__ for txn in server.txns]
    expected = ["SetData", "Multi", "SetData", "Multi", "Create", "Delete", "Refused"]
    assert told == (expected if has_history else [])
    killed(server)


# --- the directory -----------------------------------------------------------------------------------------


def test_a_system_without_locks_of_directories_is_told_what_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(StorageError, match=r"cannot keep data in files: .*; start without --data, and load"):
        DataDirectory(tmp_path).open()
    assert os.listdir(tmp_path) == [], "nothing was made"


def test_the_names_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"^cannot read {tmp_path}/version-2: No such file or directory$"):
        DataDirectory(tmp_path).names()


def test_what_cannot_be_made_gives_the_other_lock_back(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    apart = DataDirectory(tmp_path / "data", tmp_path / "file")
    with pytest.raises(StorageError, match=r"cannot use .*/file/version-2: Not a directory$"):
        apart.open()
    whole = DataDirectory(tmp_path / "data")
    whole.open()
    whole.close()


def test_a_folder_of_what_is_set_aside_is_new_in_both_directories(tmp_path: Path) -> None:
    apart = DataDirectory(tmp_path / "a", tmp_path / "b")
    apart.open()
    (tmp_path / "b" / "version-2" / "set-aside-1").mkdir()
    (tmp_path / "a" / "version-2" / "snapshot.1").touch()
    (tmp_path / "b" / "version-2" / "log.1").touch()
    assert apart.set_aside(["snapshot.1", "log.1"]) == "set-aside-2"
    assert (tmp_path / "a" / "version-2" / "set-aside-2" / "snapshot.1").exists()
    assert (tmp_path / "b" / "version-2" / "set-aside-2" / "log.1").exists()
    assert sorted(apart.names()) == ["set-aside-1", "set-aside-2", "set-aside-2"]
    apart.close()


def test_one_folder_is_listed_once_though_it_is_named_twice(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, tmp_path)
    directory.open()
    (tmp_path / "version-2" / "log.1").write_bytes(b"1234")
    (tmp_path / "version-2" / "snapshot.1").touch()
    assert sorted(directory.names()) == ["log.1", "snapshot.1"]
    assert directory.size("log") == 4
    directory.close()


# --- loading and restoring ---------------------------------------------------------------------------------


def test_how_long_it_takes_is_counted_in_ms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Storage(tmp_path, Settings())
    assert (fresh.load_time, fresh.entries_loaded, fresh.digests) == (0, 0, [])
    killed(world(tmp_path))
    ticking(monkeypatch, by=1.0)
    server = world(tmp_path)
    assert storage_of(server).load_time == 1000
    assert server.engine.stats.snapshot_time.count == 0
    for _ in storage_of(server).snapshot_steps():
        steps = 1  # one step of znodes, and one look at the clock for it
    taken = server.engine.stats.snapshot_time
    assert (taken.count, taken.total) == (1, 1000 * (1 + 2 * steps))
    killed(server)


def test_progress_is_told_every_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(storages.logger, "info", lambda *line: told.append(line[1:]))
    clock = ticking(monkeypatch, by=0.0)
    storage = Storage(tmp_path, Settings())
    for later, lines in ((2.0, 0), (0.25, 1), (2.0, 1), (0.25, 2)):
        clock[0] += later
        storage._progress("znodes", 7)
        assert told == [(storage.directory, 7, "znodes")] * lines


def test_no_snapshot_is_due_at_a_restart(tmp_path: Path) -> None:
    killed(world(tmp_path))
    again = world(tmp_path)
    assert snapshots_of(again) == ["snapshot.0"]
    assert not storage_of(again).is_due
    killed(again)


def test_a_repair_writes_a_snapshot_though_nothing_was_wrong(tmp_path: Path) -> None:
    server = world(tmp_path)
    server.connect().create("/a")
    killed(server)
    storage = Storage(tmp_path, Settings(), repair=True)
    storage.load()
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=0)
    assert [name.text for name in storage.directory.listing().snapshots] == ["snapshot.0", "snapshot.2"]
    assert (engine.zxid, "/a" in engine.tree.nodes, storage.entries_loaded) == (2, True, 2)
    storage.close()
    storage.close()  # again does nothing
    assert storage.digests == []


def test_the_logs_alone_are_restored_by_a_repair(tmp_path: Path) -> None:
    server = world(tmp_path)
    server.connect().create("/a")
    killed(server)
    (tmp_path / "version-2" / "snapshot.0").unlink()
    with pytest.raises(StorageError, match="there are logs and no snapshot"):
        world(tmp_path)
    storage = Storage(tmp_path, Settings(), repair=True)
    storage.load()
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=0)
    assert (engine.zxid, "/a" in engine.tree.nodes) == (2, True)
    storage.close()


def test_a_fresh_server_begins_with_the_zxid_of_its_clock(tmp_path: Path) -> None:
    """No client may see zxids fall back when a server without files comes in the place of another."""
    storage = Storage(tmp_path, Settings())
    storage.load()
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=5)
    assert engine.zxid == 5 << 18
    storage.close()


def test_a_session_of_a_server_above_127_is_not_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "version-2"
    folder.mkdir()
    image = Image.fresh()
    image.zxid = 3
    image.sessions = {-5: 4000, 7: 6000}
    for path, owner in (("/lost", -5), ("/kept", 7), ("/over", 9)):
        image.nodes[path] = ImageNode(b"", OPEN_ACL, STAT.pack(1, 1, 1, 1, 0, 0, 0, owner, 1))
    image.nodes["/no/parent"] = ImageNode(b"", OPEN_ACL, STAT.pack(1, 1, 1, 1, 0, 0, 0, 0, 1))
    (folder / "snapshot.3").write_bytes(b"".join(encoded(image)))
    caplog.set_level(logging.INFO)
    server = world(tmp_path)
    assert {session.id: session.timeout for session in server.engine.sessions} == {7: 6000}
    assert sorted(server.tree.nodes["/"].children or ()) == ["kept", "zookeeper"]
    text = caplog.text
    assert "session 0xfffffffffffffffb is not taken over" in text
    assert "2 ephemerals are dropped, such as /lost" in text
    assert "1 znodes are left out, such as /no/parent" in text
    killed(server)


def test_what_is_as_it_should_be_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = world(tmp_path)
    server.connect().create("/e", flags=1)
    killed(server)
    caplog.set_level(logging.INFO)
    killed(world(tmp_path))
    for text in ("dropped", "left out", "not taken over", "moved to"):
        assert text not in caplog.text


def test_znodes_below_a_new_parent_follow_those_of_another(tmp_path: Path) -> None:
    """The parent that was found last is remembered; the root is one, too."""
    image = Image.fresh()
    for path in ("/a", "/a/b", "/c", "/a/d", "/e", "/c/f", "/g"):
        image.nodes[path] = ImageNode(path.encode(), OPEN_ACL, bytes(60))
    root, lost = build(image)
    assert lost == []
    server = World()
    server.tree.adopt(root)
    assert {path: node.data for path, node in server.tree.nodes.items() if node.data} == {
        path: path.encode() for path in ("/a", "/a/b", "/c", "/a/d", "/e", "/c/f", "/g")
    }


def test_progress_is_told_every_50000_znodes() -> None:
    image, node = Image.fresh(), ImageNode(None, OPEN_ACL, bytes(60))
    image.nodes |= {f"/{number}": node for number in range(50_005)}
    told: list[int] = []
    build(image, told.append)
    assert told == [50_000]


def test_equal_lists_of_access_are_one_object() -> None:
    """Memory: most trees have few different ones."""
    from pyzk.protocol.records import ACL, Id

    image = Image.fresh()
    for name in "ab":
        image.nodes[f"/{name}"] = ImageNode(b"", (ACL(1, Id("ip", "10.0.0.1")),), bytes(60))
    root, _ = build(image)
    children = root.children or {}
    assert children["a"].acl is children["b"].acl
    assert children["a"].acl is not OPEN_ACL
    assert children["zookeeper"].acl is OPEN_ACL


# --- snapshots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_snapshot_is_whole_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    """Whoever finds it, after a kill too, can read it."""
    if compression == "snappy":
        pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    server = world(tmp_path, snapshot_compression=compression)
    client = server.connect()
    client.create("/a", b"x" * 1000)
    sizes = sizes_when_named(monkeypatch)
    counts = list(storage_of(server).snapshot_steps())
    name = storage_of(server).directory.listing().snapshots[-1].text
    assert sizes == [(tmp_path / "version-2" / name).stat().st_size]
    assert {*counts} == {len(server.tree) - 1}
    killed(server)


@pytest.mark.parametrize(("tree_digest", "changes", "has_digest"), [(False, 0, True), (False, 1, False)])
def test_a_snapshot_has_a_digest_if_nothing_has_changed(
    tmp_path: Path, tree_digest: bool, changes: int, has_digest: bool
) -> None:
    from pyzk.protocol.files.snapshot import SnapshotReader

    server = world(tmp_path, tree_digest=tree_digest)
    client = server.connect()
    client.create("/a")
    steps = storage_of(server).snapshot_steps()
    next(steps)
    for number in range(changes):
        client.create(f"/{number}")
    list(steps)
    name = storage_of(server).directory.listing().snapshots[-1]
    with storage_of(server).directory.read(name.text) as file:
        reader = SnapshotReader(file)
        list(reader.nodes())
    assert (reader.digest is not None) is has_digest
    killed(server)


class Recorded(io.BytesIO):
    """A file that notes how many bytes were written each time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, data: Any, /) -> int:
        self.sizes.append(len(data))
        return super().write(data)


def test_the_sizes_of_the_steps_of_a_snapshot() -> None:
    """200 znodes, or 64 KiB and the one that goes beyond; then 1 MiB at a time is copied."""
    server = World()
    for number in range(450):
        server.tree.apply(creation(f"/{number:03}"), 1, 1)
    body, target = Recorded(), Recorded()
    counts = list(SnapshotWriter(server.engine, body, target).steps())
    znodes = len(server.tree) - 1
    assert counts == [200, 400, znodes, znodes]
    for number in range(40):
        server.tree.apply(creation(f"/large-{number}", bytes(65_536)), 1, 1)
    body, target = Recorded(), Recorded()
    list(SnapshotWriter(server.engine, body, target).steps())
    assert sum(size > 65_536 for size in body.sizes) == 40
    whole, rest = divmod(len(body.getvalue()), 2**20)
    assert whole > 1
    assert target.sizes[1:-1] == [*[2**20] * whole, rest]


@pytest.mark.parametrize(("more", "znodes"), [(0, 6), (1, 5)])
def test_a_step_ends_behind_64_kib(more: int, znodes: int) -> None:
    """With the root, which does not count."""
    server = World()
    names = ("/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/large")
    others = sum(4 + len(name) + 4 + 8 + 60 for name in names)
    server.tree.apply(creation("/large", bytes(65_536 - others + more)), 1, 1)
    for number in range(9):
        server.tree.apply(creation(f"/{number}"), 1, 1)
    assert next(SnapshotWriter(server.engine, Recorded(), Recorded()).steps()) == znodes


@pytest.mark.parametrize("more", [0, 1])
def test_a_compressed_snapshot_is_copied_32_kib_at_a_time(tmp_path: Path, more: int) -> None:
    server = World()
    plain = Recorded()
    list(SnapshotWriter(server.engine, plain, Recorded()).steps())
    around = len(plain.getvalue()) + 4 + len("/large") + 4 + 8 + 60
    server.tree.apply(creation("/large", bytes(3 * 32_768 - around + more)), 1, 1)
    directory = DataDirectory(tmp_path)
    directory.open()
    steps = len(list(snapshots.snapshot_steps(server.engine, directory, "gz")))
    assert steps == 2 + 3 + more, "those of the znodes, and those of the copy"
    directory.close()


def test_a_snapshot_in_memory_has_pieces_of_1_mib() -> None:
    pieces = online._Pieces()
    for size in (2**20 - 1, 1, 5):
        pieces.write(bytes(size))
    pieces.flush()
    assert [len(piece) for piece in iter(lambda: pieces.read(1), b"")] == [2**20, 5]


def padded(data: bytes, size: int) -> bytes:
    """A gzip file of a size: what is missing stands in the name of the file that it says it was."""
    packed = gzip.compress(data)
    more = size - len(packed) - 1
    assert more >= 0
    return packed[:3] + b"\x08" + packed[4:10] + b"n" * more + b"\0" + packed[10:]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_snapshot_is_compressed_to_a_hundredth_at_most(missing: int) -> None:
    """Beyond 1 MiB, which any may have."""
    image = Image.fresh()
    image.zxid = 1
    image.nodes["/a"] = ImageNode(b"", OPEN_ACL, STAT.pack(1, 1, 1, 1, 0, 0, 0, 0, 1))
    plain = len(b"".join(encoded(image)))
    image.nodes["/a"].data = bytes(2**20 + 100 * 5000 - plain)
    data = b"".join(encoded(image))
    assert len(data) == 2**20 + 100 * 5000
    sent = padded(data, 5000 - missing)
    assert gzip.decompress(sent) == data
    if missing:
        with pytest.raises(FileError, match="more than 1,548,476 bytes: it is compressed too well"):
            online.read_snapshot(sent, 2**20)
    else:
        assert online.read_snapshot(sent, 2**20).zxid == 1


@pytest.mark.parametrize("more", [0, 1])
def test_a_znode_of_a_snapshot_has_twice_the_bytes_of_a_packet_at_most(more: int) -> None:
    image = Image.fresh()
    image.nodes["/a"] = ImageNode(b"x" * (2000 + more), OPEN_ACL, bytes(60))
    data = b"".join(encoded(image))
    if more:
        with pytest.raises(FileError, match=r"2,001 bytes is too large: set jute\.maxbuffer=1001"):
            online.read_snapshot(data, 1000)
    else:
        assert "/a" in online.read_snapshot(data, 1000).nodes


def test_pieces_are_as_large_as_they_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "_PIECE", 4)
    pieces = online._Pieces()
    for data in (b"abc", b"d", b"efg", b"h", b"ijklm", b"n"):
        pieces.write(data)
    pieces.flush()
    read_ = iter(lambda: pieces.read(4), b"")
    assert list(read_) == [b"abcd", b"efgh", b"ijklm", b"n"]


def test_the_log_is_read_back_by_a_reader_of_another_kind(tmp_path: Path) -> None:
    """Each frame has the Adler32 and the length of its entry, and an end mark."""
    server = world(tmp_path)
    client = server.connect()
    for act in (lambda: client.create("/a", b"x"), lambda: client.multi(), lambda: client.delete("/a")):
        act()
    killed(server)
    (log,) = (tmp_path / "version-2").glob("log.*")
    data = log.read_bytes()
    at, zxids = 16, []
    while at < len(data):
        checksum, size = int.from_bytes(data[at : at + 8]), int.from_bytes(data[at + 8 : at + 12])
        entry = data[at + 12 : at + 12 + size]
        assert (zlib.adler32(entry), data[at + 12 + size : at + 13 + size]) == (checksum, b"B")
        zxids.append(int.from_bytes(entry[12:20]))
        at += 13 + size
    assert zxids == list(range(1, server.zxid + 1))
    with log.open("rb") as file:
        assert [entry.zxid for entry in LogReader(file).entries()] == zxids
