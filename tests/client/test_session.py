"""The session state machine, byte by byte: how a session begins, expires and is closed."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from pyzk.client import SessionState
from pyzk.client.registry import Missed, MissedReason, WatchEvent, WatchKind
from pyzk.client.request import Request
from pyzk.protocol.constants import PING_XID, SET_WATCHES_XID, EventType
from pyzk.protocol.errors import (
    ClosingError,
    ConnectionLossError,
    MarshallingError,
    SessionExpiredError,
)
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import SetWatches2

from .scripted import PASSWORD, SESSION, Recorder, Script, armed

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
    script.read()
    script.reply(script.requests()[0], zxid=40)
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


# --- expiry ---------------------------------------------------------------------------------------------


def test_expiry_is_what_the_server_says_and_settles_everything(script: Script) -> None:
    waiting = script.read()
    one_shot, lasting = armed(script, "/a", WatchKind.DATA), armed(script, "/b", WatchKind.PERSISTENT)
    script.requests()
    script.lose()
    assert not waiting.settled
    script.open()
    script.expire()
    assert script.machine.state is SessionState.EXPIRED
    assert script.machine.should_close
    with pytest.raises(SessionExpiredError):
        waiting.result()
    with pytest.raises(SessionExpiredError):
        script.read()
    assert one_shot.events == [Missed("/a", MissedReason.EXPIRED)]
    assert lasting.events == []


def test_a_new_generation_starts_from_nothing_but_keeps_lasting_watches(script: Script) -> None:
    lasting = armed(script, "/b", WatchKind.PERSISTENT)
    armed(script, "/a", WatchKind.DATA)
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    script.open()
    script.expire()
    script.lose()
    script.machine.renew()
    assert (script.machine.generation, script.machine.state) == (2, SessionState.CONNECTING)
    assert script.machine.data.lease.deadline == -math.inf
    request = script.open()
    assert (request.sessionId, request.lastZxidSeen) == (0, 0)
    script.welcome(session=99)
    (rearm,) = script.requests()
    assert rearm.op == OpCode.SET_WATCHES2
    assert SetWatches2.decode(rearm.body).persistentWatches == ("/b",)
    assert SetWatches2.decode(rearm.body).dataWatches == ()
    script.reply(SET_WATCHES_XID)
    assert lasting.events == [Missed("/b", MissedReason.EXPIRED)]


def test_silence_never_makes_a_session_expired(script: Script) -> None:
    script.lose()
    for _ in range(100):
        script.sleep(10)
        script.open()
        script.lose()
    assert script.machine.state is SessionState.SUSPENDED
    assert script.machine.data.session_id == SESSION


def test_why_a_server_may_have_closed_without_a_word() -> None:
    script = Script()
    script.open()
    script.lose()
    assert script.machine.why.endswith("it may have no quorum, or too many connections (maxClientCnxns)")
    script.connect()
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    assert script.machine.why == "the server closed the connection"
    script.open()
    script.lose()
    assert script.machine.why.endswith(", or it lags behind zxid 0x4d, which this client has seen")


def test_a_server_that_closes_without_a_word_is_probed_once_the_lease_is_over(script: Script) -> None:
    """An emptied server drops clients that have seen more than it has, and never says "expired"."""
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    script.sleep(5)
    script.open()
    script.lose()
    assert script.open().lastZxidSeen == 77, "the session may still be alive"
    script.sleep(5)
    script.lose()
    probe = script.open()
    assert (probe.sessionId, probe.lastZxidSeen) == (SESSION, 0)
    script.expire()
    assert script.machine.state is SessionState.EXPIRED


def test_a_probe_that_finds_the_session_alive_serves_nothing(script: Script) -> None:
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.lose()
    script.sleep(10)
    waiting = script.read()
    script.open()
    script.lose()
    script.open()
    script.welcome()
    assert script.machine.should_close
    assert script.frames() == []
    script.lose()
    assert script.open().lastZxidSeen == 77
    script.welcome()
    (request,) = script.requests()
    script.reply(request, zxid=80)
    assert waiting.settled


# --- closing --------------------------------------------------------------------------------------------


def test_closing_goes_behind_everything_else(script: Script) -> None:
    write = script.write()
    closing = script.machine.close()
    with pytest.raises(ClosingError):
        script.read()
    sent = script.requests()
    assert [request.op for request in sent] == [OpCode.SET_DATA, OpCode.CLOSE_SESSION]
    script.reply(sent[0])
    assert write.settled
    assert not closing.settled
    script.reply(sent[1])
    assert closing.settled
    assert script.machine.state is SessionState.CLOSED
    assert script.machine.should_close


def test_the_end_of_the_connection_closes_too(script: Script) -> None:
    closing = script.machine.close()
    script.requests()
    script.lose()
    assert closing.settled
    assert script.machine.state is SessionState.CLOSED


def test_closing_without_a_connection_waits_for_one(script: Script) -> None:
    script.lose()
    closing = script.machine.close()
    assert not closing.settled
    script.connect()
    (request,) = script.requests()
    script.reply(request)
    assert closing.settled


def test_closing_that_was_not_sent_is_sent_to_the_next_server(script: Script) -> None:
    closing = script.machine.close()
    script.lose()
    assert not closing.settled
    script.connect()
    (request,) = script.requests()
    assert request.op == OpCode.CLOSE_SESSION
    script.reply(request)
    assert script.machine.state is SessionState.CLOSED


def test_giving_up_closing_answers_everyone(script: Script) -> None:
    watcher = armed(script, "/a", WatchKind.DATA)
    sent = script.write()
    script.requests()
    unsent = script.write()
    script.machine.close()
    script.machine.abandon()
    assert script.machine.state is SessionState.CLOSED
    with pytest.raises(ConnectionLossError, match="may have been applied"):
        sent.result()
    with pytest.raises(ClosingError):
        unsent.result()
    assert isinstance(watcher.error, ClosingError)
    assert script.machine.should_close


# --- whatever the peer sends ----------------------------------------------------------------------------


def test_an_event_of_a_relative_path_breaks_the_protocol(script: Script) -> None:
    script.watches.reserve("/a", WatchKind.RECURSIVE)
    script.watches.settle("/a", WatchKind.RECURSIVE, WatchKind.RECURSIVE, Recorder())
    script.event(EventType.DELETED, "no-slash")
    assert script.machine.should_close
    script.lose()
    assert re.search("broke the protocol.*without a leading slash: 'no-slash'", script.machine.reason)
    script.connect()
    assert script.machine.state is SessionState.CONNECTED


def test_an_unexpected_error_ends_only_the_connection(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(reply: bytes) -> None:
        raise LookupError("mine")

    write = script.write()
    doomed: Request[None] = Request(OpCode.GET_DATA, b"", "/b", fail)
    script.machine.submit(doomed, script.now)
    behind = script.read()
    first, second, _ = script.requests()
    script.reply(first)
    script.reply(second)
    assert script.machine.should_close
    assert write.error is None
    assert isinstance(doomed.error, MarshallingError)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)
    script.lose()
    assert "unexpected error" in script.machine.reason
    script.connect()
    (again,) = script.requests()
    script.reply(again, b"data")
    assert behind.result() == b"data"


def test_a_listener_that_raises_keeps_nothing_from_the_others(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: Request[Any]) -> None:
        raise LookupError("mine")

    told: list[Request[Any]] = []
    request = script.read()
    request.on_settled(fail)
    request.on_settled(told.append)
    script.reply(script.requests()[0], b"data")
    assert told == [request]
    assert not script.machine.should_close
    assert "must not raise" in caplog.text


def test_a_server_that_gives_another_session_is_not_served(script: Script) -> None:
    script.lose()
    script.open()
    script.welcome(session=SESSION + 1)
    assert script.machine.should_close
    script.lose()
    assert "another session" in script.machine.reason
    assert script.machine.data.session_id == SESSION
    script.connect()
    assert script.machine.state is SessionState.CONNECTED


def test_a_machine_without_a_connection_has_nothing_to_send() -> None:
    script = Script()
    assert script.machine.data_to_send(script.now) == b""
    script.connect()
    script.lose()
    assert script.machine.data_to_send(script.now) == b""
