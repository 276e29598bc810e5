"""Multi and multiRead: all or nothing, one zxid, results and errors (semantics.md 11, wire.md 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.protocol import records as r
from pyzk.protocol.multi import MultiOp, MultiResult, encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server.core.txn import Check, Effect, Multi, Refused, SetData
from pyzk.server.net.service import milliseconds

from ...support.counting import count_instructions
from ...support.invariants import check_tree_invariants, snapshot
from ...support.requests import acl, check_op, children_op, create_op, delete_op, digest_id, get_op, set_op
from ...support.wire import Reply
from ...support.world import START, Peer, World, creation, deletion

CREATE2, CONTAINER, TTL = OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL
TERMINATOR = bytes.fromhex("ffffffff 01 ffffffff")


@pytest.fixture
def world() -> World:
    return World(extended_types=True)


@pytest.fixture
def client(world: World) -> Peer:
    client = world.connect()
    client.create("/old", b"data")
    return client


def ttl_op(path: str, flags: int, ttl: int) -> MultiOp:
    return MultiOp(TTL, r.CreateTTLRequest(path, b"", r.OPEN_ACL, flags, ttl))


def errors(reply: Reply) -> list[int]:
    """The error codes of a failed transaction, whose results must all be of the type for errors."""
    assert reply.err == 0, "the header of a failed multi says ok (wire.md, trap 3)"
    for result in reply.results:
        assert (result.type, result.response) == (-1, r.ErrorResponse(result.err))
    return [result.err for result in reply.results]


# --- success -----------------------------------------------------------------------------------------------


def test_results_are_of_the_kinds_of_the_table(world: World, client: Peer) -> None:
    reply = client.multi(
        create_op("/a", b"1"),
        create_op("/b", op=CREATE2),
        create_op("/c", flags=4),
        create_op("/d", flags=4, op=CREATE2),
        create_op("/e", op=CONTAINER),
        ttl_op("/f", 5, 1000),
        ttl_op("/g", 0, 1000),
        set_op("/a", b"22"),
        check_op("/a", 1),
        delete_op("/b"),
    )
    results = reply.results
    assert [(result.type, result.err) for result in results] == [
        (kind, 0) for kind in (1, 15, 15, 15, 15, 15, 1, 5, 13, 2)
    ]
    assert results[0].response == r.CreateResponse("/a")
    z, t = world.zxid, world.epoch_ms
    assert results[1].response == r.Create2Response("/b", r.Stat(z, z, t, t, 0, 0, 0, 0, 0, 0, z))
    assert results[7].response == r.SetDataResponse(r.Stat(z, z, t, t, 1, 0, 0, 0, 2, 0, z))
    assert results[8].response is None
    assert set(world.tree.containers) == {"/c", "/d", "/e"}
    assert set(world.tree.ttl_nodes) == {"/f"}
    check_tree_invariants(world.tree)


def test_a_stat_is_the_znodes_state_right_after_its_operation(client: Peer) -> None:
    # semantics.md section 1.4
    reply = client.multi(
        create_op("/p", op=CREATE2), create_op("/p/x"), set_op("/p", b"1"), set_op("/p", b"22")
    )
    stats = [reply.results[i].response.stat for i in (0, 2, 3)]  # type: ignore[union-attr]
    assert [(stat.numChildren, stat.version, stat.dataLength) for stat in stats] == [
        (0, 0, 0),
        (1, 1, 1),
        (1, 2, 2),
    ]
    assert {stat.mzxid for stat in stats} == {reply.zxid}


def test_each_operation_sees_those_before_it(client: Peer) -> None:
    reply = client.multi(
        create_op("/p"),
        create_op("/p/s", flags=2),
        create_op("/p/s", flags=3),
        set_op("/p", b"", 0),
        check_op("/p", 1),
        delete_op("/p/s0000000000"),
        delete_op("/p/s0000000001"),
        delete_op("/p", 1),
        create_op("/p"),
    )
    paths = [
        result.response.path for result in reply.results if isinstance(result.response, r.CreateResponse)
    ]
    assert paths == ["/p", "/p/s0000000000", "/p/s0000000001", "/p"]


def test_all_operations_share_zxid_and_time(world: World, client: Peer) -> None:
    reply = client.multi(create_op("/a"), create_op("/a/b"), set_op("/old", b""))
    stats = [client.exists(path).record.stat for path in ("/a", "/a/b", "/old")]
    assert {stat.mzxid for stat in stats} == {reply.zxid} == {world.zxid}
    assert {stat.mtime for stat in stats} == {world.epoch_ms}


def test_an_empty_multi_consumes_a_zxid_and_answers_the_terminator(world: World, client: Peer) -> None:
    before = world.zxid
    reply = client.multi()
    assert (reply.err, reply.zxid, reply.body) == (0, before + 1, TERMINATOR)


def test_a_multi_enters_the_history_as_one_transaction(world: World, client: Peer) -> None:
    history = len(world.txns)
    client.multi(create_op("/a-", flags=3), set_op("/old", b"x"), delete_op("/a-0000000001"))
    client.multi(create_op("/a"), delete_op("/none"))
    assert [txn.effect for txn in world.txns[history:]] == [
        Multi(
            (
                creation("/a-0000000001", owner=client.session_id),
                SetData("/old", b"x", 1),
                deletion("/a-0000000001"),
            )
        ),
        Refused(-101),
    ]


def test_permissions_follow_the_acls_set_on_the_way(client: Peer) -> None:
    # semantics.md section 11, rule 8
    forbidden = [acl(1)]
    assert errors(client.multi(create_op("/p", acl=forbidden), create_op("/p/x"))) == [0, -102]
    mine = [acl(31, "digest", digest_id("u:p"))]
    assert errors(client.multi(create_op("/p", acl=mine), check_op("/p"))) == [0, -102]
    client.auth("digest", b"u:p")
    assert client.multi(create_op("/p", acl=mine), check_op("/p"), create_op("/p/x")).results[2].err == 0


# --- failure -----------------------------------------------------------------------------------------------


def test_the_example_of_the_specification() -> None:
    # wire.md section 10, verbatim: create /f, check /a version 7 (wrong), delete /a
    world = World(initial_zxid=2)
    client = world.connect()
    client.create("/a")
    client.feed()
    reply = client.request(
        OpCode.MULTI,
        b"".join(
            (
                r.MultiHeader(1, False, -1).encode() + r.CreateRequest("/f", b"", r.OPEN_ACL, 0).encode(),
                r.MultiHeader(13, False, -1).encode() + r.CheckVersionRequest("/a", 7).encode(),
                r.MultiHeader(2, False, -1).encode() + r.DeleteRequest("/a", -1).encode(),
                TERMINATOR,
            )
        ),
        xid=6,
    )
    encoded = r.ReplyHeader(reply.xid, reply.zxid, reply.err).encode() + reply.body
    assert len(encoded).to_bytes(4) + encoded == bytes.fromhex(
        "00000040 00000006 0000000000000005 00000000"
        "ffffffff 00 00000000 00000000"
        "ffffffff 00 ffffff99 ffffff99"
        "ffffffff 00 fffffffe fffffffe"
        "ffffffff 01 ffffffff"
    )


FAILURES: list[tuple[str, Sequence[MultiOp], list[int]]] = [
    ("first", [delete_op("/none"), create_op("/a")], [-101, -2]),
    ("middle", [create_op("/a"), set_op("/a", b"", 5), delete_op("/a")], [0, -103, -2]),
    ("last", [create_op("/a"), create_op("/a")], [0, -110]),
    ("alone", [check_op("/old", 1)], [-103]),
    ("not empty", [create_op("/a"), create_op("/a/b"), delete_op("/a")], [0, 0, -111]),
    ("bad ACL", [create_op("/a"), create_op("/b", acl=[])], [0, -114]),
    ("bad path", [create_op("/a"), check_op("/a/")], [0, -8]),
    ("ephemeral parent", [create_op("/a", flags=1), create_op("/a/b")], [0, -108]),
    ("bad ip id", [create_op("/a"), create_op("/b", acl=[acl(31, "ip", "::\0")])], [0, -114]),
    ("bad TTL", [ttl_op("/a", 5, 0)], [-8]),
]


@pytest.mark.parametrize(("ops", "codes"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_is_told_apart_from_what_came_before_and_after(
    world: World, client: Peer, ops: Sequence[MultiOp], codes: list[int]
) -> None:
    before, zxid = snapshot(world.tree), world.zxid
    reply = client.multi(*ops)
    assert errors(reply) == codes
    assert (reply.zxid, world.zxid) == (zxid + 1, zxid + 1)
    assert snapshot(world.tree) == before
    check_tree_invariants(world.tree)


def test_a_ttl_operation_while_extended_types_are_disabled_fails_alone() -> None:
    client = World(extended_types=False).connect()
    assert errors(client.multi(create_op("/a"), ttl_op("/t", 5, 1000))) == [0, -6]


def test_a_failed_multi_restores_sequence_counters(client: Peer) -> None:
    # semantics.md section 18, trap 11
    client.create("/p")
    client.multi(create_op("/p/s", flags=2), create_op("/p/s", flags=2), delete_op("/none"))
    assert client.create("/p/s", flags=2).record.path == "/p/s0000000000"


# An internal failure spoils the whole multi: a bare -5, nothing applied, the zxid gone (semantics.md section
# 11, rule 10; wire.md section 10).
SPOILED: list[tuple[str, Sequence[MultiOp]]] = [
    ("null path in create", [create_op("/a"), create_op(None)]),
    ("null path in delete", [create_op("/a"), delete_op(None)]),
    ("null path in setData", [create_op("/a"), set_op(None, b"")]),
    ("null path in check", [create_op("/a"), check_op(None)]),
    ("null path behind a failure", [check_op("/none"), create_op(None)]),
    ("null id in an ACL", [create_op("/a"), create_op("/b", acl=[acl(31, "world", None)])]),
    ("TTL flag", [create_op("/a"), create_op("/b", flags=5)]),
    ("unknown flag", [create_op("/a"), create_op("/b", flags=7)]),
    ("a read", [get_op("/old")]),
    ("a read beside a write", [create_op("/a"), get_op("/old")]),
    ("setACL", [create_op("/a"), MultiOp(OpCode.SET_ACL, r.SetACLRequest("/a", r.OPEN_ACL, -1))]),
    ("exists", [create_op("/a"), MultiOp(OpCode.EXISTS, r.ExistsRequest("/a", False))]),
    ("sync", [create_op("/a"), MultiOp(OpCode.SYNC, r.SyncRequest("/a"))]),
    ("nested multi", [create_op("/a"), MultiOp(OpCode.MULTI, r.SyncRequest("/a"))]),
]


def test_a_null_acl_spoils_a_multi_and_takes_no_zxid(world: World, client: Peer) -> None:
    before, zxid = snapshot(world.tree), world.zxid
    for ops in ([create_op("/a"), create_op("/b", acl=None)], [check_op("/none"), create_op("/b", acl=None)]):
        reply = client.multi(*ops)
        assert (reply.err, reply.body, reply.zxid, world.zxid) == (-5, b"", zxid, zxid)
    assert snapshot(world.tree) == before
    assert client.create("/c").zxid == zxid + 1


NULL = create_op("/n", acl=None)


@pytest.mark.parametrize(
    ("ops", "cut", "zxids"),
    [
        ([get_op("/"), NULL], 0, 0),
        ([NULL, get_op("/")], 0, 0),
        ([create_op("/a"), NULL, create_op("/b")], 10, 0),
        ([create_op("/a"), get_op("/"), NULL], 0, 1),
        ([create_op("/a"), create_op("/b", flags=9), NULL], 0, 1),
        ([create_op("/a"), NULL], 12, 1),
    ],
    ids=["after a read", "before a read", "then cut", "after a mixture", "after an error", "cut before"],
)
def test_the_first_error_of_a_multi_decides_whether_it_takes_a_zxid(
    world: World, client: Peer, ops: Sequence[MultiOp], cut: int, zxids: int
) -> None:
    zxid, body = world.zxid, encode_multi(ops)
    reply = client.request(OpCode.MULTI, body[: len(body) - cut])
    assert (reply.err, reply.body, reply.zxid, world.zxid) == (-5, b"", zxid + zxids, zxid + zxids)


@pytest.mark.parametrize("ops", [row[1] for row in SPOILED], ids=[row[0] for row in SPOILED])
def test_what_spoils_the_whole_multi(world: World, client: Peer, ops: Sequence[MultiOp]) -> None:
    before, zxid = snapshot(world.tree), world.zxid
    reply = client.multi(*ops)
    assert (reply.err, reply.body, reply.zxid) == (-5, b"", zxid + 1)
    assert snapshot(world.tree) == before
    assert world.txns[-1].effect == Refused(-5)
    assert not client.closed


def test_not_even_a_bug_of_ours_leaves_half_a_multi_behind(
    world: World, client: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = world.tree.change

    def fails_at_last(kind: type[Effect], *args: Any) -> Any:
        if kind is Check:
            raise RuntimeError("a bug")
        return change(kind, *args)

    monkeypatch.setattr(world.tree, "change", fails_at_last)
    before, zxid = snapshot(world.tree), world.zxid
    with pytest.raises(RuntimeError):  # which ends the connection
        client.multi(create_op("/a"), set_op("/old", b"x"), delete_op("/old"), check_op("/a"))
    assert snapshot(world.tree) == before
    assert world.zxid == zxid + 1


# --- any multi at all --------------------------------------------------------------------------------------

PATHS = ["/", "/old", "/a", "/a/b", "/q", "/q/x", "/e"]
LIMITS, USAGE = "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"
DATA = [b"", b"x", None, b"countHardLimit=2", b"junk"]
ANY_PATH = st.sampled_from([*PATHS, LIMITS, USAGE])
ANY_VERSION = st.sampled_from([-1, -1, 0])
ANY_OP = st.one_of(
    st.builds(
        create_op, ANY_PATH, st.sampled_from(DATA), flags=st.integers(0, 4), op=st.sampled_from([1, 15, 19])
    ),
    st.builds(set_op, st.sampled_from([*PATHS, LIMITS]), st.sampled_from(DATA), ANY_VERSION),
    st.builds(set_op, st.just(USAGE), st.just(b"count=1,bytes=5"), ANY_VERSION),
    st.builds(delete_op, ANY_PATH, ANY_VERSION),
    st.builds(check_op, ANY_PATH, st.sampled_from([-1, 0, 1])),
)


def quota_world(enforce: bool = True) -> tuple[World, Peer]:
    world = World(enforce_quota=enforce)
    client = world.connect()
    for path in ("/old", "/q", "/zookeeper/quota/q"):
        client.create(path)
    client.create(LIMITS, b"countHardLimit=2")
    client.create(USAGE, b"count=0,bytes=0")
    client.create("/e", flags=1)
    return world, client


@given(st.lists(ANY_OP, max_size=6), st.lists(ANY_OP, min_size=1, max_size=6))
def test_a_multi_is_all_or_nothing(earlier: list[MultiOp], ops: list[MultiOp]) -> None:
    world, client = quota_world()
    for op in earlier:
        client.multi(op)
    before, zxid = snapshot(world.tree), world.zxid
    watcher = world.connect()
    watcher.add_watch("/", 1)
    reply = client.multi(*ops, delete_op("/none"))
    assert world.zxid == zxid + 2
    assert reply.err in (0, -5)
    assert snapshot(world.tree) == before
    assert watcher.take_events() == []


@given(st.lists(ANY_OP, min_size=1, max_size=6))
def test_a_multi_that_succeeds_does_what_its_operations_do_one_by_one(ops: list[MultiOp]) -> None:
    # all but judging quotas: a multi is measured against the usage before it
    together, alone = quota_world(enforce=False), quota_world(enforce=False)
    results = together[1].multi(*ops).results
    if any(result.type == -1 for result in results):
        return
    for op in ops:
        flags = getattr(op.request, "flags", None)
        single = CONTAINER if op.op in (1, 15) and flags == 4 else op.op  # wire.md section 10, quirks
        if op.op == OpCode.CHECK:
            continue
        assert alone[1].request(single, op.request).err == 0
    assert contents(together[0]) == contents(alone[0])


def contents(world: World) -> dict[str, Any]:
    """Everything but zxids."""
    return {
        path: (node.data, node.owner, node.version, node.children_created, frozenset(node.children or ()))
        for path, node in world.tree.nodes.items()
    }


# --- multiRead ---------------------------------------------------------------------------------------------


def test_each_read_succeeds_or_fails_alone(world: World, client: Peer) -> None:
    client.create("/closed", acl=[acl(30)])
    client.create("/old/child")
    zxid = world.zxid
    reply = client.multi(
        get_op("/old", watch=True),
        get_op("/none"),
        children_op("/old", watch=True),
        children_op("/closed"),
        get_op(""),
        op=OpCode.MULTI_READ,
    )
    stat = world.tree.nodes["/old"].stat()
    assert reply.results == [
        MultiResult(4, 0, r.GetDataResponse(b"data", stat)),
        MultiResult(-1, -101, r.ErrorResponse(-101)),
        MultiResult(8, 0, r.GetChildrenResponse(("child",))),
        MultiResult(-1, -102, r.ErrorResponse(-102)),
        MultiResult(4, 0, r.GetDataResponse(b"", world.tree.nodes["/"].stat())),
    ]
    assert (reply.err, reply.zxid, world.zxid) == (0, zxid, zxid)
    assert world.engine.watches.count() == 0, "a multi never sets watches"


def test_an_empty_multi_read_answers_the_terminator(client: Peer) -> None:
    assert client.multi(op=OpCode.MULTI_READ).body == TERMINATOR


@pytest.mark.parametrize(
    ("ops", "body"),
    [
        ([delete_op("/old")], TERMINATOR),
        ([create_op("/a"), create_op("/b")], TERMINATOR),
        ([get_op("/old"), delete_op("/old")], b""),  # does not even decode
        ([get_op(None)], TERMINATOR),
        ([create_op("/a", acl=None)], b""),
    ],
    ids=["a write", "writes", "mixed", "null path", "null ACL"],
)
def test_a_multi_read_that_is_refused(world: World, client: Peer, ops: list[MultiOp], body: bytes) -> None:
    # wire.md section 6: with the response built so far, if the operations are known to the decoder
    zxid = world.zxid
    reply = client.multi(*ops, op=OpCode.MULTI_READ)
    assert (reply.err, reply.body, reply.zxid) == (-5, body, zxid)
    assert "/old" in world.tree.nodes


# --- the cost of an operation of a multi, counted and not timed ---------------------------------------------

OPERATIONS: dict[str, Callable[[int], MultiOp]] = {
    "create": lambda i: create_op(f"/n{i:04}"),
    "create2": lambda i: create_op(f"/n{i:04}", op=CREATE2),
    "ephemeral": lambda i: create_op(f"/n{i:04}", flags=1),
    "container": lambda i: create_op(f"/n{i:04}", op=CONTAINER),
    "with an ACL": lambda i: create_op(f"/n{i:04}", acl=[acl(31, "ip", f"10.1.{i // 256}.{i % 256}")]),
    "delete": lambda i: delete_op(f"/old{i:04}"),
    "set": lambda i: set_op(f"/old{i:04}", b"x"),
    "check": lambda i: check_op(f"/old{i:04}"),
    "set with a long ACL": lambda i: set_op("/guarded", b"x"),
    "set below a quota": lambda i: set_op("/old", b"x" * (10 + i % 2)),
}
FAILING = check_op("/none")
NOW = milliseconds(START)


def cost(client: Peer, *steps: MultiOp) -> int:
    """Bytecode instructions of a multi."""
    engine, connection = client.world.engine, client.connection
    frame = bytes(8) + encode_multi(steps)
    return count_instructions(lambda: engine.handle(connection, OpCode.MULTI, frame, NOW))


def populated(znodes: int) -> Peer:
    client = World().connect()
    client.world.engine.on_txn = None  # nobody records the history, as in the command
    client.multi(*(create_op(f"/old{i:04}") for i in range(znodes)))
    client.create("/old")
    client.create("/guarded", acl=[acl(31, "ip", f"10.1.1.{i}") for i in range(200)] + [acl(31)])
    client.create("/zookeeper/quota/old")
    client.create("/zookeeper/quota/old/zookeeper_limits", b"count=-1,bytes=-1")
    client.create("/zookeeper/quota/old/zookeeper_stats")
    client.set("/guarded", b"")
    return client


@pytest.mark.parametrize("end", [[], [FAILING]], ids=["done", "undone"])
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_multi_costs_what_its_steps_cost(kind: str, end: list[MultiOp]) -> None:
    """Whatever their number, and whatever else is in the tree."""
    costs = []
    cost(populated(200), *map(OPERATIONS[kind], range(200)), *end)  # what is computed once for an address
    for count, znodes in ((100, 200), (200, 200), (200, 2000)):
        client = populated(znodes)
        costs.append(cost(client, *map(OPERATIONS[kind], range(count)), *end) / count)
    assert max(costs) < 1.1 * min(costs)
    assert max(costs) < 1300


def test_closing_a_session_costs_what_its_ephemerals_cost() -> None:
    costs = []
    for count in (100, 400):
        client = World().connect()
        client.multi(*(create_op(f"/e{i}", flags=1) for i in range(count)))
        engine, connection = client.world.engine, client.connection
        costs.append(
            count_instructions(
                lambda: engine.handle(connection, OpCode.CLOSE_SESSION, bytes(8), NOW)  # noqa: B023
            )
            / count
        )
    assert max(costs) < 1.1 * min(costs)


def test_reads_of_a_znode_with_a_long_acl_cost_as_much_as_others(client: Peer) -> None:
    client.create(
        "/guarded", acl=[acl(31, "ip", f"10.{i // 256}.{i % 256}.1") for i in range(3000)] + [acl(1)]
    )
    client.create("/short", acl=[acl(31, "ip", "10.0.0.1"), acl(1)])
    engine, connection = client.world.engine, client.connection
    costs = []
    for path in ("/short", "/guarded"):
        frame = bytes(8) + encode_multi([get_op(path)] * 50)
        for _ in range(2):
            count = count_instructions(
                lambda: engine.handle(connection, OpCode.MULTI_READ, frame, NOW)  # noqa: B023
            )
        costs.append(count)
    assert costs[1] < 2 * costs[0]
