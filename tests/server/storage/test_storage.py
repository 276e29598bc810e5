"""A server whose data is in files: killed at any moment, it goes on where it was (files.md sections 3, 4
and 5)."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.files.image import Image, ImageNode
from pyzk.protocol.files.snapshot import SnapshotReader
from pyzk.protocol.files.txnlog import ErrorTxn, LogReader, encode
from pyzk.protocol.operations import OpCode
from pyzk.server.core.engine import Engine
from pyzk.server.core.failures import OutOfMemory
from pyzk.server.core.quota import ROOT
from pyzk.server.core.txn import Replace
from pyzk.server.storage import snapshots
from pyzk.server.storage.building import stored_stat
from pyzk.server.storage.directory import StorageError
from pyzk.server.testing import tree_io

from ...support.histories import SETTINGS, START, Action, Run, action, set_up_quota
from ...support.invariants import check_tree_invariants
from ...support.requests import acl, create_op, delete_op, set_op
from ...support.world import World
from .files import SET, all_entries, killed, read, stored, world


def sessions(world: World) -> dict[int, tuple[int, bytes]]:
    return {session.id: (session.timeout, session.password) for session in world.engine.sessions}


def check_files(run: Run, folder: Path) -> None:
    server = run.world
    assert server.storage is not None
    server.storage.write_journal()
    tree, timeouts, zxid = read(folder)
    assert stored(tree) == stored(server.tree)
    assert timeouts == {session.id: session.timeout for session in server.engine.sessions}
    assert zxid == server.zxid
    check_tree_invariants(tree)


@given(st.lists(action, max_size=30))
def test_the_files_hold_what_the_server_holds(actions: list[Action]) -> None:
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        run = Run(world(Path(name)))
        for act in [*START, *actions]:
            act(run)
        check_files(run, Path(name))
        killed(run.world)


@given(st.lists(action, max_size=30), st.booleans())
def test_a_log_changes_no_answer(actions: list[Action], has_history: bool) -> None:
    """The engine with a log has a loop of its own for multis."""
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        kept, plain = world(Path(name)), World(**SETTINGS)
        runs = Run(kept), Run(plain)
        if not has_history:
            kept.engine.on_txn = plain.engine.on_txn = None
        for act in [*START, *actions]:
            with_log, without = map(act, runs)
            assert with_log == without
            assert [peer.take_events() for peer in runs[0].peers] == [
                peer.take_events() for peer in runs[1].peers
            ]
        assert stored(kept.tree) == stored(plain.tree)
        told = [[txn for txn in each.txns if not isinstance(txn.effect, Replace)] for each in (kept, plain)]
        assert told[0] == told[1]
        check_files(runs[0], Path(name))


@given(st.lists(action, min_size=4, max_size=40), st.integers(0, 3), st.integers(1, 3))
def test_a_snapshot_that_is_written_while_the_tree_changes_is_made_right(
    actions: list[Action], start: int, step: int
) -> None:
    before, snapshots._STEP = snapshots._STEP, 1
    try:
        with tempfile.TemporaryDirectory(dir=memory()) as name:
            run = Run(world(Path(name)))
            for act in START:
                act(run)
            assert run.world.storage is not None
            steps = iter(())
            for number, act in enumerate(actions):
                if number == start:
                    steps = run.world.storage.snapshot_steps()
                act(run)
                for _ in range(step):
                    next(steps, None)
            for _ in steps:
                pass
            check_files(run, Path(name))
            killed(run.world)
    finally:
        snapshots._STEP = before


def memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


# --- restarts ----------------------------------------------------------------------------------------------


def a_history(run: Run) -> None:
    client = run.peer(0)
    for act in START:
        act(run)
    client.create("/a/b", None, acl(31, "ip", "127.0.0.1") and (acl(31, "ip", "127.0.0.1"),))
    client.create("/s-", b"x", flags=2)
    client.create("/t", b"x", flags=5, ttl=60_000)
    client.set("/a", b"more")
    client.set("/missing", b"")
    client.create("/null", None)
    client.create("/no", b"x")
    client.set("/no", None)
    client.create("/nothing", b"x")
    client.multi(set_op("/nothing", None), set_op("/null", b""), set_op("/no", None, -1))
    client.multi(create_op("/m", b"1"), set_op("/m", b"2"), delete_op("/m"), create_op("/n", flags=1))
    client.multi(create_op("/x"), create_op("/a"))
    client.multi()
    client.delete("/s-0000000003")
    run.peer(1).close_session()
    set_up_quota("/q", b"count=5,bytes=-1")(run)
    run.peer(0).create("/q/x", b"12345")


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    a_history(run)
    old = run.world
    assert old.storage is not None
    old.storage.write_journal()
    killed(old)
    new = world(tmp_path)
    assert stored(new.tree) == stored(old.tree)
    assert new.tree.ephemerals == old.tree.ephemerals
    assert (new.tree.containers, new.tree.ttl_nodes) == (old.tree.containers, old.tree.ttl_nodes)
    assert sessions(new) == sessions(old)
    assert new.zxid == old.zxid
    check_tree_invariants(new.tree)
    killed(new)


def test_a_client_takes_up_its_session(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    client = run.peer(0)
    client.create("/e", flags=1)
    killed(run.world)
    new = world(tmp_path)
    again = new.connect(session_id=client.session_id, password=client.password)
    assert again.session_id == client.session_id
    assert list(new.tree.ephemerals[again.session_id]) == ["/e"]
    assert new.connect().session_id not in {peer.session_id for peer in run.peers}
    new.pass_time(60)
    assert "/e" not in new.tree.nodes
    killed(new)


def test_sessions_have_their_whole_timeout_when_the_server_begins_to_serve(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    killed(run.world)
    new = world(tmp_path)
    assert new.storage is not None
    new.now += 15  # as long as it takes to make the tree; longer than the timeout
    new.storage.touch_sessions(new.service.at(new.now))
    new.pass_time(9)
    assert len(new.engine.sessions) == 2
    new.pass_time(10)
    assert len(new.engine.sessions) == 0
    killed(new)


def test_who_waits_for_an_abandoned_session_is_told_when_it_ends(tmp_path: Path) -> None:
    """Clients that open a new session after a restart wait for the ephemerals of their old one; elections
    wait for those of a leader that does not come back."""
    run = Run(world(tmp_path))
    run.peer(0).create("/leader", flags=1)
    killed(run.world)
    new = world(tmp_path)
    waiting = new.connect()
    waiting.exists("/leader", watch=True)
    new.pass_time(9)
    assert waiting.take_events() == []
    waiting.ping()
    new.pass_time(4)  # sessions end with a tick
    (event,) = waiting.take_events()
    assert (event.type, event.path) == (EventType.DELETED, "/leader")
    killed(new)


def test_ephemerals_of_sessions_that_are_over_are_dropped(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    run.peer(0).create("/e", flags=1)
    run.peer(1).create("/f", flags=1)
    run.peer(0).close_session()
    killed(run.world)
    new = world(tmp_path)
    assert set(new.tree.nodes) & {"/e", "/f"} == {"/f"}
    killed(new)


def test_the_usage_of_a_quota_is_counted_afresh(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    a_history(run)
    assert run.world.storage is not None
    run.world.storage.write_journal()
    text = run.world.tree.nodes[f"{ROOT}/q/zookeeper_stats"].data
    killed(run.world)
    new = world(tmp_path)
    assert new.tree.nodes[f"{ROOT}/q/zookeeper_stats"].data == text == b"count=2,bytes=9"
    killed(new)


def test_each_zxid_has_one_entry(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    a_history(run)
    run.world.engine.zxid += 2  # what nobody enters
    run.peer(0).create("/last")
    assert run.world.storage is not None
    run.world.storage.write_journal()
    entries = []
    for path in sorted((tmp_path / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        with path.open("rb") as file:
            found = list(LogReader(file).entries())
        assert path.read_bytes()[16:] == b"".join(map(encode, found)), "the plain encoder writes the same"
        entries += found
    assert [entry.zxid for entry in entries] == list(range(1, run.world.zxid + 1))
    killed(run.world)


def test_an_entry_has_the_number_that_its_client_gave_the_request(tmp_path: Path) -> None:
    server = world(tmp_path)
    client = server.connect()
    for act in (
        lambda: client.create("/a", b""),
        lambda: client.create("/\u00e4", b"x", flags=1),
        lambda: client.create("/a", b""),  # refused
        lambda: client.get("/a"),  # not in the log
        lambda: client.set("/\u00e4", b"x"),
        lambda: client.set("/a", None),
        lambda: client.multi(set_op("/a", b"y"), create_op("/b")),
        lambda: client.multi(delete_op("/missing")),
        lambda: client.delete("/b"),
        client.close_session,
    ):
        act()
    server.connect()
    server.pass_time(60)  # it expires
    assert server.storage is not None
    server.storage.write_journal()
    (log,) = (tmp_path / "version-2").glob("log.*")
    found = [(entry.cxid, entry.type) for entry in LogReader(io.BytesIO(log.read_bytes())).entries()]
    first = found[1][0]
    by_clients = [(cxid - first, type_) for cxid, type_ in found[1:-2]]
    assert by_clients == [(0, 1), (1, 1), (2, -1), (4, 5), (5, 5), (6, 14), (7, -1), (8, 2), (9, -11)]
    assert [found[0], *found[-2:]] == [(0, -10), (0, -10), (0, -11)]
    killed(server)


def test_many_requests_in_flight_share_a_write_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world(tmp_path)
    client = server.connect()
    client.create("/a")
    writes: list[int] = []
    write = os.write

    def count(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", count)
    client.receive_data(
        client.exchange(wire.request(OpCode.SET_DATA, r.SetDataRequest("/a", b"", -1), 1) * 100)
    )
    replies = 0
    while client.take_frame() is not None:
        replies += 1
    assert (replies, len(writes)) == (100, 2)
    assert read(tmp_path)[0].nodes["/a"].version == 100
    killed(server)


def test_the_log_is_written_before_output_leaves(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    watcher, client = run.peer(0), run.peer(1)
    client.create("/a")
    watcher.get("/a", watch=True)
    zxids = []
    for _ in range(3):
        client.set("/a", b"x")
        zxids.append(read(tmp_path)[2])
        assert zxids[-1] == run.world.zxid
    assert len(set(zxids)) == 3
    run.world.engine.handle(client.connection, OpCode.SET_DATA, bytes(8) + SET, 0)
    assert read(tmp_path)[2] == zxids[-1]
    watcher.connection.send(b"")
    assert read(tmp_path)[2] == zxids[-1]
    watcher.connection.data_to_send()
    assert read(tmp_path)[2] == run.world.zxid == zxids[-1] + 1
    killed(run.world)


@given(st.lists(action, max_size=25))
def test_each_entry_has_the_digest_of_the_tree_after_it(actions: list[Action]) -> None:
    """The files are compared with their digests whenever they are read."""
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        run = Run(world(Path(name), tree_digest=True))
        for act in [*START, *actions]:
            act(run)
        check_files(run, Path(name))
        entries = all_entries(Path(name))
        assert entries
        unknown = ErrorTxn(-1)  # a zxid that nobody has entered, such as that of an empty multi
        assert all(entry.digest is not None or entry.txn == unknown for entry in entries)
        last = max(entries, key=lambda entry: entry.zxid)
        image = Image()
        for path, node in run.world.tree.nodes.items():
            if path != "/":
                image.nodes[path] = ImageNode(node.data, node.acl, stored_stat(node))
        assert last.digest in (None, image.count_digest())
        killed(run.world)


def test_hash_lists_digests(tmp_path: Path) -> None:
    run = Run(world(tmp_path, tree_digest=True, initial_zxid=100))
    for number in range(200):
        run.peer(0).create(f"/{number}")
    assert run.world.storage is not None
    digests = run.world.storage.digests
    assert [zxid for zxid, _ in digests] == [128, 256]
    answer = run.world.open().exchange(b"hash").decode()
    assert answer.splitlines() == [f"{zxid:x}: {digest}" for zxid, digest in digests]
    killed(run.world)
    again = world(tmp_path, tree_digest=True)
    assert again.storage is not None
    assert again.storage.digests == digests, "what was replayed is listed too"
    killed(again)
    plain = world(tmp_path)
    assert plain.storage is not None
    plain.connect()
    assert plain.storage.digests == []
    killed(plain)


def test_a_tree_that_is_replaced_is_written_at_once(tmp_path: Path) -> None:
    run = Run(world(tmp_path))
    from pyzk.server.testing.snapshots import Snapshot

    run.peer(0).create("/a")
    snapshot = Snapshot.of(run.world.engine)
    run.peer(0).create("/b")
    snapshot.restore(run.world.engine)
    run.peer(0).create("/c")
    check_files(run, tmp_path)
    assert set(read(tmp_path)[0].nodes) & {"/a", "/b", "/c"} == {"/a", "/c"}
    killed(run.world)


def test_what_is_too_large_for_an_entry_becomes_a_snapshot(tmp_path: Path) -> None:
    """A real server does not read entries of more than 2 MiB."""
    run = Run(world(tmp_path))
    run.peer(0).create("/before")
    tree: tree_io.Flat = {f"/{number}": b"x" * 100_000 for number in range(20)}
    tree_io.load(run.world.engine, tree, 0)
    run.peer(0).create("/after")
    check_files(run, tmp_path)
    logs = (tmp_path / "version-2").glob("log.*")
    assert max(path.stat().st_size for path in logs) < 1_000_000
    assert {"/before", "/0", "/after"} <= set(run.world.tree.nodes)
    killed(run.world)


# --- snapshots and old files -------------------------------------------------------------------------------


def test_a_snapshot_begins_a_new_log_and_has_a_digest_if_nothing_changed(tmp_path: Path) -> None:
    run = Run(world(tmp_path, snap_count=20))
    storage = run.world.storage
    assert storage is not None
    assert not storage.is_due
    a_history(run)
    storage.write_journal()
    assert storage.is_due
    storage.write_snapshot()
    assert not storage.is_due
    with storage.directory.read(storage.directory.listing().snapshots[-1].text) as file:
        reader = SnapshotReader(file)
        assert len(list(reader.nodes())) == len(run.world.tree) - 1
    assert reader.digest is not None
    assert reader.digest.zxid == reader.last_zxid == run.world.zxid
    run.peer(0).create("/later")
    check_files(run, tmp_path)
    assert storage.directory.listing().logs[-1].zxid == run.world.zxid
    assert storage.directory.last_snapshot()[0] == run.world.zxid - 1
    killed(run.world)


def test_old_files_are_deleted_as_the_keys_say(tmp_path: Path) -> None:
    run = Run(world(tmp_path, purge_interval=3600, snap_retain_count=3))
    storage = run.world.storage
    assert storage is not None
    for number in range(6):
        run.peer(0).create(f"/{number}")
        storage.write_snapshot()
    storage.purge()
    assert len(storage.directory.listing().snapshots) == 7, "not yet"
    storage._next_purge = 0
    storage.purge()
    listing = storage.directory.listing()
    assert [run.world.zxid - name.zxid for name in listing.snapshots] == [2, 1, 0]
    assert listing.logs[0].zxid <= listing.snapshots[0].zxid
    check_files(run, tmp_path)
    killed(run.world)


# --- what can go wrong -------------------------------------------------------------------------------------


def test_logs_may_have_a_directory_of_their_own(tmp_path: Path) -> None:
    def start() -> World:
        return world(tmp_path / "data", data_log_dir=str(tmp_path / "logs"), purge_interval=3600)

    server = start()
    server.connect().create("/a")
    storage = server.storage
    assert storage is not None
    storage.write_snapshot()
    server.connect().create("/b")
    storage.write_journal()
    snapshots, logs = (
        {path.name for path in (tmp_path / name / "version-2").iterdir()} for name in ("data", "logs")
    )
    assert snapshots == {"snapshot.0", "snapshot.2"}
    assert logs == {"log.1", "log.3"}
    assert storage.directory.size("log") > 0
    with pytest.raises(StorageError, match="another pyzk-server uses it"):
        start()
    killed(server)
    again = start()
    assert {"/a", "/b"} <= set(again.tree.nodes)
    killed(again)
    shutil.copy(tmp_path / "logs" / "version-2" / "log.1", tmp_path / "data" / "version-2")
    with pytest.raises(StorageError, match=r"log.1 must be in .*/logs/version-2"):
        start()


def test_a_snapshot_is_compressed_as_asked(tmp_path: Path) -> None:
    for method, start in (("gz", b"\x1f\x8b"), ("snappy", b"\x82SNAPPY")):
        if method == "snappy":
            pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
        server = world(tmp_path / method, snapshot_compression=method)
        server.connect().create("/a", b"x" * 70_000)
        server.connect().create("/b", os.urandom(70_000))
        assert server.storage is not None
        server.storage.write_snapshot()
        name = server.storage.directory.listing().snapshots[-1].text
        assert name == f"snapshot.{server.zxid:x}.{method}"
        content = (tmp_path / method / "version-2" / name).read_bytes()
        assert content.startswith(start)
        assert 70_000 < len(content) < 80_000
        killed(server)
        again = world(tmp_path / method)
        assert stored(again.tree) == stored(server.tree)
        killed(again)


def test_two_servers_cannot_have_one_directory(tmp_path: Path) -> None:
    first = world(tmp_path)
    with pytest.raises(StorageError, match="another pyzk-server uses it"):
        world(tmp_path)
    killed(first)
    killed(world(tmp_path))


def test_a_place_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot use"):
        world(tmp_path / "file")


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other server has it: the user would look for one."""
    monkeypatch.setattr("pyzk.server.storage.directory.os.access", lambda *place: False)
    with pytest.raises(StorageError, match=r"^cannot use .*: Permission denied$"):
        world(tmp_path)


