"""How the leader prepares writes, whose sessions it keeps, and when it finds that nobody follows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyzk.protocol import errors
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import ExistsRequest
from pyzk.server.core.sessions import NEVER
from pyzk.server.core.txn import CloseSession, CreateSession
from pyzk.server.ensemble.errors import EnsembleError
from pyzk.server.testing.tree_io import Loader

from ...support.ensemble import EnsembleWorld, Later
from ...support.requests import create_op
from ...support.world import EPOCH, Peer


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes. A tick is 500 ms."""
    return EnsembleWorld(3, 1)


def codes(peer: Any) -> list[int]:
    return [arrival.err for arrival in peer.take_all()]


def move(world: EnsembleWorld, peer: Peer, server: int) -> None:
    world.ensemble.move(peer.session_id, world.ensemble.members[server])


def lag_by_one(world: EnsembleWorld, server: int) -> None:
    """Let a server apply one entry more, and no other."""
    world.ensemble.lag(world.ensemble.members[server], world.zxid(server) + 1)


EXISTS, NONE = errors.NodeExistsError.code, errors.NoNodeError.code


# --- preparing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [1, 3])
@pytest.mark.parametrize("what", ["acks", "proposals"])
def test_writes_are_prepared_behind_those_that_are_only_proposed(
    world: EnsembleWorld, server: int, what: str
) -> None:
    peer = world[server].connect()
    world.hold(what)
    for path in ("/x", "/x", "/x/y"):
        Later(peer).create(path)
    Later(peer).multi(create_op("/x/y/z"), create_op("/x/y"))
    Later(peer).delete("/none")
    assert "/x" not in world[3].engine.tree.nodes, "visible nowhere"
    world.release_acks()
    assert codes(peer) == [0, EXISTS, 0, 0, NONE]
    assert peer.create("/x/y/z").err == 0
    assert peer.delete("/x").err == errors.NotEmptyError.code


def test_writes_are_prepared_behind_those_that_the_leaders_own_server_has_not_applied(
    world: EnsembleWorld,
) -> None:
    peer = world[1].connect()
    world.lag(3)
    assert [peer.create(path).err for path in ("/x", "/x", "/x/y")] == [0, EXISTS, 0]
    assert "/x" not in world[3].engine.tree.nodes
    world.catch_up([3])
    assert "/x/y" in world[3].engine.tree.nodes
    assert [peer.create(path).err for path in ("/x/y", "/x/z")] == [EXISTS, 0]
    assert "/x/z" in world[3].engine.tree.nodes


def test_there_is_no_further_tree_while_writes_are_applied_at_once(world: EnsembleWorld) -> None:
    peer, leader = world[1].connect(), world.ensemble.leader()
    own = world[3].engine.tree
    peer.create("/x")
    assert leader.tree is own
    assert leader.reaper.tree is own
    for hold, release in (
        (lambda: world.lag(3), lambda: world.catch_up([3])),
        (lambda: world.hold("acks"), world.release_acks),
    ):
        hold()
        Later(peer).set("/x", b"")
        assert leader.tree is not own
        assert leader.reaper.tree is leader.tree
        release()
        peer.take_all()
        peer.set("/x", b"")
        assert leader.tree is own


def test_a_lag_of_the_leader_up_to_a_zxid(world: EnsembleWorld) -> None:
    """It applies some of what it has prepared elsewhere."""
    peer = world[1].connect()
    lag_by_one(world, 3)
    assert [peer.create(path).err for path in ("/x", "/y", "/y")] == [0, 0, EXISTS]
    tree = world[3].engine.tree.nodes
    assert ("/x" in tree, "/y" in tree) == (True, False)
    world.catch_up([3])
    assert "/y" in tree
    assert peer.create("/y").err == EXISTS


def test_without_a_quorum_nothing_is_seen_before_it_is_committed(world: EnsembleWorld) -> None:
    peer = world[3].connect()
    world.freeze(1)
    world.freeze(2)
    Later(peer).create("/x")
    Later(peer).exists("/x")
    assert codes(peer) == []
    other = world[3].connect()
    assert other.handshake is None, "a session needs the log too"
    world.thaw(1)
    assert codes(peer) == [0, 0]


def test_the_end_of_a_session_that_is_only_proposed_waits_as_well(world: EnsembleWorld) -> None:
    peer, other = world[1].connect(), world[2].connect()
    peer.create("/mine", flags=1)
    world.hold("acks")
    world.ensemble.expire(peer.session_id, world.ensemble.now)
    assert "/mine" in world[3].engine.tree.nodes
    Later(other).create("/mine")
    world.release_acks()
    assert codes(other) == [0], "it was gone by then"
    assert peer.closed


