"""One server of an ensemble and its clients: what it reads, what it holds back, what it says of itself."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.wire import hello
from pyzk.protocol import errors
from pyzk.protocol.operations import OpCode
from pyzk.server.core.sessions import NEVER
from pyzk.server.ensemble import serving

from ...support.ensemble import EnsembleWorld, Later
from ...support.world import Peer


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes. A tick is 500 ms."""
    return EnsembleWorld(3, 1)


def fed(peer: Peer, op: int, path: str) -> bytes:
    return peer.encode(op, len(path).to_bytes(4, "big") + path.encode() + b"\0")


# --- frozen ------------------------------------------------------------------------------------------------


def test_a_connection_that_is_frozen_itself_stays_so(world: EnsembleWorld) -> None:
    peer, other = world[1].connect(), world[1].connect()
    peer.connection.frozen = True
    world.freeze(1)
    assert other.connection.frozen, "its server is"
    for each in (peer, other):
        each.exchange(fed(each, OpCode.EXISTS, "/"))
    world.thaw(1)
    assert (peer.connection.frozen, other.connection.frozen) == (True, False)
    assert len(other.take_all()) == 1
    assert peer.take_all() == []
    peer.connection.frozen = False
    assert not peer.connection.frozen


def test_a_frozen_server_has_nothing_due(world: EnsembleWorld) -> None:
    service = world[1].service
    world[1].connect(timeout=2000)
    world.freeze(1)
    assert service.next_deadline() == math.inf


def test_a_local_session_does_not_expire_at_a_frozen_server() -> None:
    world = EnsembleWorld(3, local_sessions=True)
    peer = world[1].connect(timeout=1000)
    world.freeze(1)
    world[1].service.advance(world.now + 2)
    assert not peer.closed
    world.thaw(1)
    world.pass_time(2)
    assert peer.closed


# --- too much at once --------------------------------------------------------------------------------------


def test_what_a_stalled_client_sends_is_kept_until_it_goes_on(world: EnsembleWorld) -> None:
    world.ensemble.most_outstanding = 1
    peer = world[1].connect()
    world.lag(1)
    Later(peer).create("/a")
    assert peer.connection.may_read
    Later(peer).create("/b")
    assert not peer.connection.may_read
    zxid = world.zxid(3)
    assert peer.exchange(fed(peer, OpCode.EXISTS, "/a")) == b""
    Later(peer).create("/c")
    assert world.zxid(3) == zxid
    assert not peer.connection.has_work
    world.catch_up([1])
    assert peer.connection.has_work
    answers = peer.take_all()
    world.catch_up([1])
    answers += peer.take_all()
    assert [arrival.err for arrival in answers] == [0, 0, 0, 0]
    assert world.zxid(3) == zxid + 1


def test_only_those_that_wait_at_a_connection_count_for_it(world: EnsembleWorld) -> None:
    peer, other = world[1].connect(), world[1].connect()
    world.lag(1)
    for _ in range(3):
        Later(peer).create("/x")
    again = world[1].connect(session_id=peer.session_id, password=peer.password)
    assert (peer.connection.outstanding, other.connection.outstanding) == (3, 0)
    assert again.connection.outstanding == 0
    assert world[1].engine.outstanding == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "may_read"), [(1000, True), (1001, False)])
def test_the_bound_in_bytes_is_exact(
    world: EnsembleWorld, monkeypatch: pytest.MonkeyPatch, size: int, may_read: bool
) -> None:
    monkeypatch.setattr(serving, "MOST_BYTES", 1000)
    peer = world[1].connect()
    world.lag(1)
    path = "/" + "x" * (size - 8 - 4 - 1 - 1)
    peer.exchange(fed(peer, OpCode.SYNC, path))
    engine: Any = world[1].engine
    assert engine.waiting_bytes == size
    assert peer.connection.may_read is may_read


# --- handshakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [(1, 1000), (999, 1000), (1001, 1001), (10_001, 10_000)])
def test_timeouts_are_between_2_and_20_ticks(asked: int, given: int) -> None:
    for server in (1, 3):
        peer = EnsembleWorld(3)[server].connect(timeout=asked)
        assert peer.handshake is not None
        assert peer.handshake.timeout == given


def test_a_server_without_a_leader_takes_nobody(world: EnsembleWorld) -> None:
    world.kill(3)
    peer = world[1].open()
    assert peer.exchange(hello(10_000)) == b""
    assert peer.closed
    assert not world.ensemble.members[1].serves


