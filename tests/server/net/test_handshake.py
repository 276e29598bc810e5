"""The handshake, and a whole conversation, byte by byte (wire.md sections 4 and 17)."""

from __future__ import annotations

import logging

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.framing import frame
from pyzk.protocol.jute import Record

from ...support.world import Peer, World

CONNECT = "0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010 " + "00" * 16 + " 00"


def connect_frame(
    *,
    protocol: int = 0,
    zxid: int = 0,
    timeout: int = 10_000,
    session_id: int = 0,
    password: bytes | None = bytes(16),
    read_only: bytes = b"\0",
) -> bytes:
    return frame(r.ConnectRequest(protocol, zxid, timeout, session_id, password).encode() + read_only)


def answer(peer: Peer, data: bytes) -> r.ConnectResponse:
    """The decoded ConnectResponse to some bytes, which must be all that is answered."""
    output = peer.exchange(data)
    response, end = r.ConnectResponse.read(output, 4)
    assert len(output) in (end, end + 1)
    assert int.from_bytes(output[:4]) == len(output) - 4
    return response


INVALID = r.ConnectResponse(0, 0, 0, bytes(16))


# --- 4.4 and 17: verbatim ----------------------------------------------------------------------------------


def test_the_handshake_of_the_specification() -> None:
    # wire.md section 4.4; the clock and the source of passwords are set to give its id and password
    password = bytes.fromhex("4c3d24f7e99225000aafc9f6dacbfce5")
    world = World(epoch=(2**40 + 0x1F3482 + 0.5) / 1000, random_bytes=lambda size: password[:size])
    assert world.open().exchange(bytes.fromhex(CONNECT)) == bytes.fromhex(
        "00000025 00000000 00002710 0100001f34820000 00000010 4c3d24f7e99225000aafc9f6dacbfce5 00"
    )


T = 0x000001A1F829A676

# The examples of wire.md section 17, in their order; the zxid between create2 and ping is another client's.
CONVERSATION = [
    (
        "create",
        "00000032 00000001 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64"
        "00000006 616e796f6e65 00000000",
        "00000016 00000001 0000000000000002 00000000 00000002 2f61",
    ),
    (
        "create again",
        "00000032 00000002 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64"
        "00000006 616e796f6e65 00000000",
        "00000010 00000002 0000000000000003 ffffff92",
    ),
    (
        "exists with a watch",
        "0000000f 00000003 00000003 00000002 2f62 01",
        "00000010 00000003 0000000000000003 ffffff9b",
    ),
    (
        "create2 with null data",
        "00000031 00000004 0000000f 00000002 2f62 ffffffff 00000001 0000001f 00000005 776f726c64"
        "00000006 616e796f6e65 00000000",
        "0000001e ffffffff 0000000000000004 00000000 00000001 00000003 00000002 2f62"
        "0000005a 00000004 0000000000000004 00000000 00000002 2f62"
        f"0000000000000004 0000000000000004 {T:016x} {T:016x} 00000000 00000000 00000000"
        "0000000000000000 00000000 00000000 0000000000000004",
    ),
    ("ping", "00000008 fffffffe 0000000b", "00000010 fffffffe 0000000000000005 00000000"),
    (
        "auth",
        "0000001d fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70",
        "00000010 fffffffc 0000000000000000 00000000",
    ),
    (
        "whoAmI",
        "00000008 00000007 0000006b",
        "00000036 00000007 0000000000000005 00000000 00000002"
        "00000002 6970 00000009 3132372e302e302e31  00000006 646967657374 00000001 75",
    ),
    (
        "addWatch",
        "00000012 00000008 0000006a 00000002 2f61 00000001",
        "00000014 00000008 0000000000000005 00000000 00000000",
    ),
    ("closeSession", "00000008 00000009 fffffff5", "00000010 00000009 0000000000000006 00000000"),
]


def test_the_conversation_of_the_specification() -> None:
    world = World(epoch=(T + 0.5) / 1000)
    peer = world.open()
    peer.exchange(bytes.fromhex(CONNECT))
    for name, sent, answered in CONVERSATION:
        if name == "ping":
            world.engine.zxid += 1
        assert peer.exchange(bytes.fromhex(sent)) == bytes.fromhex(answered), name
    assert peer.closed


