"""The session state machine, byte by byte."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.client import SessionState
from pyzk.client.auth import Credential
from pyzk.client.registry import Missed, MissedReason, WatchEvent, WatchKind
from pyzk.client.request import Request
from pyzk.protocol.constants import AUTH_XID, PING_XID, SET_WATCHES_XID, EventType
from pyzk.protocol.errors import (
    AuthFailedError,
    BadArgumentsError,
    ClosingError,
    ConnectionLossError,
    MarshallingError,
    NoNodeError,
    SessionExpiredError,
    UnimplementedError,
)
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import AuthPacket, SetWatches, SetWatches2

from .scripted import PASSWORD, SESSION, START, Script

DIGEST = Credential("digest", b"u:p")


class Recorder:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.events: list[WatchEvent | Missed] = []
        self.error: Exception | None = None

    def deliver(self, event: WatchEvent | Missed) -> None:
        self.events.append(event)

    def end(self, error: Exception) -> None:
        self.error = error


@pytest.fixture
def script() -> Script:
    script = Script()
    script.connect()
    return script


def armed(script: Script, path: str, kind: WatchKind) -> Recorder:
    """A watch whose request was answered."""
    watcher = Recorder()
    script.watches.reserve(path, kind)
    script.watches.settle(path, kind, kind, watcher)
    return watcher


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


# --- pairing --------------------------------------------------------------------------------------------


def test_replies_are_paired_in_order(script: Script) -> None:
    requests = [script.read() for _ in range(3)]
    sent = script.requests()
    assert [request.xid for request in sent] == [1, 2, 3]
    script.reply(sent[0], b"a")
    script.reply(sent[1], err=-101)
    script.reply(sent[2], b"c")
    assert requests[0].result() == b"a"
    with pytest.raises(NoNodeError, match="/a"):
        requests[1].result()
    assert requests[2].result() == b"c"


def test_a_reply_out_of_order_ends_the_connection(script: Script) -> None:
    write = script.write()
    script.read()
    _, second = script.requests()
    script.reply(second)
    assert script.machine.should_close
    assert not write.settled
    script.lose()
    with pytest.raises(ConnectionLossError, match="where 1 was due") as caught:
        write.result()
    assert caught.value.sent


def test_a_refusal_may_overtake(script: Script) -> None:
    """The connection layer answers an unknown operation at once, ahead of others (wire.md section 7)."""
    first, unknown = script.write(), script.submit(OpCode.WHO_AM_I)
    sent = script.requests()
    script.reply(sent[1], err=-6, zxid=-1)
    with pytest.raises(UnimplementedError):
        unknown.result()
    script.reply(sent[0])
    assert first.result() == b""


@pytest.mark.parametrize("xid", [0, 5, -7, AUTH_XID, SET_WATCHES_XID])
def test_an_answer_to_nothing_ends_the_connection(script: Script, xid: int) -> None:
    script.reply(xid)
    assert script.machine.should_close


def test_a_reply_that_does_not_decode_ends_the_connection(script: Script) -> None:
    script.send(b"short")
    assert script.machine.should_close


@given(st.binary(max_size=200))
def test_no_bytes_from_a_server_raise(data: bytes) -> None:
    script = Script()
    script.open()
    script.machine.receive_data(data, script.now)
    script = Script()
    script.connect()
    script.read()
    script.requests()
    script.machine.receive_data(data, script.now)
    script.send(data)
    script.lose()
    assert script.machine.state is SessionState.SUSPENDED


# --- loss -----------------------------------------------------------------------------------------------


def test_loss_says_whether_a_write_was_sent(script: Script) -> None:
    sent = script.write()
    script.requests()
    unsent = script.write()
    script.lose()
    with pytest.raises(ConnectionLossError, match="may have been applied") as caught:
        sent.result()
    assert caught.value.sent
    with pytest.raises(ConnectionLossError, match="was not sent") as caught:
        unsent.result()
    assert not caught.value.sent


def test_reads_are_asked_again_and_writes_never(script: Script) -> None:
    read, write, later = script.read(), script.write(), script.read()
    script.requests()
    script.lose()
    assert (read.settled, write.settled, later.settled) == (False, True, False)
    script.connect()
    again = script.requests()
    assert [request.op for request in again] == [OpCode.GET_DATA, OpCode.GET_DATA]
    for request in again:
        script.reply(request, b"data")
    assert read.result() == later.result() == b"data"


def test_requests_made_without_a_connection_wait_for_one_in_order(script: Script) -> None:
    script.lose()
    submitted = [script.write(), script.read(), script.write()]
    script.open()
    script.lose()
    assert not any(request.settled for request in submitted), "a failed attempt has sent nothing"
    script.connect()
    assert [request.op for request in script.requests()] == [
        OpCode.SET_DATA,
        OpCode.GET_DATA,
        OpCode.SET_DATA,
    ]


def test_waiting_for_a_connection_ends_after_the_session_timeout(script: Script) -> None:
    read = script.read()
    script.requests()
    script.lose()
    script.sleep(4)
    write = script.write()
    script.machine.connect_failed("nobody home")
    script.sleep(4.9)
    assert not read.settled
    script.sleep(0.2)
    with pytest.raises(ConnectionLossError, match=r"9\.0 s .*nobody home") as caught:
        read.result()
    assert caught.value.sent
    assert not write.settled
    script.sleep(4)
    with pytest.raises(ConnectionLossError) as caught:
        write.result()
    assert not caught.value.sent


def test_a_read_that_kills_every_connection_gives_up(script: Script) -> None:
    read = script.read()
    for _ in range(100):
        script.requests()
        script.lose()
        script.sleep(0.1)
        if read.settled:
            break
        script.connect()
    with pytest.raises(ConnectionLossError):
        read.result()
    assert script.now == pytest.approx(START + 9, abs=0.2)


def test_a_withdrawn_request_is_never_sent(script: Script) -> None:
    script.lose()
    first, second = script.write(), script.write()
    assert script.machine.withdraw(first)
    script.connect()
    assert len(script.requests()) == 1
    assert not script.machine.withdraw(second), "it is too late"
    assert not second.settled


def test_a_read_that_is_to_be_sent_again_can_be_withdrawn(script: Script) -> None:
    read = script.read()
    script.requests()
    assert not script.machine.withdraw(read), "it was sent"
    script.lose()
    assert script.machine.withdraw(read)
    assert read.settled
    assert not script.machine.withdraw(read)
    script.connect()
    assert script.requests() == []


def test_what_was_withdrawn_keeps_nothing_else_from_the_queue(script: Script) -> None:
    script.lose()
    withdrawn, kept = script.read(), script.read()
    script.open()
    script.machine.withdraw(withdrawn)
    script.lose()
    assert not kept.settled
    script.connect()
    (request,) = script.requests()
    script.reply(request, b"data")
    assert kept.result() == b"data"


# --- time -----------------------------------------------------------------------------------------------


def test_pings_go_out_at_a_third_of_the_timeout(script: Script) -> None:
    assert script.machine.next_deadline() == START + 3
    script.sleep(3)
    (ping,) = script.requests()
    assert (ping.xid, ping.op) == (PING_XID, OpCode.PING)
    assert script.requests() == [], "one at a time"
    script.reply(PING_XID)
    assert script.machine.next_deadline() == START + 6


def test_traffic_takes_the_place_of_pings(script: Script) -> None:
    for _ in range(10):
        script.sleep(2)
        script.read()
        (request,) = script.requests()
        assert request.op == OpCode.GET_DATA
        script.reply(request)
    assert script.machine.next_deadline() == script.now + 3


def test_two_thirds_of_the_timeout_without_a_byte_end_the_connection(script: Script) -> None:
    script.sleep(3)
    script.requests()
    script.sleep(2.9)
    assert not script.machine.should_close
    script.sleep(0.1)
    assert script.machine.should_close
    script.lose()
    assert "silent for 6.0 s" in script.machine.reason


def test_a_server_that_talks_but_acknowledges_nothing_is_left(script: Script) -> None:
    for _ in range(9):
        script.requests()
        script.event(EventType.CREATED, "/a")
        script.sleep(1)
    assert script.machine.should_close
    script.lose()
    assert "acknowledged nothing" in script.machine.reason


# --- the lease (its arithmetic: test_lease.py) ------------------------------------------------------------


def test_reads_and_pings_do_not_move_the_lease(script: Script) -> None:
    """A follower answers them that is cut off from the leader, which ends sessions."""
    for _ in range(12):
        script.read()
        for request in script.requests():
            script.reply(request)
        script.sleep(1)
    assert not script.machine.should_close
    assert script.machine.data.lease.deadline == START + 9


def test_a_write_vouches_for_what_was_answered_long_before(script: Script) -> None:
    script.sleep(1)
    script.read()
    (read,) = script.requests()
    script.sleep(0.5)
    script.reply(read)
    script.sleep(3.5)
    script.write()
    (write,) = (request for request in script.requests() if request.op == OpCode.SET_DATA)
    script.sleep(1)
    assert script.machine.data.lease.deadline == START + 9, "not answered yet"
    script.reply(write)
    assert script.machine.data.lease.deadline == START + 1 + 9


def test_a_write_that_is_refused_vouches_for_nothing(script: Script) -> None:
    """Some refusals come from the server that was asked, not from the leader."""
    script.sleep(4)
    answer_all(script)
    script.sleep(4)
    answer_all(script)
    script.write()
    (write,) = script.requests()
    script.reply(write, err=-5)
    assert script.machine.data.lease.deadline == START + 9


def test_a_handshake_begins_it_anew(script: Script) -> None:
    script.sleep(4)
    script.lose()
    script.sleep(0.5)
    script.open()
    script.sleep(2)
    script.welcome(timeout=6)
    assert script.machine.data.lease.deadline == START + 4.5 + 6, "the shorter timeout counts at once"


def answer_all(script: Script) -> list[int]:
    """Answer everything; returns the op codes."""
    requests = script.requests()
    for request in requests:
        script.reply(request)
    return [request.op for request in requests]


def test_a_lease_that_is_kept_is_kept_by_syncs_alone(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    sent = []
    for _ in range(90 * 10):
        script.sleep(0.1)
        sent += answer_all(script)
        assert script.machine.data.lease.deadline - script.now > 9 * 0.4
    assert set(sent) == {OpCode.SYNC}
    assert 5 * 10 - 1 <= len(sent) <= 8 * 10


def test_writes_save_the_syncs(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    sent = []
    for _ in range(90):
        script.write()
        script.sleep(1)
        sent += answer_all(script)
    assert set(sent) == {OpCode.SET_DATA}


def test_a_server_that_does_not_reach_the_leader_is_left(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    script.sleep(9 / 5)
    assert [request.op for request in script.requests()] == [OpCode.SYNC]
    script.sleep(9 / 4 - 0.1)
    assert not script.machine.should_close
    script.sleep(0.2)
    assert script.machine.should_close
    script.lose()
    assert "may be cut off from the leader" in script.machine.reason
    assert script.machine.data.lease.deadline - script.now > 9 / 4, "there is time to attach to another"
    script.connect()
    assert script.requests() == []


def test_a_server_with_much_to_answer_is_not_left(script: Script) -> None:
    """The sync waits behind what was sent before it."""
    script.machine.data.lease.keep(lambda: None, script.now)
    for _ in range(8):
        script.read()
    *reads, sync = [request for _ in range(2) for request in (script.sleep(0.9), script.requests())[1]]
    assert sync.op == OpCode.SYNC
    for read in reads:
        script.sleep(0.8)
        script.reply(read)
        assert not script.machine.should_close


def test_nothing_is_asked_for_a_lease_that_nobody_keeps(script: Script) -> None:
    def moved() -> None:
        pass

    script.machine.data.lease.keep(moved, script.now)
    script.machine.data.lease.release(moved)
    script.sleep(3)
    assert [request.op for request in script.requests()] == [OpCode.PING]


# --- watches --------------------------------------------------------------------------------------------


def test_watches_are_armed_before_the_first_request(script: Script) -> None:
    armed(script, "/data", WatchKind.DATA)
    armed(script, "/none", WatchKind.EXIST)
    armed(script, "/list", WatchKind.CHILD)
    script.read()
    script.reply(script.requests()[0], zxid=77)
    script.read()
    script.requests()
    script.lose()
    script.connect()
    rearm, read = script.requests()
    assert (rearm.xid, rearm.op) == (SET_WATCHES_XID, OpCode.SET_WATCHES)
    assert SetWatches.decode(rearm.body) == SetWatches(77, ("/data",), ("/none",), ("/list",))
    assert read.op == OpCode.GET_DATA


def test_lasting_watches_tell_that_something_may_be_missing_once_they_are_armed(script: Script) -> None:
    flat, deep = armed(script, "/a", WatchKind.PERSISTENT), armed(script, "/b", WatchKind.RECURSIVE)
    one_shot = armed(script, "/a", WatchKind.CHILD)
    script.lose()
    script.connect()
    (rearm,) = script.requests()
    assert rearm.op == OpCode.SET_WATCHES2
    assert SetWatches2.decode(rearm.body) == SetWatches2(0, (), (), ("/a",), ("/a",), ("/b",))
    assert flat.events == []
    script.event(EventType.CHANGED, "/b/c")
    script.reply(SET_WATCHES_XID)
    missed = MissedReason.RECONNECTED
    assert flat.events == [Missed("/a", missed)]
    assert deep.events == [WatchEvent(EventType.CHANGED, "/b/c"), Missed("/b", missed)]
    assert one_shot.events == []


@pytest.mark.parametrize("limit", [300, 5000, 2**20])
def test_no_frame_that_arms_watches_passes_the_limit(limit: int) -> None:
    script = Script(request_limit=limit)
    script.connect()
    paths = {kind: [f"/{kind.name}/{'x' * (i % 60)}é{i}" for i in range(3000)] for kind in WatchKind}
    for kind, some in paths.items():
        for path in some:
            armed(script, path, kind)
    script.lose()
    script.open()
    script.welcome()
    frames = script.frames()
    assert max(len(payload) for payload in frames) <= min(limit, 129 * 1024)
    assert len(frames) > 5
    found: dict[str, list[str]] = {}
    for payload in frames:
        record = SetWatches2.decode(payload, 8)
        for name in ("dataWatches", "existWatches", "childWatches"):
            found.setdefault(name, []).extend(getattr(record, name))
        found.setdefault("persistent", []).extend(record.persistentWatches or ())
        found.setdefault("recursive", []).extend(record.persistentRecursiveWatches or ())
    assert [sorted(some) for some in found.values()] == [sorted(some) for some in paths.values()]


# --- authentication -------------------------------------------------------------------------------------


def test_credentials_come_before_everything_else() -> None:
    script = Script(auth=(DIGEST, Credential("ip", b""), DIGEST))
    script.connect()
    write = script.write()
    sent = script.requests()
    assert [(r.xid, AuthPacket.decode(r.body).scheme) for r in sent] == [
        (AUTH_XID, "digest"),
        (AUTH_XID, "ip"),
    ]
    assert script.machine.state is SessionState.CONNECTING
    script.reply(AUTH_XID)
    script.reply(AUTH_XID)
    assert script.machine.state is SessionState.CONNECTED
    (request,) = script.requests()
    script.reply(request)
    assert write.settled


def test_a_credential_refused_at_the_start_is_final() -> None:
    script = Script(auth=(DIGEST,))
    script.open()
    script.welcome()
    write = script.write()
    script.requests()
    script.reply(AUTH_XID, err=-115)
    assert script.machine.state is SessionState.CLOSED
    with pytest.raises(AuthFailedError, match="digest"):
        write.result()
    with pytest.raises(AuthFailedError, match="digest"):
        script.read()


def test_a_credential_added_later_is_restored_after_a_reconnect(script: Script) -> None:
    added = script.machine.add_credential(DIGEST, script.now)
    script.read()
    auth, read = script.requests()
    assert auth.xid == AUTH_XID
    script.reply(AUTH_XID)
    assert added.settled
    script.reply(read)
    script.lose()
    script.connect()
    assert script.machine.state is SessionState.SUSPENDED
    assert [request.op for request in script.requests()] == [OpCode.AUTH]


def test_a_credential_refused_later_is_not_repeated(script: Script) -> None:
    added = script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.reply(AUTH_XID, err=-115)
    with pytest.raises(AuthFailedError):
        added.result()
    script.lose()
    script.connect()
    assert script.machine.state is SessionState.CONNECTED
    assert script.requests() == []


def test_a_server_that_refuses_what_others_accept_is_left(script: Script) -> None:
    script.machine.add_credential(DIGEST, script.now)
    script.requests()
    script.reply(AUTH_XID)
    script.lose()
    script.connect()
    script.requests()
    script.reply(AUTH_XID, err=-115)
    assert script.machine.should_close
    script.lose()
    assert script.machine.state is SessionState.SUSPENDED
    assert "refused the digest" in script.machine.reason


# --- limits ---------------------------------------------------------------------------------------------


def test_a_request_above_the_limit_is_refused_before_it_is_sent() -> None:
    script = Script(request_limit=100)
    script.connect()
    script.submit(OpCode.SET_DATA, body=bytes(92))
    with pytest.raises(BadArgumentsError, match=r"101 bytes .* 100; raise it"):
        script.submit(OpCode.SET_DATA, body=bytes(93))
    assert [len(payload) for payload in script.frames()] == [100]


def test_a_reply_above_the_limit_fails_its_request_for_good() -> None:
    script = Script(reply_limit=1000)
    script.connect()
    large, other = script.read(), script.read()
    script.requests()
    script.machine.receive_data((1001).to_bytes(4, "big"), script.now)
    with pytest.raises(MarshallingError, match="1,001 bytes; reply_limit is 1,000"):
        large.result()
    assert script.machine.should_close
    script.lose()
    script.connect()
    assert len(script.requests()) == 1
    assert not other.settled


def test_a_large_batch_is_written_in_pieces(script: Script) -> None:
    for _ in range(100):
        script.submit(OpCode.SET_DATA, body=bytes(10_000))
    sizes = []
    while data := script.machine.data_to_send(script.now):
        sizes.append(len(data))
    assert sum(sizes) == 100 * 10_012
    assert max(sizes) < 2 * 64 * 1024


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