def test_a_client_that_goes_as_its_session_begins_gets_no_answer(world: EnsembleWorld) -> None:
    """The session begins all the same, and nobody is attached to it."""
    world.lag(1)
    peer = world[1].open()
    peer.connect()
    peer.connection.abort("gone")
    world.catch_up([1])
    assert peer.handshake is None
    (session,) = world[1].engine.sessions
    assert not world[1].engine.serves(session.id)  # type: ignore[attr-defined]


def test_a_session_that_is_moved_as_it_is_attached_is_closed(world: EnsembleWorld) -> None:
    peer = world[2].connect()
    world.lag(1)
    world[3].connect().create("/x")
    moved = world[1].connect(session_id=peer.session_id, password=peer.password)
    assert moved.handshake is None
    world.ensemble.move(peer.session_id, world.ensemble.members[3])
    world.catch_up([1])
    assert moved.handshake is None
    assert moved.closed


def test_a_session_that_is_attached_is_alive_from_then_on(world: EnsembleWorld) -> None:
    peer = world[3].connect(timeout=1000)
    for _ in range(5):
        world.pass_time(0.75)
        moved = world[1].connect(session_id=peer.session_id, password=peer.password, timeout=1000)
        assert moved.session_id == peer.session_id


# --- what a server says of itself --------------------------------------------------------------------------


def test_a_service_knows_its_server(world: EnsembleWorld) -> None:
    for number, role in ((1, "follower"), (3, "leader"), (4, "observer")):
        service: Any = world[number].service
        assert (service.server_id, service.mode) == (number, role)
        assert (service.serves, service.is_read_only) == (True, False)
    world.kill(3)
    service = world[1].service
    assert (service.serves, service.mode) == (False, "looking")


def test_a_test_that_lets_go_of_one_server_still_controls_the_ensemble(world: EnsembleWorld) -> None:
    world[1].service.is_controlled = True
    world[2].service.is_controlled = False
    assert all(server.service.is_controlled for server in world.servers.values())


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1:2181"), ("::1", "[::1]:2181")])
def test_where_clients_find_a_server(host: str, address: str) -> None:
    world = EnsembleWorld(1, host=host, port=2181)
    assert world.ensemble.members[1].client_address == address
    world[1].service.address = ("fd00::1", 7)
    assert world.ensemble.members[1].client_address == "[fd00::1]:7"


def test_numbers_that_end_in_the_same_byte_are_not_the_same(world: EnsembleWorld) -> None:
    other = EnsembleWorld(numbers=[1, 257 + 1, 127, 128])
    assert [other[number].connect().session_id >> 56 for number in (1, 258, 127, 128)] == [1, 2, 127, -128]


def test_reads_of_a_session_wait_behind_its_writes_alone(world: EnsembleWorld) -> None:
    peer, other = world[1].connect(), world[1].connect()
    world.lag(1)
    Later(peer).create("/x")
    for read in ("exists", "get"):
        getattr(Later(peer), read)("/x")
    Later(peer).ping()
    assert other.exists("/x").err == errors.NoNodeError.code
    assert other.ping().err == 0
    assert peer.take_all() == []
    world.catch_up([1])
    assert [arrival.err for arrival in peer.take_all()] == [0, 0, 0, 0]
    assert peer.connection.outstanding == 0
    assert peer.exists("/x").err == 0


def test_writes_of_a_session_are_answered_in_their_order(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.lag(1)
    for path in ("/a", "/b"):
        Later(peer).create(path)
    Later(peer).sync("/")
    Later(peer).exists("/b")
    Later(peer).create("/b")
    world.ensemble.lag(world.ensemble.members[1], world.zxid(1) + 1)
    assert [arrival.err for arrival in peer.take_all()] == [0]
    world.catch_up([1])
    assert [arrival.err for arrival in peer.take_all()] == [0, 0, 0, errors.NodeExistsError.code]


def test_what_a_server_that_lags_takes_next(world: EnsembleWorld) -> None:
    member = world.ensemble.members[1]
    assert member.takes_at == NEVER, "nothing waits"
    world.lag(1, delay=300)
    now = world.ensemble.now
    world[3].connect().create("/x")
    assert member.takes_at == now + 300
    world.freeze(1)
    assert member.takes_at == NEVER
    world.thaw(1)
    world.partition([[1]], True)
    assert member.takes_at == NEVER
    world.heal([1])
    world.pass_time(0.299)
    assert "/x" not in world[1].engine.tree.nodes
    world.pass_time(0.001)
    assert "/x" in world[1].engine.tree.nodes
    world.catch_up([1])
    world.lag(1)
    world[3].connect().create("/y")
    assert member.takes_at == NEVER, "only a test lets it go on"