def test_memory_that_runs_out_while_a_session_is_logged_ends_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session is known, and the log does not have it."""
    server = world(tmp_path)
    server.connect().create("/before")
    assert server.storage is not None
    server.storage.write_journal()

    def fail(*arguments: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("pyzk.server.storage.log_writer.of_other", fail)
    with pytest.raises(OutOfMemory):
        server.connect()
    assert server.engine.log.journal.is_broken  # type: ignore[union-attr]
    monkeypatch.undo()
    killed(server)
    again = world(tmp_path)
    assert "/before" in again.tree.nodes
    assert len(list(again.engine.sessions)) == 1
    killed(again)


def test_a_torn_entry_is_left_out_and_its_file_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(world(tmp_path))
    client = run.peer(0)
    client.create("/a")
    client.create("/b")
    killed(run.world)
    (log,) = (tmp_path / "version-2").glob("log.*")
    data = log.read_bytes()
    log.write_bytes(data[:-3])
    new = world(tmp_path)
    assert "the last entry is incomplete" in caplog.text
    assert set(new.tree.nodes) & {"/a", "/b"} == {"/a"}
    new.connect().create("/c")
    assert log.read_bytes() == data[:-3]
    killed(new)
    killed(world(tmp_path))


def test_a_log_with_nothing_but_a_torn_entry_is_set_aside(tmp_path: Path) -> None:
    first = world(tmp_path)
    killed(first)
    (tmp_path / "version-2" / "log.1").write_bytes(b"ZKLG\0\0\0\2" + bytes(8) + b"torn")
    new = world(tmp_path)
    new.connect()
    assert (tmp_path / "version-2" / "set-aside-1" / "log.1").read_bytes().endswith(b"torn")
    assert read(tmp_path)[2] == 1
    killed(new)


def test_damage_refuses_the_start_and_the_repair_deletes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(world(tmp_path))
    for number in range(5):
        run.peer(0).create(f"/{number}")
    killed(run.world)
    (log,) = (tmp_path / "version-2").glob("log.*")
    data = bytearray(log.read_bytes())
    at = data.index(b"/2")
    data[at + 1] ^= 1
    log.write_bytes(bytes(data))
    before = {path: path.read_bytes() for path in (tmp_path / "version-2").iterdir()}
    with pytest.raises(StorageError, match=r"log\.1, byte \d+: the checksum.*--data-repair"):
        world(tmp_path)
    assert {path: path.read_bytes() for path in (tmp_path / "version-2").iterdir()} == before
    from pyzk.server.config.settings import Settings
    from pyzk.server.storage.storage import Storage

    storage = Storage(tmp_path, Settings(), repair=True)
    storage.load()
    engine = storage.make_engine(Settings(), Engine, now=0, epoch=0)
    assert set(engine.tree.nodes) & {"/1", "/2", "/3"} == {"/1"}
    assert (tmp_path / "version-2" / "set-aside-1" / "log.1").read_bytes() == bytes(data)
    assert "moved to set-aside-1: log.1" in caplog.text
    storage.close()
    killed(world(tmp_path))


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    killed(world(tmp_path))
    left = tmp_path / "version-2" / ".pyzk-unfinished.1.nodes"
    left.touch()
    killed(world(tmp_path))
    assert not left.exists()


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    run = Run(world(tmp_path / "new"))
    run.peer(0).create("/a")
    for path in (tmp_path / "new").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    killed(run.world)


def test_a_directory_may_be_copied_and_both_go_on(tmp_path: Path) -> None:
    run = Run(world(tmp_path / "one"))
    a_history(run)
    assert run.world.storage is not None
    run.world.storage.write_journal()
    killed(run.world)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    both = [world(tmp_path / name) for name in ("one", "two")]
    for each, number in zip(both, itertools.count()):
        each.connect().create(f"/{number}")
        killed(each)
    trees = [set(each.tree.nodes) for each in both]
    assert trees[0] ^ trees[1] == {"/0", "/1"}
