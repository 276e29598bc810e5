"""kazoo's client goes on at other servers: with its session, its ephemerals, its watches and its lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("kazoo.client")
from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.protocol.states import KazooState, KeeperState

from pyzk.server.testing import EmbeddedEnsemble

from ...support.waiting import wait_until

QUICKLY = {"max_tries": -1, "delay": 0.01, "backoff": 1}
"""How kazoo is to try again."""


@pytest.fixture
def servers() -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(3, tick_time=200, max_session_timeout=60_000) as servers:
        yield servers


def connected(hosts: str) -> KazooClient:
    client = KazooClient(hosts, timeout=30, connection_retry=QUICKLY, command_retry=QUICKLY)
    client.start()
    return client


@pytest.fixture
def client(servers: EmbeddedEnsemble) -> Iterator[KazooClient]:
    client = connected(servers.hosts)
    yield client
    client.stop()
    client.close()


def server_of(servers: EmbeddedEnsemble, client: KazooClient) -> int:
    session = client.client_id[0]
    return next(
        server.number
        for server in servers
        if servers.role(server.number) != "down"
        and any(each.id == session and each.connected for each in server.sessions())
    )


def test_it_survives_one_leader_after_the_other(servers: EmbeddedEnsemble, client: KazooClient) -> None:
    session, states = client.client_id, []
    client.add_listener(states.append)
    client.create("/mine", ephemeral=True)
    for number in range(4):
        killed = servers.leader()
        assert killed is not None
        servers.kill(killed)
        servers.elect()
        client.retry(client.create, f"/n{number}")
        servers.start(killed)
    assert client.client_id == session
    assert client.retry(client.exists, "/mine").owner_session_id == session[0]
    assert sorted(client.retry(client.get_children, "/")) == ["mine", "n0", "n1", "n2", "n3", "zookeeper"]
    assert KazooState.SUSPENDED in states
    assert KazooState.LOST not in states


def test_its_watch_goes_on_at_another_server(servers: EmbeddedEnsemble, client: KazooClient) -> None:
    seen: list[bytes] = []
    client.create("/x", b"0")
    client.DataWatch("/x")(lambda data, stat: seen.append(data))
    servers.kill(server_of(servers, client))
    if servers.leader() is None:
        servers.elect()
    client.retry(client.exists, "/")
    client.retry(client.set, "/x", b"1")
    wait_until(lambda: seen == [b"0", b"1"])


def test_it_moves_when_the_list_of_servers_changes(servers: EmbeddedEnsemble, client: KazooClient) -> None:
    session, before = client.client_id, server_of(servers, client)
    rest = [number for number in servers.numbers if number != before]
    client.set_hosts(",".join(servers[number].hosts for number in rest))
    servers.disconnect(client)  # kazoo keeps a connection that it has
    client.retry(client.exists, "/")
    assert server_of(servers, client) in rest
    assert client.client_id == session


def test_its_lock_is_passed_on_over_a_new_leader(servers: EmbeddedEnsemble, client: KazooClient) -> None:
    other = connected(servers.hosts)
    mine, theirs = client.Lock("/lock"), other.Lock("/lock")
    mine.acquire()
    waiter = threading.Thread(target=theirs.acquire)
    waiter.start()
    wait_until(lambda: len(theirs.contenders()) == 2)
    servers.elect()
    client.retry(mine.release)
    waiter.join(20)
    assert theirs.is_acquired
    other.stop()
    other.close()


def test_without_a_quorum_it_waits_and_goes_on_with_its_session() -> None:
    """ensemble.md section 13: servers are read-only, and refuse the session, because it belongs to the
    ensemble."""
    states: list[str] = []
    with EmbeddedEnsemble(3, clock="frozen", read_only_mode=True) as servers:
        client = KazooClient(
            servers.hosts, timeout=30, read_only=True, connection_retry=QUICKLY, command_retry=QUICKLY
        )
        client.add_listener(states.append)
        client.start()
        session = client.client_id
        client.create("/mine", ephemeral=True)
        servers.partition([1], [2], [3], silent=False)
        servers.advance(6)
        assert [servers.role(number) for number in servers.numbers] == ["read-only"] * 3
        wait_until(lambda: KazooState.SUSPENDED in states)
        servers.heal()
        servers.advance(1)
        assert client.retry(client.exists, "/mine").owner_session_id == session[0]
        assert client.client_id == session
        assert KazooState.LOST not in states
        client.stop()
        client.close()


def test_it_goes_read_only_and_back() -> None:
    """ensemble.md section 13: where sessions are local, each change brings another one."""
    states: list[str] = []
    with EmbeddedEnsemble(
        3, clock="frozen", read_only_mode=True, local_sessions=True, local_sessions_upgrading=True
    ) as servers:
        client = KazooClient(
            servers.hosts, timeout=30, read_only=True, connection_retry=QUICKLY, command_retry=QUICKLY
        )
        client.add_listener(states.append)
        client.start()
        client.create("/x", b"1")
        sessions = [client.client_id]
        servers.partition([1], [2], [3], silent=False)
        servers.advance(6)
        wait_until(lambda: client.client_state == KeeperState.CONNECTED_RO)
        sessions.append(client.client_id)
        assert client.get("/x")[0] == b"1"
        with pytest.raises(NotReadOnlyCallError):
            client.set("/x", b"2")
        servers.heal()
        servers.advance(1)
        wait_until(lambda: client.client_state == KeeperState.CONNECTED)
        sessions.append(client.client_id)
        client.set("/x", b"2")
        assert len(set(sessions)) == 3
        lost = [state for state in states if state != KazooState.SUSPENDED]
        assert lost == ["CONNECTED", "LOST", "CONNECTED", "LOST", "CONNECTED"]
        client.stop()
        client.close()
