"""Turns, back pressure and bounded memory: who floods or does not read delays nobody but himself."""

from __future__ import annotations

import logging

import pytest

from benchmarks import wire
from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode
from pyzk.protocol.framing import frame
from pyzk.protocol.multi import encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server.net.connection import Connection

from ...support.requests import get_op
from ...support.wire import Event
from ...support.world import Peer, World

PING = wire.request(OpCode.PING, xid=-2)
PONG = 20
"""The bytes of a ping's reply."""
BIG = 64 * 1024
GET_BIG = wire.request(OpCode.GET_DATA, r.GetDataRequest("/big", False), 1)
MOST = 1024 * 1024
"""More than one connection may ever have waiting, replies and all, unless it is events."""


@pytest.fixture
def client(world: World) -> Peer:
    client = world.connect()
    client.create("/big", bytes(BIG))
    return client


# --- turns -------------------------------------------------------------------------------------------------


def test_a_flood_is_handled_turn_by_turn(world: World, client: Peer) -> None:
    connection, total = client.connection, 5000
    connection.receive_data(PING * total, world.now)
    turns = []
    while connection.has_work:
        turns.append(len(connection.data_to_send()) // PONG)
        assert not connection.may_read, "no more input while some is left over"
        connection.proceed(world.now)
    turns.append(len(connection.data_to_send()) // PONG)
    assert sum(turns) == total
    assert max(turns) <= 256
    assert connection.may_read


def test_input_that_comes_although_some_is_left_over_keeps_its_place(client: Peer) -> None:
    connection, now = client.connection, client.world.now
    frames = [client.encode(OpCode.SYNC, r.SyncRequest(f"/{i}")) for i in range(600)]
    connection.receive_data(b"".join(frames[:300]), now)
    for one in frames[300:]:
        connection.receive_data(one, now)
    client.feed()
    assert [client.reply().record.path for _ in frames] == [f"/{i}" for i in range(600)]


def test_a_frame_that_trickles_in_behind_a_flood_is_not_lost(client: Peer) -> None:
    stream = PING * 1000 + wire.request(OpCode.SYNC, r.SyncRequest("/end"), 9)
    output = b"".join(client.exchange(stream[i : i + 999]) for i in range(0, len(stream), 999))
    assert len(output) == 1000 * PONG + 20 + 8
    assert output.endswith(r.SyncResponse("/end").encode())


def test_requests_of_others_are_handled_between_the_turns(world: World, client: Peer) -> None:
    other = world.connect()
    creates = [
        wire.request(OpCode.CREATE, r.CreateRequest(f"/n{i}", b"", r.OPEN_ACL, 0), i) for i in range(500)
    ]
    client.connection.receive_data(b"".join(creates), world.now)
    assert client.connection.has_work
    seen = len(other.children("/").record.children)
    assert 2 < seen < 500
    client.exchange()
    assert len(other.children("/").record.children) == 502


# --- back pressure -----------------------------------------------------------------------------------------


def test_replies_stop_above_the_high_water_mark_and_go_on_once_they_are_taken(
    world: World, client: Peer
) -> None:
    connection = client.connection
    connection.receive_data(GET_BIG * 60, world.now)
    assert (connection.has_work, connection.may_read) == (True, False)
    first = connection.data_to_send()
    assert BIG < len(first) < MOST
    received = len(first)
    while connection.has_work:
        connection.proceed(world.now)
        output = connection.data_to_send()
        assert 0 < len(output) < MOST
        received += len(output)
    assert received == 60 * (BIG + 4 + 16 + 4 + 68)
    assert connection.may_read


def test_nothing_is_handled_while_output_waits_to_be_taken(world: World, client: Peer) -> None:
    connection = client.connection
    create = wire.request(OpCode.CREATE, r.CreateRequest("/later", b"", r.OPEN_ACL, 0), 2)
    connection.receive_data(GET_BIG * 20 + create, world.now)
    for _ in range(5):
        connection.proceed(world.now)
    assert "/later" not in world.tree.nodes
    client.exchange()
    assert "/later" in world.tree.nodes


def test_what_one_client_may_have_waiting_is_bounded_whatever_it_sends(world: World, client: Peer) -> None:
    connection = client.connection
    for _ in range(100):
        if connection.may_read:
            connection.receive_data(GET_BIG * 10, world.now)
        connection.proceed(world.now)
    assert len(connection.data_to_send()) < MOST


def test_the_session_of_a_client_that_does_not_read_still_expires(world: World, client: Peer) -> None:
    client.connection.receive_data(GET_BIG * 60, world.now)
    world.pass_time(13)
    assert client.closed
    assert client.connection.data_to_send() == b""


# --- events ------------------------------------------------------------------------------------------------


def flood_with_events(world: World, watcher: Peer, count: int) -> None:
    watcher.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    other = world.connect()
    for i in range(count):
        other.create(f"/{'n' * 100}{i}")


def test_a_client_that_does_not_read_its_events_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    world = World(max_unsent=50_000)
    watcher, bystander = world.connect(), world.connect()
    bystander.exists("/x", watch=True)
    with caplog.at_level(logging.INFO, "pyzk"):
        flood_with_events(world, watcher, 1000)
    assert watcher.closed
    assert watcher.connection.data_to_send() == b"", "nothing is kept of what waited"
    assert world.engine.watches.paths_of(watcher.connection) == []
    assert "does not read its events" in caplog.text
    # its session lives on, and nobody else has noticed anything
    assert watcher.reconnect().session_id == watcher.session_id
    world.connect().create("/x")
    assert len(bystander.take_events()) == 1


def test_a_client_that_reads_its_events_receives_all() -> None:
    world = World(max_unsent=50_000)
    watcher, other = world.connect(), world.connect()
    watcher.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    received: list[Event] = []
    for i in range(1000):
        other.create(f"/{'n' * 100}{i}")
        if i % 50 == 0:
            received += watcher.take_events()
    received += watcher.take_events()
    assert len(received) == 1000


def test_a_client_whose_own_writes_overflow_its_events_is_disconnected() -> None:
    world = World(max_unsent=1000)
    client = world.connect()
    client.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)
    for i in range(5):
        client.create(f"/{'n' * 200}{i}", flags=1)
    client.take_events()
    output = client.exchange(wire.request(OpCode.CLOSE_SESSION, xid=9) + PING)
    assert (output, client.closed) == (b"", True)
    assert world.tree.ephemerals == {}, "the request is carried out to its end"
    assert len(world.engine.sessions) == 0


def test_events_come_while_requests_wait_for_output_to_be_taken(world: World, client: Peer) -> None:
    client.exists("/x", watch=True)
    client.connection.receive_data(GET_BIG * 60, world.now)
    world.connect().create("/x")
    output = client.connection.data_to_send()
    event = frame(r.ReplyHeader(-1, world.zxid, 0).encode() + r.WatcherEvent(1, 3, "/x").encode())
    assert output.endswith(event)


def test_a_megabyte_may_trickle_in(client: Peer) -> None:
    # It is gathered in place: copying it again for each of ten thousand pieces would take a minute.
    data = bytes(1_000_000)
    stream = client.encode(OpCode.CREATE, r.CreateRequest("/slow", data, r.OPEN_ACL, 0))
    for i in range(0, len(stream), 100):
        client.connection.receive_data(stream[i : i + 100], client.world.now)
    client.feed()
    assert client.reply().err == 0


def test_a_connection_tells_who_it_is(client: Peer) -> None:
    # what every line of the log begins with
    assert isinstance(client.connection, Connection)
    assert repr(client.connection) == f"<Connection 127.0.0.1:40000 session=0x{client.session_id:x}>"


def test_connections_share_the_names_of_their_attributes(client: Peer) -> None:
    assert len(vars(client.connection)) <= 29, "with more each would keep a dict of 1.6 kB for itself"


def test_a_small_multi_read_cannot_ask_for_any_amount_of_data() -> None:
    # wire.md section 15 lets a reply be of any size; but a short request may not ask for gigabytes
    world = World(max_unsent=10 * BIG)
    client, other = world.connect(), world.connect()
    client.create("/big", bytes(BIG))
    assert len(client.multi(*[get_op("/big")] * 5, op=OpCode.MULTI_READ).results) == 5
    client.send(OpCode.MULTI_READ, encode_multi([get_op("/big")] * 1000))
    assert client.closed
    assert other.get("/big").err == 0


def test_a_lone_request_does_not_overtake_what_is_left_over(world: World, client: Peer) -> None:
    connection = client.connection
    connection.receive_data(GET_BIG * 10, world.now)
    connection.data_to_send()
    assert connection.has_work
    assert connection.exchange(wire.request(OpCode.SYNC, r.SyncRequest("/end"), 9), world.now) == b""
    assert client.exchange().endswith(r.SyncResponse("/end").encode())
