"""Sessions that one server alone knows of (ensemble.md section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.wire import hello
from pyzk.protocol import errors
from pyzk.protocol.constants import CreateMode
from pyzk.server.core.txn import CreateSession, Refused

from ...support.ensemble import EnsembleWorld, Later
from ...support.requests import create_op, set_op
from ...support.world import Peer

EPHEMERAL = CreateMode.EPHEMERAL


def servers(upgrading: bool = True, **settings: Any) -> EnsembleWorld:
    return EnsembleWorld(3, 1, local_sessions=True, local_sessions_upgrading=upgrading, **settings)


def is_known(world: EnsembleWorld, server: int, peer: Peer) -> bool:
    """Whether a server lets a client go on with a session."""
    answer = world[server].connect(session_id=peer.session_id, password=peer.password, timeout=2000)
    return answer.session_id == peer.session_id


def figure(world: EnsembleWorld, server: int, key: str) -> int:
    text = world[server].open().exchange(b"mntr").decode()
    return int(next(line.split("\t")[1] for line in text.splitlines() if line.startswith(f"zk_{key}\t")))


def test_they_take_no_zxid() -> None:
    world = servers()
    before = world.zxid(3)
    peers = [world[number].connect() for number in world.servers]
    peers[0].close_session()
    assert [world.zxid(number) for number in world.servers] == [before] * 4
    assert [figure(world, number, "local_sessions") for number in world.servers] == [0, 1, 1, 1]
    assert [figure(world, number, "global_sessions") for number in world.servers] == [0] * 4
    assert len({peer.session_id for peer in peers}) == 4


def test_they_begin_on_a_server_that_lags() -> None:
    world = servers()
    world.lag(1)
    peer = world[1].connect()
    assert peer.exists("/").err == 0
    assert is_known(world, 1, peer)


def test_the_first_ephemeral_makes_them_global() -> None:
    world = servers()
    peer = world[1].connect(timeout=2000)
    before = world.zxid(3)
    assert peer.create("/mine", flags=EPHEMERAL).zxid == before + 2
    assert isinstance(world.txns[1][-2].effect, CreateSession)
    assert all(figure(world, number, "global_sessions") == 1 for number in world.servers)
    assert figure(world, 1, "local_sessions") == 0
    assert is_known(world, 4, peer)
    world.pass_time(2.0)
    assert world[2].connect().exists("/mine").err == 0
    world.pass_time(0.6)
    assert world[2].connect().exists("/mine").err == errors.NoNodeError.code
    assert peer.closed


def test_while_the_log_stands_they_are_neither() -> None:
    world = servers()
    peer = world[1].connect(timeout=1000)
    world.lag(1)
    Later(peer).create("/mine", flags=EPHEMERAL)
    Later(peer).create("/also", flags=EPHEMERAL)
    assert not peer.take_all()
    assert world.zxid(3) == world.zxid(1) + 3, "it becomes global once"
    for _ in range(4):
        world.pass_time(0.5)
        Later(peer).ping()
        peer.feed()
    world.catch_up([world.ensemble.members[1]])
    assert [reply.err for reply in peer.take_all()[:2]] == [0, 0]  # type: ignore[union-attr]
    assert is_known(world, 2, peer)


def test_they_are_lost_with_the_leader_while_they_become_global() -> None:
    world = servers()
    peer = world[3].connect()
    world.hold("proposals")
    Later(peer).create("/mine", flags=EPHEMERAL)
    world.kill(3)
    world.pass_time(0.2)
    world.start(3)
    assert not is_known(world, 3, peer)
    assert [list(server.service.engine.sessions) for server in world.servers.values()] == [[]] * 4
    assert world[1].connect().exists("/mine").err == errors.NoNodeError.code


@pytest.mark.parametrize(("server", "code"), [(3, -120), (1, -112), (4, -112)])
def test_without_upgrading_an_ephemeral_is_refused(server: int, code: int) -> None:
    world = servers(upgrading=False)
    peer = world[server].connect()
    peer.create("/x", b"0")
    assert peer.create("/mine", flags=EPHEMERAL).err == errors.EphemeralOnLocalSessionError.code
    reply = peer.multi(set_op("/x", b"1"), create_op("/mine", flags=EPHEMERAL), create_op("/y"))
    assert reply.err == 0, "the parts have the error"
    assert [result.err for result in reply.results] == [0, code, -2]
    assert world.txns[server][-1].effect == Refused(code)
    reply = peer.multi(set_op("/none", b"1"), create_op("/mine", flags=EPHEMERAL))
    assert [result.err for result in reply.results] == [errors.NoNodeError.code, -2]
    assert peer.get("/x").record.data == b"0"
    assert not is_known(world, 2, peer)


def test_requests_of_one_are_answered_in_their_order() -> None:
    world = servers()
    peer = world[1].connect()
    world.lag(1)
    Later(peer).create("/x")
    Later(peer).close_session()
    assert not peer.take_all()
    world.catch_up([world.ensemble.members[1]])
    assert [reply.err for reply in peer.take_all()] == [0, 0]  # type: ignore[union-attr]
    assert peer.closed
    assert not is_known(world, 1, peer)


def test_their_own_server_keeps_their_clock() -> None:
    world = servers()
    peer = world[1].connect(timeout=1000)
    other = world[2].connect(timeout=1000)
    world.partition([[1]], True)
    for _ in range(4):
        world.pass_time(0.4)
        peer.ping()
    assert (peer.closed, other.closed) == (False, True)
    world.pass_time(1.5)
    assert peer.closed, "nobody else has to agree"
    assert figure(world, 2, "local_sessions") == 0


def test_containers_are_deleted_by_the_leader_alone() -> None:
    world = servers(container_check_interval=1000)
    peer = world[1].connect(timeout=10_000)
    peer.create("/c", op=19)
    peer.create("/c/x")
    peer.delete("/c/x")
    world.lag(1)
    world[1].connect(timeout=1000)
    world.pass_time(2)
    assert peer.exists("/c").err == 0
    world.catch_up([world.ensemble.members[1]])
    assert peer.exists("/c").err == errors.NoNodeError.code


def test_each_attach_negotiates_the_timeout() -> None:
    world = servers()
    first = world[1].connect(timeout=2000)
    shown = {"session_id": first.session_id, "password": first.password}
    second = world[1].connect(**shown, timeout=8000)
    assert second.handshake is not None
    assert second.handshake.timeout == 8000
    world.pass_time(7.5)
    assert not second.closed
    world.pass_time(1.5)
    assert second.closed


def test_without_upgrading_the_refusal_of_a_create_is_a_bare_header() -> None:
    peer = servers(upgrading=False)[1].connect()
    reply = peer.create("/mine", flags=EPHEMERAL)
    assert (reply.err, reply.body) == (errors.EphemeralOnLocalSessionError.code, b"")


def test_the_end_of_one_is_answered_by_a_bare_header() -> None:
    peer = servers()[1].connect()
    reply = peer.close_session()
    assert (reply.err, reply.body) == (0, b"")
    assert peer.closed


def test_a_test_ends_them() -> None:
    world = servers()
    peer = world[1].connect()
    world.ensemble.expire(peer.session_id, 0)
    assert peer.closed
    assert [figure(world, number, "stale_sessions_expired") for number in world.servers] == [1, 0, 0, 0]
    assert not is_known(world, 1, peer)


# --- read-only servers (7.2, the last column) ---------------------------------------------------------------


@pytest.fixture
def alone() -> EnsembleWorld:
    """Server 1 has been alone for 2 s."""
    world = servers(read_only_mode=True)
    world[1].connect(timeout=10_000).create("/x", b"data", flags=EPHEMERAL)
    for number in (4, 3, 2):
        world.kill(number)
    world.pass_time(2)
    assert world.role(1) == "read-only"
    return world


def test_a_read_only_server_has_sessions_of_its_own(alone: EnsembleWorld) -> None:
    before = alone.zxid(1)
    peer = alone[1].connect(read_only=True, timeout=1000)
    assert peer.handshake is not None
    assert peer.handshake.extra == b"\1"
    assert peer.session_id >> 56 == 1
    assert peer.get("/x").record.data == b"data"
    for reply in (peer.set("/x", b""), peer.create("/y"), peer.sync("/"), peer.reconfig(), peer.multi()):
        assert (reply.err, reply.zxid, reply.body) == (errors.NotReadOnlyError.code, before, b"")
    again = alone[1].connect(read_only=True, session_id=peer.session_id, password=peer.password)
    assert again.session_id == peer.session_id
    assert peer.closed
    assert again.close_session().zxid == before
    assert again.closed
    answer = alone[1].open().exchange(hello(1000, peer.session_id, peer.password, read_only=True))
    assert (answer[8:20], answer[-1:]) == (bytes(12), b"\1")


def test_its_sessions_end_by_its_own_clock_and_with_its_time(alone: EnsembleWorld) -> None:
    short = alone[1].connect(read_only=True, timeout=1000)
    long = alone[1].connect(read_only=True, timeout=10_000)
    alone.pass_time(1.5)
    assert (short.closed, long.closed) == (True, False)
    alone.start(2)
    alone.pass_time(0.2)
    assert long.closed
    assert not is_known(alone, 1, long)


def test_it_takes_no_session_of_the_ensemble(alone: EnsembleWorld) -> None:
    (session,) = alone[1].engine.sessions
    peer = alone[1].open()
    assert peer.exchange(hello(1000, session.id, session.password, read_only=True)) == b""
    assert peer.closed