def test_the_conversation_sent_in_one_go() -> None:
    # wire.md section 1: a client need not wait for anything
    world = World(epoch=(T + 0.5) / 1000)
    requests = [step for step in CONVERSATION if step[0] in ("create", "create again", "exists with a watch")]
    output = world.open().exchange(bytes.fromhex(CONNECT + "".join(sent for _, sent, _ in requests)))
    assert output.endswith(bytes.fromhex("".join(answered for _, _, answered in requests)))


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_the_conversation_in_small_pieces(step: int) -> None:
    world = World(epoch=(T + 0.5) / 1000)
    peer = world.open()
    stream = bytes.fromhex(CONNECT + "".join(sent for _, sent, _ in CONVERSATION[:4]))
    output = b"".join(peer.exchange(stream[i : i + step]) for i in range(0, len(stream), step))
    assert output[41:] == bytes.fromhex("".join(answered for _, _, answered in CONVERSATION[:4]))


# --- 4.1 to 4.3: fields ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read_only", "size"), [(b"", 36), (b"\0", 37), (b"\1", 37), (b"\2", 37), (b"\0more", 37)], ids=ascii
)
def test_the_last_byte_is_mirrored_and_always_zero(world: World, read_only: bytes, size: int) -> None:
    # decided by the length of the request (wire.md, traps 1 and 27)
    output = world.open().exchange(connect_frame(read_only=read_only))
    assert len(output) == 4 + size
    assert output[40:] == bytes(size - 36)


@pytest.mark.parametrize("read_only", [b"", b"\0"])
def test_it_is_mirrored_in_the_invalid_session_response_too(world: World, read_only: bytes) -> None:
    peer = world.open()
    output = peer.exchange(connect_frame(session_id=5, read_only=read_only))
    assert output == frame(INVALID.encode() + bytes(len(read_only)))
    assert peer.closed


@pytest.mark.parametrize("protocol", [0, 1, 77, -1])
def test_the_protocol_version_is_ignored(world: World, protocol: int) -> None:
    response = answer(world.open(), connect_frame(protocol=protocol))
    assert (response.protocolVersion, response.timeOut) == (0, 10_000)


@pytest.mark.parametrize(
    "password", [None, b"", b"x", bytes(16), bytes(100)], ids=["null", "0", "1", "16", "100"]
)
def test_the_password_of_a_new_session_does_not_matter(world: World, password: bytes | None) -> None:
    response = answer(world.open(), connect_frame(password=password))
    assert response.sessionId != 0
    assert len(response.passwd or b"") == 16


@pytest.mark.parametrize(
    ("wanted", "negotiated"),
    [
        (-(2**31), 4000),
        (-1, 4000),
        (0, 4000),
        (3999, 4000),
        (4000, 4000),
        (12_345, 12_345),
        (40_000, 40_000),
        (40_001, 40_000),
        (2**31 - 1, 40_000),
    ],
)
def test_the_timeout_is_kept_between_2_and_20_ticks(world: World, wanted: int, negotiated: int) -> None:
    assert answer(world.open(), connect_frame(timeout=wanted)).timeOut == negotiated


def test_the_limits_of_the_timeout_can_be_set() -> None:
    world = World(min_session_timeout=1, max_session_timeout=100_000)
    assert answer(world.open(), connect_frame(timeout=0)).timeOut == 1
    assert answer(world.open(), connect_frame(timeout=10**6)).timeOut == 100_000


def test_a_fresh_session_has_consumed_a_zxid_when_it_is_told(world: World) -> None:
    answer(world.open(), connect_frame())
    assert world.zxid == 1


# --- 4.2: the order of decisions ---------------------------------------------------------------------------


def test_a_zxid_from_the_future_is_dropped_without_a_word(world: World) -> None:
    # before the session is looked at: neither an unknown nor a live one changes that
    client = world.connect()
    for session_id, password in ((0, bytes(16)), (5, bytes(16)), (client.session_id, client.password)):
        peer = world.open()
        assert peer.exchange(connect_frame(zxid=2, session_id=session_id, password=password)) == b""
        assert peer.closed
    assert not client.closed
    assert world.zxid == 1


