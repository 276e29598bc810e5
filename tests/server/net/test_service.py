"""A whole server over time: limits, silent connections, sessions that expire and resume, restarts."""

from __future__ import annotations

import logging
import math

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import EventType
from pyzk.protocol.framing import frame
from pyzk.protocol.operations import OpCode
from pyzk.server.config.sourced_values import build
from pyzk.server.config.zoocfg import interpret
from pyzk.server.core.txn import CloseSession, CreateSession

from ...support.invariants import check_tree_invariants
from ...support.wire import Event
from ...support.world import START, Peer, World

PING = wire.request(OpCode.PING, xid=-2)


def has_room(world: World, host: str) -> bool:
    """Whether a connection would be accepted now; it is not kept."""
    connection = world.service.accept((host, 1), world.now, lambda: None)
    if connection is not None:
        connection.receive_eof()
    return connection is not None


# --- limits (semantics.md section 14) ----------------------------------------------------------------------


def test_connections_per_address_are_limited() -> None:
    world = World(max_client_connections=3)
    peers = [world.open("10.0.0.1") for _ in range(3)]
    assert not has_room(world, "10.0.0.1")
    assert has_room(world, "10.0.0.2")
    peers[0].connection.receive_eof()
    assert has_room(world, "10.0.0.1"), "a place is free again"


def test_the_limit_per_address_is_60_unless_set() -> None:
    world = World()
    for _ in range(60):
        world.open("10.0.0.1")
    assert not has_room(world, "10.0.0.1")


def test_a_connection_counts_with_and_without_a_session_until_it_ends() -> None:
    world = World(max_client_connections=2)
    first, silent = world.connect("10.0.0.1"), world.open("10.0.0.1")
    assert not has_room(world, "10.0.0.1")
    first.close_session()
    silent.exchange(b"\xff\xff\xff\xff")
    assert world.service.connections == {}
    assert has_room(world, "10.0.0.1")


def test_an_ipv4_mapped_address_is_the_same_address() -> None:
    world = World(max_client_connections=1)
    world.open("10.0.0.1")
    assert not has_room(world, "::ffff:10.0.0.1")


def test_all_connections_together_are_limited() -> None:
    world = World(max_connections=2)
    first = world.open("10.0.0.1")
    world.open("10.0.0.2")
    assert not has_room(world, "10.0.0.3")
    first.connection.receive_eof()
    assert has_room(world, "10.0.0.3")


def test_zero_is_no_limit() -> None:
    world = World(max_client_connections=0, max_connections=0)
    for _ in range(200):
        world.open("10.0.0.1")
    assert len(world.service.connections) == 200


def test_turned_away_clients_are_logged_once_with_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    world = World(max_client_connections=1)
    world.open("10.0.0.1")
    with caplog.at_level(logging.WARNING, "pyzk"):
        for _ in range(5):
            assert not has_room(world, "10.0.0.1")
    (record,) = caplog.records
    assert "10.0.0.1" in record.getMessage()
    assert "maxClientCnxns" in record.getMessage()


def test_what_is_remembered_of_turned_away_clients_is_bounded() -> None:
    world = World(max_connections=1)
    world.open("10.0.0.1")
    for i in range(2500):
        assert not has_room(world, f"10.1.{i >> 8}.{i & 255}")
    assert len(world.service._refusals) <= 1000


# --- silent connections ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "start", "closes"),
    [(10_000, 0, 20), (10_000, 3.2, 20), (10_000, 9.9, 20), (10_000, 10, 30), (2000, 3.2, 6)],
)
def test_a_connection_without_a_session_is_closed_in_steps_of_the_timeout(
    timeout: int, start: float, closes: float
) -> None:
    # semantics.md section 14, wire.md trap 28
    world = World(sessionless_timeout=timeout)
    world.pass_time(start)
    peer = world.open()
    peer.exchange(b"\0\0")
    assert world.service.next_deadline() == START + closes
    world.pass_time(closes - start - 0.001)
    assert not peer.closed
    world.pass_time(0.001)
    assert (peer.closed, peer.exchange()) == (True, b"")
    assert world.service.next_deadline() == math.inf


