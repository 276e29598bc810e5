"""The members of a pretend ensemble change: by a client, by a test, over HTTP (ensemble.md section 10)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from pyzk.protocol import errors
from pyzk.protocol.digest import digest_id
from pyzk.server.config.members import ServerAddress
from pyzk.server.config.settings import Settings
from pyzk.server.testing import EmbeddedEnsemble, EnsembleError
from pyzk.server.testing.ensemble import EnsembleLaunch

from ...support.wire import WireClient
from .client import Client, Clients

CONFIG = "/zookeeper/config"
SUPER = "super:secret"


@pytest.fixture
def ensemble() -> Iterator[EmbeddedEnsemble]:
    """Servers 1 and 2 follow server 3, and server 4 observes; a tick is 0.5 s."""
    with EmbeddedEnsemble(
        3,
        observers=1,
        clock="frozen",
        tick_time=500,
        reconfig_enabled=True,
        super_digest=digest_id(SUPER),
    ) as ensemble:
        yield ensemble


def config_at(ensemble: EmbeddedEnsemble, server: int) -> list[str]:
    """The members as a server shows them, without their addresses."""
    data = ensemble[server].run(lambda: ensemble[server].running.engine.tree.nodes[CONFIG].data)
    lines = (data or b"").decode().splitlines()[:-1]
    return [line.partition("=")[0].removeprefix("server.") + line.split(":")[3][0] for line in lines]


def line(ensemble: EmbeddedEnsemble, server: int, role: str = "participant") -> str:
    return f"server.{server}=127.0.0.1:{2887 + server}:{3887 + server}:{role};{ensemble[server].port}"


def as_super(client: Client) -> Client:
    client.auth("digest", SUPER)
    return client


def test_the_configuration_says_where_clients_find_each_server(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    found = at(1).get(CONFIG).record
    *lines, version = found.data.decode().splitlines()
    hosts = ",".join(line.rpartition(";")[2] for line in lines)
    assert hosts == ensemble.hosts
    assert version == f"version={found.stat.mzxid:x}"
    assert found.stat.mzxid & 0xFFFFFFFF == 0
    assert found.stat.version == -1


def test_who_may_change_it(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    before = ensemble.zxid()
    assert a.reconfig(leaving="4").err == errors.NoAuthError.code
    assert a.reconfig(leaving="x").err == errors.MarshallingError.code
    assert as_super(a).reconfig(leaving="4").err == 0
    assert ensemble.zxid() == before + 3


def test_it_is_off_by_default() -> None:
    with EmbeddedEnsemble(3, clock="frozen") as ensemble:
        at = Clients(ensemble)
        assert at(1).reconfig().err == errors.ReconfigDisabledError.code
        with pytest.raises(errors.ReconfigDisabledError, match="reconfig_enabled=True"):
            ensemble.reconfig(leaving="1")
        at.close()


def test_anybody_may_without_acls() -> None:
    with EmbeddedEnsemble(3, clock="frozen", reconfig_enabled=True, skip_acl=True) as ensemble:
        at = Clients(ensemble)
        assert at(1).reconfig(leaving="1").err == 0
        at.close()


def test_a_further_server_joins(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    at(3).create("/x", b"1")
    ensemble.start(5)
    assert (ensemble.role(5), len(ensemble), ensemble[5].hosts in ensemble.hosts) == ("follower", 5, True)
    assert at(5).data("/x") == b"1"
    ensemble.kill(1)
    ensemble.kill(2)
    ensemble.advance(0.5)
    assert ensemble.leader() is None, "it does not vote"
    ensemble.start(1)
    ensemble.elect(to=3)
    assert "server.5=" in ensemble.reconfig(joining=line(ensemble, 5))
    ensemble.start(2)
    ensemble.kill(1)
    ensemble.advance(0.5)
    assert ensemble.leader() == 3, "three of four"
    assert config_at(ensemble, 5) == ["1p", "2p", "3p", "4o", "5p"]
    assert ensemble.elect(to=5) == 5


def test_a_server_that_joins_before_it_runs(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    ensemble.reconfig(joining="server.7=127.0.0.1:1:2:observer;0")
    with pytest.raises(ValueError, match="no server 7"):
        ensemble.role(7)
    ensemble.start(7)
    assert ensemble.role(7) == "observer"
    at(7).create("/x")
    ensemble.start(8, observer=True)
    assert ensemble.role(8) == "observer"
    with pytest.raises(EnsembleError, match="runs already"):
        ensemble.start(8)
    with pytest.raises(ValueError, match="numbered"):
        ensemble.start(-1)
    with pytest.raises(ValueError, match="servers 1 and 257 end in the same byte"):
        ensemble.start(257)
    assert ensemble.numbers == [1, 2, 3, 4, 7, 8]


async def test_lines_of_several_machines_with_the_same_port() -> None:
    """Here they are on one machine: each has a port of its own, until a change asks for another."""
    members = [ServerAddress.parse(str(number), f"zk{number}:2888:3888;2181") for number in (1, 2, 3)]
    settings = Settings(port=0, reconfig_enabled=True)
    async with EnsembleLaunch(members, "frozen", True, 100, None, settings).open() as ensemble:
        assert len({server.port for server in ensemble}) == 3
        assert "server.2=zk2:2888:3888:participant;0.0.0.0:2181\n" in ensemble.reconfig(leaving="3")


def test_a_server_that_leaves_goes_on_without_a_vote(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(1)
    ensemble.reconfig(leaving="1")
    assert ensemble.role(1) == "follower"
    assert a.create("/x").err == 0
    ensemble.kill(3)
    ensemble.advance(1)
    assert ensemble.leader() is None, "one of two"
    with pytest.raises(EnsembleError, match="cannot lead"):
        ensemble.elect(to=1)


def test_what_is_only_proposed_counts_for_nobody(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, b = as_super(at(3)), as_super(at(1))
    ensemble.hold_acks()
    a.later.reconfig(leaving="4")
    assert a.arrivals() == []
    b.later.reconfig(leaving="1")
    assert b.arrivals() == []
    assert ensemble.role(4) == "observer"
    assert config_at(ensemble, 3) == ["1p", "2p", "3p", "4o"]
    ensemble.release_acks()
    assert [reply.err for reply in (*a.arrivals(), *b.arrivals())] == [  # type: ignore[union-attr]
        0,
        errors.ReconfigInProgressError.code,
    ]
    assert ensemble.role(4) == "follower"
    assert config_at(ensemble, 4) == ["1p", "2p", "3p"]


def test_a_change_that_is_applied_with_its_leader(ensemble: EmbeddedEnsemble) -> None:
    ensemble.hold_acks()
    ensemble.reconfig(leaving="3")
    ensemble.kill(3)
    ensemble.advance(0.2)
    assert ensemble.leader() in (1, 2)
    assert config_at(ensemble, 1) == config_at(ensemble, 2) == ["1p", "2p", "4o"]


def test_a_change_that_is_lost_with_its_leader(ensemble: EmbeddedEnsemble) -> None:
    ensemble.hold_proposals()
    ensemble.reconfig(leaving="4")
    ensemble.kill(3)
    ensemble.advance(0.2)
    ensemble.start(3)
    assert config_at(ensemble, 3) == config_at(ensemble, 1) == ["1p", "2p", "3p", "4o"]
    assert ensemble.role(4) == "observer"


def test_a_server_that_lags_learns_late(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a = at(4)
    a.get(CONFIG, watch=True)
    ensemble.lag(4)
    ensemble.reconfig(leaving="4")
    assert a.arrivals() == []
    assert (ensemble.role(4), config_at(ensemble, 4)) == ("observer", ["1p", "2p", "3p", "4o"])
    ensemble.catch_up(4)
    assert ensemble.role(4) == "follower"
    assert a.wait_event().path == CONFIG
    assert a.was_closed


@pytest.mark.parametrize(("server", "leaving"), [(4, "4"), (4, "3"), (1, "3")])
def test_who_asks_at_a_server_that_begins_anew_gets_no_reply(
    ensemble: EmbeddedEnsemble, at: Clients, server: int, leaving: str
) -> None:
    a = as_super(at(server))
    a.get(CONFIG, watch=True)
    a.later.reconfig(leaving=leaving)
    assert a.wait_event().path == CONFIG
    assert a.was_closed
    ensemble.advance(0.2)
    assert f"server.{leaving}" not in at(server, a).data(CONFIG).decode()


def test_who_asks_at_the_leader_that_leaves_gets_a_reply(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """Behind the event, and nothing is answered behind it."""
    a = as_super(at(3))
    a.get(CONFIG, watch=True)
    a.later.reconfig(leaving="3")
    a.later.get("/")
    event, reply = a.wait_event(), a.receive_reply()
    assert event.path == CONFIG
    assert (reply.err, b"server.3" in reply.record.data) == (0, False)
    assert a.was_closed
    assert ensemble.leader() is None


def test_who_asks_at_the_leader_that_becomes_an_observer_gets_a_reply(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    a = as_super(at(3))
    assert a.reconfig(joining=line(ensemble, 3, "observer")).err == 0
    assert a.was_closed
    ensemble.advance(0.2)
    assert (ensemble.leader(), ensemble.role(3)) == (2, "observer")


@pytest.mark.parametrize("joining", [False, True])
def test_a_leader_that_lags_answers_when_it_applies_that_it_leaves(
    ensemble: EmbeddedEnsemble, at: Clients, joining: bool
) -> None:
    a, b = as_super(at(3)), at(1)
    a.get(CONFIG, watch=True)
    ensemble.lag(3, 0.1)
    change = {"joining": line(ensemble, 3, "observer")} if joining else {"leaving": "3"}
    a.later.reconfig(**change)
    assert b.was_closed, "those that follow it have applied the change"
    assert (a.arrivals(), ensemble.role(3), ensemble.role(1)) == ([], "leader", "looking")
    ensemble.advance(0.1)
    assert a.wait_event().path == CONFIG
    assert a.receive_reply().err == 0
    assert a.was_closed
    ensemble.advance(0.1)
    assert (ensemble.leader(), ensemble.role(3)) == (2, "observer" if joining else "follower")


def test_a_leader_that_lags_too_much_leaves_without_a_reply(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """It finds at its next check, each tick of 0.5 s, that nobody follows it. Another leads already."""
    a = as_super(at(3))
    ensemble.lag(3)
    a.later.reconfig(leaving="3")
    a.later.create("/never")
    ensemble.advance(0.2)
    assert (ensemble.role(3), ensemble.role(2), ensemble.leader()) == ("leader", "leader", 2)
    assert a.arrivals() == []
    ensemble.advance(0.3)
    assert a.was_closed
    assert ensemble.role(3) == "follower"
    ensemble.catch_up(3)
    assert at(3, a).exists("/never").err == errors.NoNodeError.code
    assert config_at(ensemble, 3) == ["1p", "2p", "4o"]


def test_a_leader_that_has_left_commits_nothing_more(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    """Not even with followers that lag too, and so do not know yet."""
    a = as_super(at(3))
    for server in (1, 2, 3):
        ensemble.lag(server)
    a.later.reconfig(leaving="3")
    committed = ensemble.zxid()
    a.later.create("/never")
    assert (ensemble.role(1), ensemble.role(3), ensemble.zxid()) == ("follower", "leader", committed)
    ensemble.advance(0.5)
    assert a.was_closed
    ensemble.catch_up()
    ensemble.advance(0.2)
    assert config_at(ensemble, 1) == config_at(ensemble, 3) == ["1p", "2p", "4o"]


def test_a_server_that_applies_late_that_it_leaves_serves_again(
    ensemble: EmbeddedEnsemble, at: Clients
) -> None:
    a = at(4)
    ensemble.lag(4, 1)
    ensemble.reconfig(leaving="4")
    assert (ensemble.role(4), a.arrivals()) == ("observer", [])
    ensemble.advance(1)
    assert ensemble.role(4) == "follower"
    assert a.was_closed
    ensemble.catch_up(4)
    assert at(4, a).ping().err == 0


def test_no_quorum_of_the_new_members(ensemble: EmbeddedEnsemble) -> None:
    joining = ",".join(f"server.{n}=10.0.0.{n}:1:2;3" for n in range(5, 9))
    with pytest.raises(errors.NewConfigNoQuorumError, match="must follow the leader first"):
        ensemble.reconfig(joining=joining)
    with pytest.raises(errors.BadArgumentsError, match="at least 2 servers must vote"):
        ensemble.reconfig(leaving="1,2")
    with pytest.raises(errors.BadVersionError):
        ensemble.reconfig(leaving="1", from_config=5)


def test_a_snapshot_does_not_bring_back_the_members(ensemble: EmbeddedEnsemble) -> None:
    ensemble.load({"/x": "1"})
    snapshot = ensemble.snapshot()
    ensemble.reconfig(leaving="4")
    ensemble.load({"/x": "2"})
    ensemble.restore(snapshot)
    assert ensemble.dump() == {"/x": b"1"}
    assert config_at(ensemble, 1) == ["1p", "2p", "3p"]


def test_a_server_gets_another_port(ensemble: EmbeddedEnsemble, at: Clients) -> None:
    a, before = at(1), (ensemble[1].host, ensemble[1].port)
    ensemble.reconfig(joining="server.1=127.0.0.1:2888:3888;1")  # which only root may bind
    assert a.ping().err == 0
    with pytest.raises(ConnectionRefusedError):
        WireClient(before)
    ensemble.reconfig(joining=f"server.1=127.0.0.1:2888:3888;{before[1]}")
    at(1, a)


def test_over_http(ensemble: EmbeddedEnsemble) -> None:
    request = urllib.request.Request(
        f"{ensemble[1].url}api/v1/ensemble/reconfig",
        json.dumps({"leaving": "4"}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert [server["role"] for server in json.loads(answer.read())["servers"]][3] == "follower"
    assert config_at(ensemble, 1) == ["1p", "2p", "3p"]
