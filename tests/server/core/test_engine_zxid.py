"""Which requests consume a zxid, and what the header of each reply carries (semantics.md 2, wire.md 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ...support.requests import acl, check_op, create_op, delete_op, get_op, set_op
from ...support.wire import Reply
from ...support.world import Peer, World

Call: TypeAlias = Callable[[Peer], Reply]
READ_ONLY = [acl(1)]

# name, request, zxids consumed, error, whether the reply has a body
CALLS: list[tuple[str, Call, int, int, bool]] = [
    ("create", lambda c: c.create("/n"), 1, 0, True),
    ("create2", lambda c: c.create("/n", op=15), 1, 0, True),
    ("createContainer", lambda c: c.create("/n", op=19), 1, 0, True),
    ("createTTL", lambda c: c.create("/n", flags=5, ttl=9), 1, 0, True),
    ("delete", lambda c: c.delete("/old"), 1, 0, False),
    ("setData", lambda c: c.set("/old", b""), 1, 0, True),
    ("setACL", lambda c: c.set_acl("/old", r.OPEN_ACL), 1, 0, True),
    ("create, flags", lambda c: c.create("/n", flags=9), 1, -8, False),
    ("create, TTL flags", lambda c: c.create("/n", flags=5), 1, -8, False),
    ("create, path", lambda c: c.create("n"), 1, -8, False),
    ("create, null path", lambda c: c.create(None), 1, -5, False),
    ("create, null path in the ACL", lambda c: c.create("/n", acl=[acl(1, "world", None)]), 1, -5, False),
    ("create, ACL", lambda c: c.create("/n", acl=None), 1, -114, False),
    ("create, no parent", lambda c: c.create("/none/n"), 1, -101, False),
    ("create, forbidden", lambda c: c.create("/closed/n"), 1, -102, False),
    ("create, exists", lambda c: c.create("/old"), 1, -110, False),
    ("create, ephemeral parent", lambda c: c.create("/e/n"), 1, -108, False),
    ("create2, exists", lambda c: c.create("/old", op=15), 1, -110, False),
    ("createContainer, exists", lambda c: c.create("/old", op=19), 1, -110, False),
    ("createTTL, ttl", lambda c: c.create("/n", flags=5, ttl=0), 1, -8, False),
    ("delete, built-in", lambda c: c.delete("/"), 1, -8, False),
    ("delete, null path", lambda c: c.delete(None), 1, -5, False),
    ("delete, none", lambda c: c.delete("/none"), 1, -101, False),
    ("delete, version", lambda c: c.delete("/old", 9), 1, -103, False),
    ("setData, none", lambda c: c.set("/none", b""), 1, -101, False),
    ("setData, null path", lambda c: c.set(None, b""), 1, -8, False),
    ("setACL, ACL", lambda c: c.set_acl("/old", []), 1, -114, False),
    ("reconfig", lambda c: c.request(16, r.ReconfigRequest(None, None, None, 0)), 1, -123, False),
    ("multi", lambda c: c.multi(create_op("/n"), set_op("/n", b"x"), delete_op("/n")), 1, 0, True),
    ("multi, empty", lambda c: c.multi(), 1, 0, True),
    ("multi, failing", lambda c: c.multi(create_op("/n"), check_op("/old", 9)), 1, 0, True),
    ("multi, of reads", lambda c: c.multi(get_op("/old")), 1, -5, False),
    ("multi, undecodable", lambda c: c.request(14, b"\0\0\0\1"), 1, -5, False),
    ("multi, without a body", lambda c: c.request(14), 1, -5, False),
    ("ping", lambda c: c.ping(), 0, 0, False),
    ("sync", lambda c: c.sync("/old"), 0, 0, True),
    ("exists", lambda c: c.exists("/old"), 0, 0, True),
    ("exists, none", lambda c: c.exists("/none"), 0, -101, False),
    ("exists, null path", lambda c: c.exists(None), 0, -5, False),
    ("getData", lambda c: c.get("/old"), 0, 0, True),
    ("getData, none", lambda c: c.get("/none"), 0, -101, False),
    ("getChildren", lambda c: c.children("/old"), 0, 0, True),
    ("getChildren2", lambda c: c.children2("/old"), 0, 0, True),
    ("getACL", lambda c: c.get_acl("/old"), 0, 0, True),
    ("getAllChildrenNumber", lambda c: c.count_descendants("/"), 0, 0, True),
    ("getEphemerals", lambda c: c.ephemerals(), 0, 0, True),
    ("whoAmI", lambda c: c.request(107), 0, 0, True),
    ("multiRead", lambda c: c.multi(get_op("/old"), op=22), 0, 0, True),
    ("multiRead, of writes", lambda c: c.multi(delete_op("/old"), op=22), 0, -5, True),
    ("addWatch", lambda c: c.add_watch("/x", 1), 0, 0, True),
    ("addWatch, mode", lambda c: c.add_watch("/x", 2), 0, -5, False),
    ("addWatch, null path", lambda c: c.add_watch(None, 0), 0, 0, True),
    ("setWatches", lambda c: c.set_watches(0, ("/none",), (), ()), 0, 0, False),
    ("setWatches, null lists", lambda c: c.set_watches(0, None, (), ()), 0, -5, False),
    ("setWatches2", lambda c: c.set_watches(0, (), (), (), (), ("/x",)), 0, 0, False),
    ("checkWatches, none", lambda c: c.check_watches("/x", 3), 0, -121, False),
    ("checkWatches, type", lambda c: c.check_watches("/x", 6), 0, -5, False),
    ("removeWatches, none", lambda c: c.remove_watches("/x", 3), 0, -121, False),
]


def prepared() -> tuple[World, Peer]:
    world = World(extended_types=True)
    client = world.connect()
    client.create("/old")
    client.create("/closed", acl=READ_ONLY)
    client.create("/e", flags=1)
    return world, client


@pytest.mark.parametrize(
    ("call", "consumed", "err", "body"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS]
)
def test_what_each_request_consumes_and_answers(call: Call, consumed: int, err: int, body: bool) -> None:
    world, client = prepared()
    before, history = world.zxid, len(world.txns)
    reply = call(client)
    assert world.zxid == before + consumed
    assert (reply.zxid, reply.err, bool(reply.body)) == (world.zxid, err, body)
    assert len(world.txns) == history + consumed
    assert not client.closed


WITH_A_BODY = [op for op in OpCode if op not in {0, 11, 13, 14, 20, 100, 102, 107, -10, -11, -1}]


@pytest.mark.parametrize("op", WITH_A_BODY, ids=lambda op: op.name)
@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\0\0\0\x09/", b"\xff\xff\xff\xfe"], ids=["none", "1", "cut", "-2"]
)
def test_a_body_that_cannot_be_decoded_consumes_nothing(op: OpCode, body: bytes) -> None:
    # wire.md sections 6 and 15: -5, and the connection stays open
    world, client = prepared()
    before = world.zxid
    reply = client.request(op, body)
    assert (reply.err, reply.zxid, reply.body) == (-5, before, b"")
    assert (world.zxid, client.closed) == (before, False)


def test_extra_bytes_behind_a_request_are_ignored() -> None:
    # wire.md section 2
    _, client = prepared()
    assert client.request(OpCode.EXISTS, r.ExistsRequest("/old", False).encode() + b"more").err == 0
    assert client.request(OpCode.PING, b"more").err == 0


# --- sessions ----------------------------------------------------------------------------------------------


def test_session_ends_and_beginnings_consume_one_each() -> None:
    world = World()
    first = world.connect()
    assert world.zxid == 1
    assert first.create("/a").zxid == 2  # semantics.md section 18, trap 42
    first.reconnect()
    assert world.zxid == 2
    second = world.connect(timeout=4000)
    assert world.zxid == 3
    assert second.close_session().zxid == 4
    world.connect(timeout=4000)
    world.pass_time(30)
    assert world.zxid == 7


def test_auth_and_sasl_answer_with_zxid_zero() -> None:
    world, client = prepared()
    before = world.zxid
    assert client.auth("digest", b"u:p").zxid == 0
    reply = client.request(OpCode.SASL, r.GetSASLRequest(b"token"))
    assert (reply.zxid, reply.err, reply.record.token) == (0, 0, None)
    assert world.zxid == before


@pytest.mark.parametrize("op", [0, -1, 13, 20, -10, 10, 23, 99, 108, 2**31 - 1, -(2**31)])
def test_an_unknown_op_is_answered_with_zxid_minus_one_and_ends_the_connection(op: int) -> None:
    # wire.md section 8
    world, client = prepared()
    before = world.zxid
    reply = client.request(op, r.CheckVersionRequest("/old", 0))
    assert (reply.zxid, reply.err, reply.body) == (-1, -6, b"")
    assert client.closed
    assert world.zxid == before
    assert client.reconnect().session_id == client.session_id, "the session survives"


@pytest.mark.parametrize("xid", [0, 1, -1, -4, -8, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("op", [OpCode.EXISTS, OpCode.CREATE, OpCode.WHO_AM_I, OpCode.ADD_WATCH])
def test_any_xid_is_echoed(op: OpCode, xid: int) -> None:
    # wire.md section 5 and trap 25
    _, client = prepared()
    assert client.request(op, xid=xid).xid == xid
    assert client.request(op, xid=xid).xid == xid


@pytest.mark.parametrize("xid", [0, 7, -2, -8])
def test_the_reply_to_a_ping_always_carries_minus_two(xid: int) -> None:
    _, client = prepared()
    output = client.exchange(wire.request(OpCode.PING, xid=xid))
    assert r.ReplyHeader.decode(output, 4).xid == -2


def test_the_xid_never_decides_what_is_asked() -> None:
    # wire.md, trap 25
    _, client = prepared()
    output = client.exchange(wire.request(OpCode.EXISTS, r.ExistsRequest("/old", False), -2))
    assert r.ReplyHeader.decode(output, 4).xid == -2
    assert len(output) == 4 + 16 + 68