def test_a_silent_connection_with_a_session_is_not_closed() -> None:
    world = World(tick_time=60_000)
    client = world.connect()
    world.pass_time(100)
    assert not client.closed


# --- expiry (semantics.md section 12.3) --------------------------------------------------------------------

# timeout, when the last sign of life comes after the start, when the session is gone; the tick is 2 s
EXPIRY = [
    (4000, 0.0, 6.0),
    (4000, 1.9, 6.0),
    (4000, 2.0, 8.0),
    (5000, 0.0, 6.0),
    (5000, 1.0, 8.0),
    (10_000, 0.0, 12.0),
    (40_000, 1.0, 42.0),
]


@pytest.mark.parametrize(("timeout", "touch", "gone"), EXPIRY)
def test_a_session_expires_in_steps_of_a_tick(timeout: int, touch: float, gone: float) -> None:
    world = World()
    client = world.connect(timeout=timeout)
    world.pass_time(touch)
    client.ping()
    assert world.service.next_deadline() == START + gone
    world.pass_time(gone - touch - 0.001)
    assert not client.closed
    assert len(world.engine.sessions) == 1
    world.pass_time(0.001)
    assert (client.closed, client.exchange()) == (True, b"")
    assert len(world.engine.sessions) == 0


@pytest.mark.parametrize(
    ("request_", "keeps_alive"),
    [
        (PING, True),
        (wire.request(OpCode.EXISTS, r.ExistsRequest("/", False), 1), True),
        (wire.request(OpCode.EXISTS, b"", 1), True),
        (wire.request(OpCode.SYNC, r.SyncRequest("/"), 1), True),
        (wire.request(OpCode.CREATE, r.CreateRequest("/x", b"", (), 0), 1), True),
        (wire.request(OpCode.SET_WATCHES, r.SetWatches(0, (), (), ()), 1), True),
        (wire.request(999, xid=1), True),
        (wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"u:p"), 1), False),
        (wire.request(OpCode.AUTH, r.AuthPacket(0, "nope", b""), 1), False),
        (wire.request(OpCode.SASL, r.GetSASLRequest(b""), 1), False),
        (PING[:-1], False),
        (PING[:3], False),
    ],
    ids=[
        *("ping", "read", "undecodable read", "sync", "failing write", "setWatches", "unknown op"),
        *("auth", "refused auth", "sasl", "incomplete frame", "incomplete length"),
    ],
)
def test_what_keeps_a_session_alive(request_: bytes, keeps_alive: bool) -> None:
    # semantics.md section 12.4
    world = World()
    client = world.connect(timeout=4000)
    world.pass_time(5)
    client.exchange(request_)
    world.pass_time(2)
    assert len(world.engine.sessions) == keeps_alive


def test_auth_among_other_requests_does_not_hide_their_sign_of_life() -> None:
    world = World()
    client = world.connect(timeout=4000)
    world.pass_time(5)
    auth = wire.request(OpCode.AUTH, r.AuthPacket(0, "digest", b"u:p"), 1)
    client.exchange(auth + PING + auth)
    world.pass_time(2)
    assert len(world.engine.sessions) == 1


def test_expiry_is_one_transaction_for_all_ephemerals() -> None:
    # semantics.md section 18, trap 17
    world = World()
    watcher = world.connect(timeout=40_000)
    client = world.connect(timeout=4000)
    watcher.create("/p")
    for path in ("/p/a", "/p/b", "/c"):
        client.create(path, flags=1)
    watcher.exists("/c", watch=True)
    zxid = world.zxid
    world.pass_time(6)
    assert world.zxid == zxid + 1
    assert watcher.take_events() == [Event(zxid + 1, EventType.DELETED, "/c")]
    assert {watcher.exists(path).record.stat.pzxid for path in ("/p", "/")} == {zxid + 1}
    assert world.txns[-1].effect == CloseSession(("/p/a", "/p/b", "/c"), expired=True)
    assert world.txns[-1].session == client.session_id
    assert world.tree.ephemerals == {}
    check_tree_invariants(world.tree)


