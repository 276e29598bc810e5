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
