"""Trees on a disk as snapshots, as data directories and as znodes: read, written and made."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from pyzk.protocol.dump import Node
from pyzk.protocol.files.image import CONTAINER, MAX_TTL, TTL_MARK, Image, ImageNode
from pyzk.protocol.files.nodes import nodes_of, stored_stat
from pyzk.protocol.files.places import begins, folder_of, image_at, is_data, write_image
from pyzk.protocol.files.restoring import Damaged
from pyzk.protocol.files.snapshot import STAT
from pyzk.protocol.files.streams import FileError
from pyzk.protocol.files.writing import image_of
from pyzk.protocol.records import ACL, OPEN_ACL, Id, Stat

from .sample import READ_ONLY, SESSION, entries, history, prefixes, state, written

NOW = 1_700_000_000_000


def image() -> Image:
    made = Image.fresh()
    for entry in entries()[:-1]:
        made.apply(entry)
    return made


# --- snapshots and directories -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tree", "snapshot.5", "snapshot.c", "tree.gz", "tree.snappy", "tree.bak"])
def test_a_tree_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    if name.endswith("snappy"):
        pytest.importorskip("cramjam", reason="the extra 'snappy' is not installed")
    tree = image()
    target = tmp_path / name
    assert write_image(tree, target) == target
    told: list[str] = []
    read = image_at(target, told.append)
    assert state(read)["nodes"] == state(tree)["nodes"]
    assert read.sessions == tree.sessions
    assert read.zxid == (5 if name == "snapshot.5" else tree.zxid), "its name says it; else the file"
    assert told == []
    assert is_data(target)
    start = {"tree.gz": b"\x1f\x8b", "tree.snappy": b"\x82SNA"}.get(name, b"ZKSN")
    assert begins(target).startswith(start)
    assert len(begins(target)) == 4
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_file_that_is_there_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    target = tmp_path / "tree"
    target.write_bytes(b"x" * 100_000)
    with pytest.raises(FileExistsError, match=r"tree exists; name another file"):
        write_image(image(), target)
    assert target.read_bytes() == b"x" * 100_000
    write_image(image(), target, replace=True)
    assert image_at(target).zxid == image().zxid


@pytest.mark.parametrize("made", ["new/", "there", "there/", "version-2/"])
def test_a_directory_gets_a_folder_with_a_snapshot(tmp_path: Path, made: str) -> None:
    if made.startswith("there"):
        (tmp_path / made).mkdir()
    tree = image()
    found = write_image(tree, f"{tmp_path}/{made}")
    folder = tmp_path / made if made == "version-2/" else tmp_path / made / "version-2"
    assert found == folder / "snapshot.c"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert state(image_at(tmp_path / made)) == state(tree)
    with pytest.raises(FileExistsError, match="version-2 already contains data"):
        write_image(tree, f"{tmp_path}/{made}")


@pytest.mark.parametrize("inner", ["version-2", ""])
def test_a_directory_is_restored(tmp_path: Path, inner: str) -> None:
    folder = tmp_path / "data" / inner
    folder.mkdir(parents=True)
    for name, data in history().files.items():
        (folder / name).write_bytes(data)
    assert folder_of(tmp_path / "data") == folder
    assert is_data(tmp_path / "data")
    told: list[str] = []
    assert state(image_at(tmp_path / "data", told.append)) == prefixes(entries())[-1]
    assert told == []
    log = folder / "log.1"
    log.write_bytes(log.read_bytes()[:-2])
    assert state(image_at(tmp_path / "data", told.append)) == prefixes(entries())[-2]
    assert len(told) == 1
    (folder / "snapshot.0").unlink()
    with pytest.raises(Damaged, match="there are logs and no snapshot"):
        image_at(tmp_path / "data")


def test_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text('{"path": "/"}')
    assert not is_data(tmp_path / "dump")
    with pytest.raises(FileError):
        image_at(tmp_path / "dump")
    with pytest.raises(FileNotFoundError):
        image_at(tmp_path / "missing")


def test_a_snapshot_alone_that_does_not_match_its_digest_is_told(tmp_path: Path) -> None:
    tree = image()
    right = tree.count_digest()
    tree.count_digest = lambda: right ^ 1  # type: ignore[method-assign]
    for name, lines in (("snapshot.c", 1), ("snapshot.b", 0), ("tree", 1)):  # b: the log makes it right
        (tmp_path / name).write_bytes(written(tree))
        told: list[str] = []
        image_at(tmp_path / name, told.append)
        assert len(told) == lines, name
        assert all(line.startswith("it does not match its digest") for line in told)


def test_a_damaged_file_that_is_compressed_is_told(tmp_path: Path) -> None:
    (tmp_path / "tree.gz").write_bytes(gzip.compress(written(image()))[:-30])
    assert is_data(tmp_path / "tree.gz")
    with pytest.raises(FileError, match="uncompressed"):
        image_at(tmp_path / "tree.gz")


# --- znodes of an image ------------------------------------------------------------------------------------


def stat_bytes(owner: int = 0, created: int = 0) -> bytes:
    return STAT.pack(3, 4, 5, 6, 7, created, 8, owner, 9)


def an_image(**owners: int) -> Image:
    made = Image.fresh()
    for path, owner in owners.items():
        made.nodes[f"/{path}"] = ImageNode(b"x", READ_ONLY, stat_bytes(owner))
    return made


def test_the_znodes_of_an_image() -> None:
    """Parents before children, siblings in order, without the server's own."""
    tree = an_image(b=0, a=0, zookeeperx=0, **{"a-b": 0, "a/c": 0, "a/c/d": 0, "ab": 0})
    found = list(nodes_of(tree))
    paths = ["/", "/a", "/a/c", "/a/c/d", "/a-b", "/ab", "/b", "/zookeeperx"]
    assert [node.path for node in found] == paths
    assert [node.path for node in nodes_of(tree, "/a")] == ["/", "/c", "/c/d"]
    assert [node.path for node in nodes_of(tree, "/zookeeper")] == ["/", "/config", "/quota"]
    assert list(nodes_of(tree, "/missing")) == []
    assert found[1].stat == stat_bytes()
    assert (found[0].acl, found[1].acl) == (OPEN_ACL, READ_ONLY)