def test_each_session_expires_with_a_zxid_of_its_own() -> None:
    world = World()
    for _ in range(3):
        world.connect(timeout=4000).create("/e-", flags=3)
    zxid = world.zxid
    world.pass_time(6)
    assert world.zxid == zxid + 3
    assert world.tree.ephemerals == {}


def test_a_session_expires_also_while_it_has_no_connection() -> None:
    world = World()
    client = world.connect(timeout=4000)
    client.create("/e", flags=1)
    client.connection.receive_eof()
    assert "/e" in world.tree.nodes
    world.pass_time(6)
    assert "/e" not in world.tree.nodes
    assert client.reconnect().session_id == 0


def test_requests_of_an_expired_session_are_not_answered() -> None:
    # semantics.md section 18, trap 16
    world = World()
    client = world.connect(timeout=4000)
    world.pass_time(6)
    assert client.exchange(wire.request(OpCode.CREATE, r.CreateRequest("/x", b"", r.OPEN_ACL, 0), 1)) == b""
    assert "/x" not in world.tree.nodes


def test_time_that_is_noticed_late_is_made_up_for() -> None:
    world = World()
    client = world.connect(timeout=4000)
    world.pass_time(1000)
    assert client.closed


def test_transactions_are_stamped_when_they_happen_also_if_expiry_is_noticed_late() -> None:
    # semantics.md section 2: T is taken when a transaction is validated, so history does not run backwards
    world = World()
    world.connect(timeout=4000)
    other = world.connect(timeout=40_000)
    world.now += 6.5
    other.create("/x")
    world.service.advance(world.now)
    times = [txn.time for txn in world.txns]
    assert len(times) == 4
    assert times == sorted(times)


def test_an_idle_server_has_no_deadline() -> None:
    world = World()
    assert world.service.next_deadline() == math.inf
    client = world.connect()
    assert world.service.next_deadline() < math.inf
    client.close_session()
    assert world.service.next_deadline() == math.inf


# --- the end of a session, and its return (12.6 and 12.7) --------------------------------------------------


def test_close_session_ends_it_for_good() -> None:
    world = World()
    client = world.connect()
    client.create("/e", flags=1)
    reply = client.close_session()
    assert (reply.err, reply.zxid, reply.body) == (0, 3, b"")
    assert client.closed
    assert world.txns[-1].effect == CloseSession(("/e",), expired=False)
    assert client.reconnect().session_id == 0


def test_a_session_is_resumed_with_everything_but_watches_and_identities() -> None:
    world = World()
    client = world.connect()
    client.create("/e", flags=1)
    client.auth("digest", b"u:p")
    client.exists("/e", watch=True)
    client.connection.receive_eof()
    again = client.reconnect("10.0.0.9")
    assert (again.session_id, again.password) == (client.session_id, client.password)
    assert again.ephemerals().record.ephemerals == ("/e",)
    assert again.who_am_i().identities == [("ip", "10.0.0.9")]
    assert world.engine.watches.count() == 0
    assert again.create("/f", flags=1).err == 0
    assert world.zxid == 3


def test_the_old_connection_is_closed_without_a_packet() -> None:
    world = World()
    client = world.connect()
    client.connection.receive_data(PING, world.now)
    again = client.reconnect()
    assert (client.closed, client.connection.data_to_send()) == (True, b"")
    assert again.ping().err == 0
    # and its late end does not disturb the new one
    client.connection.receive_eof()
    again.exists("/x", watch=True)
    world.connect().create("/x")
    assert len(again.take_events()) == 1


def test_what_the_old_connection_was_asked_before_was_carried_out() -> None:
    world = World()
    client = world.connect()
    client.connection.receive_data(
        wire.request(OpCode.CREATE, r.CreateRequest("/x", b"", r.OPEN_ACL, 0), 1), world.now
    )
    again = client.reconnect()
    assert again.exists("/x").err == 0


def test_a_reconnect_negotiates_anew_and_counts_as_a_sign_of_life() -> None:
    # semantics.md sections 12.3 and 12.4
    world = World()
    client = world.connect(timeout=40_000)
    world.pass_time(10)
    again = world.connect(session_id=client.session_id, password=client.password, timeout=4000)
    assert again.handshake is not None
    assert again.handshake.timeout == 4000
    assert world.service.next_deadline() == START + 16
    world.pass_time(5)
    last = world.connect(session_id=client.session_id, password=client.password, timeout=8000)
    assert world.service.next_deadline() == START + 24
    world.pass_time(8)
    assert last.ping().err == 0


