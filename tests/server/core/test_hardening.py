"""Where ours deliberately differs from the real server: one test for each row of semantics.md section 16."""

from __future__ import annotations

import logging

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode

from ...support.invariants import check_tree_invariants
from ...support.wire import Handshake
from ...support.world import Peer, World

QUOTA = "/zookeeper/quota"


@pytest.fixture
def world() -> World:
    return World(extended_types=True, enforce_quota=True)


# --- op 21 with flags 0..4: -8 -----------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [-1, 0, 1000])
@pytest.mark.parametrize("flags", range(5))
def test_create_ttl_needs_a_ttl_mode(world: World, client: Peer, flags: int, ttl: int) -> None:
    assert client.create("/a", flags=flags, ttl=ttl).err == -8
    assert "/a" not in world.tree.nodes
    assert not client.closed


@pytest.mark.parametrize("flags", range(5))
def test_it_does_so_also_while_extended_types_are_disabled(flags: int) -> None:
    assert World().connect().create("/a", flags=flags, ttl=-1).err == -8


# --- zookeeper_limits and zookeeper_stats anywhere but as a quota's own node: an ordinary node -------------

ELSEWHERE = [
    "/zookeeper_limits",
    "/zookeeper_stats",
    "/a/zookeeper_limits",
    "/a/zookeeper_stats",
    "/zookeeper/zookeeper_limits",
    "/zookeeper/zookeeper_stats",
    f"{QUOTA}/zookeeper_limits",
    f"{QUOTA}/zookeeper_stats",
    "/zookeeper/quotas/zookeeper_limits",
    "/zookeeper/quotas/zookeeper_stats",
    f"{QUOTA}/a/my_zookeeper_limits",
    f"{QUOTA}/a/zookeeper_stats2",
]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_names_of_quota_nodes_mean_nothing_elsewhere(world: World, client: Peer, path: str) -> None:
    for parent in ("/a", "/zookeeper/quotas", f"{QUOTA}/a"):
        client.create(parent)
    assert client.create(path, b"count=0,bytes=0;countHardLimit=0").err == 0
    assert list(world.tree.quotas.prefixes) == []
    assert client.create("/b").err == client.create("/a/b").err == 0
    assert client.get(path).record.data == b"count=0,bytes=0;countHardLimit=0"
    assert client.set(path, b"junk").err == 0
    assert client.delete(path).err == 0
    check_tree_invariants(world.tree)


# --- text that is no quota in a quota's own node: usage recomputed, limit unset, one warning ---------------

GARBAGE = [
    b"",
    b"junk",
    b"count",
    b"count=x,bytes=y",
    b"\xff\xfe",
    None,
    b"count=-",
    b"count=1e3",
    b"count=1_0,bytes=1_0",
    b"count=9999999999999999999999999999999999999999",
    b"{}",
]


def quota(client: Peer) -> None:
    client.create("/q", b"12345")
    client.create(f"{QUOTA}/q")
    client.create(f"{QUOTA}/q/zookeeper_limits", b"countHardLimit=1")
    client.create(f"{QUOTA}/q/zookeeper_stats", b"count=0,bytes=0")


@pytest.mark.parametrize("text", GARBAGE, ids=repr)
def test_garbled_limits_count_as_unset(world: World, client: Peer, text: bytes | None) -> None:
    quota(client)
    assert client.create("/q/n").err == -125
    assert client.set(f"{QUOTA}/q/zookeeper_limits", text).err == 0
    replies = [client.create("/q/n"), client.set("/q/n", b"data"), client.delete("/q/n")]
    assert [reply.err for reply in replies] == [0, 0, 0]
    assert client.get(f"{QUOTA}/q/zookeeper_stats").record.data == b"count=1,bytes=5"
    assert client.set(f"{QUOTA}/q/zookeeper_limits", b"countHardLimit=1").err == 0
    assert client.create("/q/n").err == -125, "a text that is mended counts again"
    check_tree_invariants(world.tree)


