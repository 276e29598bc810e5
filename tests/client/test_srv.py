"""Servers that SRV records list."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from pyzk.client import BadArgumentsError, ConnectionLossError, Host, connect
from pyzk.client.hosts import ConnectString, Resolver, Service, list_servers
from pyzk.client.srv import look_up
from pyzk.server.testing import Controls

from .memory import connector
from .network import GOOD, Network

NAME = "_zookeeper._tcp.zk.example"
HOSTS = "srv+zk://" + NAME
SERVICE = Service(NAME, 2181)


@attrs.define
class Records:
    """What the DNS answers to the name of the service.

    :ivar answer: host names and ports; an exception is raised; None hangs.
    """

    answer: Sequence[tuple[str, int]] | Exception | None = ()
    asked: int = 0

    async def look_up(self, name: str) -> Sequence[tuple[str, int]]:
        assert name == NAME
        self.asked += 1
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or ()


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Records:
    records = Records()
    monkeypatch.setattr("pyzk.client.srv.look_up", records.look_up)
    return records


@pytest.fixture
async def network(server: Controls, monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network(server)
    network.names |= {"a": ["10.0.0.1"], "b": [GOOD]}
    network.replace(monkeypatch)
    return network


# --- connect strings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["srv+zk", "dns-srv"])
@pytest.mark.parametrize("chroot", ["", "/", "/app/x"])
def test_connect_strings(scheme: str, chroot: str) -> None:
    parsed = ConnectString.parse(f" {scheme}://{NAME}{chroot}")
    assert parsed == ConnectString((SERVICE,), chroot.rstrip("/"))
    assert str(parsed.hosts[0]) == HOSTS


@pytest.mark.parametrize("name", ["", "/app", "a:2181", "a,b", "a b", "[::1]"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(ValueError, match="SRV records have one name without a port"):
        ConnectString.parse("srv+zk://" + name)


def test_a_malformed_chroot() -> None:
    with pytest.raises(BadArgumentsError):
        ConnectString.parse(HOSTS + "/a//b")


async def test_a_connector_wants_servers(autojump_clock: MockClock, server: Controls) -> None:
    with pytest.raises(ValueError, match="with a connector hosts must be servers"):
        async with connect(HOSTS, connector=connector(server)):
            raise AssertionError


# --- clients ------------------------------------------------------------------------------------------------


async def test_a_client_tries_the_servers_that_the_records_list(
    autojump_clock: MockClock, network: Network, records: Records
) -> None:
    records.answer = [("a", 1), ("b", 2)]
    async with connect(HOSTS + "/app", rng=random.Random(1)) as zk:
        assert zk.server == Host("b", 2, GOOD)
        assert zk.chroot == "/app"
    assert records.asked == 1


async def test_records_are_looked_up_again_for_each_round(
    autojump_clock: MockClock, server: Controls, network: Network, records: Records
) -> None:
    records.answer = [("a", 1)]
    network.peers["10.0.0.1"] = network.peers[GOOD]
    async with connect(HOSTS) as zk:
        assert zk.server == Host("a", 1, "10.0.0.1")
        records.answer = [("b", 2)]
        server.disconnect_all()
        await zk.get("/")
        assert zk.server == Host("b", 2, GOOD)
        assert zk.session.generation == 1


@pytest.mark.parametrize("answer", [OSError("no answer"), None])
async def test_the_servers_of_the_last_answer_stay(
    autojump_clock: MockClock, server: Controls, network: Network, records: Records, answer: Exception | None
) -> None:
    records.answer = [("b", 2)]
    async with connect(HOSTS) as zk:
        records.answer = answer
        server.disconnect_all()
        await zk.get("/")
        assert zk.server == Host("b", 2, GOOD)
        assert records.asked == 2


@pytest.mark.parametrize(
    ("answer", "reason"), [(OSError("no such name"), "no such name"), (None, "has not ended yet")]
)
async def test_no_answer_is_named_and_asked_for_again(
    autojump_clock: MockClock, network: Network, records: Records, answer: Exception | None, reason: str
) -> None:
    records.answer = answer
    with pytest.raises(ConnectionLossError, match=f"no session with {HOSTS.replace('+', '.')} .*{reason}"):
        async with connect(HOSTS, connect_timeout=5):
            raise AssertionError
    assert records.asked > 3 if answer else records.asked == 1
    assert network.tried == []


async def test_a_list_of_servers_replaces_the_service_and_the_service_a_list(
    autojump_clock: MockClock, network: Network, records: Records
) -> None:
    records.answer = [("b", 2)]
    async with connect("b:1") as zk:
        for hosts, port in ((HOSTS, 2), (HOSTS, 2), ("b:3", 3), (HOSTS, 2)):
            await zk.update_hosts(hosts)
            await zk.get("/")
            while zk.server != Host("b", port, GOOD):
                await zk.session.wait_change()
        asked = records.asked
        await zk.update_hosts("b:2")
        await zk.get("/")
        assert records.asked == asked
        assert zk.session.generation == 1


@pytest.fixture
async def resolver(records: Records, network: Network) -> AsyncIterator[Resolver]:
    async with trio.open_nursery() as nursery:
        yield Resolver([SERVICE], nursery.start_soon)
        nursery.cancel_scope.cancel()


async def test_what_a_resolver_keeps(
    autojump_clock: MockClock, resolver: Resolver, network: Network, records: Records
) -> None:
    records.answer = OSError("refused")
    assert await resolver.servers(1) == [SERVICE]
    assert resolver.unresolved == {SERVICE: "refused"}
    records.answer = [("a", 1), ("b", 2)]
    both = [Host("a", 1, "10.0.0.1"), Host("b", 2, GOOD)]
    assert await resolver.servers(1) == both
    assert resolver.unresolved == {}
    records.answer = OSError("refused")
    assert await resolver.servers(1) == both
    records.answer = [("b", 2), ("c", 3)]
    network.names["c"] = None
    began = trio.current_time()
    assert await resolver.servers(1) == [both[1], Host("c", 3)]
    assert trio.current_time() - began == pytest.approx(1)
    resolver.replace([SERVICE])
    records.answer = None
    assert await resolver.servers(1) == [both[1], Host("c", 3)]
    resolver.replace([Host("a", 1)])
    assert await resolver.servers(1) == both[:1]


# --- the DNS itself -----------------------------------------------------------------------------------------


async def answer_questions(wire: Any, zone: dict[str, list[str]]) -> None:
    """Be a server of the DNS: of the SRV records of a zone."""
    from dns import flags, message, rcode, rrset

    while True:
        data, asker = await wire.recvfrom(4096)
        question = message.from_wire(data)
        reply = message.make_response(question)
        reply.flags |= flags.RA
        name = question.question[0].name.to_text()
        if name not in zone:
            reply.set_rcode(rcode.NXDOMAIN)
        elif zone[name]:
            reply.answer.append(rrset.from_text(name, 60, "IN", "SRV", *zone[name]))
        await wire.sendto(reply.to_wire(), asker)


async def test_a_server_of_the_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncresolver = pytest.importorskip("dns.asyncresolver", reason="the extra 'srv' is not installed")
    zone = {
        "_zk._tcp.example.": ["0 0 2181 a.example.", "9 5 2182 b.example.", "0 0 0 c.example."],
        "_none._tcp.example.": ["0 0 2181 ."],
        "_empty._tcp.example.": [],
    }
    with trio.socket.socket(type=socket.SOCK_DGRAM) as wire:
        await wire.bind(("127.0.0.1", 0))
        resolver = asyncresolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], wire.getsockname()[1]
        monkeypatch.setattr(asyncresolver, "default_resolver", resolver)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_questions, wire, zone)
            assert sorted(await look_up("_zk._tcp.example")) == [("a.example", 2181), ("b.example", 2182)]
            found = await list_servers(ConnectString.parse("srv+zk://_zk._tcp.example/app").hosts)
            assert sorted(found, key=str) == [Host("a.example", 2181), Host("b.example", 2182)]
            with pytest.raises(OSError, match=r"no SRV record of _none\._tcp\.example names a server"):
                await look_up("_none._tcp.example")
            for name in ("_empty._tcp.example", "_unknown._tcp.example", "a" * 64):
                with pytest.raises(OSError, match=r"."):
                    await look_up(name)
            nursery.cancel_scope.cancel()


async def test_dnspython_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dns.asyncresolver", None)
    with pytest.raises(OSError, match="pip install dnspython"):
        await look_up(NAME)


async def test_who_lists_servers_does_without_it() -> None:
    assert await list_servers([Host("a", 1)]) == [Host("a", 1)]
