"""Writes from request to reply: bodies, Stats, paths, the reserved subtree (semantics.md sections 1 to 8)."""

from __future__ import annotations

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode
from pyzk.server.core.txn import Refused, SetACL, SetData

from ...support.invariants import check_tree_invariants
from ...support.requests import acl
from ...support.world import Peer, World, creation, deletion

SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


@pytest.fixture
def world() -> World:
    return World(extended_types=True, super_digest=SUPER_DIGEST)


# --- what the replies hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL])
def test_creates_but_the_first_answer_with_a_stat(world: World, client: Peer, op: OpCode) -> None:
    reply = client.create("/a", b"abc", flags=5 if op == 21 else 0, op=op, ttl=9 if op == 21 else None)
    z, t = world.zxid, world.epoch_ms
    assert reply.record == r.Create2Response("/a", r.Stat(z, z, t, t, 0, 0, 0, 0, 3, 0, z))


def test_create_answers_with_the_final_path_alone(client: Peer) -> None:
    assert client.create("/a-", flags=2).body == r.CreateResponse("/a-0000000000").encode()


def test_paths_are_answered_in_utf_8(client: Peer) -> None:
    assert client.create("/é日", op=OpCode.CREATE2).record.path == "/é日"
    assert client.create("/日é").body == b"\0\0\0\x06/" + "日é".encode()


def test_set_data_answers_with_the_new_stat(world: World, client: Peer) -> None:
    first = client.create("/a", b"abc", op=OpCode.CREATE2).record.stat
    world.pass_time(1.5)
    reply = client.set("/a", b"longer", 0)
    z, t = world.zxid, world.epoch_ms
    assert t == first.ctime + 1500
    assert reply.record.stat == r.Stat(first.czxid, z, first.ctime, t, 1, 0, 0, 0, 6, 0, first.pzxid)


def test_set_acl_answers_with_the_new_stat(world: World, client: Peer) -> None:
    first = client.create("/a", op=OpCode.CREATE2).record.stat
    world.pass_time(1.5)
    stat = client.set_acl("/a", [acl(31, "ip", "127.0.0.1")], 0).record.stat
    assert (stat.aversion, stat.version) == (1, 0)
    assert (stat.mzxid, stat.mtime, stat.pzxid) == (first.mzxid, first.mtime, first.pzxid)


def test_delete_answers_with_no_body(client: Peer) -> None:
    client.create("/a")
    assert client.delete("/a", 0).body == b""


@pytest.mark.parametrize("data", [None, b"", b"x"], ids=["null", "empty", "one byte"])
def test_null_and_empty_data_both_survive(client: Peer, data: bytes | None) -> None:
    client.create("/a", data)
    client.create("/b", b"other")
    client.set("/b", data)
    assert client.get("/a").record.data == client.get("/b").record.data == data


def test_writes_enter_the_history_with_everything_resolved(world: World, client: Peer) -> None:
    client.create("/a-", b"1", flags=3)
    client.create("/a-0000000000", b"1")
    client.set("/a-0000000000", b"2")
    client.set_acl("/a-0000000000", r.READ_ACL)
    client.delete("/a-0000000000")
    assert [txn.effect for txn in world.txns[1:]] == [
        creation("/a-0000000000", b"1", client.session_id),
        Refused(-110),
        SetData("/a-0000000000", b"2", 1),
        SetACL("/a-0000000000", r.READ_ACL, 1),
        deletion("/a-0000000000"),
    ]
    assert [txn.zxid for txn in world.txns] == [1, 2, 3, 4, 5, 6]
    assert {txn.session for txn in world.txns} == {client.session_id}
    assert {txn.time for txn in world.txns} == {world.epoch_ms}


# --- versions ----------------------------------------------------------------------------------------------


