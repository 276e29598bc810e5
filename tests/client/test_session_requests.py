"""The requests of a session, byte by byte: what is paired, lost, sent again and too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyzk.client import SessionState
from pyzk.protocol.constants import AUTH_XID, SET_WATCHES_XID
from pyzk.protocol.errors import (
    BadArgumentsError,
    ConnectionLossError,
    MarshallingError,
    NoNodeError,
    UnimplementedError,
)
from pyzk.protocol.operations import OpCode

from .scripted import START, Script

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
