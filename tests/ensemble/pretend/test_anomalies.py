"""What a client can observe of several servers, provoked on command: the cases of ensemble.md section 14."""

from __future__ import annotations

from pyzk.protocol import errors
from pyzk.protocol.constants import AddWatchMode, CreateMode, EventType
from pyzk.protocol.operations import OpCode
from pyzk.server.testing import EmbeddedEnsemble

from ...support.wire import Event, Reply
from .client import Clients

EPHEMERAL = CreateMode.EPHEMERAL
OK = 0
NO_NODE, EXISTS = errors.NoNodeError.code, errors.NodeExistsError.code


def test_a_stale_read(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.1"""
    a, b = at(1), at(3)
    ensemble.load({"/x": "0"})
    ensemble.lag(1)
    written = b.set("/x", b"1")
    read = a.get("/x")
    assert (read.record.data, read.err) == (b"0", OK)
    assert read.zxid < written.zxid == b.get("/x").zxid
    ensemble.catch_up(1)
    assert a.data("/x") == b"1"
    assert a.seen == written.zxid


def test_an_own_write_that_is_unseen_after_a_move(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.2"""
    a = at(3)
    ensemble.load({"/x": "0"})
    ensemble.hold_acks()
    a.later.set("/x", b"1")
    a.later.create("/new")
    assert a.arrivals() == []
    before = a.seen
    moved = at(1, a)
    assert moved.data("/x") == b"0"
    assert moved.exists("/new").err == NO_NODE
    moved.later.sync("/x")
    moved.later.get("/x")
    assert moved.arrivals() == []
    assert moved.seen >= before
    ensemble.release_acks()
    _, read = moved.arrivals()
    assert isinstance(read, Reply)
    assert read.record.data == b"1"
    assert moved.exists("/new").record.stat.czxid <= moved.seen


def test_sync_at_the_leader_does_not_wait(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.2, the other half"""
    a, b = at(1), at(3)
    ensemble.load({"/x": "0"})
    ensemble.hold_acks()
    a.later.set("/x", b"1")
    assert b.sync("/x").err == OK
    assert b.data("/x") == b"0"


def test_a_client_from_the_future_is_refused(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.3"""
    a = at(3)
    ensemble.lag(1)
    a.create("/x")
    a.drop()
    assert at.is_refused(1, a)
    assert at.is_refused(1, a)
    told = [entry for entry in ensemble.history(session=a.session_id) if entry.facts.step == "ahead"]
    assert [(entry.server, entry.zxid) for entry in told] == [(1, a.seen)] * 2
    ensemble.catch_up(1)
    assert at(1, a).session_id == a.session_id


def test_refused_by_all_but_the_new_leader(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.4"""
    a = at(1)
    a.create("/x")
    new = ensemble.elect()
    a = at(new, a)
    assert a.get("/x").zxid == ensemble.zxid()
    assert a.seen & 0xFFFFFFFF == 0
    others = [number for number in ensemble.numbers if number != new]
    assert all(at.is_refused(number, a) for number in others)
    at(others[0])  # a new session is a transaction
    assert not any(at.is_refused(number, a) for number in others)


def test_the_leader_may_be_elected_again(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.4, at the server at which the client was: its session moves on with it."""
    a = at(3)
    epoch = ensemble.zxid() >> 32
    assert ensemble.elect(to=3) == 3
    assert ensemble.elect() != 3
    assert ensemble.zxid() == epoch + 2 << 32
    assert at(1, a).session_id == a.session_id


def test_a_late_watch(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.5"""
    a, b = at(1), at(3)
    ensemble.load({"/w": "0"})
    a.get("/w", watch=True)
    ensemble.lag(1)
    first = b.set("/w", b"1").zxid
    a.later.create("/own")
    assert a.arrivals() == []
    b.set("/w", b"2")
    ensemble.catch_up(1)
    event, created = a.arrivals()
    assert event == Event(first, EventType.CHANGED, "/w")
    assert created.zxid == first + 1
    assert a.data("/w") == b"2"


def test_sync_cures_a_stale_read(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.6"""
    a, b = at(1), at(3)
    ensemble.load({"/x": "0"})
    ensemble.lag(1)
    b.set("/x", b"1")
    a.later.sync("/x")
    a.later.get("/x")
    assert a.arrivals() == []
    ensemble.catch_up(1)
    synced, read = a.arrivals()
    assert isinstance(read, Reply)
    assert isinstance(synced, Reply)
    assert (synced.err, read.record.data) == (OK, b"1")


def test_a_write_is_applied_and_its_reply_lost_with_the_leader(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    """14.7"""
    a = at(3)
    epoch = ensemble.zxid() >> 32
    ensemble.hold_acks()
    a.later.create("/x", b"1")
    assert a.arrivals() == []
    ensemble.kill(3)
    assert a.was_closed
    a = at(ensemble.elect(), a)
    stat = a.exists("/x").record.stat
    assert stat.czxid >> 32 == epoch < ensemble.zxid() >> 32
    assert a.create("/x", b"1").err == EXISTS


def test_a_write_is_lost_with_its_leader(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.8"""
    a = at(3)
    a.create("/n-", flags=CreateMode.PERSISTENT_SEQUENTIAL)
    ensemble.hold_proposals()
    a.later.create("/n-", flags=CreateMode.PERSISTENT_SEQUENTIAL)
    ensemble.kill(3)
    assert a.was_closed
    a = at(ensemble.elect(), a)
    assert set(a.children("/").record.children) == {"n-0000000000", "zookeeper"}
    assert a.create("/n-", flags=CreateMode.PERSISTENT_SEQUENTIAL).record.path == "/n-0000000001"
    ensemble.start(3)
    assert ensemble[3].dump() == ensemble[1].dump()


def test_a_session_survives_an_outage_longer_than_its_timeout(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    """14.9"""
    a = at(1)
    a.create("/mine", flags=EPHEMERAL)
    ensemble.kill(3)
    ensemble.kill(2)
    ensemble.advance(60)
    assert ensemble.leader() is None
    for leader in (2, 3, 2, 3, 2):
        if ensemble.role(leader) == "down":
            ensemble.start(leader)
        ensemble.elect(to=leader)
        ensemble.advance(9)
    assert at(leader, a).session_id == a.session_id
    assert ensemble[leader].sessions()[0].ephemerals == ("/mine",)


def test_a_session_expires_although_its_client_is_answered(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.10"""
    a, b = at(1, timeout=1000), at(2)
    a.create("/mine", flags=EPHEMERAL)
    b.exists("/mine", watch=True)
    ensemble.isolate(1)
    for _ in range(6):
        ensemble.advance(0.4)
        assert a.ping().err == OK
    assert a.exists("/mine").err == OK
    assert [event.type for event in b.take_events()] == [EventType.DELETED]
    ensemble.advance(0.1)
    assert a.was_closed
    assert at(2, a).session_id == 0


def test_a_session_expires_although_its_client_comes_back_in_time(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    """14.11"""
    a = at(1, timeout=1600)
    ensemble.advance(0.7)
    assert a.ping().err == OK  # the leader hears of it at 0.75, and counts from there
    ensemble.advance(0.29)
    assert a.ping().err == OK
    ensemble.freeze(1)  # so this one is never reported
    ensemble.advance(1.59)
    assert at(2, a).session_id == 0


def test_two_clients_believe_to_lead(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.12"""
    a, b = at(1, timeout=1000), at(2, timeout=4000)
    a.create("/leader", flags=EPHEMERAL)
    b.exists("/leader", watch=True)
    ensemble.isolate(1)
    ensemble.advance(2.0)
    assert [event.type for event in b.take_events()] == [EventType.DELETED]
    assert b.create("/leader", flags=EPHEMERAL).err == OK
    assert a.exists("/leader").record.stat.ephemeralOwner == a.session_id
    ensemble.advance(0.5)
    assert a.was_closed


def test_an_ephemeral_is_visible_after_the_expiry(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.13"""
    a, b, c = at(2, timeout=1000), at(3), at(1)
    a.create("/mine", flags=EPHEMERAL)
    c.get("/mine", watch=True)
    ensemble.lag(1)
    ensemble.expire(a.session_id)
    assert b.exists("/mine").err == NO_NODE
    assert c.exists("/mine").record.stat.ephemeralOwner == a.session_id
    assert at(3, a).session_id == 0
    ensemble.catch_up(1)
    assert [event.type for event in c.take_events()] == [EventType.DELETED]


def test_node_exists_after_a_hidden_success(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.14"""
    a = at(1)
    ensemble.lag(1)
    a.later.create("/mine", flags=EPHEMERAL)
    assert a.arrivals() == []
    ensemble.kill(1)
    assert a.was_closed
    a = at(2, a)
    assert a.create("/mine", flags=EPHEMERAL).err == EXISTS
    assert a.exists("/mine").record.stat.ephemeralOwner == a.session_id


def test_a_write_is_applied_much_later(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.15"""
    a = at(3)
    ensemble.freeze(1)
    ensemble.freeze(2)
    a.later.create("/late")
    ensemble.advance(3)
    assert a.was_closed
    assert ensemble.leader() is None
    ensemble.advance(60)
    ensemble.thaw(1)
    ensemble.advance(0.2)
    b = at(1)
    assert b.exists("/late").err == OK


def test_read_only_and_back() -> None:
    """14.16, with the sessions of the defaults: a read-only server can open none."""
    with EmbeddedEnsemble(3, clock="frozen", read_only_mode=True) as ensemble:
        at = Clients(ensemble)
        a = at(1)
        ensemble.kill(3)
        ensemble.kill(2)
        assert a.was_closed
        ensemble.advance(2)
        assert ensemble.role(1) == "read-only"
        assert at.is_refused(1, a)
        new = at.asking(1, read_only=True)
        assert new.receive_frame()[-4:] == (-119).to_bytes(4, signed=True)
        ensemble.start(2)
        ensemble.advance(0.2)
        assert new.was_closed
        assert at(1, a).session_id == a.session_id
        at.close()


def test_a_minority_keeps_answering(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.17"""
    a, b = at(1), at(3)
    ensemble.load({"/x": "0"})
    ensemble.isolate(1)
    b.set("/x", b"1")
    ensemble.advance(2.4)
    assert a.ping().err == OK
    assert a.data("/x") == b"0"
    ensemble.advance(0.1)
    assert a.was_closed
    assert at.is_refused(1, a)
    ensemble.heal()
    assert at(1, a).data("/x") == b"1"


def test_an_old_leader_keeps_answering(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.18"""
    a, b = at(3, timeout=4000), at(1, timeout=4000)
    ensemble.load({"/x": "0"})
    ensemble.freeze(3)
    ensemble.advance(2.7)
    b = at(ensemble.leader() or 0, b)
    b.set("/x", b"1")
    ensemble.advance(2)
    ensemble.thaw(3)
    assert ensemble.role(3) == "leader"
    assert a.sync("/x").err == OK
    assert a.data("/x") == b"0"
    old = at.asking(3, session_id=b.session_id, password=b.password)
    assert old.receive_handshake().session_id == 0, "a false expiry: the session lives at the new leader"
    ensemble.advance(0.5)
    assert a.was_closed
    again = at.asking(3, session_id=b.session_id, password=b.password)
    assert again.receive_handshake().session_id == b.session_id


def test_a_session_moves_under_a_live_connection(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.19"""
    old = at(1)
    ensemble.load({"/x": "0"})
    new = at(2, old)
    assert old.data("/x") == b"0"
    assert old.sync("/").err == OK
    before = ensemble.zxid()
    old.later.set("/x", b"1")
    assert old.was_closed
    assert ensemble.zxid() == before + 1
    assert new.data("/x") == b"0"


def test_a_session_is_closed_by_its_ghost(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.20"""
    ghost = at(1)
    ghost.create("/mine", flags=EPHEMERAL)
    new = at(2, ghost)
    assert ghost.close_session().err == OK
    assert new.was_closed
    assert at(3).exists("/mine").err == NO_NODE


def test_a_missed_pair(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.23"""
    a, b = at(1), at(2)
    ensemble.load({"/x": "0", "/p": {"c": ""}})
    seen = a.get("/x").zxid
    for path in ("/x", "/p/c"):
        b.delete(path)
        b.create(path, b"0")
    a = at(2, a)
    assert a.set_watches(seen, data=["/x"], child=["/p"], persistent=["/x"]).err == OK
    kinds = [(event.type, event.path, event.zxid) for event in a.take_events()]
    assert kinds == [(EventType.CHANGED, "/x", -1), (EventType.CHILD, "/p", -1)]


def test_events_are_out_of_step_between_servers(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.24"""
    a, b, c = at(1), at(2), at(3)
    ensemble.load({"/x": "0"})
    for client in (a, b):
        client.add_watch("/x", AddWatchMode.PERSISTENT)
    ensemble.lag(1)
    c.set("/x", b"1")
    assert [event.type for event in b.take_events()] == [EventType.CHANGED]
    assert a.take_events() == []
    assert a.data("/x") == b"0"
    ensemble.catch_up(1)
    assert [event.type for event in a.take_events()] == [EventType.CHANGED]


def test_the_members_change() -> None:
    """14.21"""
    with EmbeddedEnsemble(3, observers=1, clock="frozen", reconfig_enabled=True, skip_acl=True) as ensemble:
        at = Clients(ensemble)
        a, b = at(3), at(4)
        b.get("/zookeeper/config", watch=True)
        assert a.reconfig(leaving="4").err == OK
        assert b.wait_event().type == EventType.CHANGED
        assert b.was_closed
        assert at(4, b).create("/x").err == OK
        c = at(1)
        assert a.reconfig(leaving="3").err == OK
        assert a.was_closed
        assert c.was_closed
        ensemble.advance(0.2)
        assert b"server.3" not in at(3, a).data("/zookeeper/config")
        assert (ensemble.leader(), ensemble.role(3)) == (2, "follower")
        at.close()


def test_half_a_handshake(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """14.25"""
    ensemble.hold_acks()
    client = at.asking(3)
    ensemble.kill(3)
    assert client.was_closed
    new = ensemble.elect()
    (orphan,) = ensemble.sessions()
    assert orphan.id >> 56 == 3
    assert not orphan.connected
    ensemble.advance(orphan.timeout_ms / 1000 + 0.5)
    assert ensemble[new].sessions() == []


def test_an_observer_lags() -> None:
    """14.22"""
    with EmbeddedEnsemble(3, observers=1, clock="frozen") as ensemble:
        at = Clients(ensemble)
        a, b = at(4), at(1)
        ensemble.load({"/x": "0"})
        ensemble.lag(4)
        b.set("/x", b"1")
        assert a.data("/x") == b"0"
        assert ensemble.role(4) == "observer"
        ensemble.catch_up(4)
        assert a.data("/x") == b"1"
        at.close()


def test_one_connection_is_served_in_order(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """3.2: reads and pings wait behind a write, other connections do not."""
    a, b = at(1), at(1)
    ensemble.load({"/x": "0"})
    ensemble.lag(1)
    a.later.set("/x", b"1")
    a.later.get("/x")
    a.later.ping()
    assert a.arrivals() == []
    assert b.data("/x") == b"0"
    ensemble.catch_up(1)
    assert [reply.op for reply in a.arrivals() if isinstance(reply, Reply)] == [
        OpCode.SET_DATA,
        OpCode.GET_DATA,
        OpCode.PING,
    ]