def test_versions_guard_data_and_acl_separately(client: Peer) -> None:
    client.create("/a")
    client.set("/a", b"")
    assert [client.set("/a", b"", version).err for version in (0, 2, 1, -1)] == [-103, -103, 0, 0]
    assert [client.set_acl("/a", r.OPEN_ACL, version).err for version in (3, 0, 0, 1)] == [-103, 0, -103, 0]
    assert [client.delete("/a", version).err for version in (2, 3)] == [-103, 0]


@pytest.mark.parametrize(("version", "following"), [(2**31 - 1, -(2**31)), (-2, -1)])
def test_versions_wrap_as_java_ints(world: World, client: Peer, version: int, following: int) -> None:
    client.create("/a")
    world.tree.nodes["/a"].version = world.tree.nodes["/a"].aversion = version
    assert client.set("/a", b"", version).record.stat.version == following
    assert client.set_acl("/a", r.OPEN_ACL, version).record.stat.aversion == following


# --- sequential names and ephemerals (sections 6 and 7) ----------------------------------------------------


def test_sequence_numbers_count_all_creates_and_no_failures_nor_deletes(client: Peer) -> None:
    client.create("/p")
    client.create("/p/plain")
    assert client.create("/p/plain").err == -110
    client.delete("/p/plain")
    assert client.create("/p/s", flags=2).record.path == "/p/s0000000001"
    assert client.create("/p/", flags=3).record.path == "/p/0000000002"
    assert client.create("/p/s", flags=3).record.path == "/p/s0000000003"


def test_an_ephemeral_has_its_owner_and_no_children(world: World, client: Peer) -> None:
    stat = client.create("/e", flags=1, op=OpCode.CREATE2).record.stat
    assert stat.ephemeralOwner == client.session_id
    assert client.create("/e/x").err == -108
    other = world.connect()
    assert other.set("/e", b"anybody may").record.stat.ephemeralOwner == client.session_id
    assert other.delete("/e").err == 0
    assert world.tree.ephemerals == {}


def test_containers_and_ttl_znodes_show_no_owner(client: Peer) -> None:
    # semantics.md section 18, trap 34
    client.create("/c", op=OpCode.CREATE_CONTAINER, flags=4)
    client.create("/t", flags=5, ttl=1000)
    assert [client.exists(path).record.stat.ephemeralOwner for path in ("/c", "/t")] == [0, 0]
    assert client.create("/c/e", flags=1).err == client.create("/t/e", flags=1).err == 0


# --- paths (section 3, last paragraph) ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "err"),
    [
        ("x/b", -101),
        ("a", -8),
        ("", -8),
        ("/", -110),
        ("/a//b", -101),
        ("/a/", -8),
        ("/none/", -101),
        ("//", -8),
        ("//b", -8),
        ("/a/.", -8),
        ("/a/..", -8),
        ("/a/...", 0),
        ("/a/\uf900", 0),
        ("/a/\ue000", -8),
        ("/a/😀", -8),
        ("/zookeeper/mine", 0),
    ],
    ids=ascii,
)
def test_create_at_odd_paths(world: World, client: Peer, path: str, err: int) -> None:
    client.create("/a")
    assert client.create(path).err == err
    check_tree_invariants(world.tree)


@pytest.mark.parametrize(
    ("path", "err"),
    [("/a/", -101), ("/a//b", -101), ("a", -8), ("", -8), ("/a\0", -8), ("x/y", -101)],
    ids=ascii,
)
def test_delete_at_odd_paths(client: Peer, path: str, err: int) -> None:
    client.create("/a")
    assert client.delete(path).err == err


@pytest.mark.parametrize("encoded", [b"/\xff", b"/a\xc3", b"/\xed\xa0\xbd", "/😀".encode(), b"/\xc0\x80"])
def test_malformed_utf_8_makes_a_bad_path(client: Peer, encoded: bytes) -> None:
    # wire.md section 2: it reads as U+FFFD, which is forbidden
    good = r.CreateRequest("/NAME", b"", r.OPEN_ACL, 0).encode()
    bad = good.replace(b"\0\0\0\x05/NAME", len(encoded).to_bytes(4) + encoded)
    assert client.request(OpCode.CREATE, bad).err == -8


