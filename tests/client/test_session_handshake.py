"""How a connection begins: the handshake, byte by byte, and the sessions of read-only servers."""

from __future__ import annotations

import math

import pytest

from pyzk.client import SessionState
from pyzk.client.registry import WatchEvent, WatchKind
from pyzk.protocol.constants import PING_XID, EventType
from pyzk.protocol.errors import (
    ConnectionLossError,
    NotReadOnlyError,
)
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ConnectRequest, ConnectResponse, ReplyHeader

from .scripted import PASSWORD, SESSION, Script, armed, why

# --- the handshake --------------------------------------------------------------------------------------


def test_a_first_handshake_asks_for_a_new_session() -> None:
    script = Script(timeout=9)
    request = script.open()
    assert (request.sessionId, request.passwd, request.lastZxidSeen) == (0, bytes(16), 0)
    assert (request.protocolVersion, request.timeOut) == (0, 9000)
    assert script.machine.state is SessionState.CONNECTING
    script.welcome(timeout=4)
    assert script.machine.state is SessionState.CONNECTED
    assert (script.machine.data.session_id, script.machine.data.password) == (SESSION, PASSWORD)
    assert script.machine.data.timeout == 4


def test_a_later_handshake_resumes_with_the_highest_zxid_seen(script: Script) -> None:
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    assert script.machine.state is SessionState.SUSPENDED
    request = script.open()
    assert (request.sessionId, request.passwd, request.lastZxidSeen) == (SESSION, PASSWORD, 77)
    script.welcome()
    assert script.machine.state is SessionState.CONNECTED
    assert script.machine.generation == 1


def test_zxids_count_from_ordinary_replies_only(script: Script) -> None:
    script.sleep(3)
    script.requests()
    script.reply(PING_XID, zxid=50)
    script.event(EventType.CREATED, "/a", zxid=60)
    for zxid in (40, 0, -1):
        script.read()
        script.reply(script.requests()[0], zxid=zxid)
        assert script.machine.data.last_zxid == 40


@pytest.mark.parametrize(("zxid", "known"), [(7, 7), (1, 1), (0, None), (-1, None)])
def test_an_event_has_the_zxid_of_servers_that_say_it(script: Script, zxid: int, known: int | None) -> None:
    watcher = armed(script, "/a", WatchKind.DATA)
    script.event(EventType.CHANGED, "/a", zxid=zxid)
    assert watcher.events == [WatchEvent(EventType.CHANGED, "/a", known)]


@pytest.mark.parametrize("split", [1, 3, 4, 5, 40])
def test_bytes_may_arrive_in_any_pieces(split: int) -> None:
    script = Script()
    script.open()
    first = script.read()
    script.machine.handle_timer(script.now)
    welcome = bytes.fromhex("00000025 00000000 00002710 0100001f34820000 00000010") + bytes(16) + b"\0"
    for start in range(0, len(welcome), split):
        assert script.machine.state is SessionState.CONNECTING
        script.machine.receive_data(welcome[start : start + split], script.now)
    assert script.machine.state is SessionState.CONNECTED
    (request,) = script.requests()
    reply = frame(request.xid.to_bytes(4, "big") + bytes(8) + bytes(4) + b"data")
    for start in range(0, len(reply), split):
        script.machine.receive_data(reply[start : start + split], script.now)
    assert first.result() == b"data"


def test_silence_in_the_handshake_ends_it() -> None:
    script = Script()
    script.open()
    script.sleep(2.9)
    assert not script.machine.should_close
    script.sleep(0.1)
    assert script.machine.should_close
    script.lose()
    assert "handshake" in script.machine.reason


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46",
        b"\xff" * 8,
    ],
)
def test_another_protocol_is_recognised_at_once(data: bytes) -> None:
    script = Script()
    script.open()
    script.machine.receive_data(data, script.now)
    assert script.machine.should_close
    script.lose()
    assert "does not speak ZooKeeper" in script.machine.reason


