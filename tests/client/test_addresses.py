"""Host names with several addresses: each is a server of its own."""

from __future__ import annotations

import math
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
import trustme
from trio.testing import MockClock

from pyzk.client import ConnectionLossError, Host, SessionState, connect
from pyzk.client.hosts import HostCycle, Resolver
from pyzk.recipes import Lock
from pyzk.server.testing import Controls

from .memory import connector
from .network import GOOD, Found, Network

NAME = "zk.example"


@pytest.fixture
async def network(server: Controls, monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network(server)
    network.replace(monkeypatch)
    return network


async def closes(address: str, port: int) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    return ours


async def never_answers(address: str, port: int) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    kept.append(theirs)
    return ours


async def never_accepts(address: str, port: int) -> trio.abc.Stream:
    await trio.sleep_forever()
    raise AssertionError


kept: list[trio.abc.Stream] = []


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    yield
    kept.clear()


SEEDS = range(4)  # both orders of two addresses


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("bad", "seconds"), [(closes, 0.0), (never_answers, 2.0), (never_accepts, 2.0), (None, 0.0)]
)
async def test_a_bad_address_does_not_hide_a_good_one(
    autojump_clock: MockClock, network: Network, bad: Any, seconds: float, seed: int
) -> None:
    network.names[NAME] = ["10.0.0.1", GOOD]
    if bad is not None:
        network.peers["10.0.0.1"] = bad
    started = trio.current_time()
    async with connect(NAME, session_timeout=4, rng=random.Random(seed)) as zk:
        assert trio.current_time() - started == pytest.approx(seconds if len(network.tried) > 1 else 0)
        assert len(network.tried) <= 2
        assert zk.server == Host(NAME, 2181, GOOD)
        assert str(zk.server) == "zk.example:2181 (10.0.0.2)"


async def test_both_addresses_come_first_sometimes(autojump_clock: MockClock, network: Network) -> None:
    network.names[NAME] = ["10.0.0.1", GOOD]
    firsts = set()
    for seed in SEEDS:
        network.tried.clear()
        async with connect(NAME, rng=random.Random(seed)):
            firsts.add(network.tried[0])
    assert firsts == {"10.0.0.1", GOOD}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bad", [closes, never_answers, never_accepts])
async def test_a_lock_held_by_way_of_the_second_address_survives_a_cut(
    autojump_clock: MockClock, server: Controls, network: Network, bad: Any, seed: int
) -> None:
    network.names[NAME] = ["10.0.0.1", GOOD]
    network.peers["10.0.0.1"] = bad
    async with connect(NAME, session_timeout=10, rng=random.Random(seed)) as zk:
        async with Lock(zk, "/lock"):
            await trio.sleep(30)
            server.disconnect_all()
            while zk.session.state is not SessionState.SUSPENDED:
                await zk.session.wait_change()
            await zk.session.wait_connected()
            await trio.sleep(30)
        assert zk.session.generation == 1
        assert zk.metrics.connections == 2


async def test_a_session_timeout_beyond_the_connect_timeout_leaves_time_for_all(
    autojump_clock: MockClock, network: Network
) -> None:
    network.names[NAME] = [f"10.0.0.{number}" for number in range(2, 8)]
    for address in network.names[NAME][1:]:
        network.peers[address] = never_answers
    async with connect(NAME, session_timeout=100, connect_timeout=6):
        pass


async def test_with_many_addresses_each_still_has_half_a_second(
    autojump_clock: MockClock, server: Controls, network: Network
) -> None:
    async def slow(address: str, port: int) -> trio.abc.Stream:
        await trio.sleep(0.45)
        return server.open_stream()

    network.names[NAME] = [f"10.0.1.{number}" for number in range(200)]
    network.peers = dict.fromkeys(network.names[NAME], slow)
    async with connect(NAME, session_timeout=2):
        pass
    assert len(network.tried) == 1


async def test_localhost_where_nobody_listens_on_ipv6(autojump_clock: MockClock, network: Network) -> None:
    network.names["localhost"] = ["::1", GOOD]
    started = trio.current_time()
    for seed in SEEDS:
        async with connect("localhost", rng=random.Random(seed)) as zk:
            assert zk.server == Host("localhost", 2181, GOOD)
    assert trio.current_time() == started


async def test_names_are_looked_up_for_every_round(
    autojump_clock: MockClock, server: Controls, network: Network
) -> None:
    network.names[NAME] = ["10.0.0.9"]

    async def move() -> None:
        await trio.sleep(5)
        network.names[NAME] = [GOOD]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(move)
        async with connect(NAME) as zk:
            assert 5 <= trio.current_time() <= 5 + 2 * HostCycle.LONGEST_PAUSE
            await trio.sleep(10)
            network.peers = {"10.0.0.3": connector(server)}
            network.names[NAME] = ["10.0.0.3"]
            network.tried.clear()
            server.disconnect_all()
            await zk.get("/")
            assert network.tried == ["10.0.0.3"]


@pytest.mark.parametrize("trouble", [OSError("no such name"), UnicodeError("no name"), None])
async def test_a_name_that_cannot_be_looked_up_does_not_stop_the_others(
    autojump_clock: MockClock, server: Controls, network: Network, trouble: Exception | None
) -> None:
    network.names |= {"bad": trouble, NAME: [GOOD]}
    started = trio.current_time()
    async with connect(f"bad,{NAME}", session_timeout=4, rng=random.Random(1)) as zk:
        assert trio.current_time() - started <= 1
        for _ in range(3):
            await trio.sleep(5)
            server.disconnect_all()
            cut = trio.current_time()
            await zk.get("/")
            assert trio.current_time() - cut <= HostCycle.FIRST_PAUSE
        assert network.hanging == (trouble is None), "one look-up of a name at a time"
    assert network.hanging == 0