# --- the reserved subtree (section 8.7) --------------------------------------------------------------------

# delete, setData, setACL, create of a child: as anybody, as super
RESERVED = [
    ("/", (-8, 0, 0, 0), (-8, 0, 0, 0)),
    ("/zookeeper", (-8, 0, 0, 0), (-8, 0, 0, 0)),
    ("/zookeeper/quota", (-8, 0, 0, 0), (-8, 0, 0, 0)),
    ("/zookeeper/config", (-8, -102, -102, -102), (-8, 0, 0, 0)),
]


@pytest.mark.parametrize("as_super", [False, True], ids=["anybody", "super"])
@pytest.mark.parametrize(("path", "anybody", "super_"), RESERVED)
def test_what_may_be_done_to_the_built_in_znodes(
    client: Peer, path: str, anybody: tuple[int, ...], super_: tuple[int, ...], as_super: bool
) -> None:
    if as_super:
        client.auth("digest", b"super:test")
    child = path.rstrip("/") + "/child"
    assert (
        client.delete(path).err,
        client.set(path, b"x").err,
        client.set_acl(path, r.OPEN_ACL).err,
        client.create(child).err,
    ) == (super_ if as_super else anybody)


def test_the_configuration_is_empty_and_its_stat_zero(client: Peer) -> None:
    record = client.get("/zookeeper/config").record
    assert record.data == b""
    assert record.stat == r.Stat(0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)


@pytest.mark.parametrize(("enabled", "err"), [(False, -123), (True, -6)])
def test_a_standalone_server_has_no_configuration_to_change(enabled: bool, err: int) -> None:
    # semantics.md section 4.7; the connection stays open
    world = World(reconfig_enabled=enabled)
    client = world.connect()
    reply = client.request(OpCode.RECONFIG, r.ReconfigRequest("a", None, "", 5))
    assert (reply.err, reply.zxid, reply.body) == (err, 2, b"")
    assert client.ping().err == 0


# --- permissions (section 8.1) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("perm", "allowed"),
    [
        (1, {"exists", "getData", "getChildren", "getChildren2", "getAllChildrenNumber", "getACL"}),
        (2, {"setData"}),
        (4, {"create"}),
        (8, {"delete"}),
        (16, {"setACL", "getACL"}),
        (0, set()),
    ],
)
def test_which_operation_needs_which_permission(client: Peer, perm: int, allowed: set[str]) -> None:
    client.create("/a")
    client.create("/a/child")
    client.set_acl("/a", [acl(perm)])
    results = {
        "exists": client.exists("/a"),
        "getData": client.get("/a"),
        "getChildren": client.children("/a"),
        "getChildren2": client.children2("/a"),
        "getAllChildrenNumber": client.count_descendants("/a"),
        "getACL": client.get_acl("/a"),
        "setData": client.set("/a", b""),
        "create": client.create("/a/b"),
        "delete": client.delete("/a/child"),
        "setACL": client.set_acl("/a", r.OPEN_ACL),
    }
    assert {name: reply.err for name, reply in results.items()} == {
        name: 0 if name in allowed else -102 for name in results
    }


def test_no_permission_is_needed_on_ancestors(client: Peer) -> None:
    client.create("/a")
    client.create("/a/b")
    client.set_acl("/a", [acl(0)])
    assert client.set("/a/b", b"").err == 0
    assert client.create("/a/b/c").err == 0


def test_an_auth_entry_is_stored_as_who_asked(client: Peer) -> None:
    assert client.create("/a", acl=[acl(31, "auth", "")]).err == -114
    client.auth("digest", b"u:p")
    assert client.create("/a", acl=[acl(31, "auth", "")]).err == 0
    assert client.get_acl("/a").record.acl == (acl(31, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),)
