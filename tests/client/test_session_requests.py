"""The requests of a session, byte by byte: what is paired, lost, sent again and too large."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.client import SessionState
from pyzk.client.direct_connection import Exchange
from pyzk.client.registry import WatchKind
from pyzk.client.request import Request
from pyzk.protocol.constants import AUTH_XID, PING_XID, SET_WATCHES_XID, WATCH_XID, EventType
from pyzk.protocol.errors import (
    BadArgumentsError,
    ConnectionLossError,
    MarshallingError,
    NoNodeError,
    SessionClosedRequireAuthError,
    UnimplementedError,
)
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ReplyHeader, WatcherEvent

from .scripted import START, Script, armed

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
    assert script.machine.withdraw(second) is False, "it is too late"
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


def test_what_was_withdrawn_is_left_out_between_others(script: Script) -> None:
    first, withdrawn, last = script.write(), script.write(), script.write()
    script.machine.withdraw(withdrawn)
    data = script.machine.data_to_send(script.now)
    assert data.count(OpCode.SET_DATA.to_bytes(4, "big")) == 2, "both in one write"
    assert not script.machine.has_data_to_send
    assert (first.xid, withdrawn.xid, last.xid) == (1, 0, 2)
    assert isinstance(withdrawn.error, ConnectionLossError)
    assert not withdrawn.error.sent


def test_numbers_of_requests_begin_again_behind_the_largest(script: Script) -> None:
    script.machine.data.xid = 2**31 - 2
    requests = [script.read() for _ in range(3)]
    sent = script.requests()
    assert [each.xid for each in sent] == [2**31 - 1, 1, 2]
    for each in sent:
        script.reply(each)
    assert all(request.settled for request in requests)


def test_a_write_takes_as_many_requests_as_fit_into_64_kib(script: Script) -> None:
    """Bytes of op codes and records count, those of the frames' lengths do not."""
    for _ in range(130):
        script.submit(OpCode.SET_DATA, body=bytes(1016))
    sizes = []
    while data := script.machine.data_to_send(script.now):
        sizes.append(len(data))
    assert sizes == [64 * 1028, 64 * 1028, 2 * 1028]


def test_requests_are_counted_as_they_are_sent(script: Script) -> None:
    script.read()
    script.read()
    script.write()
    counts = script.machine.data.metrics.requests
    assert counts == {}
    script.requests()
    assert counts == {OpCode.GET_DATA: 2, OpCode.SET_DATA: 1}


def test_many_replies_at_once_are_all_taken(script: Script) -> None:
    """More than are taken out of the buffer together."""
    requests = [script.read() for _ in range(2500)]
    sent = script.requests()
    script.send(*(ReplyHeader(each.xid, 0, 0).encode() + b"data" for each in sent))
    assert [request.result() for request in requests] == [b"data"] * 2500


def test_what_comes_together_is_taken_together(script: Script) -> None:
    """An event, the answer to a ping, and a refusal that has overtaken others, between replies."""
    watcher = armed(script, "/a", WatchKind.PERSISTENT)
    script.sleep(3)
    requests = [script.read() for _ in range(4)]
    sent = [request for request in script.requests() if request.xid > 0]
    replies = [ReplyHeader(each.xid, 0, 0).encode() + b"data" for each in sent]
    script.send(
        ReplyHeader(WATCH_XID, -1, 0).encode() + WatcherEvent(EventType.CHANGED, 3, "/a").encode(),
        replies[0],
        ReplyHeader(sent[2].xid, 0, UnimplementedError.code).encode(),
        replies[1],
        ReplyHeader(PING_XID, 0, 0).encode(),
        replies[3],
    )
    assert len(watcher.events) == 1
    assert isinstance(requests[2].error, UnimplementedError)
    assert [request.result() for request in requests if request.error is None] == [b"data"] * 3
    assert script.machine.is_quiet
    assert script.machine.next_deadline() == script.now + 3, "the ping was answered"


def test_no_reply_is_taken_behind_one_that_ends_the_connection(script: Script) -> None:
    first, second = script.read(), script.read()
    sent = script.requests()
    script.send(b"short", ReplyHeader(sent[0].xid, 0, 0).encode())
    assert script.machine.should_close
    assert not first.settled
    assert not second.settled
    script.lose()
    assert script.machine.why == "the server broke the protocol: a reply of 5 bytes"