def test_requests_have_the_time_at_which_they_come(world: EnsembleWorld) -> None:
    """It is not the time at which anything was due last."""
    peer = world[1].connect()
    before = world.txns[1][-1].time
    world.now += 0.123
    peer.create("/x")
    assert world.txns[1][-1].time == before + 123
    world.now += 0.1
    assert peer.exists("/x").err == 0
    assert world.ensemble.now == int(world.now * 1000)


# --- sessions ----------------------------------------------------------------------------------------------


def test_a_session_goes_on_at_a_leader_whose_own_server_does_not_know_it_yet(world: EnsembleWorld) -> None:
    world.lag(3)
    peer = world[1].connect(timeout=4000)
    assert peer.session_id
    moved = world[3].connect(session_id=peer.session_id, password=peer.password, timeout=6000)
    assert moved.session_id == peer.session_id
    assert moved.handshake is not None
    assert moved.handshake.timeout == 6000
    assert moved.exists("/").err == 0
    world.catch_up([3])
    assert moved.create("/x").err == 0
    assert [type(txn.effect) for txn in world.txns[3]][:1] == [CreateSession]


def test_a_new_leader_keeps_the_timeouts_of_the_log(world: EnsembleWorld) -> None:
    """Not those that were negotiated since, and it begins their clocks afresh."""
    peer = world[1].connect(timeout=2000)
    world[1].connect(session_id=peer.session_id, password=peer.password, timeout=8000)
    world.pass_time(1.5)
    world.elect(2)
    session = world.ensemble.leader().sessions.get(peer.session_id)
    assert session is not None
    assert session.timeout == 2000
    world.pass_time(1.9)
    assert world.ensemble.leader().sessions.get(peer.session_id) is not None
    world.pass_time(1)
    assert world.ensemble.leader().sessions.get(peer.session_id) is None
    assert isinstance(world.txns[1][-1].effect, CloseSession)


