"""What operators are told of each server: words and admin commands by role (ensemble.md section 9)."""

from __future__ import annotations

from typing import Any

import pytest

from pyzk.protocol.records import GetDataResponse
from pyzk.server.monitoring.commands import BY_NAME, Ask

from ...support.ensemble import EnsembleWorld, Later

SENTENCE = "This ZooKeeper instance is not currently serving requests\n"


@pytest.fixture
def world() -> EnsembleWorld:
    """Server 3 leads, server 4 observes."""
    return EnsembleWorld(3, 1)


def say(world: EnsembleWorld, server: int, word: str) -> str:
    return world[server].open().exchange(word.encode()).decode()


def mntr(world: EnsembleWorld, server: int) -> dict[str, str]:
    lines = say(world, server, "mntr").splitlines()
    return dict(line.split("\t") for line in lines)  # type: ignore[misc]


def command(world: EnsembleWorld, server: int, name: str) -> Any:
    service = world[server].service
    run = service.commands.get(name, BY_NAME[name].run)
    return run(Ask(service, world.now, {}, b""))


def test_srvr_tells_the_role(world: EnsembleWorld) -> None:
    for server, role in {1: "follower", 2: "follower", 3: "leader", 4: "observer"}.items():
        assert f"Mode: {role}\n" in say(world, server, "srvr")
        assert f"Mode: {role}\n" in say(world, server, "stat")
        assert mntr(world, server)["zk_server_state"] == role
        assert say(world, server, "isro") == "rw"
    assert say(world, 3, "srvr").endswith("Proposal sizes last/min/max: -1/-1/-1\n")
    world[1].connect().create("/x", b"0123456789")
    sizes = say(world, 3, "srvr").splitlines()[-1].split(": ")[1].split("/")
    assert len(set(sizes)) == 1
    assert int(sizes[0]) > 10
    assert "Proposal" not in say(world, 1, "srvr")


def test_srvr_tells_each_servers_own_zxid(world: EnsembleWorld) -> None:
    world.lag(1)
    world[3].connect().create("/x")
    zxids = [say(world, server, "srvr").partition("Zxid: ")[2].splitlines()[0] for server in (1, 2, 3, 4)]
    assert zxids == ["0x200000000", "0x200000002", "0x200000002", "0x200000002"]