def test_the_kinds_of_znodes() -> None:
    ttl = (TTL_MARK | 1500) - 2**64
    tree = an_image(c=CONTAINER, e=SESSION, f=77, g=78, p=0, t=ttl)
    tree.sessions = {SESSION: 2500, 78: 0}
    found = {node.path: node for node in nodes_of(tree)}
    kinds = {path: (node.kind, node.ttl, node.owner, node.timeout) for path, node in found.items()}
    assert kinds == {
        "/": ("persistent", None, 0, None),
        "/c": ("container", None, 0, None),
        "/e": ("ephemeral", None, SESSION, 2.5),
        "/f": ("ephemeral", None, 77, None),
        "/g": ("ephemeral", None, 78, None),
        "/p": ("persistent", None, 0, None),
        "/t": ("ttl", 1.5, 0, None),
    }
    assert {node.data for path, node in found.items() if path != "/"} == {b"x"}


@pytest.mark.parametrize(
    ("cversion", "children", "created"), [(0, 0, 0), (5, 3, 4), (1, 1, 1), (-2, 0, 2**31 - 1), (7, 1, 4)]
)
def test_a_stat_of_a_client_as_files_have_it(cversion: int, children: int, created: int) -> None:
    """A cversion counts creates and deletes; files count the creates (files.md section 2)."""
    stat = Stat(
        czxid=1,
        mzxid=2,
        ctime=3,
        mtime=4,
        version=5,
        cversion=cversion,
        aversion=6,
        ephemeralOwner=7,
        dataLength=8,
        numChildren=children,
        pzxid=9,
    )
    assert STAT.unpack(stored_stat(stat)) == (1, 2, 3, 4, 5, created, 6, 7, 9)


# --- an image of znodes ------------------------------------------------------------------------------------