# --- restarts (wire.md, trap 17) ---------------------------------------------------------------------------


def reconnect_elsewhere(client: Peer, last_zxid: int, successor: World) -> tuple[bytes, bool]:
    """What a client of one server is told by another that took its place."""
    peer = successor.open()
    request = wire.hello(10_000, client.session_id, client.password, last_zxid=last_zxid)
    return peer.exchange(request), peer.closed


def test_a_client_that_stays_up_is_told_that_its_session_is_gone() -> None:
    first = World(initial_zxid=None)
    client = first.connect()
    seen = max(client.create(f"/{i}").zxid for i in range(1000))
    second = World(initial_zxid=None, epoch=first.service.wall_clock(first.now) + 1)
    answer, closed = reconnect_elsewhere(client, seen, second)
    assert answer == frame(r.ConnectResponse(0, 0, 0, bytes(16)).encode() + b"\0")
    assert closed
    assert second.connect(last_zxid=seen).session_id not in (0, client.session_id)


def test_a_restarted_server_hands_out_other_session_ids() -> None:
    first = World(initial_zxid=None)
    ids = {first.connect().session_id for _ in range(20)}
    second = World(initial_zxid=None, epoch=first.service.wall_clock(first.now) + 1)
    assert not ids & {second.connect().session_id for _ in range(20)}


def test_a_client_of_a_server_that_was_further_ahead_is_dropped() -> None:
    # wire.md section 4.2, step 4
    first, second = World(initial_zxid=500), World(initial_zxid=0)
    client = first.connect()
    assert reconnect_elsewhere(client, client.create("/a").zxid, second) == (b"", True)


def test_zxids_from_the_clock_stay_in_the_range_of_the_protocol() -> None:
    world = World(initial_zxid=None, epoch=4_000_000_000.0)
    client = world.connect()
    assert 0 < client.create("/a").zxid < 2**63


def test_sessions_enter_the_history() -> None:
    world = World()
    client = world.connect(timeout=1)
    assert world.txns[0].effect == CreateSession(4000)
    assert (world.txns[0].zxid, world.txns[0].session) == (1, client.session_id)


# --- bystanders --------------------------------------------------------------------------------------------


def test_what_ends_one_connection_leaves_the_others_alone() -> None:
    world = World()
    bystander = world.connect(timeout=40_000)
    bystander.create("/e", flags=1)
    bystander.exists("/x", watch=True)
    for bad in (b"\xff" * 8, frame(b"abc"), wire.request(999, xid=1), wire.request(OpCode.AUTH, b"", 1)):
        world.connect().exchange(bad)
    for bad in (b"GET /", frame(b""), b"RUOK"):
        world.open().exchange(bad)
    world.pass_time(30)
    assert list(world.service.connections) == [bystander.connection]
    world.connect().create("/x")
    assert len(bystander.take_events()) == 1
    assert bystander.ephemerals().record.ephemerals == ("/e",)


LOOPBACK = ["127.0.0.1", "127.5.0.9", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_has_no_limit_unless_one_is_set(host: str) -> None:
    world = World()
    for _ in range(100):
        world.open(host)
    assert has_room(world, host)


@pytest.mark.parametrize("host", LOOPBACK)
@pytest.mark.parametrize("most", [2, 60])
def test_a_limit_that_is_written_down_counts_for_this_machine_too(host: str, most: int) -> None:
    settings = build(interpret(f"clientPort=1\nmaxClientCnxns={most}").values)
    assert settings.max_loopback_connections == settings.max_client_connections == most
    world = World(max_loopback_connections=most)
    for _ in range(most):
        world.open(host)
    assert not has_room(world, host)


def test_a_limit_that_a_test_sets_counts_for_this_machine_too() -> None:
    world = World(max_client_connections=1)
    world.open()
    assert not has_room(world, "127.0.0.1")
