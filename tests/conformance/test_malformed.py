"""Malformed input and limits (wire.md section 15): each costs its sender at most the connection."""

from __future__ import annotations

import socket
import struct

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import JUTE_MAXBUFFER
from pyzk.protocol.framing import frame
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode

from ..support.requests import acl, children_op, get_op
from ..support.wire import WireClient
from .conftest import KINDS, Connect, running
from .servers import CONFIG

CONNECT = r.ConnectRequest(0, 0, 5000, 0, bytes(16)).encode()


FIRST_FRAMES = [
    ("length zero", bytes(4)),
    ("negative length", struct.pack(">i", -1)),
    ("most negative length", struct.pack(">i", -(2**31))),
    ("too long", struct.pack(">i", JUTE_MAXBUFFER + 1)),
    ("longest", struct.pack(">i", 2**31 - 1)),
    ("TLS", bytes.fromhex("16030100c8010000c40303")),
    ("an unknown word", b"xxxx"),
    ("upper case", b"RUOK"),
    ("a short request", frame(CONNECT[:10])),
    ("without password", frame(CONNECT[:24])),
    ("password cut", frame(CONNECT[:-1])),
    ("password too long", frame(CONNECT[:24] + struct.pack(">i", 2**30))),
    ("password of negative length", frame(CONNECT[:24] + struct.pack(">i", -2) + bytes(16))),
    ("one byte", frame(b"\0")),
]


@pytest.mark.parametrize("data", [row[1] for row in FIRST_FRAMES], ids=[row[0] for row in FIRST_FRAMES])
def test_a_bad_first_frame_closes_without_reply(connect: Connect, client: WireClient, data: bytes) -> None:
    stranger = connect(False)
    stranger.send_bytes(data)
    assert stranger.is_closed()
    assert client.ping().err == 0


@pytest.mark.parametrize("sent", [0, 2, 4, 20])
def test_a_handshake_cut_short(connect: Connect, client: WireClient, sent: int) -> None:
    stranger = connect(False)
    stranger.send_bytes(frame(CONNECT)[:sent])
    stranger.drop()
    assert client.ping().err == 0


LATER_FRAMES = [
    ("length zero", frame(b"")),
    ("half a header", frame(bytes(4))),
    ("seven bytes", frame(bytes(7))),
    ("negative length", struct.pack(">i", -1)),
    ("too long", struct.pack(">i", JUTE_MAXBUFFER + 1)),
    ("a four-letter word", b"ruok"),
]


@pytest.mark.parametrize("data", [row[1] for row in LATER_FRAMES], ids=[row[0] for row in LATER_FRAMES])
def test_a_bad_later_frame_closes_without_reply(connect: Connect, client: WireClient, data: bytes) -> None:
    client.send_bytes(data)
    assert client.is_closed()
    again = connect(session_id=client.session_id, password=client.password)
    assert again.session_id == client.session_id  # the session does not suffer


def test_what_came_before_a_bad_frame_is_carried_out(connect: Connect, client: WireClient, top: str) -> None:
    header = r.RequestHeader(1, OpCode.SET_DATA).encode()
    client.send_bytes(frame(header + r.SetDataRequest(top, b"done", -1).encode()))
    client.receive_frame()
    client.send_bytes(struct.pack(">i", -5))
    assert client.is_closed()
    assert connect().get(top).record.data == b"done"


# The limit counts the payload only, and is inclusive.


def padded_create(path: str, size: int) -> bytes:
    """A create whose frame has exactly ``size`` bytes of payload."""
    header = r.RequestHeader(1, OpCode.CREATE).encode()
    rest = len(header + r.CreateRequest(path, b"", r.OPEN_ACL, 0).encode())
    return header + r.CreateRequest(path, b"x" * (size - rest), r.OPEN_ACL, 0).encode()


def test_the_largest_frame(client: WireClient, top: str) -> None:
    client.send_frame(padded_create(f"{top}/n", JUTE_MAXBUFFER))
    client.expect(1, OpCode.CREATE)
    assert client.receive_reply().err == 0
    reply = client.get(f"{top}/n")  # more than a frame may have in the other direction
    assert reply.record.stat.dataLength == len(reply.record.data)
    assert len(reply.body) + 16 > JUTE_MAXBUFFER


def test_one_byte_more_closes(connect: Connect, client: WireClient, top: str) -> None:
    client.send_bytes(struct.pack(">i", JUTE_MAXBUFFER + 1))
    assert client.is_closed()
    assert connect().exists(f"{top}/n").err == -101


def test_replies_have_no_limit(client: WireClient, top: str) -> None:
    client.send_frame(padded_create(f"{top}/n", JUTE_MAXBUFFER))
    client.expect(1, OpCode.CREATE)
    client.receive_reply()
    reply = client.multi_read(*[get_op(f"{top}/n")] * 3)
    assert len(reply.body) > 3_000_000
    assert [result.err for result in reply.results] == [0, 0, 0]