def fields(made: Image, path: str) -> tuple[Any, ...]:
    return STAT.unpack(made.nodes[path].stat)


def test_znodes_without_a_stat_are_as_of_one_transaction() -> None:
    made = image_of(
        [
            Node("/", b"root"),
            Node("/a", b"1", READ_ONLY),
            Node("/a/b", None),
            Node("/a/c", b""),
            Node("/a/c/d", b""),
            Node("/e", b""),
        ],
        NOW,
    )
    assert made.zxid == 1
    created = {"": 2, "/a": 2, "/a/b": 0, "/a/c": 1, "/a/c/d": 0, "/e": 0}
    for path, children in created.items():
        assert fields(made, path) == (1, 1, NOW, NOW, 0, children, 0, 0, 1), path
    assert (made.nodes[""].data, made.nodes["/a/b"].data) == (b"root", None)
    assert (made.nodes["/a"].acl, made.nodes["/e"].acl) == (READ_ONLY, OPEN_ACL)
    assert {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} <= set(made.nodes)
    assert made.sessions == {}


def test_a_znode_keeps_the_stat_that_is_known() -> None:
    known = STAT.pack(30, 40, 5, 6, 7, 22, 8, 99, 35)
    made = image_of([Node("/", b"", stat=known), Node("/a", b""), Node("/b", b"", stat=known)], NOW)
    assert fields(made, "") == (30, 40, 5, 6, 7, 22, 8, 0, 35), "it counts its children itself; no owner"
    assert made.zxid == 40
    for place, zxid in ((0, 50), (1, 51), (8, 52)):
        stat = list(STAT.unpack(known))
        stat[place] = zxid
        assert image_of([Node("/", b"", stat=STAT.pack(*stat))], NOW).zxid == zxid


def owner_of(node: Node) -> int:
    return image_of([node], NOW).nodes["/x"].owner


def test_what_owns_a_znode_is_stored() -> None:
    x = Node("/x", b"")
    assert owner_of(attrs.evolve(x, owner=5)) == 0
    assert owner_of(attrs.evolve(x, kind="ephemeral", owner=5)) == 5
    assert owner_of(attrs.evolve(x, kind="container")) == CONTAINER
    for ttl, stored in ((1.5, 1500), (0.0014, 1), (None, 0), (2.0**40, MAX_TTL)):
        assert owner_of(attrs.evolve(x, kind="ttl", ttl=ttl)) == (0xFF << 56 | stored) - 2**64


@pytest.mark.parametrize(
    ("timeout", "stored"), [(None, 30_000), (2.0, 2000), (0.0001, 1), (1e9, 2**31 - 1), (2.0001, 2001)]
)
def test_the_owner_of_an_ephemeral_has_a_timeout(timeout: float | None, stored: int) -> None:
    made = image_of([Node("/x", b"", kind="ephemeral", owner=5, timeout=timeout)], NOW)
    assert made.sessions == {5: stored}


def test_an_image_comes_back_from_its_znodes(tmp_path: Path) -> None:
    tree = image()
    made = image_of(nodes_of(tree), NOW)
    assert {path: node.stat for path, node in made.nodes.items() if "zookeeper" not in path} == {
        path: node.stat for path, node in tree.nodes.items() if "zookeeper" not in path
    }
    assert made.sessions == tree.sessions
    assert made.zxid == max(max(fields(tree, path)[k] for k in (0, 1, 8)) for path in tree.nodes)
    write_image(made, tmp_path / "tree")
    assert state(image_at(tmp_path / "tree")) == state(made)


def test_the_access_of_a_listed_znode(tmp_path: Path) -> None:
    acl = (ACL(31, Id("digest", "user:secret")),)
    paths: Iterable[Node] = [Node("/", b""), Node("/a", b"", acl)]
    made = image_of(paths, NOW)
    write_image(made, tmp_path / "one.gz")
    assert image_at(tmp_path / "one.gz").nodes["/a"].acl == acl
    assert os.path.getsize(tmp_path / "one.gz") > 0
