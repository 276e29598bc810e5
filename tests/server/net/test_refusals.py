"""What the log says of input that is refused: one warning, which has the client and the reason."""

from __future__ import annotations

import logging

import pytest

from pyzk.protocol import records as r
from pyzk.protocol.constants import CreateMode
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode

from ...support.requests import get_op
from ...support.world import World


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


BEGINNINGS = [
    (b"GET / HTTP/1.1\r\n\r\n", "it does not speak the ZooKeeper protocol: it began with b'GET '"),
    (frame(bytes(8)), "its first message is not a ConnectRequest"),
    (frame(r.ConnectRequest(0, 2**62, 10_000, 0, bytes(16)).encode()), "it has seen zxid 0x4000000000000000"),
]
REQUESTS = [
    (frame(bytes(4)), "a request of 4 bytes is shorter than its header of 8"),
    (frame((1).to_bytes(4) + (999).to_bytes(4)), "it sent op 999, which does not exist"),
    (b"\x7f\xff\xff\xff", "jute.maxbuffer"),
    (b"\xff\xff\xff\xff", "-1"),
    (frame(b"\xff\xff\xff\xfc" + (100).to_bytes(4) + b"x"), "its auth packet cannot be read"),
    (
        frame(b"\xff\xff\xff\xfc" + (100).to_bytes(4) + r.AuthPacket(0, "sasl", b"s3cret").encode()),
        "the auth scheme 'sasl' is unknown or refused what was sent",
    ),
]


@pytest.mark.parametrize(("data", "reason"), BEGINNINGS, ids=[reason for _, reason in BEGINNINGS])
def test_a_beginning(data: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    peer = World().open()
    peer.exchange(data)
    assert peer.closed
    check(caplog, reason)


@pytest.mark.parametrize(("data", "reason"), REQUESTS, ids=[reason for _, reason in REQUESTS])
def test_a_request(data: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    peer = World().connect()
    peer.exchange(data)
    assert peer.closed
    check(caplog, reason)


def test_a_request_of_somebody_unknown(caplog: pytest.LogCaptureFixture) -> None:
    peer = World(required_auth_schemes=frozenset({"digest"})).connect()
    peer.exists("/")
    assert peer.closed
    check(caplog, "it must authenticate first, by one of: digest")


def test_a_large_request(caplog: pytest.LogCaptureFixture) -> None:
    peer = World(large_request_threshold=10, large_request_max_bytes=100).connect()
    peer.send(OpCode.CREATE, r.CreateRequest("/a", bytes(200), r.OPEN_ACL, 0))
    assert peer.closed
    check(caplog, "largeRequestMaxBytes raises it")


def test_a_multi_read_of_too_much(caplog: pytest.LogCaptureFixture) -> None:
    peer = World(max_unsent=1000).connect()
    peer.create("/a", bytes(600))
    peer.send(OpCode.MULTI_READ, encode_multi([get_op("/a")] * 3))
    assert peer.closed
    check(caplog, "its multiRead asks for more than 1,000 bytes")


def test_a_session_with_a_wrong_password(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer, thief = world.connect(), world.open()
    thief.connect(session_id=peer.session_id, password=bytes(16))
    assert thief.closed
    check(caplog, "the password is wrong", who=f"0x{peer.session_id:x}")


def check(caplog: pytest.LogCaptureFixture, reason: str, who: str = "127.0.0.1") -> None:
    (record,) = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert record.levelno == logging.WARNING
    assert reason in record.getMessage()
    assert who in record.getMessage()
    assert "s3cret" not in record.getMessage()


def test_ttl_znodes_are_refused_with_the_setting_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    peer = World().connect()
    body = r.CreateTTLRequest("/t", b"", r.OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 1000)
    for _ in range(3):
        assert peer.request(OpCode.CREATE_TTL, body).err == -6
    check(caplog, "extendedTypesEnabled=true switches them on", who="TTL znodes")