# --- bodies that do not decode: -5, and the connection stays open ------------------------------------------

PATH = b"\0\0\0\x02/a"
BODIES = [
    ("path cut", OpCode.GET_DATA, b"\0\0\0\x09/a"),
    ("flag missing", OpCode.GET_DATA, PATH),
    ("negative path length", OpCode.GET_DATA, b"\xff\xff\xff\xfe\0"),
    ("huge path length", OpCode.GET_DATA, b"\x7f\xff\xff\xff/a\0"),
    ("exists cut", OpCode.EXISTS, PATH),
    ("children cut", OpCode.GET_CHILDREN, b"\0\0"),
    ("version missing", OpCode.DELETE, PATH),
    ("version cut", OpCode.SET_DATA, PATH + b"\0\0\0\x01x\0\0"),
    ("negative data length", OpCode.SET_DATA, PATH + b"\xff\xff\xff\xf0\0\0\0\0"),
    ("ACL cut", OpCode.CREATE, PATH + b"\0\0\0\0" + b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05worl"),
    ("ACL count too large", OpCode.CREATE, PATH + b"\0\0\0\0" + b"\0\0\0\x7f\0\0\0\0"),
    ("flags missing", OpCode.CREATE, r.CreateRequest("/a", b"", r.OPEN_ACL, 0).encode()[:-4]),
    ("TTL missing", OpCode.CREATE_TTL, r.CreateRequest("/a", b"", r.OPEN_ACL, 5).encode()),
    ("setWatches cut", OpCode.SET_WATCHES, bytes(8)),
    ("setWatches2 like setWatches", OpCode.SET_WATCHES2, r.SetWatches(0, [], [], []).encode()),
    ("multiRead cut", OpCode.MULTI_READ, encode_multi([children_op("/")])[:-1]),
    ("mode missing", OpCode.ADD_WATCH, PATH),
]


@pytest.mark.parametrize(("op", "body"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_body_that_does_not_decode(client: WireClient, op: OpCode, body: bytes) -> None:
    reply = client.request(op, body)
    assert (reply.err, reply.body) == (-5, b"")
    assert client.ping().err == 0


NULL_PATHS = [
    ("create", lambda c: c.create(None)),
    ("getData", lambda c: c.get(None)),
    ("exists", lambda c: c.exists(None)),
    ("delete", lambda c: c.delete(None)),
    ("setData", lambda c: c.set(None, b"")),
    ("setACL", lambda c: c.set_acl(None, r.OPEN_ACL)),
    ("getACL", lambda c: c.get_acl(None)),
    ("getChildren", lambda c: c.children(None)),
    ("getChildren2", lambda c: c.children2(None)),
    ("getAllChildrenNumber", lambda c: c.count_descendants(None)),
]
# Where the path rules are the first thing to look at the path, null only breaks one of them.
NULL_PATH_ERRORS = {"setData": -8, "setACL": -8}


@pytest.mark.parametrize(("name", "call"), NULL_PATHS, ids=[row[0] for row in NULL_PATHS])
def test_a_null_path(client: WireClient, name: str, call) -> None:  # type: ignore[no-untyped-def]
    assert call(client).err == NULL_PATH_ERRORS.get(name, -5)
    assert client.ping().err == 0


def test_a_null_scheme(client: WireClient, top: str) -> None:
    assert client.create(f"{top}/n", acl=[acl(31, None, None)]).err == -114


def test_invalid_utf8_ends_nothing(client: WireClient, top: str) -> None:
    # wire.md section 2
    for op in (OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN):
        assert client.request(op, b"\0\0\0\x03/\xff\xc0\0").err == -101


@pytest.mark.parametrize(
    ("encoded", "echoed"),
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0\xbd\xed\xb8\x80/", "\ufffd\ufffd/"),
        (b"\xed\xbf", "\ufffd"),
        (b"\xed\xa0(", "\ufffd("),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98(", "\ufffd("),
    ],
)
def test_encoded_surrogates_are_one_replacement_character_each(
    client: WireClient, encoded: bytes, echoed: str
) -> None:
    # wire.md section 2
    body = struct.pack(">i", len(encoded)) + encoded
    assert client.request(OpCode.SYNC, body).record.path == echoed


def test_a_flood_of_connections_is_survived(connect: Connect, client: WireClient) -> None:
    for _ in range(100):
        connect(False).drop()
    assert client.ping().err == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_reset_in_the_handshake_costs_nobody_anything(kind: str) -> None:
    # a server of its own: a session may be left, whose expiry would consume a zxid under some other test
    with running(kind, CONFIG) as server, WireClient((server.host, server.port)) as client:
        client.connect()
        for sent in (b"", b"\0\0", frame(CONNECT)):
            stranger = WireClient((server.host, server.port))
            stranger.send_bytes(sent)
            stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stranger.drop()
        assert client.ping().err == 0
