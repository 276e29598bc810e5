"""A tree that replaces the one that is served: its znodes are encoded before, if nothing of it changes until
then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyzk.protocol.files.digest import value_of
from pyzk.protocol.files.places import image_at
from pyzk.protocol.files.snapshot import NodeEncoder
from pyzk.server.core.replacing import prepare, replace
from pyzk.server.core.znode import copy_tree
from pyzk.server.storage import snapshots
from pyzk.server.storage.snapshots import Ahead

from ...support.replacing import following, made_of
from ...support.world import Peer, World
from .files import killed, read, stored, world

Meanwhile = Callable[[World, Peer], object]


def configured(server: World, gone: Peer) -> None:
    server.tree.configure(b"server.1=other", 1, 1, 1)


@pytest.mark.parametrize(
    ("meanwhile", "anew"),
    [
        (lambda server, gone: None, False),
        (lambda server, gone: gone.create("/later"), False),  # in the tree that goes
        (lambda server, gone: gone.close_session(), True),
        (configured, True),
    ],
    ids=["nothing", "a write", "a session ends", "the list of the servers"],
)
def test_the_files_hold_the_tree_that_was_encoded_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile, anew: bool
) -> None:
    monkeypatch.setattr(snapshots, "_STEP", 3)
    server = world(tmp_path)
    client, gone = server.connect(), server.connect()
    for number in range(8):
        client.create(f"/{number}", b"x" * number)
    gone.create("/gone", flags=1)
    saved, owners = copy_tree(server.tree.nodes["/"]), frozenset(server.tree.ephemerals)
    client.set("/1", b"later")
    client.create("/more")
    touched = following(server)
    replacement = made_of(prepare(server.engine, saved, owners))
    encoded: list[str] = []
    encode = NodeEncoder.encode
    monkeypatch.setattr(
        NodeEncoder, "encode", lambda self, path, *more: encoded.append(path) or encode(self, path, *more)
    )
    storage = server.storage
    assert storage is not None
    with storage.ahead(replacement.tree) as steps:
        counts = list(steps)
        znodes = len(replacement.tree) - 1
        assert counts == [*range(3, znodes, 3), znodes]
        assert len(encoded) == znodes
        meanwhile(server, gone)
        encoded.clear()
        replace(server.engine, replacement, touched, 0)
        assert bool(encoded) is anew
    assert storage._ahead is None
    assert not [name for name in os.listdir(tmp_path / "version-2") if "unfinished" in name]
    name = storage.directory.listing().snapshots[-1]
    assert name.zxid == server.zxid
    told: list[str] = []
    image = image_at(tmp_path / "version-2" / name.text, told.append)
    assert told == [], "it matches its digest"
    assert image.sessions.keys() == {session.id for session in server.engine.sessions}
    client.create("/behind")
    tree, _, zxid = read(tmp_path)
    assert (stored(tree), zxid) == (stored(server.tree), server.zxid)
    assert ("/gone" in tree.nodes) is not gone.closed
    killed(server)


def test_without_a_replacement_the_next_snapshot_is_that_of_the_tree_that_is_served(tmp_path: Path) -> None:
    server = world(tmp_path)
    client = server.connect()
    client.create("/a")
    replacement = made_of(prepare(server.engine, copy_tree(server.tree.nodes["/"]), ()))
    client.create("/b")
    storage = server.storage
    assert storage is not None
    with storage.ahead(replacement.tree) as steps:
        list(steps)
        storage.write_snapshot()
    for log in (tmp_path / "version-2").glob("log.*"):
        log.unlink()
    assert stored(read(tmp_path)[0]) == stored(server.tree)
    killed(server)


def test_what_was_encoded_is_forgotten_where_the_replacement_fails(tmp_path: Path) -> None:
    server = world(tmp_path)
    storage = server.storage
    assert storage is not None
    with pytest.raises(ValueError, match="a bug"), storage.ahead(server.tree):
        raise ValueError("a bug")
    assert storage._ahead is None
    killed(server)


def test_the_digest_of_what_was_encoded(tmp_path: Path) -> None:
    server = World()
    server.connect().create("/a", b"data")
    with (tmp_path / "body").open("w+b") as body:
        ahead = Ahead(server.engine, server.tree, body)
        assert not ahead.is_of(server.tree), "nothing is encoded yet"
        list(ahead.steps())
    assert ahead.is_of(server.tree)
    assert not ahead.is_of(World().tree)
    nodes = {"": server.tree.nodes["/"], **dict(server.tree.items_below("/"))}
    values = [value_of(path, node.data, snapshots.stored_stat(node)) for path, node in nodes.items()]
    assert ahead.writer._digest == sum(values) % 2**64
    server.connect().create("/b")
    assert not ahead.is_of(server.tree)
