"""Transactions and batched reads (wire.md section 10, semantics.md 11)."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, MultiResult, encode_multi
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, check_op, children_op, create_op, delete_op, get_op, set_op
from ..support.wire import WireClient
from .conftest import Connect
from .known_differences import differs
from .servers import Server

TERMINATOR = r.MultiHeader(-1, True, -1).encode()


def errors(results: list[MultiResult]) -> list[int]:
    return [result.err for result in results]


def failure(*codes: int) -> list[MultiResult]:
    return [MultiResult(-1, code, r.ErrorResponse(code)) for code in codes]


def test_results_of_every_kind(server: Server, client: WireClient, top: str) -> None:
    # wire.md section 10, table of result types; each Stat is the state right after its op (semantics.md 1.4)
    reply = client.multi(
        create_op(f"{top}/a", b"1"),
        create_op(f"{top}/b", b"22", op=OpCode.CREATE2),
        create_op(f"{top}/c", flags=4, op=OpCode.CREATE_CONTAINER),
        MultiOp(OpCode.CREATE_TTL, r.CreateTTLRequest(f"{top}/t", b"", r.OPEN_ACL, 5, 10**6)),
        set_op(f"{top}/b", b"333"),
        check_op(f"{top}/b", 1),
        delete_op(f"{top}/a"),
        create_op(f"{top}/b/child"),
        set_op(f"{top}/b", b"4444"),
    )
    results = reply.results
    create2 = 1 if differs("create2-in-multi", server) else 15
    assert [result.type for result in results] == [1, create2, 15, 15, 5, 13, 2, 1, 5]
    assert errors(results) == [0] * 9
    assert results[0].response == r.CreateResponse(f"{top}/a")
    assert [results[i].response.path for i in (1, 2, 3)] == [f"{top}/{name}" for name in "bct"]  # type: ignore[union-attr]
    stats = [results[i].response.stat for i in (1, 4, 8) if results[i].type != 1]  # type: ignore[union-attr]
    values = [(stat.version, stat.dataLength, stat.numChildren) for stat in stats]
    assert values == [(0, 2, 0), (1, 3, 0), (2, 4, 1)][-len(stats) :]
    assert {stat.czxid for stat in stats} == {reply.zxid}
    assert len({stat.mtime for stat in stats} | {stat.ctime for stat in stats}) == 1
    assert stats[-1] == client.exists(f"{top}/b").record.stat


def test_each_op_sees_the_ones_before_it(client: WireClient, top: str) -> None:
    reply = client.multi(
        create_op(f"{top}/n"),
        set_op(f"{top}/n", b"1", 0),
        set_op(f"{top}/n", b"2", 1),
        create_op(f"{top}/n/child"),
        check_op(f"{top}/n", 2),
        delete_op(f"{top}/n/child"),
        delete_op(f"{top}/n", 2),
        create_op(f"{top}/n", b"again"),
        check_op(f"{top}/n", 0),
    )
    assert errors(reply.results) == [0] * 9
    assert client.get(f"{top}/n").record.data == b"again"


def test_sequential_creates_get_consecutive_numbers(client: WireClient, top: str) -> None:
    reply = client.multi(*[create_op(f"{top}/n-", flags=flags) for flags in (2, 3, 2)])
    assert [result.response.path for result in reply.results] == [  # type: ignore[union-attr]
        f"{top}/n-000000000{number}" for number in range(3)
    ]


FAILURES: list[tuple[str, Any, list[int]]] = [
    ("first", lambda t: [check_op(t, 7), create_op(f"{t}/n")], [-103, -2]),
    ("middle", lambda t: [create_op(f"{t}/n"), delete_op(f"{t}/none"), set_op(t, b"x")], [0, -101, -2]),
    ("last", lambda t: [create_op(f"{t}/n"), set_op(t, b"x"), create_op(f"{t}/n")], [0, 0, -110]),
    ("only the first counts", lambda t: [check_op(t, 7), check_op(t, 8), check_op("x")], [-103, -2, -2]),
    ("not empty", lambda t: [create_op(f"{t}/n"), delete_op(t)], [0, -111]),
    ("version of a new node", lambda t: [create_op(f"{t}/n"), check_op(f"{t}/n", 1)], [0, -103]),
    ("deleted", lambda t: [create_op(f"{t}/n"), delete_op(f"{t}/n"), check_op(f"{t}/n")], [0, 0, -101]),
    ("under an ephemeral", lambda t: [create_op(f"{t}/n", flags=1), create_op(f"{t}/n/m")], [0, -108]),
    ("bad ACL", lambda t: [create_op(f"{t}/n"), create_op(f"{t}/m", acl=[])], [0, -114]),
    ("bad path", lambda t: [create_op(f"{t}/n"), create_op("nosl")], [0, -8]),
    ("built-in", lambda t: [create_op(f"{t}/n"), delete_op("/zookeeper")], [0, -8]),
    ("new ACL", lambda t: [create_op(f"{t}/n", acl=r.READ_ACL), set_op(f"{t}/n", b"")], [0, -102]),
]  # fmt: skip


@pytest.mark.parametrize(("ops", "codes"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failed_multi_changes_nothing(client: WireClient, top: str, ops: Any, codes: list[int]) -> None:
    # wire.md section 10: 0 before the failing op, its own code at it, -2 after it; all of type -1
    before = client.exists(top).record.stat
    reply = client.multi(*ops(top))
    assert (reply.err, reply.results) == (0, failure(*codes))
    assert client.exists(top).record.stat == before
    assert client.exists(f"{top}/n").err == -101
    assert client.create(f"{top}/seq-", flags=2).record.path == f"{top}/seq-0000000000"


def test_the_exact_bytes_of_a_failure(client: WireClient, top: str) -> None:
    # wire.md section 10, example
    reply = client.multi(create_op(f"{top}/f"), check_op(top, 7), delete_op(top))
    assert reply.body == bytes.fromhex(
        "ffffffff 00 00000000 00000000  ffffffff 00 ffffff99 ffffff99"
        "ffffffff 00 fffffffe fffffffe  ffffffff 01 ffffffff"
    )


@pytest.mark.parametrize("op", [OpCode.MULTI, OpCode.MULTI_READ], ids=lambda op: op.name)
def test_an_empty_multi(client: WireClient, op: OpCode) -> None:
    # wire.md section 10
    reply = client.multi(op=op)
    assert (reply.err, reply.body) == (0, TERMINATOR)


def test_the_loop_stops_at_the_first_done(client: WireClient, top: str) -> None:
    # wire.md section 10: type and error of the terminator are not looked at
    ops = r.MultiHeader(OpCode.CHECK, False, 77).encode() + r.CheckVersionRequest(top, 0).encode()
    reply = client.request(OpCode.MULTI, ops + r.MultiHeader(5, True, 5).encode() + b"rest")
    assert reply.results == [MultiResult(OpCode.CHECK, 0, None)]


UNDECODABLE: list[tuple[str, Any]] = [
    ("no terminator", lambda t: encode_multi([check_op(t)])[:-9]),
    ("cut", lambda t: encode_multi([check_op(t)])[:12]),
    ("exists", lambda t: encode_multi([MultiOp(OpCode.EXISTS, r.ExistsRequest(t, False))])),
    ("setACL", lambda t: encode_multi([MultiOp(OpCode.SET_ACL, r.SetACLRequest(t, r.OPEN_ACL, -1))])),
    ("sync", lambda t: encode_multi([MultiOp(OpCode.SYNC, r.SyncRequest(t))])),
    ("getChildren2", lambda t: encode_multi([MultiOp(12, r.GetChildren2Request(t, False))])),
    ("getACL", lambda t: encode_multi([MultiOp(OpCode.GET_ACL, r.GetACLRequest(t))])),
    ("nested", lambda t: r.MultiHeader(14, False, -1).encode() + encode_multi([check_op(t)]) + TERMINATOR),
    ("closeSession", lambda t: r.MultiHeader(OpCode.CLOSE_SESSION, False, -1).encode() + TERMINATOR),
    ("unknown op", lambda t: r.MultiHeader(77, False, -1).encode() + TERMINATOR),
    ("write and read", lambda t: encode_multi([check_op(t), get_op(t)])),
    ("read and write", lambda t: encode_multi([children_op(t), set_op(t, b"x")])),
    ("TTL flag", lambda t: encode_multi([create_op(f"{t}/n", flags=5)])),
    ("TTL flag of create2", lambda t: encode_multi([create_op(f"{t}/n", flags=6, op=OpCode.CREATE2)])),
    ("TTL flag of a container", lambda t: encode_multi([create_op(f"{t}/n", flags=5, op=19)])),
]  # fmt: skip


@pytest.mark.parametrize("body", [row[1] for row in UNDECODABLE], ids=[row[0] for row in UNDECODABLE])
def test_what_cannot_be_decoded(client: WireClient, top: str, body: Any) -> None:
    # wire.md section 10 and section 6: a bare -5 that consumes a zxid
    before = client.ping().zxid
    reply = client.request(OpCode.MULTI, body(top))
    assert (reply.err, reply.body, reply.zxid) == (-5, b"", before + 1)
    assert client.get(top).record.data == b""


@pytest.mark.parametrize(
    "op", [OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER], ids=lambda op: op.name
)
def test_a_ttl_flag_behind_an_operation_that_fails(
    server: Server, client: WireClient, top: str, op: OpCode
) -> None:
    # wire.md section 10
    bad = create_op(f"{top}/n", flags=5, op=op)
    reply = client.multi(create_op(f"{top}/a"), delete_op(f"{top}/none"), bad)
    if differs("flags-in-multi", server):
        assert [result.err for result in reply.results] == [0, -101, -2]
    else:
        assert (reply.err, reply.body) == (-5, b"")
    assert client.multi(create_op(f"{top}/a"), bad, delete_op(f"{top}/none")).err == -5
    assert client.exists(f"{top}/a").err == -101


@pytest.mark.parametrize(
    "op", [OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER], ids=lambda op: op.name
)
@pytest.mark.parametrize("flags", [-1, 7])
def test_bad_flags(server: Server, client: WireClient, top: str, op: OpCode, flags: int) -> None:
    # wire.md section 10
    reply = client.multi(check_op(top), create_op(f"{top}/n", flags=flags, op=op))
    if not differs("flags-in-multi", server):
        assert (reply.err, reply.body) == (-5, b"")
    else:
        assert errors(reply.results) == [0, -8]


@pytest.mark.parametrize(
    ("op", "flags", "type_", "ephemeral"),
    [
        (OpCode.CREATE, 0, 1, False),
        (OpCode.CREATE, 1, 1, True),
        (OpCode.CREATE, 4, 15, False),
        (OpCode.CREATE2, 0, 15, False),
        (OpCode.CREATE2, 1, 15, True),
        (OpCode.CREATE2, 4, 15, False),
        (OpCode.CREATE_CONTAINER, 4, 15, False),
    ],
)
def test_what_a_create_becomes(
    server: Server, client: WireClient, top: str, op: OpCode, flags: int, type_: int, ephemeral: bool
) -> None:
    # wire.md section 10, quirks of the decoder
    if op == OpCode.CREATE2 and flags != 4 and differs("create2-in-multi", server):
        type_ = 1
    (result,) = client.multi(create_op(f"{top}/n", flags=flags, op=op)).results
    assert result.type == type_
    assert bool(client.exists(f"{top}/n").record.stat.ephemeralOwner) is ephemeral


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_what_a_container_create_becomes(server: Server, client: WireClient, top: str, flags: int) -> None:
    (result,) = client.multi(create_op(f"{top}/n", flags=flags, op=OpCode.CREATE_CONTAINER)).results
    old = differs("create2-in-multi", server)
    assert (result.type, result.err) == (1 if old else 15, 0)
    path = f"{top}/n0000000000" if flags in (2, 3) else f"{top}/n"
    assert result.response.path == path  # type: ignore[union-attr]
    owner = client.session_id if old and flags in (1, 3) else 0
    assert client.exists(path).record.stat.ephemeralOwner == owner


@pytest.mark.parametrize(
    ("flags", "type_", "err"),
    [(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 15, 0), (7, -1, -8), (-1, -1, -8)],
)
def test_what_a_ttl_create_without_a_ttl_flag_becomes(
    client: WireClient, top: str, flags: int, type_: int, err: int
) -> None:
    # wire.md section 10: whatever its flag says, with the TTL ignored
    request = r.CreateTTLRequest(f"{top}/n", b"", r.OPEN_ACL, flags, 0)
    (result,) = client.multi(MultiOp(OpCode.CREATE_TTL, request)).results
    assert (result.type, result.err) == (type_, err)
    if not err:
        path = result.response.path  # type: ignore[union-attr]
        assert path == (f"{top}/n0000000000" if flags in (2, 3) else f"{top}/n")
        assert bool(client.exists(path).record.stat.ephemeralOwner) is (flags in (1, 3))


@pytest.mark.parametrize(("ttl", "err"), [(0, -8), (-1, -8), (2**40, -8), (10**6, 0)])
def test_a_ttl_create_in_a_multi(client: WireClient, top: str, ttl: int, err: int) -> None:
    request = r.CreateTTLRequest(f"{top}/n", b"", r.OPEN_ACL, 5, ttl)
    assert errors(client.multi(check_op(top), MultiOp(OpCode.CREATE_TTL, request)).results) == [0, err]


def test_permissions_are_checked_op_by_op(connect: Connect, top: str) -> None:
    # semantics.md 11, rule 8
    owner, other = connect(), connect()
    owner.create(f"{top}/closed", acl=[acl(1, "world", "anyone")])
    reply = other.multi(check_op(f"{top}/closed"), set_op(f"{top}/closed", b""), delete_op(f"{top}/closed"))
    assert errors(reply.results) == [0, -102, -2]
    assert errors(other.multi(delete_op(f"{top}/closed")).results) == [0]


def test_others_see_all_or_nothing(connect: Connect, top: str) -> None:
    writer, reader = connect(), connect()
    for number in range(20):
        writer.send(OpCode.MULTI, encode_multi([set_op(top, b"%d" % number), create_op(f"{top}/{number}")]))
    while True:
        names, data = reader.multi_read(children_op(top), get_op(top)).results
        count = len(names.response.children)  # type: ignore[union-attr]
        assert data.response.stat.version == count  # type: ignore[union-attr]
        if count == 20:
            break
    assert [writer.receive_reply().err for _ in range(20)] == [0] * 20


def test_a_large_multi(client: WireClient, top: str) -> None:
    # semantics.md 11, rule 9
    count = 1000
    assert errors(client.multi(*[create_op(f"{top}/{n}") for n in range(count)]).results) == [0] * count
    assert client.count_descendants(top).record.totalNumber == count
    assert errors(client.multi(*[delete_op(f"{top}/{n}") for n in range(count)]).results) == [0] * count
