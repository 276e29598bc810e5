"""The session state machine, byte by byte: how a session expires, what it says of itself, how it ends."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from pyzk.client import SessionState
from pyzk.client.registry import Missed, MissedReason, WatchKind
from pyzk.client.request import Request
from pyzk.protocol.constants import PING_XID, SET_WATCHES_XID, EventType
from pyzk.protocol.errors import (
    AuthFailedError,
    ClosingError,
    ConnectionLossError,
    MarshallingError,
    SessionExpiredError,
)
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ReplyHeader, SetWatches2

from .scripted import SESSION, START, Recorder, Script, armed, why

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


# --- what the machine says of itself ----------------------------------------------------------------------


def test_why_and_where_the_last_attempt_has_failed() -> None:
    script = Script()
    assert script.machine.reason == "no attempt has ended yet"
    script.machine.connect_failed("nobody home")
    assert script.machine.reason == "nobody home"
    script.machine.peer = "host:2181"
    assert script.machine.reason == "host:2181: nobody home"


def test_the_first_reason_counts(script: Script) -> None:
    script.machine.end_connection("mine")
    script.machine.end_connection("another")
    script.machine.connection_lost(script.now, "a third")
    assert script.machine.why == "mine"
    script.machine.end_connection("there is none")
    script.machine.connection_lost(script.now, "there is none")
    assert script.machine.why == "mine"


def test_only_a_new_state_is_told(script: Script) -> None:
    told: list[SessionState] = []
    script.machine.on_state_change = told.append
    script.lose()
    script.open()
    script.lose()
    script.connect()
    assert told == [SessionState.SUSPENDED, SessionState.CONNECTED]


def test_since_when_the_machine_is_served(script: Script) -> None:
    assert script.machine.connected_since == START
    script.sleep(1)
    script.lose()
    assert script.machine.connected_since == math.inf
    script.open()
    assert script.machine.connected_since == math.inf
    script.sleep(1)
    script.welcome()
    assert script.machine.connected_since == START + 2


def test_how_many_requests_are_in_flight(script: Script) -> None:
    script.read()
    assert script.machine.in_flight == 0
    (sent,) = script.requests()
    assert script.machine.in_flight == 1
    script.reply(sent)
    assert script.machine.in_flight == 0
    script.lose()
    assert script.machine.in_flight == 0


def test_a_machine_without_a_connection_reads_nothing(script: Script) -> None:
    script.lose()
    assert script.machine.receive_data(b"late", script.now) is False
    script.open()
    script.machine.end_connection("mine")
    assert script.machine.receive_data(b"late", script.now) is False


def test_input_says_whether_the_timer_may_be_late(script: Script) -> None:
    """Else each reply would set it anew."""
    script.read()
    (sent,) = script.requests()
    plain = frame(ReplyHeader(sent.xid, 0, 0).encode())
    assert script.machine.receive_data(plain, script.now) is False
    script.sleep(3)
    script.requests()
    assert script.machine.receive_data(frame(ReplyHeader(PING_XID, 0, 0).encode()), script.now) is True
    script.machine.data.lease.keep(lambda: None, script.now)
    script.read()
    sent = script.requests()[-1]
    assert script.machine.receive_data(b"", script.now) is True, "an answer may move the lease"
    script.lose()
    script.open()
    assert script.machine.receive_data(b"", script.now) is True, "in the handshake"


def test_data_waits_to_be_sent_only_where_it_can_be_sent(script: Script) -> None:
    machine = script.machine
    assert not machine.has_data_to_send
    script.read()
    assert machine.has_data_to_send
    (sent,) = script.requests()
    assert not machine.has_data_to_send
    script.read()
    machine.leave_server("another is better")
    assert not machine.has_data_to_send, "it goes to the next server"
    script.reply(sent)
    assert machine.should_close
    script.lose()
    assert not machine.has_data_to_send
    script.machine.connection_made(script.now)
    assert machine.has_data_to_send, "the handshake"
    script.frames()
    assert not machine.has_data_to_send
    script.welcome()
    assert machine.has_data_to_send
    script.requests()
    script.sleep(3)
    assert machine.has_data_to_send, "a ping"


# --- leaving a server -------------------------------------------------------------------------------------


def test_a_server_is_left_when_it_has_answered(script: Script) -> None:
    first, second = script.write(), script.write()
    sent = script.requests()
    later = script.write()
    script.machine.leave_server("another is better")
    assert script.requests() == []
    for each in sent:
        assert not script.machine.should_close
        script.reply(each)
    assert (first.error, second.error) == (None, None)
    assert why(script) == "another is better"
    assert not later.settled, "it was not sent, and is not lost"
    script.connect()
    assert [each.op for each in script.requests()] == [OpCode.SET_DATA]


def test_a_server_with_nothing_to_answer_is_left_at_once(script: Script) -> None:
    script.machine.leave_server("another is better")
    assert why(script) == "another is better"
    script.machine.leave_server("there is none")


def test_a_server_that_is_lost_as_it_is_left_loses_what_was_sent(script: Script) -> None:
    sent = script.write()
    script.requests()
    unsent = script.write()
    script.machine.leave_server("another is better")
    script.lose()
    assert isinstance(sent.error, ConnectionLossError)
    assert isinstance(unsent.error, ConnectionLossError)


def test_a_server_is_not_left_before_it_has_answered_for_the_lease(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    script.sleep(9 / 5)
    script.machine.leave_server("another is better")
    assert not script.machine.should_close, "a sync waits to be sent"
    (sync,) = script.requests()
    assert not script.machine.should_close
    script.reply(sync)
    assert why(script) == "another is better"


# --- the end ----------------------------------------------------------------------------------------------


def test_a_machine_that_gives_up_says_why_to_all(script: Script) -> None:
    script.lose()
    waiting = script.read()
    error = AuthFailedError(None, "mine")
    script.machine.give_up(error)
    assert waiting.error is error
    assert script.machine.fatal is error
    assert script.machine.state is SessionState.CLOSED
    with pytest.raises(AuthFailedError):
        script.write()
    closing = script.machine.close()
    assert closing.settled
    assert script.machine.close() is closing, "once"
    assert script.frames() == []


def test_a_machine_is_abandoned_once(script: Script) -> None:
    told: list[SessionState] = []
    script.machine.on_state_change = told.append
    write = script.write()
    script.machine.abandon()
    script.machine.abandon()
    assert told == [SessionState.CLOSED]
    assert isinstance(write.error, ClosingError)
    assert script.machine.why == "the client was closed"


def test_reads_in_flight_are_not_said_to_be_applied_when_the_machine_is_abandoned(script: Script) -> None:
    read = script.read()
    script.requests()
    script.machine.abandon()
    assert isinstance(read.error, ClosingError)


def test_watches_of_a_machine_that_is_abandoned_after_an_expiry_end_too(script: Script) -> None:
    lasting = armed(script, "/a", WatchKind.PERSISTENT)
    script.lose()
    script.open()
    script.expire()
    assert lasting.error is None
    script.machine.abandon()
    assert script.machine.state is SessionState.EXPIRED
    assert isinstance(lasting.error, ClosingError)


def test_closing_is_accepted_until_it_is_asked_for(script: Script) -> None:
    assert script.machine.accepting
    script.machine.close()
    assert not script.machine.accepting
    with pytest.raises(ClosingError, match="the client was closed"):
        script.write()


def test_the_session_that_the_server_ends_as_it_is_closed_is_closed(script: Script) -> None:
    closing = script.machine.close()
    script.lose()
    script.open()
    script.expire()
    assert closing.settled
    assert closing.error is None


def test_a_session_that_expires_as_it_waits_for_more_tells_its_watches_why(script: Script) -> None:
    """Two frames arm the watches of the next session. The events that were missed before each of them are
    those of the session that is gone, and those of the next connection are not."""
    script = Script(request_limit=300)
    script.connect()
    lasting = [armed(script, f"/{letter}{'x' * 150}", WatchKind.PERSISTENT) for letter in "ab"]
    script.lose()
    script.open()
    script.expire()
    script.lose()
    script.machine.renew()
    script.open()
    script.welcome(session=99)
    assert len(script.requests()) == 2
    for _ in range(2):
        script.reply(SET_WATCHES_XID)
    script.lose()
    script.open()
    script.welcome(session=99)
    assert len(script.requests()) == 2
    for _ in range(2):
        script.reply(SET_WATCHES_XID)
    reasons = [[event.reason for event in watcher.events if isinstance(event, Missed)] for watcher in lasting]
    assert reasons == [[MissedReason.EXPIRED, MissedReason.RECONNECTED]] * 2
