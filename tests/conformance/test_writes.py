"""delete, setData, setACL: order of checks, and what each write does to Stats (semantics.md 1.3, 1.4, 4)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, create_op, delete_op, set_op
from ..support.wire import WireClient
from .conftest import Connect
from .servers import SUPER_CREDENTIALS

BUILT_IN = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"]
NOBODY = [acl(0, "world", "anyone")]


def without(perms: int) -> list[r.ACL]:
    return [acl(31 & ~perms, "world", "anyone")]


@pytest.fixture
def tree(client: WireClient, top: str) -> str:
    """A parent with children of every sort that the tables below name."""
    client.create(f"{top}/leaf")
    client.create(f"{top}/branch")
    client.create(f"{top}/branch/leaf")
    client.create(f"{top}/no-delete", acl=without(8))
    client.create(f"{top}/no-delete/leaf")
    client.create(f"{top}/private", acl=NOBODY)
    client.create(f"{top}/full", b"12345")
    quota = f"/zookeeper/quota{top}"
    client.create(quota)
    client.create(f"{quota}/full")
    client.create(f"{quota}/full/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=5")
    client.create(f"{quota}/full/zookeeper_stats")
    return top


# --- delete (semantics.md 4.2) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "version", "err"),
    [
        ("", -1, -8),
        ("nosl", -1, -8),
        ("{top}/\0", -1, -8),
        ("/none/n", -1, -101),
        ("{top}/none/n", -1, -101),
        ("{top}/no-delete/none", 7, -102),
        ("{top}/no-delete/leaf", 7, -102),
        ("{top}/none", 7, -101),
        ("{top}/.", -1, -101),
        ("{top}/leaf/", -1, -101),
        ("{top}/\x01", -1, -101),
        ("{top}/branch", 7, -103),
        ("{top}/branch", 0, -111),
        ("{top}/branch", -1, -111),
        ("{top}/leaf", 1, -103),
        ("{top}/leaf", -2, -103),
        ("{top}/leaf", 0, 0),
        ("{top}/leaf", -1, 0),
        ("{top}/private", -1, 0),  # the node's own ACL plays no role
    ],
)
def test_delete(client: WireClient, tree: str, path: str, version: int, err: int) -> None:
    reply = client.delete(path.format(top=tree), version)
    assert (reply.err, reply.body) == (err, b"")


@pytest.mark.parametrize("path", BUILT_IN)
def test_built_in_znodes_stay_even_for_super(client: WireClient, path: str) -> None:
    assert client.delete(path).err == -8
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.delete(path).err == -8


def test_a_deleted_znode_is_gone(client: WireClient, tree: str) -> None:
    client.delete(f"{tree}/leaf")
    assert client.exists(f"{tree}/leaf").err == -101
    assert "leaf" not in client.children(tree).record.children


# --- setData (semantics.md 4.3) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "data", "version", "err"),
    [
        ("nosl", b"", -1, -8),
        ("", b"", -1, -8),
        ("{top}/", b"", -1, -8),
        ("{top}//leaf", b"", -1, -8),
        ("{top}/none/..", b"", -1, -8),
        ("{top}/none", b"", 7, -101),
        ("{top}/private", b"", 7, -102),
        ("{top}/full", b"123456", 7, -125),
        ("{top}/full", b"123456", 0, -125),
        ("{top}/full", b"abcde", 7, -103),
        ("{top}/full", b"abcde", 0, 0),
        ("{top}/leaf", b"", 1, -103),
        ("{top}/leaf", b"", -2, -103),
        ("{top}/leaf", b"x", 0, 0),
        ("{top}/leaf", None, -1, 0),
    ],
)
def test_set_data(
    client: WireClient, tree: str, path: str, data: bytes | None, version: int, err: int
) -> None:
    assert client.set(path.format(top=tree), data, version).err == err


# --- setACL (semantics.md 4.4) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "entries", "version", "err"),
    [
        ("nosl", [], -1, -8),
        ("{top}/leaf/", [], -1, -8),
        ("{top}/none", [], -1, -114),
        ("{top}/private", [], -1, -114),
        ("{top}/leaf", None, -1, -114),
        ("{top}/none", r.OPEN_ACL, 7, -101),
        ("{top}/private", r.OPEN_ACL, 7, -102),
        ("{top}/leaf", r.OPEN_ACL, 1, -103),
        ("{top}/leaf", r.OPEN_ACL, 0, 0),
    ],
)
def test_set_acl(client: WireClient, tree: str, path: str, entries: Any, version: int, err: int) -> None:
    assert client.set_acl(path.format(top=tree), entries, version).err == err


def test_set_acl_compares_the_acl_version(client: WireClient, tree: str) -> None:
    client.set(f"{tree}/leaf", b"")
    client.set(f"{tree}/leaf", b"")
    assert client.set_acl(f"{tree}/leaf", r.OPEN_ACL, 2).err == -103
    assert client.set_acl(f"{tree}/leaf", r.OPEN_ACL, 0).err == 0
    assert client.set_acl(f"{tree}/leaf", r.OPEN_ACL, 0).err == -103
    assert client.set_acl(f"{tree}/leaf", r.OPEN_ACL, 1).record.stat.aversion == 2


# --- check, inside a multi (semantics.md 4.5) --------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "version", "err"),
    [
        ("nosl", -1, -8),
        ("{top}/none/", -1, -8),
        ("{top}/none", 7, -101),
        ("{top}/private", 7, -102),
        ("{top}/leaf", 7, -103),
        ("{top}/leaf", 0, 0),
        ("{top}/leaf", -1, 0),
    ],
)
def test_check(client: WireClient, tree: str, path: str, version: int, err: int) -> None:
    assert client.multi(check_op(path.format(top=tree), version)).results[0].err == err


# --- the reserved subtree (semantics.md 8.7) ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "err"), [("/", 0), ("/zookeeper", 0), ("/zookeeper/quota", 0), ("/zookeeper/config", -102)]
)
def test_writes_to_the_built_in_znodes(client: WireClient, path: str, err: int) -> None:
    entries = r.READ_ACL if path == "/zookeeper/config" else r.OPEN_ACL
    assert client.set(path, b"").err == err
    assert client.set_acl(path, entries).err == err
    client.auth("digest", SUPER_CREDENTIALS)
    assert client.set(path, b"").err == 0
    assert client.set_acl(path, entries).err == 0


@pytest.mark.parametrize("op", [OpCode.RECONFIG])
def test_reconfig_is_disabled(client: WireClient, op: OpCode) -> None:
    # semantics.md 4.7: nothing else is examined
    assert client.request(op, r.ReconfigRequest(None, None, None, 0)).err == -123
    assert client.ping().err == 0


# --- the effect on Stats (semantics.md 1.4) ----------------------------------------------------------------


def changed(before: r.Stat, after: r.Stat) -> dict[str, int]:
    """The fields that changed: version fields by how much, the others with their new value."""
    old, new = attrs.asdict(before), attrs.asdict(after)
    counters = {"version", "cversion", "aversion", "numChildren"}
    return {
        name: new[name] - old[name] if name in counters else new[name]
        for name in new
        if new[name] != old[name] and name not in ("ctime", "mtime")
    }


ONE_MORE = {"cversion": 1, "numChildren": 1, "pzxid": "Z"}
EFFECTS = [  # name, request, changes of the znode, changes of its parent; Z stands for the zxid
    ("create child", lambda c, p: c.create(f"{p}/new"), ONE_MORE, {}),
    ("create2 child", lambda c, p: c.create(f"{p}/new", op=15), ONE_MORE, {}),
    ("ephemeral child", lambda c, p: c.create(f"{p}/new", flags=1), ONE_MORE, {}),
    ("container child", lambda c, p: c.create(f"{p}/new", op=19), ONE_MORE, {}),
    ("delete child", lambda c, p: c.delete(f"{p}/old"), {"cversion": 1, "numChildren": -1, "pzxid": "Z"}, {}),
    ("setData", lambda c, p: c.set(p, b"new!"), {"version": 1, "mzxid": "Z", "dataLength": 4}, {}),
    ("setData, same", lambda c, p: c.set(p, b""), {"version": 1, "mzxid": "Z"}, {}),
    ("setACL", lambda c, p: c.set_acl(p, r.OPEN_ACL), {"aversion": 1}, {}),
    ("refused create", lambda c, p: c.create(f"{p}/old"), {}, {}),
    ("refused setData", lambda c, p: c.set(p, b"new", 99), {}, {}),
    ("sync", lambda c, p: c.sync(p), {}, {}),
    ("read", lambda c, p: c.get(p, True), {}, {}),
    ("check", lambda c, p: c.multi(check_op(p, 0)), {}, {}),
    (
        "multi",
        lambda c, p: c.multi(create_op(f"{p}/n"), set_op(p, b"12"), delete_op(f"{p}/old"), set_op(p, b"1")),
        {"cversion": 2, "pzxid": "Z", "version": 2, "mzxid": "Z", "dataLength": 1},
        {},
    ),
    ("failed multi", lambda c, p: c.multi(create_op(f"{p}/n"), set_op(p, b"1"), check_op(p, 9)), {}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "own", "parents"), [row[1:] for row in EFFECTS], ids=[row[0] for row in EFFECTS]
)
def test_effect_on_stats(
    client: WireClient, top: str, call: Any, own: dict[str, Any], parents: dict[str, Any]
) -> None:
    path = f"{top}/p"
    client.create(path)
    client.create(f"{path}/old")
    before, parent_before = client.exists(path).record.stat, client.exists(top).record.stat
    reply = call(client, path)
    after, parent_after = client.exists(path).record.stat, client.exists(top).record.stat
    zxids = {name: reply.zxid if value == "Z" else value for name, value in own.items()}
    assert changed(before, after) == zxids
    assert changed(parent_before, parent_after) == parents
    assert after.ctime == before.ctime
    if "mzxid" not in own:
        assert after.mtime == before.mtime


def test_creating_and_deleting_touch_only_the_parent(client: WireClient, top: str) -> None:
    client.create(f"{top}/p")
    before = client.exists(top).record.stat
    zxid = client.delete(f"{top}/p").zxid
    after = client.exists(top).record.stat
    assert changed(before, after) == {"cversion": 1, "numChildren": -1, "pzxid": zxid}


def test_set_data_answers_the_new_stat(client: WireClient, top: str) -> None:
    reply = client.set(top, b"123")
    assert reply.record.stat == client.exists(top).record.stat
    assert (reply.record.stat.version, reply.record.stat.mzxid) == (1, reply.zxid)


def test_set_acl_answers_the_new_stat(client: WireClient, top: str) -> None:
    reply = client.set_acl(top, r.OPEN_ACL)
    assert reply.record.stat == client.exists(top).record.stat
    assert reply.record.stat.mzxid < reply.zxid


def test_a_recreated_znode_starts_from_zero(client: WireClient, tree: str) -> None:
    path = f"{tree}/leaf"
    client.set(path, b"x")
    client.set_acl(path, r.OPEN_ACL)
    client.delete(path)
    client.create(path)
    stat = client.exists(path).record.stat
    assert (stat.version, stat.cversion, stat.aversion, stat.dataLength) == (0, 0, 0, 0)


def test_cversion_counts_creates_and_deletes(client: WireClient, top: str) -> None:
    # semantics.md 1.3
    seen = [client.exists(top).record.stat.cversion]
    for call in (client.create, client.delete, client.create):
        call(f"{top}/n")  # type: ignore[operator]
        seen.append(client.exists(top).record.stat.cversion)
    assert seen == [0, 1, 2, 3]


def test_the_parent_of_a_top_level_znode_is_the_root(connect: Connect, client: WireClient, top: str) -> None:
    before = client.exists("/").record.stat
    zxid = client.create(f"{top}-sibling").zxid
    after = client.exists("/").record.stat
    assert changed(before, after) == {"cversion": 1, "numChildren": 1, "pzxid": zxid}
    client.delete(f"{top}-sibling")
