"""The connect handshake (wire.md section 4) and re-attaching to a session (semantics.md 12.7)."""

from __future__ import annotations

import struct

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.operations import OpCode

from ..support.wire import ClosedError, Reply, WireClient
from .conftest import Connect
from .servers import Server

INVALID_SESSION = (0, 0, 0, bytes(16))


@pytest.mark.parametrize(
    ("read_only", "extra"), [(None, b""), (False, b"\0"), (True, b"\0")], ids=["absent", "false", "true"]
)
def test_the_read_only_byte_is_answered_only_where_it_was_sent(
    connect: Connect, read_only: bool | None, extra: bytes
) -> None:
    # wire.md 4.3: the byte says what the server is, it does not echo the request
    client = connect(read_only=read_only)
    assert client.handshake.extra == extra
    assert client.handshake.protocol_version == 0
    assert client.session_id != 0
    assert len(client.password) == 16
    assert client.exists("/").err == 0


def test_the_exact_bytes_of_a_handshake(connect: Connect) -> None:
    # wire.md 4.4
    client = connect(False)
    client.send_bytes(
        bytes.fromhex("0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010")
        + bytes(16)
        + b"\0"
    )
    answer = client.receive_bytes(4 + 37)
    assert answer[:12] == bytes.fromhex("00000025 00000000 00002710")
    assert answer[20:24] == bytes.fromhex("00000010")
    assert answer[40:] == b"\0"
    client.note_handshake(answer[4:])  # so that its session is ended


@pytest.mark.parametrize("version", [77, -1])
def test_the_protocol_version_is_ignored(connect: Connect, version: int) -> None:
    # wire.md 4.1
    assert connect(protocol_version=version).handshake.protocol_version == 0


@pytest.mark.parametrize("password", [None, b"", b"abc", b"x" * 40], ids=["null", "empty", "short", "long"])
def test_a_new_session_needs_no_password(connect: Connect, password: bytes | None) -> None:
    # wire.md 4.1
    assert len(connect(password=password).password) == 16


@pytest.mark.parametrize(
    ("wanted", "negotiated"),
    [
        (-(2**31), 500),
        (-1, 500),
        (0, 500),
        (499, 500),
        (500, 500),
        (501, 501),
        (12_345, 12_345),
        (60_000, 60_000),
        (60_001, 60_000),
        (2**31 - 1, 60_000),
    ],
)
def test_the_session_timeout_is_clamped(connect: Connect, wanted: int, negotiated: int) -> None:
    # wire.md 4.2 step 5
    assert connect(timeout=wanted).handshake.timeout == negotiated


def test_a_new_session_consumes_one_zxid(connect: Connect, client: WireClient) -> None:
    # wire.md 4.3
    before = client.ping().zxid
    assert connect().ping().zxid == before + 1


def test_session_ids_count_up_under_the_top_byte_one(connect: Connect) -> None:
    # semantics.md 12.1
    first, second = connect().session_id, connect().session_id
    assert first >> 56 == second >> 56 == 1
    assert second == first + 1


def test_a_zxid_from_the_future_closes_silently(connect: Connect, client: WireClient) -> None:
    # wire.md 4.2 step 4
    late = connect(False)
    late.send_connect(last_zxid=client.ping().zxid + 1)
    assert late.is_closed()


def test_the_last_zxid_itself_is_no_future(connect: Connect, client: WireClient) -> None:
    # wire.md 4.2 step 4
    assert connect(last_zxid=client.ping().zxid).session_id != 0


@pytest.mark.parametrize("known", [True, False], ids=["own session", "unknown session"])
def test_a_zxid_from_the_future_hides_whether_the_session_lives(
    connect: Connect, client: WireClient, known: bool
) -> None:
    # wire.md 4.2: step 4 comes before step 7, so neither is the other connection closed
    late = connect(False)
    late.send_connect(
        last_zxid=client.ping().zxid + 10**6,
        session_id=client.session_id if known else 12345,
        password=client.password,
    )
    assert late.is_closed()
    assert client.ping().err == 0