def test_only_the_leader_ends_a_session_and_knows_which_there_are(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    with pytest.raises(LookupError, match=f"there is no session 0x{5:x}"):
        world.ensemble.expire(5, world.ensemble.now)
    world.kill(3)
    with pytest.raises(EnsembleError, match="no server leads"):
        world.ensemble.expire(peer.session_id, world.ensemble.now)
    world.pass_time(1)
    world.ensemble.expire(peer.session_id, 0)
    assert world.ensemble.leader().sessions.get(peer.session_id) is None
    assert world.ensemble.now == int(world.now * 1000), "time does not go back"


def test_without_a_password_no_session_goes_on(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    other = world[2].connect(session_id=peer.session_id, password=None)
    assert other.session_id == 0
    assert not world.ensemble.knows(peer.session_id, None)
    assert not world.ensemble.knows(peer.session_id, peer.password[:-1])
    assert world.ensemble.knows(peer.session_id, peer.password)


def test_passwords_are_those_of_a_secret_and_of_the_session(world: EnsembleWorld) -> None:
    ensemble = world.ensemble
    passwords = [ensemble.password_of(session_id) for session_id in (1, 2, -1, 2**63 - 1, -(2**63))]
    assert len(set(passwords)) == 5
    assert {len(password) for password in passwords} == {16}
    assert EnsembleWorld(3).ensemble.password_of(1) == passwords[0], "the same secret"
    members = [member.address for member in ensemble.members.values()]
    others = {
        type(ensemble)(ensemble._settings, members, now=0, epoch=0, secret=secret).password_of(1)
        for secret in (None, None, b"t")
    }
    assert len(others | {passwords[0]}) == 4, "random by default"


def test_moving_to_a_server_that_serves_nobody_any_more_is_over(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    shown = {"session_id": peer.session_id, "password": peer.password}
    move(world, peer, 2)
    for number in (1, 3, 4):
        assert world[number].connect(**shown).closed
    world.freeze(2)
    assert world[1].connect(**shown).session_id == peer.session_id


def test_a_session_that_has_come_is_free_to_go_on_elsewhere(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    shown = {"session_id": peer.session_id, "password": peer.password}
    move(world, peer, 2)
    assert world[2].connect(**shown).session_id == peer.session_id
    assert world[1].connect(**shown).session_id == peer.session_id


def test_a_session_that_has_ended_has_no_owner_and_no_target(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    moved = world[2].connect(session_id=peer.session_id, password=peer.password)
    leader = world.ensemble.leader()
    assert leader.owners == {peer.session_id: world.ensemble.members[2]}
    move(world, moved, 3)
    assert world.ensemble.redirects._targets == {peer.session_id: world.ensemble.members[3]}
    world.ensemble.expire(peer.session_id, world.ensemble.now)
    assert leader.owners == {}
    assert world.ensemble.redirects._targets == {}


def test_a_session_that_is_where_it_is_wanted_stays_there(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    move(world, peer, 1)
    assert not peer.closed
    other = world[2].connect(session_id=peer.session_id, password=peer.password)
    assert other.session_id == peer.session_id, "nothing keeps it from going"
    world.kill(4)
    with pytest.raises(EnsembleError, match="server 4 serves nobody"):
        move(world, peer, 4)
    assert not other.closed


def test_what_waits_for_the_next_leader_is_lost_with_the_link(world: EnsembleWorld) -> None:
    """It was sent over a link that both ends have given up."""
    peer = world[1].connect(timeout=20_000)
    world.partition([[1]], True)
    Later(peer).create("/x")
    member = world.ensemble.members[1]
    assert len(member.outbox) == 1
    world.pass_time(2.6)
    assert world.role(1) == "looking"
    assert len(member.outbox) == 0
    world.heal([1])
    world.pass_time(1)
    assert world.role(1) == "follower"
    assert "/x" not in world[3].engine.tree.nodes
    assert world[3].engine.tree is not world[1].engine.tree


def test_a_server_that_is_held_up_takes_what_the_leader_sends(world: EnsembleWorld) -> None:
    peer = world[2].connect()
    world.hold_up(1)
    lag_by_one(world, 1)
    for path in ("/x", "/y", "/z"):
        peer.create(path)
    tree = world[1].engine.tree.nodes
    assert ("/x" in tree, "/y" in tree) == (True, False)
    lag_by_one(world, 1)
    assert ("/y" in tree, "/z" in tree) == (True, False)
    world.catch_up([1])
    assert "/z" in tree


# --- looking for a quorum ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "check"), [(0.13, 500), (0.5, 1000), (0.63, 1000), (1.49, 1500)])
def test_a_leader_looks_each_tick_of_its_own_time(before: float, check: int) -> None:
    world = EnsembleWorld(3)
    leader = world.ensemble.leader()
    began = world.ensemble.now
    assert leader.next_check is None
    world.pass_time(before)
    world.kill(1)
    assert leader.next_check is None, "2 of 3 follow"
    world.kill(2)
    assert leader.next_check == began + check
    world.start(1)
    assert leader.next_check is None
    world.kill(1)
    world.pass_time((check - 1) / 1000 - before)
    assert world.role(3) == "leader"
    world.pass_time(0.001)
    assert world.role(3) == "looking"


def test_an_ensemble_at_rest_has_nothing_due_but_what_sessions_need(world: EnsembleWorld) -> None:
    ensemble = world.ensemble
    leader = ensemble.leader()
    assert ensemble.next_deadline() == leader.next_deadline()
    world.freeze(3)
    assert ensemble.next_deadline() == ensemble.now + 5 * 500, "its followers give it up"
    for number in (1, 2, 4):
        world.freeze(number)
    world.thaw(3)
    world.kill(3)
    for number in (1, 2, 4):
        world.kill(number)
    assert ensemble.next_deadline() == NEVER
    assert ensemble.least_delay == NEVER
    world.ensemble.members[1].delay = 70
    world.ensemble.members[2].delay = 30
    assert ensemble.least_delay == 30
    ensemble.advance(ensemble.now + 1234)
    assert ensemble.now == int(world.now * 1000) + 1234


def test_time_never_goes_back(world: EnsembleWorld) -> None:
    now = world.ensemble.now
    world.ensemble.advance(now - 100)
    assert world.ensemble.now == now


def test_the_first_epoch_is_made_of_the_wall_clock() -> None:
    """So no process begins below what an earlier one has reached."""
    world = EnsembleWorld(3, initial_zxid=None)
    assert world.ensemble.epoch == (int(EPOCH * 1000) << 18 >> 32) + 1
    assert {world.zxid(number) for number in (1, 2, 3)} == {world.ensemble.epoch << 32}
    later = EnsembleWorld(3, initial_zxid=7 << 32 | 99)
    assert later.ensemble.epoch == 8
    assert later[1].connect().create("/x").zxid == 8 << 32 | 2


@pytest.mark.parametrize("participants", [1, 2, 3])
def test_the_last_one_that_votes_leads_first(participants: int) -> None:
    world = EnsembleWorld(participants, 1)
    assert world.leader == participants
    assert world.role(participants + 1) == "observer"
    assert world[participants + 1].connect().create("/x").err == 0


def test_signs_of_life_are_told_each_half_tick_while_a_link_is_silent(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.partition([[1]], True)
    peer.ping()
    member, now = world.ensemble.members[1], world.ensemble.now
    for half in (250, 500, 750, 1000):
        assert member.report_at == now + half
        world.pass_time(0.25)


def test_a_server_that_has_heard_of_nobody_reports_nothing(world: EnsembleWorld) -> None:
    member = world.ensemble.members[1]
    assert member.report_at == math.inf
    peer = world[1].connect()
    peer.ping()
    world.pass_time(0.25)
    assert member.report_at == math.inf
    world.partition([[1]], True)
    member.report(world.ensemble.now)
    assert member.report_at == math.inf


def test_a_sign_of_life_is_reported_once_in_half_a_tick(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    session = world[1].engine.sessions.get(peer.session_id)
    assert session is not None
    now = world.ensemble.now
    for passed, until in ((0, 250), (0.1, 250), (0.2, 500)):
        world.pass_time(passed)
        peer.ping()
        assert session.fresh_until == now + until


def test_what_cannot_be_done_is_refused(world: EnsembleWorld) -> None:
    for call, words in (
        (lambda: world.hold_up(3), "server 3 leads"),
        (lambda: world.start(1), "server 1 runs already"),
    ):
        with pytest.raises(EnsembleError, match=words):
            call()
    with pytest.raises(ValueError, match="server 1 does not lead: leave pending= out"):
        world.kill(1, "lost")
    assert world.role(1) == "follower"
    with pytest.raises(ValueError, match=r"there is no server 9; there are 1, 2, 3, 4"):
        world.ensemble.member(9)
    assert world.ensemble.member(2).number == 2
    world.kill(2)
    with pytest.raises(EnsembleError, match="server 2 is down"):
        world.freeze(2)
    assert not world.ensemble.members[2].frozen
    assert not world.ensemble.members[3].is_held_up


def test_a_process_that_ends_is_not_frozen_when_it_starts_again(world: EnsembleWorld) -> None:
    world.freeze(1)
    world.lag(1)
    world.kill(1)
    member = world.ensemble.members[1]
    assert (member.up, member.frozen, world.role(1)) == (False, False, "down")
    world.start(1)
    assert (member.lags, world.role(1)) == (False, "follower")


def test_all_that_happens_to_a_server_is_told(world: EnsembleWorld) -> None:
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    world.kill(1)
    world.start(1)
    assert told == [
        (1, "serves nobody: it was killed"),
        (1, "is down"),
        (1, "is up"),
        (1, "is follower of server 3"),
    ]
    told.clear()
    world.elect(2)
    assert (2, f"is LEADER of epoch 0x{world.ensemble.epoch:x}") in told
    assert (3, "serves nobody: the leader has resigned") in told
    assert repr(world.ensemble.leader()) == f"<Leader 2 of epoch {world.ensemble.epoch}>"
    assert repr(world.ensemble.members[1]) == "<Member 1: follower>"


def test_a_read_of_nobodys_connection_is_answered_by_the_leader(world: EnsembleWorld) -> None:
    later = world.ensemble.now + 777
    frame = bytes(8) + ExistsRequest("/none", False).encode()
    assert world.ensemble.leader().handle(Loader(0), OpCode.EXISTS, frame, later) == (
        *(world.zxid(3), NONE),
        b"",
    )
    assert world.ensemble.now == later


# --- what is told of the end -------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [1, 3])
def test_why_a_connection_ends_with_its_session(
    server: int, world: EnsembleWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "pyzk.server")
    peer, other = world[server].connect(), world[server].connect()
    world.ensemble.expire(peer.session_id, world.ensemble.now)
    assert f"its session 0x{peer.session_id:x} has expired" in caplog.text
    assert "was closed elsewhere" not in caplog.text
    moved = world[2].connect(session_id=other.session_id, password=other.password)
    moved.close_session()
    assert f"its session 0x{other.session_id:x} was closed elsewhere" in caplog.text
    assert other.closed


def test_the_sizes_of_proposals(world: EnsembleWorld) -> None:
    leader = world.ensemble.leader()
    assert leader.proposal_sizes == (-1, -1, -1)
    peer = world[1].connect()
    assert leader.proposal_sizes == (-1, -1, -1), "requests alone count"
    sizes = []
    for data in (b"x" * 50, b"", b"x" * 20):
        peer.create("/x", data)
        peer.take_all()
        sizes.append(leader.proposal_sizes)
    first = sizes[0][0]
    assert sizes == [(first, first, first), (first - 50, first - 50, first), (first - 30, first - 50, first)]


def test_a_local_session_is_closed_once() -> None:
    world = EnsembleWorld(3, local_sessions=True)
    peer = world[1].connect()
    world.lag(1)
    Later(peer).create("/x")
    engine: Any = world[1].engine
    Later(peer).close_session()
    Later(peer).close_session()
    Later(peer).exists("/x")
    assert engine.outstanding == 2, "the session is over once what it waits for has come"
    world.catch_up([1])
    assert codes(peer) == [0, 0]
    assert peer.closed
    assert (engine.outstanding, engine.waiting) == (0, {})
