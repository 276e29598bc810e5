"""The time of a session: pings, silence, and its lease."""

from __future__ import annotations

import math

from pyzk.protocol.constants import PING_XID, EventType
from pyzk.protocol.operations import OpCode

from .scripted import START, Script, answer_all

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


def test_a_ping_that_nobody_has_sent_is_no_answer(script: Script) -> None:
    before = script.machine.data.lease.acknowledged
    script.now += 1
    script.reply(PING_XID)
    assert not script.machine.should_close
    assert script.machine.data.lease.acknowledged == before


def test_the_answer_to_a_ping_acknowledges_it(script: Script) -> None:
    script.sleep(3)
    script.requests()
    script.sleep(1)
    script.reply(PING_XID)
    assert script.machine.data.lease.acknowledged == START + 3, "as it was sent"
    assert script.machine.next_deadline() == START + 6, "a third behind what was sent last"


def test_what_is_read_puts_the_end_of_a_silent_server_off(script: Script) -> None:
    script.sleep(3)
    script.requests()
    script.sleep(2.5)
    script.event(EventType.CREATED, "/a")
    script.sleep(3.4)
    assert not script.machine.should_close
    assert script.machine.next_deadline() == START + 9, "a ping of 3 is unanswered, and nothing since 0"


def test_no_ping_goes_out_while_a_sync_is_due(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    script.now += 4
    script.machine.handle_timer(script.now)
    assert [request.op for request in script.requests()] == [OpCode.SYNC]


def test_time_before_any_deadline_changes_nothing(script: Script) -> None:
    script.machine.handle_timer(START + 2.999)
    assert script.requests() == []
    script.machine.handle_timer(START + 3)
    assert len(script.requests()) == 1
    script.machine.handle_timer(START + 5.999)
    assert not script.machine.should_close
    script.machine.handle_timer(START + 6)
    assert script.machine.should_close


def test_the_user_is_told_once_that_the_lease_is_short(script: Script) -> None:
    told: list[float] = []
    script.machine.on_lease_short = lambda: told.append(script.now)
    script.sleep(1)
    script.lose()
    script.sleep(9)
    assert told == [], "nobody keeps it"
    script = Script()
    script.connect()
    script.machine.on_lease_short = lambda: told.append(script.now)
    script.machine.data.lease.keep(lambda: None, script.now)
    script.lose()
    assert script.machine.next_deadline() == START + 9 - 9 / 5
    script.sleep(20)
    assert told == [START + 9 - 9 / 5]
    assert script.machine.next_deadline() == math.inf


def test_syncs_for_the_lease_are_not_counted_as_requests(script: Script) -> None:
    script.machine.data.lease.keep(lambda: None, script.now)
    script.sleep(2)
    assert answer_all(script) == [OpCode.SYNC]
    assert script.machine.data.metrics.requests == {}