def test_outstanding_shows_what_waits_for_the_log(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    world.lag(1)
    for _ in range(3):
        Later(peer).create("/x")
    assert "Outstanding: 3\n" in say(world, 1, "srvr")
    assert mntr(world, 1)["zk_outstanding_requests"] == "3"
    world.catch_up([world.ensemble.members[1]])
    assert "Outstanding: 0\n" in say(world, 1, "srvr")


def test_a_server_without_a_leader_says_so(world: EnsembleWorld) -> None:
    world.kill(3)
    for word in (
        "srvr",
        "stat",
        "cons",
        "dump",
        "conf",
        "wchs",
        "wchc",
        "wchp",
        "mntr",
        "crst",
        "srst",
        "dirs",
    ):
        assert say(world, 1, word) == SENTENCE
    assert say(world, 1, "ruok") == "imok"
    assert say(world, 1, "isro") == "null"
    assert say(world, 1, "envi").startswith("Environment:\n")
    assert command(world, 1, "zabstate")["zabstate"] == "election"


def test_mntr_of_each_role(world: EnsembleWorld) -> None:
    leader, follower, observer = (mntr(world, server) for server in (3, 1, 4))
    assert leader["zk_peer_state"] == "leading - broadcast"
    assert follower["zk_peer_state"] == "following - broadcast"
    assert observer["zk_peer_state"] == "observing - broadcast"
    assert {found["zk_quorum_size"] for found in (leader, follower, observer)} == {"3"}
    assert (leader["zk_learners"], leader["zk_synced_followers"], leader["zk_synced_observers"]) == (
        *("3", "2"),
        "1",
    )
    assert "zk_learners" not in follower
    assert "zk_observer_master_id" not in follower
    assert "zk_observer_master_id" not in leader
    assert observer["zk_observer_master_id"] == "3"
    assert "zk_followers" not in leader


def test_the_figures_of_a_leader(world: EnsembleWorld) -> None:
    """Each has another value, so that none can stand for another."""
    small = world[1].connect()
    world.pass_time(1.25)
    small.create("/x", b"0123456789" * 10)
    small.delete("/x")
    small.create("/longer", b"0123456789")
    world.ensemble.members[2].votes = False  # as one that is no member any more
    world.hold("acks")
    Later(small).create("/waits", b"0123456789")
    Later(small).sync("/")
    Later(small).sync("/")
    found = mntr(world, 3)
    names = ("learners", "synced_followers", "synced_non_voting_followers", "synced_observers")
    assert [found[f"zk_{name}"] for name in names] == ["3", "2", "1", "1"]
    assert found["zk_pending_syncs"] == "2"
    assert found["zk_leader_uptime"] == "1250"
    sizes = [int(found[f"zk_{name}_proposal_size"]) for name in ("last", "min", "max")]
    last, least, most = sizes
    assert 10 < least < last < most
    text = say(world, 3, "srvr")
    assert text.endswith(f"Proposal sizes last/min/max: {last}/{least}/{most}\n")


def test_dump_lists_sessions_with_their_times_at_the_leader_only(world: EnsembleWorld) -> None:
    peer = world[1].connect()
    peer.create("/mine", flags=1)
    assert "Session Sets (1)/(1):\n1 expire at " in say(world, 3, "dump")
    follower = say(world, 2, "dump")
    assert f"Global Sessions(1):\n0x{peer.session_id:x}\t10000ms\n" in follower
    assert f"Sessions with Ephemerals (1):\n0x{peer.session_id:x}:\n\t/mine\n" in follower


def test_dump_lists_local_sessions_by_their_server() -> None:
    world = EnsembleWorld(3, local_sessions=True, local_sessions_upgrading=True)
    local, other = world[1].connect(), world[1].connect()
    at_leader = world[3].connect()
    other.create("/mine", flags=1)
    text = say(world, 1, "dump")
    assert text.startswith("SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at ")
    assert f"\t0x{local.session_id:x}\nGlobal Sessions(1):\n0x{other.session_id:x}\t10000ms\n" in text
    text = say(world, 3, "dump")
    assert text.startswith("SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at ")
    assert f"\t0x{at_leader.session_id:x}\nGlobal Session Sets (1)/(1):\n1 expire at " in text
    assert f"\t0x{other.session_id:x}\nephemeral nodes dump:" in text


def test_conf_ends_with_the_membership(world: EnsembleWorld) -> None:
    text = say(world, 4, "conf")
    assert "serverId=4\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\n" in text
    assert "peerType=1\nmembership: \nserver.1=" in text
    assert text.endswith("server.4=127.0.0.1:2891:3891:observer\nversion=0")


def test_the_configuration_names_where_clients_find_each_server(world: EnsembleWorld) -> None:
    assert all(line.client is None or line.client == "" for line in world.ensemble.config.members.values())
    version = world.ensemble.config.version
    world.ensemble.name_clients()
    config = world.ensemble.config
    assert {number: line.client for number, line in config.members.items()} == {
        number: member.client_address for number, member in world.ensemble.members.items()
    }
    assert config.version == version
    for server in world.servers:
        found = world[server].connect().get("/zookeeper/config").record
        assert isinstance(found, GetDataResponse)
        assert found.data == config.text.encode()
        assert b":participant;127.0.0.1:" in found.data


def test_the_configuration_is_a_znode(world: EnsembleWorld) -> None:
    found = world[1].connect().get("/zookeeper/config").record
    assert isinstance(found, GetDataResponse)
    assert found.data == world.ensemble.config.text.encode()
    stat = found.stat
    assert (stat.version, stat.aversion, stat.czxid, stat.dataLength) == (-1, -1, 0, len(found.data or b""))


def test_what_an_observer_has_not_taken_yet(world: EnsembleWorld) -> None:
    world.lag(4)
    world[3].connect().create("/x")
    (observer,) = command(world, 3, "observers")["observers"]
    assert (observer["queued_packets"], observer["packets_sent"]) == (2, 0)
    world.catch_up([world.ensemble.members[4]])
    (observer,) = command(world, 3, "observers")["observers"]
    assert (observer["queued_packets"], observer["packets_sent"]) == (0, 2)
    assert observer["last_zxid"] == "0x200000002"


def test_the_leader_counts_what_it_does_among_the_figures_of_its_server(world: EnsembleWorld) -> None:
    world[1].connect(timeout=1000)
    world.pass_time(2)
    assert mntr(world, 3)["zk_stale_sessions_expired"] == "1"
    assert mntr(world, 1)["zk_stale_sessions_expired"] == "0"


def test_admin_commands_tell_who_leads(world: EnsembleWorld) -> None:
    assert command(world, 1, "leader") == {"is_leader": False, "leader_id": 3, "leader_ip": "127.0.0.1"}
    assert command(world, 3, "leader")["is_leader"] is True
    assert command(world, 3, "zabstate")["is_leader"] is True
    assert command(world, 1, "zabstate")["is_leader"] is False
    state = command(world, 3, "zabstate")
    assert state["quorum_address"] == {"127.0.0.1": 2890}
    assert state["election_address"] == {"127.0.0.1": 3890}
    assert state["client_address"] == world.ensemble.members[3].client_address
    assert (state["myid"], state["zab_epoch"], state["zab_counter"]) == (3, 2, 0)
    assert (state["last_zxid"], state["zabstate"], state["voting"]) == ("0x200000000", "broadcast", True)
    assert command(world, 4, "zabstate")["voting"] is False
    assert list(command(world, 1, "voting_view")["current_config"]) == ["1", "2", "3"]
    assert command(world, 1, "voting_view")["current_config"]["2"] == {
        "server_addresses": ["127.0.0.1:2889"],
        "election_addresses": ["127.0.0.1:3889"],
        "client_address": world.ensemble.members[2].client_address,
        "learner_type": "PARTICIPANT",
    }
    assert command(world, 3, "observers") == {
        "synced_observers": 1,
        "observers": [
            {
                "remote_socket_address": "127.0.0.1:2891",
                "sid": 4,
                "established": None,
                "queued_packets": 0,
                "queued_packets_size": 0,
                "packets_received": 0,
                "packets_sent": 0,
                "requests": 0,
                "last_zxid": "0x200000000",
            }
        ],
    }
    assert command(world, 1, "observers") == {"synced_observers": 0, "observers": []}
    assert command(world, 2, "configuration")["server_id"] == 2


def test_the_figures_of_prometheus_are_rows_too() -> None:
    """A row without a key is none: it only took time to find out."""
    pytest.importorskip("prometheus_client", reason="the extra 'prometheus' is not installed")
    world = EnsembleWorld(3, metrics_port=7000)
    lines = say(world, 3, "mntr").splitlines()
    assert [line for line in lines if not line.startswith("zk_")] == []
    assert "zk_quorum_size\t3" in "\n".join(lines)
