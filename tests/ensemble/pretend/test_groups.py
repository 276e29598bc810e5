"""Groups and weights: which servers are enough to decide (ensemble.md 12.5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyzk.protocol import errors
from pyzk.server.config.members import ServerAddress, grouped
from pyzk.server.config.settings import Settings
from pyzk.server.testing import EmbeddedEnsemble, EnsembleError
from pyzk.server.testing.ensemble import EnsembleLaunch

from .client import Clients

CONFIG = "/zookeeper/config"


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    """Five servers vote, at first alike; a tick is 0.5 s. Server 5 leads."""
    with EmbeddedEnsemble(5, clock="frozen", tick_time=500, reconfig_enabled=True) as ensemble:
        yield ensemble


def config_of(ensemble: EmbeddedEnsemble) -> list[str]:
    return ensemble.run(lambda: ensemble.running.host.ensemble.config.text).splitlines()


def group(ensemble: EmbeddedEnsemble, *lines: str) -> None:
    servers = [line for line in config_of(ensemble) if line.startswith("server.")]
    ensemble.reconfig(new_members="\n".join([*servers, *lines]))


def test_a_majority_of_weight_in_a_majority_of_groups(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    group(ensemble, "group.1=1:2", "group.2=3:4", "group.3=5", "weight.1=2")
    ensemble.partition([1, 3, 4], [2, 5], silent=False)
    ensemble.advance(1)
    assert [ensemble.role(n) for n in range(1, 6)] == ["follower", "looking", "follower", "leader", "looking"]
    a = at(3)
    assert a.create("/x").err == 0
    ensemble.heal()
    ensemble.partition([1, 2, 3], [4, 5], silent=False)  # most servers, and one group of three
    ensemble.advance(5)
    assert ensemble.leader() is None
    ensemble.heal()
    ensemble.advance(0.2)
    assert ensemble.leader() == 5


def test_one_server_may_be_enough(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    group(ensemble, "group.1=1:2:3:4:5", "weight.5=5")
    a = at(5)
    for number in range(1, 5):
        ensemble.kill(number)
    assert a.create("/x").err == 0
    ensemble.advance(10)
    assert ensemble.leader() == 5


def test_acks_count_by_their_weight(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    group(ensemble, "group.1=1:2:3:4:5", "weight.1=4")
    a = at(5)
    ensemble.freeze(1)
    a.later.create("/x")
    assert a.arrivals() == []  # four of five servers have it
    ensemble.thaw(1)
    assert len(a.arrivals()) == 1


def test_without_weight_nobody_leads(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    group(ensemble, "group.1=1:2:3:4:5", "weight.4=0", "weight.5=0")
    assert ensemble.elect() == 3
    with pytest.raises(EnsembleError, match="server 5 cannot lead"):
        ensemble.elect(5)
    ensemble.advance(1)
    assert ensemble.leader() == 3
    for number in (1, 2):
        ensemble.kill(number)
    ensemble.advance(1)
    assert ensemble.leader() is None


def test_a_leader_whose_weight_becomes_0_goes_on_and_is_not_elected_again(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    a = at(5)
    group(ensemble, "group.1=1:2:3:4:5", "weight.5=0")
    assert a.create("/x").err == 0
    ensemble.advance(1)
    assert ensemble.leader() == 5
    ensemble.kill(5)
    ensemble.start(5)
    ensemble.advance(1)
    assert ensemble.leader() == 4


def test_a_change_names_all_servers(ensemble: EmbeddedEnsemble) -> None:
    group(ensemble, "group.1=1:2:3", "group.2=4:5")
    with pytest.raises(errors.BadArgumentsError, match="only new_members"):
        ensemble.reconfig(leaving="5")
    with pytest.raises(errors.BadArgumentsError, match="server 5 is in no group"):
        group(ensemble, "group.1=1:2:3:4")
    ensemble.kill(1)
    ensemble.kill(2)
    ensemble.advance(1)
    assert ensemble.leader() is None  # one group of two
    ensemble.start(2)
    ensemble.advance(1)
    group(ensemble)
    ensemble.reconfig(leaving="4")
    assert [line.partition("=")[0] for line in config_of(ensemble)] == [
        *("server.1", "server.2", "server.3", "server.5", "version")
    ]


def test_a_change_needs_a_quorum_of_the_new_groups(ensemble: EmbeddedEnsemble) -> None:
    ensemble.kill(1)
    with pytest.raises(errors.NewConfigNoQuorumError, match="a majority of the weight in most of 2 groups"):
        group(ensemble, "group.1=1", "group.2=2:3:4:5")
    group(ensemble, "group.1=1:2:3", "group.2=4:5")


async def test_groups_from_the_start() -> None:
    lines = [ServerAddress.parse(str(number), f"zk{number}:2888:3888") for number in (1, 2, 3)]
    members = grouped(lines, [("group.1", "1:2:3"), ("weight.3", "0")])
    async with EnsembleLaunch(members, "frozen", True, 100, None, Settings(port=0)).open() as ensemble:
        assert ensemble.leader() == 2
        ensemble.kill(1)
        ensemble.advance(3)
        assert ensemble.leader() is None


def test_the_members_may_become_one() -> None:
    for is_enabled, refused in ((True, True), (False, False)):
        with EmbeddedEnsemble(
            2, clock="frozen", reconfig_enabled=True, standalone_enabled=is_enabled
        ) as ensemble:
            if refused:
                with pytest.raises(errors.BadArgumentsError, match="at least 2 servers must vote"):
                    ensemble.reconfig(leaving="1")
            else:
                ensemble.reconfig(leaving="1")
                ensemble.kill(1)
                ensemble.advance(1)
                assert ensemble.leader() == 2
