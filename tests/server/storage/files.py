"""Servers whose data is in files, and what these files hold."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.files.restoring import Restorer
from pyzk.protocol.files.txnlog import Entry, LogReader
from pyzk.server.core.quota import ROOT
from pyzk.server.core.tree import DataTree
from pyzk.server.storage import snapshots
from pyzk.server.storage.building import build
from pyzk.server.storage.directory import DataDirectory

from ...support.histories import SETTINGS, Run
from ...support.requests import create_op, delete_op
from ...support.world import World

SET = r.SetDataRequest("/a", b"y", -1).encode()


def world(folder: Path, **more: Any) -> World:
    return World(data=folder, **{**SETTINGS, **more})


def killed(old: World) -> None:
    """What a kill leaves: the lock of the directory goes, and nothing more is written."""
    assert old.storage is not None
    old.storage.directory.close()
    old.engine.log.journal.close()  # type: ignore[union-attr]


def stored(tree: DataTree) -> dict[str, Any]:
    """All that files hold of a tree: the usage of a quota is counted afresh."""
    return {
        path: (
            None if path.startswith(ROOT) else node.data,
            *(node.acl, node.owner, node.children_created, node.czxid, node.mzxid, node.ctime, node.mtime),
            *(node.version, node.aversion, node.pzxid, frozenset(node.children or ())),
        )
        for path, node in tree.nodes.items()
    }


def read(folder: Path, told: list[str] | None = None) -> tuple[DataTree, dict[int, int], int]:
    """What the files of a server hold, which may still run."""
    version = folder / "version-2"
    found = Restorer(
        os.listdir(version), lambda name: (version / name).open("rb"), tell=(told or []).append
    ).restore()
    image = found.image
    image.drop_orphans()
    tree = DataTree()
    root, lost = build(image)
    assert lost == []
    tree.adopt(root)
    return tree, image.sessions, image.zxid


def all_entries(folder: Path) -> list[Entry]:
    logs = (folder / "version-2").glob("log.*")
    return [entry for path in logs for entry in LogReader(io.BytesIO(path.read_bytes())).entries()]


def write_meanwhile(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a snapshot while a client writes between all of its steps: znodes that it holds already, and ones
    that it does not hold yet."""
    monkeypatch.setattr(snapshots, "_STEP", 1)
    client, names = run.peer(0), [f"/{letter}" for letter in "abcdefghij"]
    for name in names:
        client.create(name)
    storage = run.world.storage
    assert storage is not None
    for number, _ in enumerate(storage.snapshot_steps()):
        client.set(names[number % 10], b"%d" % number)
        client.create(f"{names[-number % 10]}/{number}")
        client.delete("/none")
        client.multi(create_op(f"/m{number}"), delete_op(names[0], 99))
    assert number > 10


def sizes_when_named(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the size of each snapshot when it gets its name."""
    sizes: list[int] = []
    finish = DataDirectory.finish

    def finish_whole(self: DataDirectory, path: Path, zxid: int, compression: str = "") -> None:
        sizes.append(path.stat().st_size)
        finish(self, path, zxid, compression)

    monkeypatch.setattr(DataDirectory, "finish", finish_whole)
    return sizes
