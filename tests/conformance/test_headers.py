"""What xid, zxid, error and body each kind of reply carries (wire.md sections 5 and 6, semantics.md 2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, MultiResult, decode_results, encode_multi
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, children_op, create_op, delete_op, get_op, set_op
from ..support.wire import Event, Reply, WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server

Call = Callable[[WireClient, str], Reply]
BAD_ACL = [acl(31, "world", "nobody")]
TERMINATOR = r.MultiHeader(-1, True, -1).encode()
NULL_ID = [acl(31, "world", None)]


def reconfig(client: WireClient, top: str) -> Reply:
    return client.request(OpCode.RECONFIG, r.ReconfigRequest("", "", "", -1))


# name, request, zxids consumed, error, whether a body follows (semantics.md 2, second table)
CALLS: list[tuple[str, Call, int, int, bool]] = [
    ("create", lambda c, t: c.create(t + "/n"), 1, 0, True),
    ("create refused", lambda c, t: c.create(t), 1, -110, False),
    ("create, bad flag", lambda c, t: c.create(t + "/n", flags=7), 1, -8, False),
    ("create, bad ACL", lambda c, t: c.create(t + "/n", acl=BAD_ACL), 1, -114, False),
    ("create, null path", lambda c, t: c.create(None), 1, -5, False),
    ("create2", lambda c, t: c.create(t + "/n", op=OpCode.CREATE2), 1, 0, True),
    ("create2 refused", lambda c, t: c.create(t, op=OpCode.CREATE2), 1, -110, False),
    ("createContainer", lambda c, t: c.create(t + "/n", flags=4, op=OpCode.CREATE_CONTAINER), 1, 0, True),
    ("createContainer refused", lambda c, t: c.create(t, op=OpCode.CREATE_CONTAINER), 1, -110, False),
    ("createTTL", lambda c, t: c.create(t + "/n", flags=5, ttl=10**6), 1, 0, True),
    ("createTTL refused", lambda c, t: c.create(t + "/n", flags=5, ttl=0), 1, -8, False),
    ("delete", lambda c, t: c.delete(t + "/old"), 1, 0, False),
    ("delete refused", lambda c, t: c.delete(t + "/none"), 1, -101, False),
    ("delete of a built-in", lambda c, t: c.delete("/zookeeper"), 1, -8, False),
    ("setData", lambda c, t: c.set(t, b"x"), 1, 0, True),
    ("setData refused", lambda c, t: c.set(t, b"x", 99), 1, -103, False),
    ("setData, bad path", lambda c, t: c.set("x", b"x"), 1, -8, False),
    ("setACL", lambda c, t: c.set_acl(t, r.OPEN_ACL), 1, 0, True),
    ("setACL refused", lambda c, t: c.set_acl(t, []), 1, -114, False),
    ("reconfig", reconfig, 1, -123, False),
    ("multi", lambda c, t: c.multi(create_op(t + "/n"), delete_op(t + "/n")), 1, 0, True),
    ("multi refused", lambda c, t: c.multi(create_op(t + "/n"), check_op(t, 7)), 1, 0, True),
    ("multi empty", lambda c, t: c.multi(), 1, 0, True),
    ("multi of a read", lambda c, t: c.multi(get_op(t), set_op(t, b"")), 1, -5, False),
    ("multi undecodable", lambda c, t: c.request(OpCode.MULTI, b"\0\0"), 1, -5, False),
    ("multi, null ACL id", lambda c, t: c.multi(create_op(t + "/n", acl=NULL_ID)), 1, -5, False),
    ("multiRead", lambda c, t: c.multi_read(get_op(t), children_op(t)), 0, 0, True),
    ("multiRead, no node", lambda c, t: c.multi_read(get_op(t + "/none")), 0, 0, True),
    ("multiRead empty", lambda c, t: c.multi_read(), 0, 0, True),
    ("exists", lambda c, t: c.exists(t), 0, 0, True),
    ("exists, no node", lambda c, t: c.exists(t + "/none"), 0, -101, False),
    ("getData", lambda c, t: c.get(t), 0, 0, True),
    ("getData, no node", lambda c, t: c.get(t + "/none"), 0, -101, False),
    ("getACL", lambda c, t: c.get_acl(t), 0, 0, True),
    ("getACL, no node", lambda c, t: c.get_acl(t + "/none"), 0, -101, False),
    ("getChildren", lambda c, t: c.children(t), 0, 0, True),
    ("getChildren, no node", lambda c, t: c.children(t + "/none"), 0, -101, False),
    ("getChildren2", lambda c, t: c.children2(t), 0, 0, True),
    ("getChildren2, no node", lambda c, t: c.children2(t + "/none"), 0, -101, False),
    ("getAllChildrenNumber", lambda c, t: c.count_descendants(t), 0, 0, True),
    ("getAllChildrenNumber, no node", lambda c, t: c.count_descendants(t + "/none"), 0, -101, False),
    ("getEphemerals", lambda c, t: c.ephemerals(), 0, 0, True),
    ("sync", lambda c, t: c.sync(t), 0, 0, True),
    ("ping", lambda c, t: c.ping(), 0, 0, False),
    ("whoAmI", lambda c, t: c.request(OpCode.WHO_AM_I), 0, 0, True),
    ("setWatches", lambda c, t: c.set_watches(0), 0, 0, False),
    ("setWatches2", lambda c, t: c.set_watches(0, persistent=[]), 0, 0, False),
    ("addWatch", lambda c, t: c.add_watch(t, 0), 0, 0, True),
    ("addWatch, bad mode", lambda c, t: c.add_watch(t, 2), 0, -5, False),
    ("checkWatches, none", lambda c, t: c.check_watches(t, 3), 0, -121, False),
    ("removeWatches, none", lambda c, t: c.remove_watches(t, 3), 0, -121, False),
    ("removeWatches, bad type", lambda c, t: c.remove_watches(t, 0), 0, -5, False),
    ("sasl without SASL", lambda c, t: c.request(OpCode.SASL, r.GetSASLRequest(b"")), 0, 0, True),
]


@pytest.mark.parametrize(
    ("call", "consumed", "err", "body"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS]
)
def test_zxid_error_and_body(
    client: WireClient, top: str, call: Call, consumed: int, err: int, body: bool
) -> None:
    client.create(f"{top}/old")
    before = client.ping().zxid
    reply = call(client, top)
    after = client.ping().zxid
    assert (reply.err, bool(reply.body)) == (err, body)
    assert after == before + consumed
    if reply.op != OpCode.SASL:  # sasl is answered by the connection, with zxid 0
        assert reply.zxid == after


def test_check_watches_success_has_no_body(client: WireClient, top: str) -> None:
    # wire.md section 6
    client.get(top, watch=True)
    assert client.check_watches(top, 3).body == b""
    assert client.remove_watches(top, 3).body == b""


def test_add_watch_answers_one_zero(client: WireClient, top: str) -> None:
    # wire.md 19, trap 9
    assert client.add_watch(top, 0).body == bytes(4)


WRITES = [
    OpCode.CREATE,
    OpCode.CREATE2,
    OpCode.CREATE_CONTAINER,
    OpCode.CREATE_TTL,
    OpCode.DELETE,
    OpCode.SET_DATA,
    OpCode.SET_ACL,
    OpCode.RECONFIG,
    OpCode.MULTI,
]
READS = [
    OpCode.EXISTS,
    OpCode.GET_DATA,
    OpCode.GET_ACL,
    OpCode.GET_CHILDREN,
    OpCode.GET_CHILDREN2,
    OpCode.SYNC,
    OpCode.MULTI_READ,
    OpCode.SET_WATCHES,
    OpCode.SET_WATCHES2,
    OpCode.GET_EPHEMERALS,
    OpCode.GET_ALL_CHILDREN_NUMBER,
    OpCode.ADD_WATCH,
    OpCode.CHECK_WATCHES,
    OpCode.REMOVE_WATCHES,
]


@pytest.mark.parametrize("op", WRITES + READS, ids=lambda op: op.name)
def test_a_missing_body_is_a_marshalling_error(server: Server, client: WireClient, op: OpCode) -> None:
    # wire.md section 6: nothing is consumed, but by a multi; section 15: the connection stays open
    before = client.ping().zxid
    consumed = 1 if op == OpCode.MULTI else 0
    if op in WRITES and op != OpCode.RECONFIG and differs("undecodable-write", server):
        consumed = 1
    assert client.request(op, xid=3) == Reply(3, before + consumed, -5, b"", op)
    assert client.ping().zxid == before + consumed


def test_a_null_path_in_a_multi(server: Server, client: WireClient, top: str) -> None:
    # semantics.md 11, rule 10
    before = client.ping().zxid
    reply = client.multi(create_op(f"{top}/n"), create_op(None))
    old = differs("null-path-in-multi", server)
    assert (reply.err, reply.zxid, reply.body) == (-5, before + (not old), TERMINATOR if old else b"")
    assert client.create(f"{top}/n").zxid == before + 2


@pytest.mark.parametrize("part", [delete_op(None), set_op(None, b""), check_op(None), create_op(None)])
def test_a_null_path_spoils_a_multi_that_fails_before_it(
    server: Server, client: WireClient, top: str, part: MultiOp
) -> None:
    # semantics.md 11, rule 10
    before = client.ping().zxid
    reply = client.multi(delete_op(f"{top}/none"), part)
    old = differs("null-path-in-multi", server)
    assert (reply.err, reply.zxid, reply.body) == (-5, before + (not old), TERMINATOR if old else b"")
    assert client.ping().zxid == before + (not old)


@pytest.mark.parametrize("ahead", [[], [check_op("/none")]])
@pytest.mark.parametrize("flags", [0, 4])
@pytest.mark.parametrize("op", [OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER])
def test_a_null_acl_in_a_multi(
    server: Server, client: WireClient, top: str, ahead: list[MultiOp], flags: int, op: OpCode
) -> None:
    # semantics.md 11, rule 10
    before = client.ping().zxid
    reply = client.multi(*ahead, create_op(f"{top}/n", acl=None, flags=flags, op=op))
    if differs("null-acl-in-multi", server):
        errors = [result.err for result in reply.results]
        assert errors == ([-101, -2] if ahead else [-114])
    else:
        assert (reply.err, reply.zxid, reply.body) == (-5, before, b"")
        assert client.ping().zxid == before


@pytest.mark.parametrize(
    ("parts", "cut", "zxids"),
    [
        ([get_op("/"), None], 0, 0),
        ([None, get_op("/")], 0, 0),
        ([None, check_op("/none")], 10, 0),
        ([check_op("/none"), get_op("/"), None], 0, 1),
        ([check_op("/none"), None], 12, 1),
    ],
    ids=["after a read", "before a read", "then cut", "after a mixture", "cut before"],
)
def test_the_first_error_of_a_multi_decides_whether_it_takes_a_zxid(
    server: Server, client: WireClient, top: str, parts: list[MultiOp | None], cut: int, zxids: int
) -> None:
    # wire.md section 10
    if differs("null-acl-in-multi", server):
        zxids = 1
    zxid = client.ping().zxid
    body = encode_multi(part or create_op(f"{top}/n", acl=None) for part in parts)
    reply = client.request(OpCode.MULTI, body[: len(body) - cut])
    assert (reply.err, reply.zxid, reply.body) == (-5, zxid + zxids, b"")


def test_a_null_path_in_a_multi_read(client: WireClient, top: str) -> None:
    # wire.md section 6: what was read before it is in the body
    reply = client.multi_read(get_op(top), get_op(f"{top}/none"), get_op(None), get_op(top))
    assert reply.err == -5
    assert [result.err for result in reply.results] == [0, -101]


@pytest.mark.parametrize("xid", [0, -1, -3, -4, -9, 1, 2**31 - 1, -(2**31)])
def test_the_xid_is_echoed(client: WireClient, top: str, xid: int) -> None:
    # wire.md section 5: the server does not interpret it
    assert client.request(OpCode.EXISTS, r.ExistsRequest(top, False), xid=xid).xid == xid
    assert client.request(OpCode.SET_DATA, r.SetDataRequest(top, b"", -1), xid=xid).xid == xid


def test_equal_xids_are_no_concern_of_the_server(client: WireClient, top: str) -> None:
    # wire.md section 5
    for _ in range(3):
        assert client.request(OpCode.EXISTS, r.ExistsRequest(top, False), xid=7).xid == 7


@pytest.mark.parametrize("xid", [-2, 5, 0])
def test_a_ping_is_answered_with_its_own_xid(client: WireClient, xid: int) -> None:
    # wire.md section 5
    assert client.request(OpCode.PING, xid=xid).xid == -2


@pytest.mark.parametrize("xid", [-8, 9])
def test_set_watches_echoes_the_xid(client: WireClient, xid: int) -> None:
    # wire.md section 5: go-zookeeper sends a positive one
    assert client.request(OpCode.SET_WATCHES, r.SetWatches(0, [], [], []), xid=xid).xid == xid


@pytest.mark.parametrize("xid", [-4, 11])
def test_auth_carries_zxid_zero(client: WireClient, top: str, xid: int) -> None:
    # wire.md section 6
    client.set(top, b"")
    packet = r.AuthPacket(0, "digest", b"u:p")
    assert client.request(OpCode.AUTH, packet, xid=xid) == Reply(xid, 0, 0, b"", OpCode.AUTH)


def test_refused_auth_carries_zxid_zero_and_closes(client: WireClient) -> None:
    # wire.md section 6
    assert client.auth("nonsense", b"x") == Reply(-4, 0, -115, b"", OpCode.AUTH)
    assert client.is_closed()


@pytest.mark.parametrize("op", [0, -1, 10, 23, 99, 108, -100, 2**31 - 1, -(2**31)])
def test_an_unknown_op_is_refused_with_zxid_minus_one(client: WireClient, op: int) -> None:
    # wire.md sections 6 and 8: the answer, then the close
    assert client.request(op, xid=5) == Reply(5, -1, -6, b"", op)
    assert client.is_closed()


def test_an_unknown_op_consumes_nothing(connect: Connect, client: WireClient) -> None:
    # semantics.md 2
    other = connect()
    before = other.ping().zxid
    client.request(9999)
    assert other.ping().zxid == before


def test_a_top_level_check_is_refused(server: Server, connect: Connect, client: WireClient, top: str) -> None:
    # wire.md section 8
    if differs("top-level-check", server):
        return
    reply = client.request(OpCode.CHECK, r.CheckVersionRequest(top, -1))
    assert (reply.zxid, reply.err) == (-1, -6)
    assert client.is_closed()


def test_a_notification_carries_the_transaction(server: Server, connect: Connect, top: str) -> None:
    # wire.md sections 6 and 11
    watcher, writer = connect(), connect()
    watcher.get(top, watch=True)
    zxid = writer.set(top, b"x").zxid
    writer.set(top, b"y")
    expected = -1 if differs("notification-zxid", server) else zxid
    assert watcher.take_events() == [Event(expected, 3, top)]


def test_close_session_answers_with_its_zxid(connect: Connect, client: WireClient) -> None:
    # wire.md section 6
    other = connect()
    before = other.ping().zxid
    assert client.request(OpCode.CLOSE_SESSION, xid=4) == Reply(4, before + 1, 0, b"", OpCode.CLOSE_SESSION)
    assert client.is_closed()
    assert other.ping().zxid == before + 1


def test_a_failed_multi_says_so_only_in_its_body(client: WireClient, top: str) -> None:
    # wire.md 19, trap 3
    reply = client.multi(create_op(f"{top}/n"), check_op(top, 7), delete_op(top))
    assert reply.err == 0
    assert reply.results == [MultiResult(-1, code, r.ErrorResponse(code)) for code in (0, -103, -2)]


def test_a_multi_read_that_meets_a_transaction_op_answers_what_it_has(client: WireClient, top: str) -> None:
    # wire.md section 6: an error with a body
    client.set(top, b"data")
    reply = client.request(OpCode.MULTI_READ, encode_multi([check_op(top), delete_op(top)]))
    assert reply.err == -5
    assert decode_results(reply.body) == []
    assert client.exists(top).err == 0