def test_a_handshake_that_is_too_short_is_refused() -> None:
    script = Script()
    script.open()
    script.send(b"\0" * 20)
    assert script.machine.should_close


# --- what is answered --------------------------------------------------------------------------


def answer(timeout: int, session: int, password: bytes = PASSWORD) -> bytes:
    """What a server says to a handshake, without the byte that new servers add."""
    return ConnectResponse(0, timeout, session, password).encode()


@pytest.mark.parametrize("read_only", [True, False])
def test_a_handshake_says_whether_a_read_only_server_will_do(read_only: bool) -> None:
    script = Script(read_only=read_only)
    script.machine.connection_made(script.now)
    (payload,) = script.frames()
    assert payload == ConnectRequest(0, 0, 9000, 0, bytes(16)).encode() + bytes([read_only])


def test_a_timeout_that_no_server_can_be_told_is_the_largest_int() -> None:
    assert Script(timeout=2**31 / 1000).open().timeOut == 2**31 - 1
    assert Script(timeout=2.0006).open().timeOut == 2001, "to the nearest ms"


@pytest.mark.parametrize("end", [b"", b"\0"])
def test_an_old_server_says_nothing_of_being_read_only(end: bytes) -> None:
    script = Script()
    script.open()
    script.send(answer(4000, SESSION) + end)
    assert script.machine.state is SessionState.CONNECTED


@pytest.mark.parametrize("size", [35, 0])
def test_an_answer_that_is_shorter_than_any_breaks_the_protocol(size: int) -> None:
    script = Script()
    script.open()
    script.send(bytes(size))
    assert f"broke the protocol: an answer of {size} bytes to the handshake" in why(script)


def test_a_long_answer_is_waited_for_and_a_longer_one_is_none() -> None:
    for announced, is_over in ((1024, False), (1025, True)):
        script = Script()
        script.open()
        script.machine.receive_data(announced.to_bytes(4, "big"), script.now)
        assert script.machine.should_close is is_over


@pytest.mark.parametrize(("timeout", "session"), [(0, SESSION), (-1, SESSION), (4000, 0), (0, 0)])
def test_a_new_session_that_is_refused_breaks_the_protocol(timeout: int, session: int) -> None:
    """There is none that could have expired."""
    script = Script()
    script.open()
    script.send(answer(timeout, session) + b"\0")
    assert "broke the protocol: a new session was refused" in why(script)
    assert script.machine.state is SessionState.CONNECTING


@pytest.mark.parametrize(("timeout", "session"), [(0, SESSION), (-1, SESSION), (4000, 0)])
def test_each_form_of_a_refusal_is_an_expiry(script: Script, timeout: int, session: int) -> None:
    script.lose()
    script.open()
    script.send(answer(timeout, session) + b"\0")
    assert script.machine.state is SessionState.EXPIRED
    assert script.machine.why == "the session expired"


def test_the_shortest_timeout_is_one() -> None:
    script = Script()
    script.open()
    script.send(answer(1, SESSION) + b"\0")
    assert script.machine.data.timeout == 0.001


def test_what_comes_behind_a_refusal_is_not_read(script: Script) -> None:
    script.lose()
    script.open()
    script.send(answer(0, 0) + b"\0", b"short")
    assert script.machine.state is SessionState.EXPIRED
    assert script.machine.why == "the session expired"


def test_each_session_that_is_attached_is_counted(script: Script) -> None:
    assert script.machine.data.metrics.connections == 1
    script.lose()
    script.open()
    script.lose()
    assert script.machine.data.metrics.connections == 1, "nothing was attached"
    script.connect()
    assert script.machine.data.metrics.connections == 2


def test_the_handshake_is_due_as_the_first_one(script: Script) -> None:
    """3 s, as the script's machine is told."""
    script.lose()
    script.sleep(1)
    script.open()
    assert script.machine.next_deadline() == script.now + 3
    script.welcome()
    assert script.machine.next_deadline() == script.now + 3, "a third of 9 s: the first ping"
    script.lose()
    assert script.machine.next_deadline() == math.inf


