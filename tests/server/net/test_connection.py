"""One connection after its handshake: framing, order, refusals (wire.md sections 1, 5 to 7, 12, 15)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import JUTE_MAXBUFFER
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode

from ...support.requests import acl
from ...support.wire import Reply
from ...support.world import Peer, World

PING = wire.request(OpCode.PING, xid=-2)
CREATE = r.CreateRequest("/x", b"", r.OPEN_ACL, 0)
AUTH = r.AuthPacket(0, "digest", b"u:p")
BAD_AUTH = r.AuthPacket(0, "nope", b"u:p")


def headers(output: bytes) -> list[tuple[int, int, int]]:
    """The (xid, zxid, err) of every frame."""
    found = []
    while output:
        size = int.from_bytes(output[:4])
        header = r.ReplyHeader.decode(output, 4)
        found.append((header.xid, header.zxid, header.err))
        output = output[4 + size :]
    return found


# --- framing -----------------------------------------------------------------------------------------------


def test_requests_may_arrive_byte_by_byte(client: Peer) -> None:
    stream = b"".join(client.encode(OpCode.SYNC, r.SyncRequest(path)) for path in ("/a", "/b", "/c"))
    for i in range(len(stream)):
        client.feed(stream[i : i + 1])
    assert [client.reply().record.path for _ in range(3)] == ["/a", "/b", "/c"]


@given(cuts=st.lists(st.integers(1, 60), max_size=30))
def test_replies_do_not_depend_on_how_the_stream_is_cut(cuts: list[int]) -> None:
    stream = wire.request(OpCode.CREATE, CREATE, 1) + PING + wire.request(OpCode.CREATE, CREATE, 2)
    stream += wire.request(OpCode.SYNC, r.SyncRequest("/a"), 3) + PING + wire.request(OpCode.EXISTS, xid=4)
    stream += wire.request(OpCode.CLOSE_SESSION, xid=5)
    whole, pieces = World().connect(), World().connect()
    output, start = b"", 0
    for size in [*cuts, len(stream)]:
        output += pieces.exchange(stream[start : start + size])
        start += size
    assert output == whole.exchange(stream)
    assert (whole.closed, pieces.closed) == (True, True)


@pytest.mark.parametrize(
    "length",
    [
        b"\xff\xff\xff\xff",
        b"\x80\0\0\0",
        (JUTE_MAXBUFFER + 1).to_bytes(4),
        b"ruok",
        b"stat",
        b"\x7f\xff\xff\xff",
    ],
)
@pytest.mark.parametrize("before", [b"", PING, PING * 200], ids=["first", "after one", "after many"])
def test_a_length_outside_of_the_limits_ends_the_connection(
    client: Peer, length: bytes, before: bytes
) -> None:
    # wire.md sections 3 and 15: at once, and what came before it is answered
    output = client.exchange(before + length)
    assert headers(output) == [(-2, 1, 0)] * (len(before) // len(PING))
    assert client.closed
    assert client.exchange(PING) == b""


@pytest.mark.parametrize("size", [0, 1, 4, 7])
def test_a_frame_without_a_header_ends_the_connection(client: Peer, size: int) -> None:
    output = client.exchange(PING + frame(bytes(size)) + PING)
    assert headers(output) == [(-2, 1, 0)]
    assert client.closed


def test_a_message_of_exactly_the_limit_is_accepted(world: World, client: Peer) -> None:
    # wire.md, trap 16
    overhead = len(r.CreateRequest("/x", b"", r.OPEN_ACL, 0).encode()) + 8
    data = bytes(JUTE_MAXBUFFER - overhead)
    assert client.create("/x", data).err == 0
    # the reply to a read is larger still, and sent all the same
    assert client.get("/x").record.data == data
    assert not client.closed


def test_a_message_over_the_limit_names_size_limit_and_setting(
    client: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    overhead = len(CREATE.encode()) + 8
    request = wire.request(
        OpCode.CREATE, r.CreateRequest("/x", bytes(JUTE_MAXBUFFER - overhead + 1), r.OPEN_ACL, 0), 1
    )
    with caplog.at_level(logging.INFO, "pyzk"):
        assert client.exchange(request) == b""
    assert client.closed
    (record,) = caplog.records
    for part in ("127.0.0.1", "1,048,576", "1,048,575", "jute.maxbuffer"):
        assert part in record.getMessage()


def test_the_limit_can_be_set() -> None:
    client = World(max_buffer=100).connect()
    assert client.exchange(wire.request(11, bytes(92), 1)) != b""
    assert client.exchange(wire.request(11, bytes(93), 1)) == b""
    assert client.closed


# --- order and ends ----------------------------------------------------------------------------------------


def test_replies_come_in_the_order_of_the_requests(client: Peer) -> None:
    ops: list[tuple[int, Any]] = [
        (OpCode.CREATE, CREATE),
        (OpCode.AUTH, AUTH),
        (OpCode.EXISTS, r.ExistsRequest("/none", False)),
        (OpCode.SASL, r.GetSASLRequest(b"")),
        (OpCode.WHO_AM_I, b""),
        (OpCode.DELETE, r.DeleteRequest("/none", -1)),
    ]
    client.feed(b"".join(client.encode(op, request) for op, request in ops))
    replies = [client.reply() for _ in ops]
    assert [(reply.xid, reply.op) for reply in replies] == [(i, op) for i, (op, _) in enumerate(ops, 1)]
    assert [reply.err for reply in replies] == [0, 0, -101, 0, 0, -101]


def test_nothing_is_done_behind_close_session(world: World, client: Peer) -> None:
    # wire.md section 7, rule 7
    output = client.exchange(
        wire.request(OpCode.CLOSE_SESSION, xid=7) + wire.request(OpCode.CREATE, CREATE, 8) + PING
    )
    assert headers(output) == [(7, 2, 0)]
    assert client.closed
    assert (world.zxid, "/x" in world.tree.nodes) == (2, False)


def test_a_closing_client_receives_the_events_it_causes_and_then_its_reply(client: Peer) -> None:
    # wire.md section 7, rule 7
    client.create("/e", flags=1)
    client.exists("/e", watch=True)
    client.send(OpCode.CLOSE_SESSION)
    first, last = client.take_all()
    assert (first.zxid, last) == (3, Reply(3, 3, 0, b"", OpCode.CLOSE_SESSION))
    assert client.closed


@pytest.mark.parametrize("op", [0, 13, 20, 999, -10])
def test_nothing_is_done_behind_an_unknown_op(world: World, client: Peer, op: int) -> None:
    # wire.md section 7, rule 8
    output = client.exchange(PING + wire.request(op, xid=5) + wire.request(OpCode.CREATE, CREATE, 6) + PING)
    assert headers(output) == [(-2, 1, 0), (5, -1, -6)]
    assert client.closed
    assert (world.zxid, "/x" in world.tree.nodes) == (1, False)


def test_the_end_of_the_stream_leaves_the_session_and_what_was_answered(world: World, client: Peer) -> None:
    client.connection.receive_data(PING, world.now)
    client.connection.receive_eof()
    assert client.closed
    assert headers(client.connection.data_to_send()) == [(-2, 1, 0)]
    assert world.service.connections == {}
    assert client.reconnect().session_id == client.session_id


def test_a_connection_that_is_over_takes_nothing_more(world: World, client: Peer) -> None:
    client.close_session()
    connection = client.connection
    connection.receive_data(PING + wire.request(OpCode.CREATE, CREATE, 1), world.now)
    connection.receive_eof()
    connection.abort("once more")
    assert (connection.has_work, connection.data_to_send()) == (False, b"")
    assert world.zxid == 2


def test_aborting_drops_what_waits_to_be_sent(world: World, client: Peer) -> None:
    client.connection.receive_data(PING, world.now)
    client.connection.abort("a test says so")
    assert client.closed
    assert client.connection.data_to_send() == b""


def test_a_connection_is_aborted_once(client: Peer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyzk"):
        client.connection.abort("it was too slow for one")
        client.connection.abort("it was too slow for another")
    assert [record.getMessage().partition("closed, ")[2] for record in caplog.records] == [
        "it was too slow for one"
    ]


def test_output_that_nobody_asked_for_wakes_the_owner_of_the_socket(world: World, client: Peer) -> None:
    client.exists("/x", watch=True)
    other = world.connect()
    before = client.wakes
    other.create("/x")
    assert client.wakes == before + 1
    other.reconnect()
    assert other.wakes > 0, "so does the end of the connection"


# --- auth (wire.md section 12) -----------------------------------------------------------------------------


def test_auth_accumulates_and_repeats_are_no_second_identity(client: Peer) -> None:
    replies = [client.auth("digest", b"u:p"), client.auth("digest", b"u:p"), client.auth("digest", b"u:q")]
    replies.append(client.auth("ip", None))
    assert [(reply.xid, reply.zxid, reply.err, reply.body) for reply in replies] == [(-4, 0, 0, b"")] * 4
    assert client.who_am_i().identities == [("ip", "127.0.0.1"), ("digest", "u"), ("digest", "u")]


@pytest.mark.parametrize("xid", [-4, 1, 0, -1])
def test_the_xid_of_an_auth_packet_is_echoed(client: Peer, xid: int) -> None:
    # go-zookeeper uses ordinary ones (wire.md section 5)
    assert client.request(OpCode.AUTH, AUTH, xid).xid == xid


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("digest", None),
        ("nope", b""),
        ("world", b"anyone"),
        ("super", b""),
        ("auth", b""),
        ("sasl", b""),
        (None, b""),
    ],
)
def test_a_refused_auth_ends_the_connection_and_not_the_session(
    world: World, client: Peer, scheme: str | None, data: bytes | None
) -> None:
    reply = client.auth(scheme, data)
    assert (reply.xid, reply.zxid, reply.err) == (-4, 0, -115)
    assert client.closed
    assert world.zxid == 1
    assert client.reconnect().ping().err == 0


@pytest.mark.parametrize(
    "behind",
    [
        wire.request(OpCode.CREATE, CREATE, 8),
        wire.request(OpCode.EXISTS, r.ExistsRequest("/x", True), 8),
        wire.request(OpCode.AUTH, AUTH, 8),
        wire.request(OpCode.SASL, r.GetSASLRequest(b""), 8),
        wire.request(OpCode.CLOSE_SESSION, xid=8),
        wire.request(999, xid=8),
        PING,
    ],
    ids=["create", "exists", "auth", "sasl", "closeSession", "unknown op", "ping"],
)
@pytest.mark.parametrize(
    "refused",
    [
        (OpCode.AUTH, BAD_AUTH),
        (OpCode.AUTH, b"\0"),
        (OpCode.SASL, b"\0"),
        (OpCode.SASL, r.GetSASLRequest(None)),
    ],
    ids=["auth", "undecodable auth", "undecodable sasl", "sasl without a token"],
)
def test_nothing_is_done_behind_a_refused_auth(
    world: World, client: Peer, refused: tuple[OpCode, Any], behind: bytes
) -> None:
    # wire.md section 12.1: reading stops at once, so pipelined requests are lost
    answered = refused[1] is BAD_AUTH
    output = client.exchange(wire.request(*refused, 7) + behind)
    assert headers(output) == [(7, 0, -115)] * answered
    assert client.closed
    assert (world.zxid, "/x" in world.tree.nodes, world.engine.watches.count()) == (1, False, 0)
    assert client.reconnect().who_am_i().identities == [("ip", "127.0.0.1")]


def test_identities_belong_to_the_connection(client: Peer) -> None:
    # semantics.md section 8.5
    client.auth("digest", b"u:p")
    assert client.reconnect().who_am_i().identities == [("ip", "127.0.0.1")]


def test_other_identities_may_be_known_from_the_start(world: World) -> None:
    peer = world.open(identities=[r.Id("x509", "CN=anne")])
    peer.connect()
    assert peer.who_am_i().identities == [("ip", "127.0.0.1"), ("x509", "CN=anne")]


# --- checks that are off by default ------------------------------------------------------------------------

LARGE_MEANS_50: dict[str, Any] = {"large_request_threshold": 50, "large_request_max_bytes": 50}


@pytest.mark.parametrize("op", [OpCode.PING, OpCode.CREATE, OpCode.CLOSE_SESSION, 999])
def test_where_authentication_is_enforced_every_request_needs_it(op: int) -> None:
    # semantics.md section 8.5, wire.md section 6
    world = World(required_auth_schemes=frozenset({"digest"}))
    client = world.connect()
    output = client.exchange(wire.request(op, CREATE, 7) + wire.request(OpCode.CREATE, CREATE, 8))
    assert [header[1:] for header in headers(output)] == [(0, -124)]
    assert client.closed
    assert (world.zxid, "/x" in world.tree.nodes) == (1, False)


def test_a_lone_request_must_pass_these_checks_too() -> None:
    for settings in ({"required_auth_schemes": frozenset({"digest"})}, LARGE_MEANS_50):
        world = World(**settings)
        client = world.connect()
        client.exchange(wire.request(OpCode.CREATE, r.CreateRequest("/x", bytes(100), r.OPEN_ACL, 0), 7))
        assert client.closed
        assert (world.zxid, "/x" in world.tree.nodes) == (1, False)


def test_where_authentication_is_enforced_one_of_the_schemes_suffices() -> None:
    client = World(required_auth_schemes=frozenset({"digest"})).connect()
    assert client.auth("ip", None).err == 0
    assert client.auth("digest", b"u:p").err == 0
    assert client.create("/x", acl=[acl(31, "auth", "")]).err == 0
    assert client.ping().err == 0


# threshold, budget, size of the frame's payload, whether it passes (semantics.md section 14)
LARGE = [
    (-1, 100, 5000, True),
    (1000, 2000, 900, True),
    (1000, 2000, 1500, True),
    (1000, 2000, 2000, True),
    (1000, 2000, 2001, False),
    (1000, 500, 1000, True),  # not longer than the threshold: no large request
    (1000, 500, 1001, False),
]


@pytest.mark.parametrize(("threshold", "budget", "size", "passes"), LARGE)
def test_large_requests_share_a_budget(threshold: int, budget: int, size: int, passes: bool) -> None:
    client = World(large_request_threshold=threshold, large_request_max_bytes=budget).connect()
    output = client.exchange(wire.request(OpCode.PING, bytes(size - 8), -2))
    assert (bool(output), client.closed) == (passes, not passes)


@pytest.mark.parametrize(
    ("op", "err"), [(OpCode.SYNC, -127), (OpCode.CREATE, -127), (OpCode.PING, 0), (OpCode.CLOSE_SESSION, 0)]
)
def test_operations_that_waited_too_long_are_throttled(op: OpCode, err: int) -> None:
    # semantics.md section 14: ping and closeSession are exempt
    world = World(throttled_op_wait_time=100)
    client = world.connect()
    stream = PING * 100 + wire.request(op, CREATE if op == OpCode.CREATE else r.SyncRequest("/a"), 5)
    client.connection.receive_data(stream, world.now)
    client.connection.data_to_send()
    assert client.connection.has_work
    world.now += 0.2
    assert headers(client.exchange())[-1][2] == err
    assert ("/x" in world.tree.nodes) is False


def test_a_long_auth_scheme_is_not_logged_in_full(client: Peer, caplog: pytest.LogCaptureFixture) -> None:
    assert client.auth("x" * 100_000, b"y").err == -115
    [record] = caplog.records
    assert len(record.getMessage()) < 300