def test_the_present_zxid_is_fine(world: World) -> None:
    world.connect()
    assert answer(world.open(), connect_frame(zxid=1)).sessionId != 0


def test_a_negative_zxid_is_fine(world: World) -> None:
    assert answer(world.open(), connect_frame(zxid=-1)).sessionId != 0


@pytest.mark.parametrize(
    "password", [None, b"", bytes(15), bytes(16), bytes(17)], ids=["null", "empty", "short", "wrong", "long"]
)
def test_a_live_session_needs_its_password(world: World, password: bytes | None) -> None:
    client = world.connect()
    peer = world.open()
    assert answer(peer, connect_frame(session_id=client.session_id, password=password)) == INVALID
    assert peer.closed


@pytest.mark.parametrize("session_id", [1, -1, 2**63 - 1, -(2**63), 0x0100_0000_0000_0000])
def test_an_unknown_session_is_invalid(world: World, session_id: int) -> None:
    peer = world.open()
    assert answer(peer, connect_frame(session_id=session_id)) == INVALID
    assert peer.closed
    assert world.zxid == 0, "which consumes nothing"


def test_what_is_sent_behind_a_refused_handshake_is_not_read(world: World) -> None:
    peer = world.open()
    output = peer.exchange(connect_frame(session_id=5) + connect_frame())
    assert output == frame(INVALID.encode() + b"\0")
    assert peer.exchange(connect_frame()) == b""
    assert world.zxid == 0


def test_a_second_connect_request_is_taken_for_a_request(world: World) -> None:
    # wire.md section 1: its first eight bytes make xid 0, op 0
    peer = world.open()
    peer.exchange(connect_frame())
    assert peer.exchange(connect_frame()) == frame(r.ReplyHeader(0, -1, -6).encode())
    assert peer.closed


# --- what is no handshake ----------------------------------------------------------------------------------

BAD_BEGINNINGS: list[tuple[str, bytes]] = [
    ("length 0", frame(b"")),
    ("length -1", b"\xff\xff\xff\xff"),
    ("length over the limit", (1_048_576).to_bytes(4)),
    ("an http request", b"GET / HTTP/1.1\r\n\r\n"),
    ("a tls hello", b"\x16\x03\x01\x02\x00\x01\x00"),
    ("ssh", b"SSH-2.0-x\r\n"),
    ("a word in capitals", b"RUOK"),
    ("an unknown word", b"xxxx"),
    ("a request", wire.request(11, xid=1)),
    ("one byte short", frame(connect_frame(read_only=b"")[4:-1])),
    ("a password that is cut", frame(connect_frame(read_only=b"")[4:-16])),
    ("a password of negative length", frame(bytes(24) + b"\xff\xff\xff\xfe")),
]


@pytest.mark.parametrize("data", [row[1] for row in BAD_BEGINNINGS], ids=[row[0] for row in BAD_BEGINNINGS])
def test_what_is_no_handshake_ends_the_connection_without_a_byte(
    world: World, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    peer = world.open()
    with caplog.at_level(logging.INFO, "pyzk"):
        assert peer.exchange(data) == b""
    assert peer.closed
    assert world.service.connections == {}
    assert len(caplog.records) == 1, "one line that says whose fault it was"
    assert "127.0.0.1" in caplog.text


@pytest.mark.parametrize("cut", range(1, 49, 3))
def test_a_handshake_cut_short_is_waited_for(world: World, cut: int) -> None:
    peer = world.open()
    stream = connect_frame()
    assert peer.exchange(stream[:cut]) == b""
    assert not peer.closed
    assert len(peer.exchange(stream[cut:])) == 41


def test_the_end_of_the_stream_during_the_handshake_is_quiet(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    # a port scanner
    peer = world.open()
    peer.exchange(connect_frame()[:20])
    with caplog.at_level(logging.INFO, "pyzk"):
        peer.connection.receive_eof()
    assert peer.closed
    assert peer.exchange() == b""
    assert world.service.connections == {}
    assert caplog.records == []


def test_records_of_the_handshake_have_their_sizes() -> None:
    empty: Record = r.ConnectRequest(0, 0, 0, 0, bytes(16))
    assert len(empty.encode()) == 44
    assert len(INVALID.encode()) == 36
