"""Reads from request to reply (semantics.md section 5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ...support.requests import acl, digest_id
from ...support.wire import Reply
from ...support.world import Peer, World


@pytest.fixture
def client(world: World) -> Peer:
    client = world.connect()
    client.create("/a", b"abc")
    client.create("/a/one")
    client.create("/a/two")
    client.create("/secret", b"s", [acl(31 & ~1, "world", "anyone")])
    client.create("/secret/child")
    return client


READS: dict[str, Callable[[Peer, str | None], Reply]] = {
    "exists": Peer.exists,
    "getData": Peer.get,
    "getChildren": Peer.children,
    "getChildren2": Peer.children2,
    "getACL": Peer.get_acl,
    "getAllChildrenNumber": Peer.count_descendants,
}

# What each path gives; a tuple lists the operations that differ.
ERRORS: list[tuple[str | None, int, dict[str, int]]] = [
    ("/a", 0, {}),
    ("/", 0, {}),
    ("", 0, {}),  # another name of the root (wire.md, trap 12)
    ("/none", -101, {}),
    ("a", -101, {}),
    ("/a/", -101, {}),
    ("//", -101, {}),
    ("/a/.", -101, {}),
    ("/a\0", -101, {"exists": -8}),
    ("/😀", -101, {}),
    ("/secret", -102, {"getACL": 0}),
    ("/secret/child", 0, {}),
    ("/secret/none", -101, {}),
    (None, -5, {}),
]


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(("path", "err", "others"), ERRORS, ids=[ascii(row[0]) for row in ERRORS])
def test_what_reading_gives(
    client: Peer, name: str, path: str | None, err: int, others: dict[str, int]
) -> None:
    reply = READS[name](client, path)
    assert reply.err == others.get(name, err)
    assert bool(reply.body) == (reply.err == 0)


def test_the_bodies(world: World, client: Peer) -> None:
    stat = world.tree.nodes["/a"].stat()
    assert client.exists("/a").record == r.ExistsResponse(stat)
    assert client.get("/a").record == r.GetDataResponse(b"abc", stat)
    assert client.get_acl("/a").record == r.GetACLResponse(r.OPEN_ACL, stat)
    assert client.children("/a/one").record == r.GetChildrenResponse(())
    children = client.children2("/a").record
    assert sorted(children.children) == sorted(client.children("/a").record.children) == ["one", "two"]
    assert children.stat == stat


def test_the_roots_other_name_reads_the_root(client: Peer) -> None:
    assert client.get("").body == client.get("/").body
    assert client.exists("").body == client.exists("/").body
    assert sorted(client.children("").record.children) == ["a", "secret", "zookeeper"]


# --- getAllChildrenNumber, getEphemerals, sync, whoAmI, ping -----------------------------------------------


def test_descendants_are_counted_at_all_depths_and_below_any_acl(client: Peer) -> None:
    client.create("/a/one/deep")
    client.set_acl("/a/one", [acl(0)])
    counts = {path: client.count_descendants(path).record.totalNumber for path in ("/a", "/a/two", "/", "")}
    assert counts == {"/a": 3, "/a/two": 0, "/": 9, "": 10}


def test_an_empty_server_counts_its_built_in_znodes() -> None:
    assert World().connect().count_descendants("/").record.totalNumber == 3


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (None, {"/a1", "/a/b", "/ab1", "/c"}),
        ("", {"/a1", "/a/b", "/ab1", "/c"}),
        (" \t", {"/a1", "/a/b", "/ab1", "/c"}),
        ("/", {"/a1", "/a/b", "/ab1", "/c"}),
        ("/a", {"/a1", "/a/b", "/ab1"}),
        ("/a/", {"/a/b"}),
        ("/c", {"/c"}),
        ("a", set()),
        ("/none", set()),
    ],
)
def test_ephemerals_are_matched_by_string_prefix(
    world: World, client: Peer, prefix: str | None, found: set[str]
) -> None:
    # semantics.md section 18, trap 37
    for path in ("/a1", "/a/b", "/ab1", "/c"):
        client.create(path, flags=1)
    world.connect().create("/a-of-another-session", flags=1)
    assert set(client.ephemerals(prefix).record.ephemerals) == found


@pytest.mark.parametrize("path", ["/a", "/none", "", "x//", None, "/\0", "/日"])
def test_sync_echoes_any_path(world: World, client: Peer, path: str | None) -> None:
    zxid = world.zxid
    reply = client.sync(path)
    assert (reply.err, reply.zxid, reply.record.path) == (0, zxid, path)


def test_sync_echoes_high_characters_as_java_writes_them(client: Peer) -> None:
    # wire.md section 2
    assert client.sync("/😀").body == bytes.fromhex("00000007") + "/\ufffd\ufffd".encode()
    utf_8 = b"/" + "😀".encode()
    reply = client.request(OpCode.SYNC, len(utf_8).to_bytes(4) + utf_8)
    assert reply.body == bytes.fromhex("00000007 2f eda0bd edb880")


def test_who_am_i_shows_users_and_no_digests(world: World) -> None:
    client = world.connect("::1")
    assert client.who_am_i().identities == [("ip", "0:0:0:0:0:0:0:1")]
    client.auth("digest", b"u:p:q")
    client.auth("digest", b"nocolon")
    assert client.who_am_i().identities == [("ip", "0:0:0:0:0:0:0:1"), ("digest", "u"), ("digest", "nocolon")]


def test_a_ping_has_no_body(world: World, client: Peer) -> None:
    reply = client.ping()
    assert (reply.xid, reply.zxid, reply.err, reply.body) == (-2, world.zxid, 0, b"")


# --- getACL (section 8.6) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("perms", "err", "shown"),
    [(1, 0, "u:x"), (16, 0, digest_id("u:p")), (17, 0, digest_id("u:p")), (2 | 4 | 8, -102, None)],
)
def test_who_sees_the_digests_of_an_acl(client: Peer, perms: int, err: int, shown: str | None) -> None:
    client.create("/p", acl=[acl(perms, "ip", "127.0.0.1"), acl(31, "digest", digest_id("u:p"))])
    reply = client.get_acl("/p")
    assert reply.err == err
    if shown:
        assert reply.record.acl == (acl(perms, "ip", "127.0.0.1"), acl(31, "digest", shown))


# --- which reads leave a watch -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "path", "registers"),
    [
        (Peer.exists, "/a", True),
        (Peer.exists, "/none", True),
        (Peer.exists, "/secret", False),
        (Peer.exists, "/\0", False),
        (Peer.get, "/a", True),
        (Peer.get, "/none", False),
        (Peer.get, "/secret", False),
        (Peer.children, "/a", True),
        (Peer.children, "/none", False),
        (Peer.children, "/secret", False),
        (Peer.children2, "/a", True),
        (Peer.children2, "/none", False),
    ],
)
@pytest.mark.parametrize("watch", [True, False])
def test_which_reads_leave_a_watch(
    world: World, client: Peer, read: Callable[..., Reply], path: str, registers: bool, watch: bool
) -> None:
    read(client, path, watch=watch)
    assert world.engine.watches.count() == (1 if registers and watch else 0)
    assert world.engine.watches.paths_of(client.connection) == ([path] if registers and watch else [])
