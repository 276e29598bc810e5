"""Who leads next: a server that has all that was ever committed (ensemble.md 3.17, 15.2)."""

from __future__ import annotations

import pytest

from pyzk.server.ensemble.errors import EnsembleError

from ...support.ensemble import EnsembleWorld, Later


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 5, an old leader, reaches servers 1 and 2, which have missed nothing and do not reach each
    other."""
    world = EnsembleWorld(5)
    old = world[5].connect()
    world.freeze(5)
    Later(old).create("/late")
    world.pass_time(3)
    assert world.leader == 4
    assert world[1].connect().create("/committed").err == 0
    world.thaw(5)
    world.partition([[1], [2]], False)
    world.heal([5])
    world.kill(3)
    world.kill(4)
    world.pass_time(3)
    return world


def roles(world: EnsembleWorld) -> list[str]:
    return [world.role(number) for number in world.servers]


def test_no_server_leads_whose_log_is_behind_its_quorum(world: EnsembleWorld) -> None:
    assert roles(world) == ["looking", "looking", "down", "down", "looking"]
    world.heal([1, 2])
    world.pass_time(1)
    assert roles(world) == ["follower", "leader", "down", "down", "follower"]
    tree = world[5].engine.tree.nodes
    assert "/committed" in tree
    assert "/late" not in tree


def test_no_test_can_have_it_lead(world: EnsembleWorld) -> None:
    assert not world.can_elect()
    with pytest.raises(EnsembleError, match="server 5 cannot lead"):
        world.elect(5)
    with pytest.raises(EnsembleError, match="no server can lead"):
        world.elect()
    world.heal([1, 2])
    world.elect(1)
    assert roles(world) == ["leader", "follower", "down", "down", "follower"]


def test_an_old_leader_does_not_know_what_the_next_one_commits() -> None:
    world = EnsembleWorld(5, tick_time=500)
    world.kill(1)
    world[5].connect().create("/before")
    world.freeze(5)
    world.pass_time(5)
    assert world.leader == 4
    world[4].connect().create("/after")
    world.partition([[1, 5]], True)
    world.thaw(5)
    world.start(1)
    old, joined = world.ensemble.members[5], world.ensemble.members[1]
    assert (old.role, joined.role) == ("leader", "follower")
    assert old.logged == joined.logged == joined.position < world.ensemble.log.committed
    assert joined.engine.tree.find("/before") is not None
    assert joined.engine.tree.find("/after") is None


# --- who leads, and when -----------------------------------------------------------------------------------


def test_the_longest_log_counts_more_than_the_number() -> None:
    world = EnsembleWorld(5)
    world.kill(4)
    world[5].connect().create("/x")
    world.kill(5)
    world.start(4)
    world.pass_time(0.2)
    assert world.leader == 3
    assert "/x" in world[4].engine.tree.nodes


def test_of_equal_logs_the_highest_number_leads() -> None:
    world = EnsembleWorld(5)
    for leader in (4, 3):
        world.kill(leader + 1)
        world.pass_time(0.2)
        assert world.leader == leader


@pytest.mark.parametrize(("what", "leader"), [("proposals", 3), ("acks", 2)])
def test_what_is_only_proposed_makes_a_log_longer(what: str, leader: int) -> None:
    """With ``acks`` all servers have it; with ``proposals`` the leader alone."""
    world = EnsembleWorld(3)
    peer = world[1].connect()
    world.hold(what)
    Later(peer).create("/x")
    world.elect()
    assert world.leader == leader
    assert peer.closed
    assert all("/x" in server.engine.tree.nodes for server in world.servers.values())
    assert world.ensemble.holding is None
    assert world.ensemble.log.proposed == []


def test_another_server_leads_if_it_has_as_much() -> None:
    world = EnsembleWorld(3)
    for leader in (2, 3, 2):
        world.elect()
        assert world.leader == leader
    epoch = world.ensemble.epoch
    world.elect(2)
    assert (world.leader, world.ensemble.epoch) == (2, epoch + 1)


def test_an_election_takes_its_time_from_when_a_quorum_looks() -> None:
    world = EnsembleWorld(3)
    elections = world.ensemble.elections
    assert elections.due is None
    world.kill(3)
    assert elections.due == world.ensemble.now + 200
    world.pass_time(0.1)
    world.kill(2)
    assert elections.due is None, "nobody can lead"
    world.pass_time(5)
    world.start(2)
    assert elections.due == world.ensemble.now + 200
    world.pass_time(0.1)
    world.lag(1)
    assert elections.due == world.ensemble.now + 100, "of the first moment"
    world.pass_time(0.099)
    assert world.ensemble.current_leader() is None
    world.pass_time(0.001)
    assert world.leader == 2
    assert elections.due is None


@pytest.mark.parametrize(("hold", "release"), [("freeze", "thaw"), ("hold_up", "release_up")])
def test_who_is_not_heard_makes_no_quorum(hold: str, release: str) -> None:
    world = EnsembleWorld(3)
    world.kill(3)
    getattr(world, hold)(1)
    world.pass_time(1)
    assert world.ensemble.current_leader() is None
    if release == "thaw":
        world.thaw(1)
    else:
        world.release_up([1])
    world.pass_time(0.2)
    assert world.leader == 2


def test_observers_are_no_quorum() -> None:
    world = EnsembleWorld(3, 2)
    for number in (3, 2):
        world.kill(number)
    world.pass_time(5)
    assert [world.role(number) for number in (1, 4, 5)] == ["looking"] * 3
    world.start(2)
    world.pass_time(0.2)
    assert [world.role(number) for number in (1, 2, 4, 5)] == ["follower", "leader", "observer", "observer"]


# --- links that fall silent --------------------------------------------------------------------------------


def told_of(world: EnsembleWorld) -> list[tuple[int, str]]:
    told: list[tuple[int, str]] = []
    world.ensemble.on_change = lambda member, text: told.append((member.number, text))
    return told


def test_a_server_that_was_given_up_learns_it_when_it_goes_on() -> None:
    world = EnsembleWorld(3)
    peer, told = world[1].connect(), told_of(world)
    world.freeze(1)
    world.pass_time(2.499)
    assert not world.ensemble.members[1].is_given_up
    world.pass_time(0.001)
    assert world.ensemble.members[1].is_given_up
    assert list(world.ensemble.leader().followers) == [3, 2]
    assert not peer.closed, "it stands still"
    world.thaw(1)
    assert peer.closed
    assert told == [(1, "serves nobody: its leader has closed the link"), (1, "is follower of server 3")]
    assert not world.ensemble.members[1].is_given_up


def test_a_reset_reaches_a_server_that_stands_still_when_it_goes_on() -> None:
    world = EnsembleWorld(3)
    peer = world[1].connect()
    world.freeze(1)
    world.partition([[1]], False)
    assert list(world.ensemble.leader().followers) == [3, 2]
    assert not peer.closed
    world.heal([1])
    world.thaw(1)
    assert peer.closed
    assert world.role(1) == "follower"


def test_silence_is_counted_anew_when_a_link_was_whole() -> None:
    world = EnsembleWorld(3)
    for _ in range(3):
        world.partition([[1]], True)
        assert world.ensemble.members[1].silent_since == world.ensemble.now
        world.pass_time(2.4)
        assert world.role(1) == "follower"
        world.heal([1])
        assert world.ensemble.members[1].silent_since is None
    world.partition([[1]], True)
    world.pass_time(1)
    world.hold_up(1)
    world.pass_time(1.49)
    assert world.role(1) == "follower"
    world.pass_time(0.01)
    assert world.role(1) == "looking", "since the first moment"


def test_an_old_leader_leads_until_its_next_check() -> None:
    world = EnsembleWorld(3)
    world.pass_time(0.3)
    world.freeze(3)
    world.pass_time(3)
    assert world.leader == 2
    world.thaw(3)
    assert world.role(3) == "leader"
    world.pass_time(0.499)
    assert world.role(3) == "leader"
    world.pass_time(0.001)
    assert world.role(3) == "follower"


def test_a_leader_that_stood_still_for_a_moment_leads_on() -> None:
    world = EnsembleWorld(3)
    peer = world[1].connect()
    epoch = world.ensemble.epoch
    world.freeze(3)
    Later(peer).create("/x")
    world.pass_time(1)
    assert "/x" not in world[1].engine.tree.nodes
    world.thaw(3)
    assert (world.leader, world.ensemble.epoch) == (3, epoch)
    assert "/x" in world[1].engine.tree.nodes
    assert world.ensemble.leader().next_check is None
    world.pass_time(5)
    assert world.leader == 3


def test_a_server_joins_the_leader_that_it_reaches() -> None:
    world = EnsembleWorld(3)
    world.kill(1)
    world.partition([[1]], True)
    world.start(1)
    world.pass_time(1)
    assert world.role(1) == "looking"
    world.heal([1])
    assert world.role(1) == "follower"
    world.kill(1)
    world.freeze(3)
    world.start(1)
    assert world.role(1) == "looking", "it answers nobody"
    world.thaw(3)
    assert world.role(1) == "follower"
    assert world.ensemble.members[1].epoch == world.ensemble.epoch
