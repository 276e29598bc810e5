"""The members change while the ensemble runs (ensemble.md section 10): who sees it, resigns, is closed."""

from __future__ import annotations

import pytest

from pyzk.protocol import errors
from pyzk.protocol import records as r
from pyzk.protocol.digest import digest_id
from pyzk.protocol.operations import OpCode
from pyzk.server.config.members import MemberError, ServerAddress

from ...support.ensemble import EnsembleWorld, Later, MemberWorld
from ...support.tree import contents
from ...support.wire import Reply
from ...support.world import START, Peer
from .noting import NotingPort

CONFIG = "/zookeeper/config"


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes. A tick is 500 ms."""
    return EnsembleWorld(3, 1, reconfig_enabled=True, super_digest=digest_id("super:secret"))


def super_client(world: EnsembleWorld, server: int) -> Peer:
    peer = world[server].connect(timeout=20_000)
    assert peer.auth("digest", b"super:secret").err == 0
    return peer


def line(number: int, role: str = "participant", port: int = 0) -> str:
    host = f"127.0.0.1:{2887 + number}:{3887 + number}"
    return f"server.{number}={host}:{role};127.0.0.1:{port or 20_000 + number}"


def body(
    joining: str | None = None, leaving: str | None = None, members: str | None = None, version: int = -1
) -> r.ReconfigRequest:
    return r.ReconfigRequest(joining, leaving, members, version)


def numbers(world: EnsembleWorld, server: int) -> list[int]:
    """The members that a server knows."""
    return list(world.ensemble.members[server].config.members)


def test_a_change_is_answered_and_seen_by_all(world: EnsembleWorld) -> None:
    peer, watching = super_client(world, 1), world[2].connect()
    watching.get(CONFIG, watch=True)
    before = world.zxid(3)
    reply = peer.request(OpCode.RECONFIG, body(leaving="4"))
    assert (reply.err, reply.zxid) == (0, before + 1)
    assert reply.record.data == world.ensemble.config.text.encode()
    assert reply.record.stat.mzxid == before + 1
    assert reply.record.data.endswith(f"version={before + 1:x}".encode())
    assert [event.path for event in watching.take_events()] == [CONFIG]
    assert world.ensemble.config.version == before + 1
    for server in (1, 2, 3, 4):
        assert numbers(world, server) == [1, 2, 3]
        assert world[server].engine.tree.nodes[CONFIG].data == reply.record.data
    assert peer.create("/x").err == 0


@pytest.mark.parametrize("server", [1, 3])
def test_one_change_at_a_time(world: EnsembleWorld, server: int) -> None:
    peer, other = super_client(world, server), super_client(world, 2)
    world.hold("acks")
    Later(peer).request(OpCode.RECONFIG, body(leaving="4"))
    Later(other).request(OpCode.RECONFIG, body(leaving="4"))
    Later(other).create("/x")
    world.release_acks()
    answers = [*peer.take_all(), *other.take_all()]
    codes = [arrival.err for arrival in answers if isinstance(arrival, Reply)]
    assert codes == [0, errors.ReconfigInProgressError.code, 0]
    assert other.request(OpCode.RECONFIG, body(joining=line(4, "observer"))).err == 0, "it is over"


def test_servers_that_do_not_follow_are_no_quorum(world: EnsembleWorld) -> None:
    peer = super_client(world, 1)
    joining = ",".join(line(number) for number in (5, 6, 7))
    reply = peer.request(OpCode.RECONFIG, body(joining=joining))
    assert reply.err == errors.NewConfigNoQuorumError.code
    assert numbers(world, 1) == [1, 2, 3, 4]
    assert peer.request(OpCode.RECONFIG, body(joining=line(5))).err == 0, "3 of 4 follow"


def test_who_may_change_the_members(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    assert peer.request(OpCode.RECONFIG, body(leaving="4")).err == errors.NoAuthError.code
    assert numbers(world, 1) == [1, 2, 3, 4]
    version = world.ensemble.config.version
    peer = super_client(world, 1)
    wrong = peer.request(OpCode.RECONFIG, body(leaving="4", version=version + 1))
    assert wrong.err == errors.BadVersionError.code
    assert peer.request(OpCode.RECONFIG, body(leaving="4", version=version)).err == 0


def test_how_many_must_vote_at_least() -> None:
    for standalone, code in ((True, errors.BadArgumentsError.code), (False, 0)):
        world = EnsembleWorld(
            3,
            reconfig_enabled=True,
            standalone_enabled=standalone,
            super_digest=digest_id("super:secret"),
        )
        peer = super_client(world, 3)
        assert peer.request(OpCode.RECONFIG, body(leaving="1,2")).err == code


def test_a_server_whose_role_changes_closes_its_clients(world: EnsembleWorld) -> None:
    peer = super_client(world, 1)
    at = {server: world[server].connect() for server in (2, 3, 4)}
    assert peer.request(OpCode.RECONFIG, body(joining=line(4))).err == 0
    assert {server: each.closed for server, each in at.items()} == {2: False, 3: False, 4: True}
    assert (world.role(4), world.ensemble.members[4].votes) == ("follower", True)
    other = world[4].connect()
    assert peer.request(OpCode.RECONFIG, body(joining=line(2, "observer"))).err == 0
    assert (other.closed, at[2].closed) == (False, True)
    assert world.role(2) == "observer"


def test_a_leader_that_leaves_answers_and_resigns(world: EnsembleWorld) -> None:
    peer, other = super_client(world, 3), world[1].connect()
    Later(peer).request(OpCode.RECONFIG, body(leaving="3"))
    answers = peer.take_all()
    assert [arrival.err for arrival in answers if isinstance(arrival, Reply)] == [0]
    assert peer.closed
    assert other.closed
    assert world.role(3) == "looking"
    world.pass_time(1)
    assert world.leader == 2
    assert world.role(3) == "follower"
    assert not world.ensemble.members[3].votes


def test_a_leader_that_was_voted_out_commits_nothing_more(world: EnsembleWorld) -> None:
    """Its own server has not applied that yet. It finds out at its next check, a tick later at the latest."""
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    peer, other = super_client(world, 1), world[3].connect()
    world.lag(3)
    Later(peer).request(OpCode.RECONFIG, body(leaving="3"))
    assert peer.closed, "its server has lost its leader"
    assert world.role(3) == "leader"
    committed = world.ensemble.log.committed
    Later(other).create("/x")
    assert other.take_all() == []
    assert world.ensemble.log.committed == committed
    world.pass_time(0.5)
    assert (3, "serves nobody: the members have changed, and it cannot lead them") in told
    assert other.closed
    world.pass_time(0.2)
    assert world.leader == 2


def test_a_leader_whose_quorum_has_gone_says_so(world: EnsembleWorld) -> None:
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    world.kill(1)
    world.kill(2)
    world.pass_time(0.5)
    reasons = [text for number, text in told if number == 3]
    assert reasons[0].startswith("serves nobody: no quorum follows it, which is ")


def test_a_follower_that_asks_for_another_role_gets_no_answer(world: EnsembleWorld) -> None:
    """It resigns first."""
    peer = super_client(world, 1)
    Later(peer).request(OpCode.RECONFIG, body(joining=line(1, "observer")))
    assert peer.closed
    assert peer.take_all() == []
    assert world.role(1) == "observer"


def test_a_server_moves_to_the_port_that_its_line_names(world: EnsembleWorld) -> None:
    ports = {number: NotingPort() for number in world.servers}
    for number, member in world.ensemble.members.items():
        member.port = ports[number]
    peer = super_client(world, 2)
    assert peer.request(OpCode.RECONFIG, body(joining=line(1, port=20_077))).err == 0
    moves = {number: [asked for asked in port.take() if "move" in asked] for number, port in ports.items()}
    assert moves == {1: ["move to 20077"], 2: [], 3: [], 4: []}
    assert peer.request(OpCode.RECONFIG, body(leaving="4")).err == 0
    assert all("move" not in asked for port in ports.values() for asked in port.take())


@pytest.mark.parametrize("writes", [10, 1100])
def test_a_server_that_returns_knows_the_members(world: EnsembleWorld, writes: int) -> None:
    peer = super_client(world, 3)
    world.kill(1)
    assert peer.request(OpCode.RECONFIG, body(leaving="4")).err == 0
    for number in range(writes):
        peer.create(f"/{number}")
    world.start(1)
    assert (1 in world.ensemble.copied) is (writes > 1000)
    assert numbers(world, 1) == [1, 2, 3]
    assert world.zxid(1) == world.zxid(3)
    assert world.ensemble.members[1].position == world.ensemble.members[3].position
    assert world.ensemble.members[1].logged == world.ensemble.log.committed
    peer.create("/last")
    assert contents(world[1].engine.tree) == contents(world[3].engine.tree)


def test_a_process_that_is_added_has_what_the_others_have(world: EnsembleWorld) -> None:
    peer = super_client(world, 3)
    mine = world[1].connect()
    mine.create("/mine", flags=1)
    member = world.ensemble.add(ServerAddress.parse("5", line(5).partition("=")[2]))
    world.servers[5] = MemberWorld(world, member, world.ensemble._settings)
    assert not member.up
    world.ensemble.bring_in(member)
    assert world.ensemble.copied == {5}
    assert not member.votes
    assert (member.engine.zxid, member.position) == (world.zxid(3), world.ensemble.members[3].position)
    assert {session.id for session in member.engine.sessions} == {peer.session_id, mine.session_id}
    assert contents(member.engine.tree) == contents(world[3].engine.tree)
    assert member.engine.tree is not world[3].engine.tree
    world.start(5)
    assert world.role(5) == "follower"
    assert peer.request(OpCode.RECONFIG, body(joining=line(5))).err == 0
    assert member.votes
    mine.close_session()
    assert "/mine" not in member.engine.tree.nodes
    assert world[5].now >= START
    with pytest.raises(MemberError, match="servers 5 and 261"):
        world.ensemble.add(ServerAddress.parse("261", "127.0.0.1:1:2"))
    assert 261 not in world.ensemble.members


def test_a_copy_forgets_the_sessions_that_have_ended(world: EnsembleWorld) -> None:
    gone, peer = world[1].connect(), world[3].connect()
    world.kill(1)
    world[2].connect(session_id=gone.session_id, password=gone.password).close_session()
    new = world[2].connect()
    for number in range(1100):
        peer.create(f"/{number}")
    world.start(1)
    assert {session.id for session in world[1].engine.sessions} == {peer.session_id, new.session_id}


def test_a_new_leader_begins_a_new_epoch_of_zxids(world: EnsembleWorld) -> None:
    world[1].connect().create("/x")
    world.elect(2)
    epoch = world.ensemble.epoch
    assert world.zxid(2) == epoch << 32
    assert world.zxid(1) < epoch << 32, "it has applied nothing of that epoch"
    assert world[1].connect().create("/y").zxid == (epoch << 32) + 2
    assert world.ensemble.leader().committed == world.ensemble.log.committed