def test_a_session_that_needs_an_identity_may_be_refused_out_of_order(script: Script) -> None:
    """Its connection layer does that, ahead of others (wire.md section 7)."""
    first, refused = script.write(), script.write()
    sent = script.requests()
    script.reply(sent[1], err=SessionClosedRequireAuthError.code)
    assert isinstance(refused.error, SessionClosedRequireAuthError)
    script.reply(sent[0])
    assert first.error is None


def test_no_other_refusal_may_overtake(script: Script) -> None:
    first, refused = script.write(), script.write()
    sent = script.requests()
    script.reply(sent[1], err=NoNodeError.code)
    assert script.machine.should_close
    assert not first.settled
    assert not refused.settled


def test_what_a_listener_has_settled_is_not_answered_again(script: Script) -> None:
    """It stops the client, and the next reply has come together with the first."""
    parsed: list[bytes] = []
    first = script.read()
    second: Request[None] = Request(OpCode.GET_DATA, b"", "/b", parsed.append)
    script.machine.submit(second, script.now)
    first.on_settled(lambda request: script.machine.abandon())
    sent = script.requests()
    script.send(*(ReplyHeader(each.xid, 0, 0).encode() for each in sent))
    assert first.error is None
    assert isinstance(second.error, ConnectionLossError)
    assert parsed == []


def test_a_large_reply_to_nothing_ends_the_connection() -> None:
    script = Script(reply_limit=1000)
    script.connect()
    script.machine.receive_data((1000).to_bytes(4, "big"), script.now)
    assert not script.machine.should_close
    script = Script(reply_limit=1000)
    script.connect()
    script.machine.receive_data((1001).to_bytes(4, "big"), script.now)
    script.lose()
    assert script.machine.why == "a reply of 1,001 bytes; reply_limit is 1,000"


def test_a_negative_length_is_no_large_reply(script: Script) -> None:
    read = script.read()
    script.requests()
    script.machine.receive_data(b"\xff" * 4, script.now)
    assert not read.settled, "it is asked again"
    script.lose()
    assert "does not speak ZooKeeper's protocol" in script.machine.why


def test_what_waits_for_a_connection_gives_up_in_its_turn(script: Script) -> None:
    script.lose()
    first = script.write()
    script.sleep(2)
    second = script.write()
    withdrawn = script.write()
    script.machine.withdraw(withdrawn)
    assert script.machine.next_deadline() == START + 9
    script.sleep(7)
    assert (first.settled, second.settled) == (True, False)
    assert script.machine.next_deadline() == START + 11
    script.sleep(2)
    assert second.settled
    assert script.machine.next_deadline() == math.inf
    assert not script.machine.data.outbox


def test_requests_of_a_client_that_is_served_do_not_give_up(script: Script) -> None:
    read = script.read()
    assert read.give_up_at is None
    script.sleep(2.9)
    assert not read.settled
    script.requests()
    script.lose()
    assert read.give_up_at == script.now + 9
    script.sleep(1)
    script.open()
    script.lose()
    assert read.give_up_at == START + 2.9 + 9, "of the first loss"


def test_the_time_to_give_up_is_exact(script: Script) -> None:
    script.lose()
    write = script.write()
    script.machine.handle_timer(script.now + 8.999)
    assert not write.settled
    script.machine.handle_timer(script.now + 9)
    assert write.settled


def test_a_read_is_sent_again_only_while_it_may_wait(script: Script) -> None:
    read = script.read()
    script.requests()
    script.lose()
    script.connect()
    script.requests()
    script.now += 9
    script.lose()
    assert isinstance(read.error, ConnectionLossError)
    assert read.error.sent


# --- what another has made over the connection ------------------------------------------------------------


def exchange(script: Script, op: int, xid: int, *, after: float, zxid: int = 0, code: int = 0) -> Exchange:
    """An exchange that was made so long after now, in 0.5 s."""
    made = Exchange(Request(op, b"", "/a"), xid, lambda: None)
    made.sent_at, made.received_at = script.now + after, script.now + after + 0.5
    made.zxid, made.code = zxid, code
    return made