@pytest.mark.parametrize("trouble", [OSError("no such name"), None])
async def test_known_addresses_outlive_the_name_service(
    autojump_clock: MockClock, server: Controls, network: Network, trouble: Exception | None
) -> None:
    network.names[NAME] = [GOOD]
    async with connect(NAME, session_timeout=4) as zk:
        for _ in range(3):
            await trio.sleep(5)
            network.names[NAME] = trouble
            server.disconnect_all()
            await zk.get("/")
        assert zk.session.generation == 1


async def test_a_slow_look_up_counts_when_it_ends(autojump_clock: MockClock, network: Network) -> None:
    answer = trio.Event()
    network.names[NAME] = [GOOD]
    plain = network.getaddrinfo

    async def slowly(*args: Any, **options: Any) -> Found:
        await answer.wait()
        return await plain(*args, **options)

    network.getaddrinfo = slowly  # type: ignore[method-assign]
    with pytest.raises(ConnectionLossError, match=r"zk\.example:2181: the look-up .* has not ended"):
        async with connect(NAME, connect_timeout=10):
            pass
    async with trio.open_nursery() as nursery:

        async def let() -> None:
            await trio.sleep(20)
            answer.set()

        nursery.start_soon(let)
        async with connect(NAME, session_timeout=4, connect_timeout=25):
            pass


async def test_a_first_connection_is_waited_for_without_end_if_asked_for(
    autojump_clock: MockClock, network: Network
) -> None:
    network.names[NAME] = socket.gaierror(-2, "Name or service not known")
    async with trio.open_nursery() as nursery:

        async def come() -> None:
            await trio.sleep(60)
            network.names[NAME] = [GOOD]

        nursery.start_soon(come)
        async with connect(NAME, session_timeout=4, connect_timeout=math.inf):
            assert trio.current_time() > 60


async def test_what_is_wrong_with_a_name_is_said(autojump_clock: MockClock, network: Network) -> None:
    network.names[NAME] = socket.gaierror(-2, "Name or service not known")
    with pytest.raises(ConnectionLossError, match=r"zk\.example:2181: .*Name or service not known"):
        async with connect(NAME):
            pass
    assert network.tried == []


async def test_a_connector_gets_the_name(
    autojump_clock: MockClock, server: Controls, network: Network
) -> None:
    asked = []

    async def reach(host: str, port: int) -> trio.abc.Stream:
        asked.append((host, port))
        return server.open_stream()

    async with connect(NAME, connector=reach) as zk:
        assert zk.server == Host(NAME, 2181)
    assert asked == [(NAME, 2181)]
    assert network.look_ups == []


async def test_tls_checks_the_name_not_the_address(
    autojump_clock: MockClock, server: Controls, network: Network
) -> None:
    authority = trustme.CA()
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(NAME).configure_cert(theirs)
    authority.configure_trust(ours)

    async def carry(source: trio.abc.ReceiveStream, target: trio.abc.SendStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                await target.send_all(data)
        await target.aclose()

    async def secured(address: str, port: int) -> trio.abc.Stream:
        near, far = trio.testing.memory_stream_pair()
        tls = trio.SSLStream(far, theirs, server_side=True, https_compatible=True)
        plain = server.open_stream()
        nursery.start_soon(carry, tls, plain)
        nursery.start_soon(carry, plain, tls)
        return near

    network.names |= {NAME: [GOOD], "other.example": [GOOD]}
    network.peers[GOOD] = secured
    async with trio.open_nursery() as nursery:
        async with connect(NAME, ssl_context=ours) as zk:
            await zk.get("/")
        with pytest.raises(ConnectionLossError, match="CERTIFICATE_VERIFY_FAILED"):
            async with connect("other.example", ssl_context=ours, connect_timeout=2):
                pass
        nursery.cancel_scope.cancel()


async def test_real_look_ups_and_sockets() -> None:
    async with trio.open_nursery() as nursery:
        resolver = Resolver([Host("127.0.0.1", 1), Host("::1", 2), Host("a\0b", 3)], nursery.start_soon)
        assert await resolver.servers(60) == [
            Host("127.0.0.1", 1, "127.0.0.1"),
            Host("::1", 2, "::1"),
            Host("a\0b", 3),
        ]
    assert list(resolver.unresolved) == [Host("a\0b", 3)]
    assert str(Host("::1", 2, "::1")) == "[::1]:2"


async def test_why_a_host_has_no_address_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the number of the error, if it has words of its own. The hosts may come one by one."""
    hosts = [Host(name, 1) for name in ("words", "number", "nothing")]
    errors = {"words": OSError(-2, "Name not known"), "number": OSError("no errno"), "nothing": OSError()}

    async def look_up(name: str, port: int, **options: object) -> list[object]:
        raise errors[name]

    monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
    async with trio.open_nursery() as nursery:
        resolver = Resolver(iter(hosts), nursery.start_soon)
        assert await resolver.servers(60) == hosts
    assert [resolver.unresolved[host] for host in hosts] == ["Name not known", "no errno", "OSError"]
