"""The list of servers changes while the client runs."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import BadArgumentsError, GetData, Host, SetData, ZooKeeper, connect
from pyzk.client.hosts import Resolver, rebalance, servers_of
from pyzk.server.testing import Controls

from .memory import client, connector

# --- the rule -------------------------------------------------------------------------------------------

CLIENTS = 6000
"""Enough that chance moves a share by less than 3 %."""


def spread(old: str, new: str) -> Counter[str]:
    """The clients of each server, after the list has changed from one to the other."""
    rng = random.Random(1)
    servers: Counter[str] = Counter()
    for number in range(CLIENTS):
        current = old[number % len(old)]
        order = rebalance(old, new, current, rng)
        assert order is None or sorted(order) == sorted(new)
        servers[order[0] if order else current] += 1
    return servers


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("abc", "abcde"),
        ("abc", "abcdef"),
        ("abcde", "abc"),
        ("abc", "abd"),
        ("abc", "de"),
        ("abc", "def"),
        ("abcd", "cde"),
        ("abcde", "abf"),
        ("ab", "bcde"),
        ("a", "abcdefg"),
        ("abc", "abc"),
    ],
)
def test_each_server_has_its_share_afterwards(old: str, new: str) -> None:
    shares = spread(old, new)
    assert set(shares) == set(new)
    for share in shares.values():
        assert share == pytest.approx(CLIENTS / len(new), rel=0.1)


@pytest.mark.parametrize(("old", "new"), [("abc", "abc"), ("abcde", "abc"), ("abc", "ab")])
def test_nobody_moves_without_need(old: str, new: str) -> None:
    for current in new:
        assert all(rebalance(old, new, current, random.Random(seed)) is None for seed in range(100))


def test_no_list_is_too_odd() -> None:
    servers = ["", "a", "ab", "abc", "bc", "cd", "abcd"]
    for old, new in permutations(servers, 2):
        for current in "abcdx":
            if new:
                order = rebalance(old, new, current, random.Random(1))
                assert order is None or sorted(order) == sorted(new)


# --- update_hosts ---------------------------------------------------------------------------------------


async def test_a_client_moves_from_a_server_that_has_gone(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, "a,b") as zk:
        session = zk.session.id
        assert zk.server is not None
        await zk.update_hosts("c:2181,d:2181")
        await zk.session.wait_change()
        await zk.session.wait_connected()
        assert zk.server.name in ("c", "d")
        assert zk.session.id == session
        assert zk.session.generation == 1
        server.disconnect_all()
        await zk.session.wait_change()
        await zk.session.wait_connected()
        assert zk.server.name in ("c", "d")


async def test_a_client_stays_where_it_may(autojump_clock: MockClock, server: Controls) -> None:
    async with client(server, "a,b") as zk:
        assert zk.server is not None
        await zk.update_hosts(zk.server.name)
        await trio.sleep(1)
        assert zk.metrics.connections == 1


async def test_nothing_is_lost_when_a_client_moves(autojump_clock: MockClock, server: Controls) -> None:
    """What was sent is answered on the old connection, what was not goes out on the new one."""
    async with client(server, "a") as zk:
        await zk.create("/a")
        with server.fault(op="set_data", action="delay", seconds=1):
            sent = [zk.submit(SetData("/a", b"1"))]
            await trio.testing.wait_all_tasks_blocked()
            await zk.update_hosts("b")
            sent += [zk.submit(SetData("/a", b"2")), zk.submit(SetData("/a", b"3"))]
            read = zk.submit(GetData("/a"))
            assert zk.server is not None
            assert zk.server.name == "a"
            assert [(await each.wait()).version for each in sent] == [1, 2, 3]
            assert (await read.wait())[0] == b"3"
        assert zk.server.name == "b"
        assert zk.metrics.connections == 2


async def test_a_server_that_never_answers_is_left_all_the_same(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, "a") as zk:
        server.pause(zk.session.id)
        read = zk.submit(GetData("/"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await zk.update_hosts("b")
        server.resume()
        await read.wait()
        assert trio.current_time() - began < 10


async def test_all_clients_together_are_spread(autojump_clock: MockClock, server: Controls) -> None:
    servers: Counter[str] = Counter()

    async def live(number: int) -> None:
        rng = random.Random(number)
        async with connect("a,b", connector=connector(server), rng=rng) as zk:
            await zk.update_hosts("a,b,c,d")
            await trio.sleep(1)
            await zk.session.wait_connected()
            assert zk.server is not None
            servers[zk.server.name] += 1

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(live, number)
    assert set(servers) == set("abcd")
    assert min(servers.values()) > 30


async def test_a_list_that_comes_while_there_is_no_connection_counts_at_once(
    autojump_clock: MockClock, server: Controls
) -> None:
    away = connector(server)

    async def only_b(host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if host == "a" and gone:
            raise ConnectionRefusedError
        return await away(host, port)

    gone = False
    async with connect("a", connector=only_b) as zk:
        gone = True
        server.disconnect_all()
        await trio.sleep(2)
        await zk.update_hosts("b")
        await zk.session.wait_connected()
        assert zk.metrics.connections == 2


@pytest.mark.parametrize("servers", ["", "a:b", "/app", "a/other"])
async def test_lists_that_make_no_sense(autojump_clock: MockClock, zk: ZooKeeper, servers: str) -> None:
    with pytest.raises(BadArgumentsError, match=r"no server|not host:port|the chroot cannot be changed"):
        await zk.update_hosts(servers)


async def test_a_name_that_is_known_keeps_its_addresses(autojump_clock: MockClock) -> None:
    a, b = Host("127.0.0.1", 1), Host("127.0.0.2", 1)
    async with trio.open_nursery() as nursery:
        resolver = Resolver([a], nursery.start_soon)
        assert [host.address for host in await resolver.servers(1)] == ["127.0.0.1"]
        resolver.replace([a, b])
        assert set(resolver.unresolved) == {b}
        assert [host.address for host in await resolver.servers(1)] == ["127.0.0.1", "127.0.0.2"]
        resolver.replace([b])
        assert [host.address for host in await resolver.servers(1)] == ["127.0.0.2"]
        assert resolver.unresolved == {}


# --- following the configuration ------------------------------------------------------------------------

CONFIG = b"""\
server.1=zoo1:2888:3888:participant;0.0.0.0:2181
server.2=zoo2:2888:3888:participant;10.0.0.2:2182
server.3=[fd00::3]:2888:3888:observer;2183
server.4=[fd00::4]:2888:3888;[::]:2184
server.5=zoo5:2888:3888|zoo5b:2888:3888:participant;[fd00::5]:2185
server.6=zoo6:2888:3888:participant
version=100000000
"""


def test_the_servers_of_a_configuration() -> None:
    assert servers_of(CONFIG) == [
        Host("zoo1", 2181),
        Host("10.0.0.2", 2182),
        Host("fd00::3", 2183),
        Host("fd00::4", 2184),
        Host("fd00::5", 2185),
    ]
    for nothing in (None, b"", b"version=0", b"\xff\xfe", b"server.x=a:1:2;3"):
        assert servers_of(nothing) == []


async def test_the_configuration_is_followed(autojump_clock: MockClock, server: Controls) -> None:
    def config(*names: str) -> bytes:
        lines = [f"server.{n}={name}:2888:3888:participant;2181" for n, name in enumerate(names)]
        return "\n".join(lines).encode()

    server.load({"/zookeeper/config": config("b")})
    async with client(server, "a", follow_config=True) as zk, client(server) as other:
        await other.add_auth("digest", "super:secret")
        await trio.sleep(1)
        assert zk.server is not None
        assert zk.server.name == "b"
        server.load({"/zookeeper/config": config("c")})
        await trio.sleep(1)
        assert zk.server.name == "c"
        assert zk.session.generation == 1


async def test_a_configuration_without_servers_changes_nothing(
    autojump_clock: MockClock, server: Controls
) -> None:
    async with client(server, "a", follow_config=True) as zk:
        await trio.sleep(1)
        assert zk.metrics.connections == 1
