"""Snapshots of an engine that runs, as bytes, and the way back."""

from __future__ import annotations

import gzip
import io

import pytest

from pyzk.protocol.files.image import Image, ImageNode
from pyzk.protocol.files.restoring import read_image
from pyzk.protocol.files.snapshot import STAT
from pyzk.protocol.files.streams import FileError
from pyzk.protocol.files.writing import encoded
from pyzk.protocol.records import OPEN_ACL
from pyzk.server.core.txn import Replace
from pyzk.server.storage import online, snapshots
from pyzk.server.storage.building import build
from pyzk.server.storage.online import restore, snapshot_steps

from ...support.world import World


def taken(server: World) -> tuple[int, bytes]:
    *before, last = snapshot_steps(server.engine)
    assert all(data == b"" for _, data in before)
    return last


def read_snapshot(data: bytes) -> Image:
    return online.read_snapshot(data, 2**20)


def now(server: World) -> int:
    return server.service.at(server.now)


def test_a_snapshot_holds_the_tree_and_the_sessions() -> None:
    server = World()
    client = server.connect(timeout=6000)
    client.create("/a", b"1")
    client.create("/a/e", b"2", flags=1)
    zxid, data = taken(server)
    assert zxid == server.zxid
    image, digest = read_image(io.BytesIO(data), -1)
    assert image.zxid == zxid
    assert image.sessions == {client.session_id: 6000}
    assert image.nodes["/a/e"].owner == client.session_id
    assert digest == (zxid, image.count_digest())


