"""What servers send, and when: with ports that note what they are asked for."""

from __future__ import annotations

import pytest

from pyzk.protocol.operations import OpCode
from pyzk.server.net.connection import Connection
from pyzk.server.net.gate import Gate

from ...support.ensemble import EnsembleWorld, Later
from .noting import NotingPort


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes."""
    return EnsembleWorld(3, 1)


@pytest.fixture
def ports(world: EnsembleWorld) -> dict[int, NotingPort]:
    return with_ports(world)


def with_ports(world: EnsembleWorld) -> dict[int, NotingPort]:
    ports = {number: NotingPort() for number in world.servers}
    for number, member in world.ensemble.members.items():
        member.port = ports[number]
    return ports


def flushed(ports: dict[int, NotingPort]) -> list[int]:
    """The servers that were flushed once since the last time; none was flushed twice."""
    taken = {number: port.take() for number, port in ports.items()}
    assert all(asked in ([], ["flush"]) for asked in taken.values()), taken
    return [number for number, asked in taken.items() if asked]


def test_servers_with_something_to_send_send_it_once(
    world: EnsembleWorld, ports: dict[int, NotingPort]
) -> None:
    watching = world[1].connect()
    watching.exists("/x", watch=True)
    writer = world[2].connect()
    flushed(ports)
    writer.create("/x")
    assert flushed(ports) == [1], "the event; the reply is sent in the turn of who asked"
    world.ensemble.flush()
    assert flushed(ports) == [], "it is sent already"
    assert len(watching.take_events()) == 1


def test_a_late_answer_is_sent_as_it_comes(world: EnsembleWorld, ports: dict[int, NotingPort]) -> None:
    peer = world[1].connect()
    world.lag(1)
    for port in ports.values():
        port.take()
    Later(peer).create("/x")
    assert flushed(ports) == []
    world.catch_up([1])
    assert flushed(ports) == [1]


def test_a_late_answer_to_a_sync_is_sent_as_it_comes(
    world: EnsembleWorld, ports: dict[int, NotingPort]
) -> None:
    """Nothing is committed with it."""
    peer = world[1].connect()
    world.hold("acks")
    Later(world[2].connect()).create("/x")
    world.release_acks()
    flushed(ports)
    world.partition([[1]], True)
    Later(peer).sync("/")
    flushed(ports)
    world.heal([1])
    assert flushed(ports) == [1]


@pytest.mark.parametrize("timeout", [1000])
def test_the_end_of_a_session_is_sent(
    world: EnsembleWorld, ports: dict[int, NotingPort], timeout: int
) -> None:
    peer = world[1].connect(timeout=timeout)
    flushed(ports)
    world.ensemble.expire(peer.session_id, world.ensemble.now)
    assert peer.closed
    assert flushed(ports) == [1]
    other = world[2].connect(timeout=timeout)
    flushed(ports)
    world.pass_time(3)
    assert other.closed
    assert ports[2].take() == ["flush"]


def test_the_end_of_a_local_session_is_sent() -> None:
    world = EnsembleWorld(3, local_sessions=True)
    ports = with_ports(world)
    peer = world[1].connect()
    world.ensemble.expire(peer.session_id, world.ensemble.now)
    assert peer.closed
    assert flushed(ports) == [1]


def test_a_session_that_is_moved_is_closed_at_once(
    world: EnsembleWorld, ports: dict[int, NotingPort]
) -> None:
    peer = world[1].connect()
    flushed(ports)
    world.ensemble.move(peer.session_id, world.ensemble.members[2])
    assert peer.closed
    assert flushed(ports) == [1]
    world.ensemble.move(peer.session_id, world.ensemble.members[2])
    assert flushed(ports) == [], "it has no connection"


def test_ports_open_and_close_with_their_process(world: EnsembleWorld, ports: dict[int, NotingPort]) -> None:
    world.kill(1)
    assert "close" in ports[1].take()
    world.kill(1)
    assert ports[1].take() == []
    world.start(1)
    assert "open" in ports[1].take()
    for number in (2, 3, 4):
        assert not {"open", "close"} & set(ports[number].take())


def test_a_process_without_sockets_starts_and_ends_too(world: EnsembleWorld) -> None:
    world.kill(1)
    assert world.role(1) == "down"
    world.start(1)
    assert world.role(1) == "follower"


def test_a_frozen_server_takes_nothing_the_short_way(world: EnsembleWorld) -> None:
    one, other = world[1].connect(), world[1].connect()
    for peer in (one, other):
        peer.exists("/")
        assert peer.connection.fast_session is not None
    world.freeze(1)
    assert (one.connection.fast_session, other.connection.fast_session) == (None, None)
    late = one.exchange(one.encode(OpCode.EXISTS, b"\0\0\0\1/\0"))
    assert late == b""
    world.thaw(1)
    one.feed()
    assert one.reply().err == 0


def test_a_reply_has_the_gate_of_its_own_server(world: EnsembleWorld) -> None:
    told: list[int] = []

    class Counting(Gate):
        def answered(
            self, connection: Connection, op: int, frame: bytes, result: tuple[int, int, bytes], now: float
        ) -> None:
            told.append(op)
            super().answered(connection, op, frame, result, now)

    world[1].service.gate = Counting()
    for number in (1, 2):
        peer = world[number].connect()
        world.lag(number)
        Later(peer).create("/x")
        world.catch_up([number])
        assert len(peer.take_all()) == 1
    assert told == [OpCode.CREATE]