@pytest.mark.parametrize("text", [b"junk", b"count=x,bytes=y", b"\xff\xfe"])
def test_garbled_limits_are_logged_once(client: Peer, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    quota(client)
    client.set(f"{QUOTA}/q/zookeeper_limits", text)
    with caplog.at_level(logging.WARNING, "pyzk"):
        for i in range(5):
            client.create(f"/q/{i}")
            client.set(f"/q/{i}", b"x")
    (record,) = caplog.records
    assert "/q" in record.getMessage()


@pytest.mark.parametrize("text", GARBAGE, ids=repr)
def test_garbled_usage_is_recomputed(world: World, client: Peer, text: bytes | None) -> None:
    quota(client)
    client.set(f"{QUOTA}/q/zookeeper_limits", b"countHardLimit=3")
    assert client.set(f"{QUOTA}/q/zookeeper_stats", text).err == 0
    assert client.create("/q/a", b"67").err == 0
    assert client.get(f"{QUOTA}/q/zookeeper_stats").record.data == b"count=2,bytes=7"
    client.set(f"{QUOTA}/q/zookeeper_stats", text)
    assert client.delete("/q/a").err == 0
    assert client.get(f"{QUOTA}/q/zookeeper_stats").record.data == b"count=1,bytes=5"
    client.set(f"{QUOTA}/q/zookeeper_stats", text)
    assert client.set("/q", b"123").err == 0
    assert client.get(f"{QUOTA}/q/zookeeper_stats").record.data == b"count=1,bytes=3"


@pytest.mark.parametrize("text", [b"junk", b"", None])
def test_garbled_usage_is_recomputed_before_a_limit_is_judged(client: Peer, text: bytes | None) -> None:
    quota(client)
    client.set(f"{QUOTA}/q/zookeeper_stats", text)
    assert client.create("/q/a").err == -125


# --- op 20 and op -10 from a client: -6 and close ----------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "body"),
    [
        (OpCode.DELETE_CONTAINER, len(b"/c").to_bytes(4) + b"/c"),
        (OpCode.DELETE_CONTAINER, b""),
        (OpCode.CREATE_SESSION, (4000).to_bytes(4)),
        (OpCode.CREATE_SESSION, b""),
    ],
)
def test_the_servers_own_operations_are_not_for_clients(
    world: World, client: Peer, op: OpCode, body: bytes
) -> None:
    client.create("/c", op=OpCode.CREATE_CONTAINER)
    sessions, zxid = len(world.engine.sessions), world.zxid
    output = client.exchange(wire.request(op, body, 7))
    assert output == frame(r.ReplyHeader(7, -1, -6).encode())
    assert client.closed
    assert ("/c" in world.tree.nodes, world.zxid, len(world.engine.sessions)) == (True, zxid, sessions)


# --- wrong password with a live session id: invalid session, the owner's connection stays ------------------


@pytest.mark.parametrize(
    "password", [bytes(16), b"", None, bytes(1000)], ids=["wrong", "empty", "null", "long"]
)
def test_a_wrong_password_does_not_cost_the_owner_its_connection(
    world: World, client: Peer, password: bytes | None
) -> None:
    client.create("/e", flags=1)
    client.exists("/x", watch=True)
    deadline = world.service.next_deadline()
    world.pass_time(5)
    thief = world.connect("10.6.6.6", session_id=client.session_id, password=password)
    assert thief.handshake == Handshake(0, 0, 0, bytes(16), b"\0")
    assert thief.closed
    assert world.service.next_deadline() == deadline, "nor is it a sign of life"
    assert not client.closed
    world.connect().create("/x")
    assert len(client.take_events()) == 1
    assert client.ephemerals().record.ephemerals == ("/e",)


# --- a four-letter word with a blank behind it: the method of an HTTP request ------------------------------


@pytest.mark.parametrize("word", [b"srst", b"crst", b"ruok", b"dump"])
def test_a_word_that_is_a_method_of_http_is_none(world: World, client: Peer, word: bytes) -> None:
    client.create("/a")
    received = world.engine.stats.packets_received
    assert received > 0
    asking = world.open()
    assert asking.exchange(word + b" / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b""
    assert (asking.closed, world.engine.stats.packets_received) == (True, received)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_word_is_obeyed_otherwise(world: World, end: bytes) -> None:
    asking = world.open()
    assert asking.exchange(b"srst" + end) == b"Server stats reset.\n"
    stmk = world.open().exchange(b"stmk" + b" " * 8)
    assert stmk != b"", "its argument may be anything"