def test_what_a_direct_caller_has_done_counts_as_done_here(script: Script) -> None:
    script.read()
    script.reply(script.requests()[0], zxid=50)
    done = [
        exchange(script, OpCode.GET_DATA, 2, after=1, zxid=60),
        exchange(script, OpCode.GET_DATA, 3, after=2, zxid=-1, code=-101),
        exchange(script, OpCode.GET_DATA, 4, after=3),
    ]
    assert script.machine.is_quiet
    script.machine.exchanged(done, None, script.now + 4)
    data = script.machine.data
    assert (data.xid, data.last_zxid) == (4, 60)
    assert data.metrics.requests == {OpCode.GET_DATA: 4}
    assert data.lease.acknowledged == script.now + 3
    assert data.lease.deadline == START + 9, "reads prove nothing"
    assert script.machine.next_deadline() == script.now + 3 + 3, "a third of the timeout behind the last"
    script.read()
    assert [sent.xid for sent in script.requests()] == [5]


@pytest.mark.parametrize(("op", "code", "moved"), [(1, 0, 1), (1, -110, 0), (4, 0, 0)])
def test_a_write_of_a_direct_caller_vouches_for_the_lease(
    script: Script, op: int, code: int, moved: int
) -> None:
    script.sleep(1)
    script.read()
    script.reply(script.requests()[0])
    script.machine.exchanged([exchange(script, op, 2, after=4, code=code)], None, script.now + 5)
    assert script.machine.data.lease.deadline == START + moved + 9


def test_the_loop_continues_what_a_direct_caller_has_begun(script: Script) -> None:
    begun = exchange(script, OpCode.GET_DATA, 7, after=1)
    begun.outcomes = [len(begun.frame)]
    script.machine.exchanged([], begun, script.now + 2)
    assert script.machine.in_flight == 1
    assert script.machine.data.xid == begun.request.xid == 7
    assert script.machine.data.metrics.requests == {OpCode.GET_DATA: 1}
    assert script.machine.next_deadline() == script.now + 4
    assert not script.machine.is_quiet
    script.reply(7)
    assert begun.request.settled


def test_what_a_direct_caller_has_received_is_handled(script: Script) -> None:
    begun = exchange(script, OpCode.GET_DATA, 7, after=1)
    begun.outcomes = [len(begun.frame), frame(ReplyHeader(7, 5, 0).encode())]
    script.machine.exchanged([], begun, script.now + 2)
    assert begun.request.settled
    assert script.machine.data.last_zxid == 5
    assert script.machine.is_quiet


def test_what_has_failed_for_a_direct_caller_ends_the_connection(script: Script) -> None:
    begun = exchange(script, OpCode.SET_DATA, 7, after=1)
    begun.outcomes = [len(begun.frame), OSError("reset")]
    script.machine.exchanged([], begun, script.now + 2)
    assert script.machine.should_close
    script.lose()
    assert script.machine.why == "the connection is lost: reset"
    assert isinstance(begun.request.error, ConnectionLossError)


def test_a_connection_is_quiet_when_nothing_is_on_its_way(script: Script) -> None:
    machine = script.machine
    assert machine.is_quiet
    script.read()
    assert not machine.is_quiet, "it waits to be sent"
    (sent,) = script.requests()
    assert not machine.is_quiet
    script.reply(sent)
    assert machine.is_quiet
    machine.receive_data(b"\0", script.now)
    assert not machine.is_quiet, "half a frame has come"
    script.lose()
    assert not machine.is_quiet
    armed(script, "/a", WatchKind.DATA)
    script.connect()
    script.requests()
    assert not machine.is_quiet, "its watches are not armed"
    script.reply(SET_WATCHES_XID)
    assert machine.is_quiet
    closing = script.submit(OpCode.GET_DATA)
    (sent,) = script.requests()
    script.machine.leave_server("another is better")
    script.machine.data.outbox.clear()
    assert not machine.is_quiet
    script.reply(sent)
    assert closing.settled
    assert not machine.is_quiet
