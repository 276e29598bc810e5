"""The checker of ensemble.md section 15.2 finds each faulty history, and lets true ones pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import pytest

from pyzk.protocol.constants import CreateMode
from pyzk.protocol.operations import PING, WRITES, OpCode
from pyzk.server.core.txn import CloseSession, Create, Refused

from ...support.ensemble import EnsembleWorld
from ...support.ensemble_rules import facts as f
from ...support.ensemble_rules.checker import Checker
from ...support.ensemble_rules.recording import recorded

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.PERSISTENT_SEQUENTIAL
TICK = 500

History = list[Any]
"""Facts: of which kind, each fault knows."""


@cache
def true_history() -> tuple[f.Fact, ...]:
    """Server 3 leads, then server 2. A is at server 1 and expires in the end; B is at 3, then at 2, and
    closes its session."""
    with recorded() as recordings:
        world = EnsembleWorld(3, tick_time=TICK)
    a, b = world[1].connect(timeout=2000), world[3].connect(timeout=20_000)
    a.create("/a", b"0")
    a.get("/a", watch=True)
    b.set("/a", b"1")
    a.get("/a")
    for name in ("/mine", "/mine2"):
        a.create(name, flags=EPHEMERAL)
    for _ in range(2):
        a.create("/a/n-", flags=SEQUENTIAL)
    a.children("/a")
    a.delete("/none")
    b.set("/a", b"2")
    a.sync("/")
    a.get("/a")
    a.exists("/none")
    a.ping()
    b.ping()
    session = {"session_id": b.session_id, "password": b.password}
    world.elect(2)
    b = world[2].connect(**session)
    b.create("/b", b"0")
    b.get("/b")
    world[1].connect(session_id=a.session_id, password=a.password, timeout=2000).ping()
    world.pass_time(5)
    b.exists("/mine")
    b.close_session()
    world[3].connect(**session)
    return tuple(recordings[0].facts)


def check(history: History) -> None:
    checker = Checker(TICK)
    for fact in history:
        checker.take(fact)


def test_a_true_history_breaks_no_rule() -> None:
    check(list(true_history()))


FAULTS: list[Any] = []


def breaks(rule: int) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """A change of the history that breaks a rule."""

    def enter(fault: Callable[[History], None]) -> Callable[[History], None]:
        FAULTS.append(pytest.param(rule, fault, id=f"{rule}-{fault.__name__}"))
        return fault

    return enter


@pytest.mark.parametrize(("rule", "fault"), FAULTS)
def test_a_faulty_history_is_found(rule: int, fault: Callable[[History], None]) -> None:
    history = list(true_history())
    fault(history)
    with pytest.raises(AssertionError, match=rf"rule {rule}\b"):
        check(history)


def test_each_rule_has_its_fault() -> None:
    assert {param.values[0] for param in FAULTS} == set(range(1, 17))


# --- helpers ----------------------------------------------------------------------------------------------


def places(history: History, kind: type, is_it: Callable[[Any], object] = lambda fact: True) -> list[int]:
    found = [place for place, fact in enumerate(history) if isinstance(fact, kind) and is_it(fact)]
    assert found
    return found


def change(history: History, place: int, **fields: Any) -> None:
    history[place] = history[place]._replace(**fields)


def replies_to(history: History, *ops: int) -> list[int]:
    asked = {
        (fact.connection, -2 if fact.op == PING else fact.xid)
        for fact in history
        if isinstance(fact, f.Request) and fact.op in ops
    }
    return places(history, f.Reply, lambda reply: (reply.connection, reply.xid) in asked)


def commits(history: History, kind: type) -> list[int]:
    return places(history, f.Committed, lambda fact: isinstance(fact.txn.effect, kind))


def forge(history: History, place: int, effect: Any) -> None:
    """Give an entry of the log another effect, everywhere."""
    before = history[place].txn
    after = attrs.evolve(before, effect=effect)
    for number in places(history, f.Committed | f.Applied, lambda fact: fact.txn is before):
        change(history, number, txn=after)


def expiry(history: History) -> Any:
    return history[places(history, f.Ending, lambda fact: fact.expired)[0]]


# --- the log ----------------------------------------------------------------------------------------------


@breaks(1)
def another_transaction_at_the_same_zxid(history: History) -> None:
    place = places(history, f.Applied, lambda fact: fact.server == 1)[2]
    change(history, place, txn=attrs.evolve(history[place].txn))


@breaks(2)
def a_server_leaves_an_entry_out(history: History) -> None:
    del history[places(history, f.Applied, lambda fact: fact.server == 1)[2]]


@breaks(2)
def a_server_applies_an_entry_twice(history: History) -> None:
    place = places(history, f.Applied, lambda fact: fact.server == 1)[2]
    history.insert(place + 1, history[place])


@breaks(2)
def a_server_applies_what_is_not_committed(history: History) -> None:
    history.append(history.pop(places(history, f.Committed)[-1]))


@breaks(2)
def a_copy_takes_a_server_back(history: History) -> None:
    history.append(f.Copied(1, 0))


@breaks(3)
def the_counter_skips_a_number(history: History) -> None:
    place = places(history, f.Committed)[3]
    txn = history[place].txn
    change(history, place, txn=attrs.evolve(txn, zxid=txn.zxid + 1))


@breaks(3)
def an_epoch_does_not_begin_at_1(history: History) -> None:
    second = places(history, f.Began)[1]
    place = next(place for place in places(history, f.Committed) if place > second)
    txn = history[place].txn
    change(history, place, txn=attrs.evolve(txn, zxid=txn.zxid + 1))


@breaks(13)
def an_old_leader_commits_a_write(history: History) -> None:
    second = places(history, f.Began)[1]
    last = [place for place in places(history, f.Committed) if place < second][-1]
    history.insert(last, history.pop(second))


@breaks(13)
def two_lead_the_same_epoch(history: History) -> None:
    first, second = places(history, f.Began)
    change(history, second, epoch=history[first].epoch)


@breaks(14)
def an_ephemeral_stays_behind_in_the_log(history: History) -> None:
    forge(history, commits(history, CloseSession)[0], CloseSession(("/mine",), expired=True))


@breaks(14)
def a_server_keeps_an_ephemeral(history: History) -> None:
    ends = places(history, f.Applied, lambda fact: isinstance(fact.txn.effect, CloseSession))
    change(history, ends[1], left=("/mine2",))


@breaks(15)
def a_znode_is_created_twice(history: History) -> None:
    forge(history, commits(history, Refused)[0], history[commits(history, Create)[0]].txn.effect)


@breaks(15)
def a_sequence_number_is_given_again(history: History) -> None:
    place = next(p for p in commits(history, Create) if history[p].txn.effect.name == "n-0000000000")
    create = history[place].txn.effect
    forge(history, place, create._replace(path="/a/n-0000000005", name="n-0000000005"))


# --- what clients are told ---------------------------------------------------------------------------------


@breaks(4)
def the_header_falls(history: History) -> None:
    place = replies_to(history, PING)[0]
    change(history, place, zxid=history[place].zxid - 1)


@breaks(4)
def the_header_is_below_what_the_client_has_seen(history: History) -> None:
    change(history, places(history, f.Asked, lambda fact: fact.session)[0], seen=2**62)


@breaks(5)
def a_reply_is_left_out(history: History) -> None:
    del history[replies_to(history, OpCode.GET_DATA)[1]]


@breaks(5)
def two_replies_change_places(history: History) -> None:
    one, two = replies_to(history, OpCode.GET_DATA)[1], replies_to(history, OpCode.CREATE)[1]
    history[one], history[two] = history[two], history[one]


@breaks(5)
def a_reply_comes_twice(history: History) -> None:
    history.append(history[replies_to(history, OpCode.EXISTS)[-1]])


@breaks(6)
def a_read_shows_what_was_before(history: History) -> None:
    """The header is that of the state behind the write; the data is older."""
    old, new = replies_to(history, OpCode.GET_DATA)[:2]
    change(history, new, body=history[old].body)


@breaks(6)
def a_read_does_not_show_the_own_write(history: History) -> None:
    """It is as it was right before the write, header and all."""
    place = replies_to(history, OpCode.GET_DATA)[-1]
    change(history, place, zxid=history[place].zxid - 1, err=-101, body=b"")


@breaks(6)
def a_child_is_missing(history: History) -> None:
    change(history, replies_to(history, OpCode.GET_CHILDREN)[0], body=b"\0\0\0\0")


@breaks(6)
def a_znode_is_seen_that_is_not_there(history: History) -> None:
    change(history, replies_to(history, OpCode.EXISTS)[0], err=0)


@breaks(7)
def an_acknowledged_write_is_lost(history: History) -> None:
    change(history, replies_to(history, *WRITES)[-1], zxid=2**62)


@breaks(7)
def a_refused_write_is_acknowledged(history: History) -> None:
    change(history, replies_to(history, OpCode.DELETE)[0], err=0)


@breaks(8)
def a_write_that_nobody_has_asked_for(history: History) -> None:
    change(history, places(history, f.Request, lambda fact: fact.op == OpCode.CREATE)[0], op=PING)


@breaks(8)
def a_write_behind_the_end_of_its_session(history: History) -> None:
    end = history[commits(history, CloseSession)[0]].txn
    last = history[places(history, f.Committed)[-1]].txn
    history.append(f.Committed(attrs.evolve(end, zxid=last.zxid + 1, effect=Refused(-101))))


@breaks(9)
def a_sync_does_not_wait(history: History) -> None:
    """The leader had proposed the next write already."""
    place = places(history, f.Request, lambda fact: fact.op == OpCode.SYNC)[0]
    change(history, place, least=history[place].least + 1)


@breaks(10)
def an_event_comes_behind_the_reply_that_shows_it(history: History) -> None:
    place = places(history, f.Event)[0]
    reply = next(p for p in replies_to(history, OpCode.GET_DATA) if p > place)
    history.insert(reply, history.pop(place))


@breaks(10)
def a_watch_fires_twice(history: History) -> None:
    place = places(history, f.Event)[0]
    history.insert(place, history[place])


@breaks(10)
def a_watch_does_not_fire(history: History) -> None:
    del history[places(history, f.Event)[0]]


@breaks(10)
def a_watch_fires_for_a_later_change(history: History) -> None:
    place = places(history, f.Event)[0]
    change(history, place, zxid=history[place].zxid + 1)


# --- sessions ----------------------------------------------------------------------------------------------


@breaks(11)
def a_session_expires_before_its_timeout(history: History) -> None:
    ending = expiry(history)
    change(history, history.index(ending), now=ending.now - TICK - TICK // 2)


@breaks(11)
def a_new_leader_does_not_start_the_clocks_afresh(history: History) -> None:
    place = places(history, f.Began)[1]
    began = history[place]
    history.insert(place + 1, expiry(history)._replace(epoch=began.epoch, now=began.now + TICK))


@breaks(11)
def a_request_is_answered_and_not_reported(history: History) -> None:
    """A ping a second before the end, of which the leader does not hear: the server's link is open."""
    ending = expiry(history)
    place = [p for p in replies_to(history, PING) if p < history.index(ending)][-1]
    then = {"connection": history[place].connection, "now": ending.now - 2 * TICK}
    ping = f.Request(xid=-2, op=PING, body=b"", **then)
    history[history.index(ending) : history.index(ending)] = [ping, history[place]._replace(**then)]


@breaks(12)
def a_session_is_said_to_be_gone_that_lives(history: History) -> None:
    change(history, places(history, f.Attached)[2], session=0)


@breaks(12)
def a_session_that_is_over_is_accepted(history: History) -> None:
    session = history[places(history, f.Asked)[-1]].session
    change(history, places(history, f.Attached)[-1], session=session)


@breaks(16)
def a_session_has_the_byte_of_another_server(history: History) -> None:
    change(history, places(history, f.Attached)[0], session=2 << 56)


@breaks(16)
def two_sessions_have_the_same_id(history: History) -> None:
    first, second = places(history, f.Attached)[:2]
    change(history, places(history, f.Asked)[1], server=1)
    change(history, second, session=history[first].session)


@breaks(16)
def a_client_gets_the_session_of_another(history: History) -> None:
    change(history, places(history, f.Attached)[2], session=history[places(history, f.Attached)[0]].session)