# --- sessions of read-only servers ------------------------------------------------------------------------


def apart(script: Script) -> ConnectRequest:
    """Ask a read-only server for a session of its own."""
    script.machine.connection_made(script.now, apart=True)
    return ConnectRequest.decode(script.frames()[-1])


@pytest.fixture
def reading() -> Script:
    """A client that takes read-only servers, and has seen a write."""
    script = Script(read_only=True)
    script.connect()
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    return script


def test_a_session_of_a_read_only_server_leaves_ours_alone(reading: Script) -> None:
    script = reading
    deadline = script.machine.data.lease.deadline
    request = apart(script)
    assert (request.sessionId, request.passwd, request.lastZxidSeen) == (0, bytes(16), 77)
    script.sleep(1)
    script.send(answer(3000, 99, b"x" * 16) + b"\1")
    data = script.machine.data
    assert script.machine.state is SessionState.CONNECTED_READ_ONLY
    assert (data.session_id, data.password, data.timeout) == (SESSION, PASSWORD, 9)
    assert data.lease.deadline == deadline, "its sessions prove nothing about ours"
    assert data.metrics.connections == 1
    assert script.machine.next_deadline() == script.now + 1, "a third of its own timeout"
    assert not script.machine.is_quiet
    script.sleep(1)
    assert [sent.op for sent in script.requests()] == [OpCode.PING]
    script.lose()
    assert script.machine.dismissed
    request = script.open()
    assert (request.sessionId, request.passwd) == (SESSION, PASSWORD)


def test_a_read_only_server_serves_reads_and_no_writes(reading: Script) -> None:
    script = reading
    waiting = [script.write(), script.read(), script.submit(OpCode.SYNC)]
    apart(script)
    script.send(answer(3000, 99) + b"\1")
    assert [isinstance(request.error, NotReadOnlyError) for request in waiting] == [True, False, True]
    with pytest.raises(NotReadOnlyError, match="/a"):
        script.write()
    with pytest.raises(NotReadOnlyError):
        script.submit(OpCode.SYNC)
    script.read()
    assert [sent.op for sent in script.requests()] == [OpCode.GET_DATA] * 2


def test_what_was_withdrawn_is_not_refused_too(reading: Script) -> None:
    script = reading
    withdrawn = script.write()
    script.machine.withdraw(withdrawn)
    apart(script)
    script.send(answer(3000, 99) + b"\1")
    assert isinstance(withdrawn.error, ConnectionLossError)


def test_a_server_that_is_read_only_no_more_is_asked_again_for_our_session(reading: Script) -> None:
    script = reading
    apart(script)
    script.send(answer(3000, 99) + b"\0")
    assert why(script) == "the server is not read-only any more, and can attach the session"
    assert script.machine.data.session_id == SESSION
    assert not script.machine.dismissed, "it has answered"


def test_a_read_only_server_ends_no_session(reading: Script) -> None:
    """It may have been cut off before the session began."""
    script = reading
    script.open()
    script.send(answer(0, 0) + b"\1")
    assert why(script) == "the server is read-only, and does not know the session"
    assert script.machine.state is SessionState.SUSPENDED
    assert script.machine.dismissed


def test_a_read_only_server_without_sessions_says_so(reading: Script) -> None:
    script = reading
    apart(script)
    script.send(ReplyHeader(0, 0, NotReadOnlyError.code).encode())
    assert why(script) == "the server is read-only, and takes no sessions (localSessionsEnabled is off)"
    apart(script)
    script.send(ReplyHeader(0, 0, -5).encode())
    assert "broke the protocol" in why(script)


def test_a_probe_is_none_of_a_read_only_session(reading: Script) -> None:
    """A probe names zxid 0: a session that is served must not."""
    script = reading
    script.sleep(10)
    script.open()
    script.lose()
    assert apart(script).lastZxidSeen == 77