@pytest.mark.parametrize(("changes", "steps"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_a_snapshot_during_which_the_tree_changes_is_made_again(
    monkeypatch: pytest.MonkeyPatch, changes: int, steps: int
) -> None:
    """Twice in steps, and then at once: it is always of one zxid."""
    monkeypatch.setattr(snapshots, "_STEP", 1)
    server = World()
    client = server.connect()
    for number in range(5):
        client.create(f"/{number}")
    begun: list[int] = []
    last = (0, b"")
    made = 0
    for last in snapshot_steps(server.engine):
        if last[0] not in begun:
            begun.append(last[0])
        if not last[1] and made < changes and len(begun) > made:
            made += 1
            client.create(f"/more-{made}")
    zxid, data = last
    assert len(begun) == steps
    assert zxid == server.zxid
    image = read_snapshot(data)
    assert sum(path.startswith("/more-") for path in image.nodes) == made == min(changes, 2)


def test_a_snapshot_gives_way_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_STEP", 10)
    server = World()
    client = server.connect()
    for number in range(100):
        client.create(f"/{number}")
    assert 10 <= len(list(snapshot_steps(server.engine))) <= 14


def test_a_tree_comes_back_and_zxids_never_fall() -> None:
    server = World()
    client = server.connect()
    client.create("/a", b"old")
    _, data = taken(server)
    client.set("/a", b"new")
    client.create("/b")
    before = server.zxid
    restore(server.engine, read_snapshot(data), now(server))
    assert server.zxid > before
    assert server.tree.nodes["/a"].data == b"old"
    assert "/b" not in server.tree.nodes
    assert [txn.effect for txn in server.txns[-1:] if isinstance(txn.effect, Replace)]


def test_a_later_snapshot_carries_the_zxid_forward() -> None:
    other = World(initial_zxid=1000)
    other.connect().create("/later")
    zxid, data = taken(other)
    server = World()
    server.connect()
    restore(server.engine, read_snapshot(data), now(server))
    assert server.zxid == zxid + 1
    assert "/later" in server.tree.nodes


def test_the_sessions_of_the_snapshot_live_and_all_others_are_over() -> None:
    server = World()
    old, gone = server.connect(timeout=10_000), server.connect(timeout=10_000)
    old.create("/e", flags=1)
    gone.create("/g", flags=1)
    gone.close_session()
    _, data = taken(server)
    late = server.connect()
    server.pass_time(9)
    image = read_snapshot(data)
    image.sessions[12345] = 10_000
    image.sessions[-5] = 4000  # of a server of an ensemble whose number is above 127
    stat = STAT.pack(1, 1, 1, 1, 0, 0, 0, 999, 1)
    image.nodes["/orphan"] = ImageNode(b"", OPEN_ACL, stat)
    restore(server.engine, image, now(server))
    assert {session.id for session in server.engine.sessions} == {old.session_id, 12345}
    assert server.engine.sessions.get(late.session_id) is None
    assert {"/e", "/orphan", "/g"} & set(server.tree.nodes) == {"/e"}
    assert list(server.tree.ephemerals[old.session_id]) == ["/e"]
    server.pass_time(9)
    assert len(server.engine.sessions) == 2, "each has its whole timeout again"
    server.pass_time(4)
    assert len(server.engine.sessions) == 0
    assert "/e" not in server.tree.nodes


def snapshot_of(image: Image) -> bytes:
    return b"".join(encoded(image))


@pytest.mark.parametrize(("place", "zxid"), [(0, 70), (1, 71), (8, 72)])
def test_the_zxid_of_a_snapshot_is_the_highest_in_it(place: int, zxid: int) -> None:
    """While it was written the tree may have changed."""
    stat = [0, 0, 0, 0, 0, 0, 0, 0, 0]
    stat[place] = zxid
    image = Image.fresh()
    image.zxid = 60
    image.nodes["/a"] = ImageNode(b"", OPEN_ACL, STAT.pack(*stat))
    assert read_snapshot(snapshot_of(image)).zxid == zxid
    image.zxid = 80
    assert read_snapshot(gzip.compress(snapshot_of(image))).zxid == 80


def test_a_snapshot_that_does_not_match_its_digest_is_refused() -> None:
    image = Image.fresh()
    image.zxid = 5
    right = image.count_digest()
    image.count_digest = lambda: right ^ 1  # type: ignore[method-assign]
    with pytest.raises(FileError, match="does not match its digest") as caught:
        read_snapshot(snapshot_of(image))
    assert caught.value.offset == 0
    image.nodes["/a"] = ImageNode(b"", OPEN_ACL, STAT.pack(9, 9, 0, 0, 0, 0, 0, 0, 9))
    assert read_snapshot(snapshot_of(image)).zxid == 9, "its digest is that of zxid 5: it says nothing"
    with pytest.raises(FileError):
        read_snapshot(snapshot_of(image)[:-30] + b"x")


# --- making trees ------------------------------------------------------------------------------------------


def test_znodes_whose_parents_come_later_are_placed_and_orphans_are_told() -> None:
    """A snapshot that was written while the tree changed may have parents behind their children."""
    image = Image.fresh()
    stats = {"/a/b/c": (3, 4, 5, 6, 7, 8, 9, 0, 10), "/a/b": (2,) * 7 + (0, 2), "/x/y": (1,) * 7 + (0, 1)}
    stats |= {"/a": (1, 1, 1, 1, 0, 2, 0, 0, 5), "/own": (1, 1, 1, 1, 0, 0, 0, 77, 4)}
    for path, stat in stats.items():
        image.nodes[path] = ImageNode(path.encode(), OPEN_ACL, STAT.pack(*stat))
    del image.nodes["/zookeeper/quota"]
    told: list[int] = []
    root, lost = build(image, told.append)
    assert lost == ["/x/y"]
    assert image.nodes == {}
    assert root.children is not None
    assert sorted(root.children) == ["a", "own", "zookeeper"]
    own = root.children["own"]
    assert own.owner == 77
    assert own.children is not None
    assert (own.children.created, own.children.changed) == (0, 4)
    a = root.children["a"]
    assert a.children is not None
    assert (a.children.created, a.children.changed) == (2, 5)
    b = a.children["b"]
    assert (b.version, b.aversion, b.mzxid, b.mtime, b.ctime) == (2, 2, 2, 2, 2)
    c = b.children["c"] if b.children else None
    assert c is not None
    assert (c.czxid, c.mzxid, c.ctime, c.mtime, c.version, c.aversion) == (3, 4, 5, 6, 7, 9)
    assert c.children is not None
    assert (c.children.created, c.children.changed, c.data) == (8, 10, b"/a/b/c")
    zookeeper = root.children["zookeeper"].children
    assert sorted(zookeeper or ()) == ["config", "quota"], "what is built in and missing is added"


def test_progress_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyzk.server.storage import building

    monkeypatch.setattr(building, "_REPORT_EVERY", 4)
    image = Image.fresh()
    for number in range(7):
        image.nodes[f"/{number}"] = ImageNode(b"", OPEN_ACL, bytes(60))
    told: list[int] = []
    build(image, told.append)
    assert told == [4, 8]


def test_what_is_written_in_pieces_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "_PIECE", 4)
    pieces = online._Pieces()
    for data in (b"ab", b"cd", b"e", b"fghijk", b"l"):
        pieces.write(data)
    pieces.seek(0)
    assert [pieces.read(4) for _ in range(5)] == [b"abcd", b"efghijk", b"l", b"", b""]
