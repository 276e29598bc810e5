"""Each effect has an entry in the log: it is written, restored, and shown by ``pyzk inspect``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from pyzk.cli.verbs import inspecting
from pyzk.protocol.files.txnlog import LogReader
from pyzk.server.core import txn
from pyzk.server.storage import entries

from ...support.requests import acl, check_op, create_op, delete_op, set_op
from ...support.world import Peer
from .files import killed, read, stored, world

ACLS = [acl(1, "world", "anyone")]
EFFECTS: dict[Any, Callable[[Peer], Any]] = {
    txn.Create: lambda client: client.create("/new", b"x"),
    txn.Delete: lambda client: client.delete("/there"),
    txn.SetData: lambda client: client.set("/there", b"x"),
    txn.SetACL: lambda client: client.set_acl("/there", ACLS),
    txn.Check: lambda client: client.multi(check_op("/there", 0)),
    txn.Multi: lambda client: client.multi(
        create_op("/new", b"x"),
        set_op("/new", b"y"),
        check_op("/new", 1),
        delete_op("/there"),
    ),
    txn.CreateSession: lambda client: client.world.connect(),
    txn.CloseSession: lambda client: client.close_session(),
    txn.Refused: lambda client: client.delete("/none"),
}
"""What makes a server enter each effect. ``Replace`` has no entry: a snapshot is written instead."""


def test_all_effects_are_here() -> None:
    assert EFFECTS.keys() == {*get_args(txn.AnyEffect)} - {txn.Replace}


@pytest.mark.parametrize("tree_digest", [False, True])
@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_is_written_restored_and_shown(effect: Any, tree_digest: bool, tmp_path: Path) -> None:
    server = world(tmp_path, tree_digest=tree_digest)
    client = server.connect()
    client.create("/there", b"data")
    EFFECTS[effect](client)
    made = server.txns[-1].effect
    assert effect in map(type, (made, *(made.effects if isinstance(made, txn.Multi) else ())))
    assert server.storage is not None
    server.storage.write_journal()
    tree, sessions, zxid = read(tmp_path)
    assert (stored(tree), zxid) == (stored(server.tree), server.zxid)
    assert sessions.keys() == {session.id for session in server.engine.sessions}
    (log,) = (tmp_path / "version-2").glob("log.*")
    with log.open("rb") as file:
        last = [*LogReader(file).entries()][-1]
    assert last.zxid == server.zxid
    assert (last.digest is not None) == tree_digest
    line, fields = inspecting._line(last), inspecting._fields(last)
    assert "type " not in line
    assert fields["zxid"] == f"0x{zxid:x}"
    killed(server)


def test_an_effect_that_the_log_does_not_know_fails_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it changes the tree, and is lost: its client is the first to notice."""

    @attrs.define
    class Rename:
        path: str

    monkeypatch.setattr(txn, "AnyEffect", txn.AnyEffect | Rename)
    spec = importlib.util.spec_from_file_location("pyzk.server.storage.again", entries.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(TypeError, match="the log has no entry for Rename"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