def test_reattaching_keeps_the_session(connect: Connect, client: WireClient, top: str) -> None:
    # wire.md 4.2 step 7; semantics.md 2: no zxid; semantics.md 7: ephemerals survive
    zxid = client.create(f"{top}/e", flags=1).zxid
    client.drop()
    again = connect(session_id=client.session_id, password=client.password, timeout=20_000)
    assert (again.session_id, again.password, again.handshake.timeout) == (
        client.session_id,
        client.password,
        20_000,
    )
    assert again.ping().zxid == zxid
    assert again.exists(f"{top}/e").record.stat.ephemeralOwner == client.session_id


def test_reattaching_closes_the_other_connection(connect: Connect, client: WireClient) -> None:
    # wire.md 4.2 step 7: without a packet
    again = connect(session_id=client.session_id, password=client.password)
    assert client.is_closed()
    assert again.ping().err == 0


def test_reattaching_brings_neither_watches_nor_identities(
    connect: Connect, client: WireClient, top: str
) -> None:
    # semantics.md 12.7
    client.auth("digest", "u:p")
    client.get(top, watch=True)
    client.add_watch(top, 1)
    again = connect(session_id=client.session_id, password=client.password)
    again.set(top, b"changed")
    assert again.take_events() == []
    assert {scheme for scheme, _ in again.who_am_i().identities} == {"ip"}


@pytest.mark.parametrize("read_only", [None, False])
@pytest.mark.parametrize("case", ["unknown", "wrong password", "null password", "short password", "closed"])
def test_an_invalid_session_is_told_so(
    connect: Connect, client: WireClient, case: str, read_only: bool | None
) -> None:
    # wire.md 4.3: an invalid session's response, then the close. (What becomes of the owner's connection is
    # one of the deliberate differences, semantics.md section 16.)
    session_id, password = client.session_id, client.password
    match case:
        case "unknown":
            session_id += 12345
        case "wrong password":
            password = bytes(byte ^ 1 for byte in password)
        case "null password":
            password = None
        case "short password":
            password = password[:15]
        case "closed":
            client.close_session()
    late = connect(session_id=session_id, password=password, read_only=read_only)
    answer = late.handshake
    assert (answer.protocol_version, answer.timeout, answer.session_id, answer.password) == INVALID_SESSION
    assert answer.extra == (b"" if read_only is None else b"\0")
    assert late.is_closed()


def test_requests_may_follow_without_waiting(connect: Connect, top: str) -> None:
    # wire.md section 1
    client = connect(False)
    client.send_connect()
    for _ in range(3):
        client.send(OpCode.EXISTS, r.ExistsRequest(top, False))
    assert client.receive_handshake().session_id
    assert [client.receive_reply().xid for _ in range(3)] == [1, 2, 3]


def test_the_handshake_may_arrive_byte_by_byte(connect: Connect) -> None:
    # wire.md section 1
    client = connect(False)
    request = r.ConnectRequest(0, 0, 5000, 0, bytes(16)).encode() + b"\0"
    for byte in struct.pack(">i", len(request)) + request:
        client.send_bytes(bytes([byte]))
    assert client.receive_handshake().timeout == 5000


def test_a_second_handshake_is_an_unknown_request(client: WireClient) -> None:
    # wire.md section 1: read as a header with xid 0 and op 0
    client.send_connect()
    client.expect(0, 0)
    assert client.receive_reply() == Reply(0, -1, -6, b"", 0)
    assert client.is_closed()


def test_the_session_survives_the_close_after_an_unknown_op(connect: Connect, client: WireClient) -> None:
    # wire.md section 8
    assert client.request(9999).err == -6
    assert client.is_closed()
    assert connect(session_id=client.session_id, password=client.password).ping().err == 0


def test_the_password_is_the_sessions(server: Server, connect: Connect, client: WireClient) -> None:
    # semantics.md 12.2: clients only ever send it back
    assert connect().password != client.password
    with WireClient((server.host, server.port)) as other:
        other.connect(session_id=client.session_id, password=client.password)
        assert other.password == client.password
    with pytest.raises(ClosedError):
        client.ping()
