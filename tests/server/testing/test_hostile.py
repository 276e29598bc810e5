"""The hostile server: its behaviour is rare, and legal all the same.

HYPOTHESIS_PROFILE=nightly tries 400 seeds.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import settings
from trio.testing import MockClock

from pyzk.protocol import records as r
from pyzk.protocol.constants import AddWatchMode, CreateMode, EventType
from pyzk.protocol.multi import MultiOp, encode_multi
from pyzk.protocol.operations import OpCode
from pyzk.server import open_server
from pyzk.server.core.txn import AnyEffect, CloseSession, Create, Delete, Multi, SetData, Txn
from pyzk.server.testing import LocalServer, hostile

from ...support.invariants import check_tree_invariants
from ...support.wire import ClosedError, Event, Reply, StreamClient

SEEDS = range(400 if settings.get_current_profile_name() == "nightly" else 8)
UNDISTURBED = 5
"""A seed with which the first 100 requests of the first two sessions keep their connections."""
LATEST = hostile._LATEST

Change = tuple[EventType, str]


async def join(server: LocalServer, **handshake: Any) -> StreamClient:
    """Connect, which is refused now and then."""
    while True:
        with suppress(ClosedError, trio.BrokenResourceError):
            return await StreamClient(server.open_stream()).connect(**handshake)


def changes(effect: AnyEffect) -> list[Change]:
    """The events of a transaction, as a recursive watch on everything sees them."""
    match effect:
        case Create():
            return [(EventType.CREATED, effect.path)]
        case Delete():
            return [(EventType.DELETED, effect.path)]
        case SetData():
            return [(EventType.CHANGED, effect.path)]
        case CloseSession():
            return [(EventType.DELETED, path) for path in effect.paths]
        case Multi():
            return [change for part in effect.effects for change in changes(part)]
    return []


@attrs.define(eq=False)
class Witness:
    """A client that does anything, and checks the rules of the protocol in all that it hears."""

    server: LocalServer
    random: random.Random
    client: StreamClient | None = None
    session: tuple[int, bytes] = (0, bytes(16))
    seen: int = 0
    """The highest zxid of a reply on this connection."""
    connections: int = 0
    events: int = 0
    orders: dict[frozenset[str], set[tuple[str, ...]]] = attrs.Factory(lambda: defaultdict(set))

    async def live(self, requests: int) -> None:
        for _ in range(requests):
            try:
                if self.client is None:
                    await self._connect()
                assert self.client is not None
                await self._ask(self.client)
            except (ClosedError, trio.BrokenResourceError):
                self.client = None
            await trio.sleep(self.random.choice([0, 0, 0, 0.01, 0.5]))

    async def _connect(self) -> None:
        session_id, password = self.session
        client = await join(self.server, session_id=session_id, password=password, last_zxid=self.seen)
        assert session_id in (0, client.session_id), "no session may end early"
        self.session = client.session_id, client.password
        self.client, self.seen = client, 0
        self.connections += 1

    async def _ask(self, client: StreamClient) -> None:
        """Send some requests at once, and check what comes until all of them are answered."""
        asked = [self._any() for _ in range(self.random.choice([1, 1, 3]))]
        first = await self._send(client, asked)
        answered = 0
        while answered < len(asked):
            found = await client.next()
            if isinstance(found, Event):
                self._check_event(found)
            else:
                assert found.xid == first + answered, "wire.md section 7, rule 1"
                assert found.zxid >= self.seen, "wire.md section 7, rule 2"
                self.seen = found.zxid
                self._check_reply(found)
                answered += 1

    async def _send(self, client: StreamClient, asked: list[tuple[int, Any]]) -> int:
        frames = [client.encode(*each) for each in asked]
        await client.stream.send_all(b"".join(frames))
        return client._pending[-1][0] - len(asked) + 1

    def _check_event(self, event: Event) -> None:
        self.events += 1
        if event.zxid != -1:
            assert event.zxid > self.seen, "wire.md section 7, rule 3: a reply has told of this already"

    def _check_reply(self, reply: Reply) -> None:
        if reply.op == OpCode.GET_CHILDREN2 and not reply.err:
            children = reply.record.children
            assert len(set(children)) == len(children) == reply.record.stat.numChildren
            self.orders[frozenset(children)].add(tuple(children))

    def _any(self) -> tuple[int, Any]:
        path = self.random.choice(["/a", "/b", "/a/x", "/a/y", "/b/x", "/b/y", "/b/z"])
        watch = self.random.random() < 0.5
        flags = self.random.choice([CreateMode.PERSISTENT, CreateMode.EPHEMERAL])
        parent = path[:2]
        transaction = [
            MultiOp(OpCode.SET_DATA, r.SetDataRequest(parent, b"1", -1)),
            MultiOp(OpCode.DELETE, r.DeleteRequest(path, -1)),
        ]
        create = r.CreateRequest(path, b"", r.OPEN_ACL, flags if len(path) > 2 else 0)
        choices = [
            *[(OpCode.CREATE, create)] * 3,
            (OpCode.CREATE, r.CreateRequest("/b/n-", b"", r.OPEN_ACL, CreateMode.EPHEMERAL_SEQUENTIAL)),
            (OpCode.DELETE, r.DeleteRequest(path, -1)),
            (OpCode.SET_DATA, r.SetDataRequest(path, b"2", -1)),
            (OpCode.GET_DATA, r.GetDataRequest(path, watch)),
            (OpCode.EXISTS, r.ExistsRequest(path, watch)),
            (OpCode.GET_CHILDREN2, r.GetChildren2Request(parent, watch)),
            (OpCode.MULTI, encode_multi(transaction)),
            (OpCode.SYNC, r.SyncRequest(path)),
        ]
        return self.random.choice(choices)


async def spectate(server: LocalServer) -> StreamClient:
    """A client that watches all, and from then on sends nothing, so that nothing disturbs it."""
    while True:
        client = await join(server, timeout=600_000)
        with suppress(ClosedError):
            assert (await client.add_watch("/", AddWatchMode.PERSISTENT_RECURSIVE)).err == 0
            return client
        server.expire(client.session_id)


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_rules_of_the_protocol_hold(autojump_clock: MockClock, seed: int) -> None:
    """Several clients do anything; one that sends nothing watches all, and misses nothing."""
    told: list[tuple[int, Change]] = []
    txns: list[Txn] = []
    times = {"tick_time": 100, "max_session_timeout": 600_000}
    async with open_server(hostile=seed, **times) as server, trio.open_nursery() as nursery:
        spectator = await spectate(server)

        async def watch() -> None:
            while True:
                event = await spectator.next()
                if isinstance(event, Event):
                    told.append((event.zxid, (EventType(event.type), event.path or "")))

        engine = server.running.engine
        inner = engine.on_txn

        def on_txn(txn: Txn) -> None:
            assert inner is not None
            inner(txn)
            txns.append(txn)

        engine.on_txn = on_txn
        nursery.start_soon(watch)
        witnesses = [Witness(server, random.Random(100 * seed + n)) for n in range(4)]
        async with trio.open_nursery() as inner_nursery:
            for witness in witnesses:
                inner_nursery.start_soon(witness.live, 120)
        await trio.sleep(30)  # sessions whose clients are silent end
        assert [session.id for session in server.sessions()] == [spectator.session_id]
        check_tree_invariants(engine.tree)
        await trio.sleep(LATEST)
        nursery.cancel_scope.cancel()
    zxids = [txn.zxid for txn in txns]
    assert zxids == sorted(set(zxids)), "semantics.md section 2"
    happened = [(txn.zxid, change) for txn in txns for change in changes(txn.effect)]
    assert [change for _, change in told] == [change for _, change in happened]
    if told[0][0] != -1:
        assert told == happened, "semantics.md section 7: all ephemerals of a session have one zxid"
    assert sum(witness.events for witness in witnesses) > 20
    assert sum(witness.connections for witness in witnesses) > 4, "nobody was ever disconnected"
    assert zxids[-1] - zxids[0] > 2 * len(zxids), "zxids have no gaps"
    assert any(len(orders) > 1 for witness in witnesses for orders in witness.orders.values())


async def test_an_event_comes_before_the_next_reply_or_in_time(autojump_clock: MockClock) -> None:
    late = []
    async with open_server(hostile=UNDISTURBED) as server:
        watcher, writer = await join(server), await join(server)
        for n in range(8):
            await watcher.exists(f"/{n}", watch=True)
            began = trio.current_time()
            await writer.create(f"/{n}")
            if n % 2:
                await watcher.send(OpCode.SYNC, r.SyncRequest("/"))
            assert isinstance(await watcher.next(), Event)
            if n % 2:
                assert isinstance(await watcher.next(), Reply)
            else:
                late.append(trio.current_time() - began)
    assert 0.1 < max(late) <= LATEST + 0.1, "0.1 s: a request and a reply may be delayed, too"


async def test_lists_come_in_any_order(autojump_clock: MockClock) -> None:
    names = [f"{n}" for n in range(6)]
    async with open_server(hostile=UNDISTURBED) as server:
        server.load({"/p": dict.fromkeys(names, "")})
        client = await join(server)
        await client.create("/own-a", flags=CreateMode.EPHEMERAL)
        await client.create("/own-b", flags=CreateMode.EPHEMERAL)
        children, batched, owned = set(), set(), set()
        for _ in range(8):
            children.add(tuple((await client.children("/p")).record.children))
            read = encode_multi([MultiOp(OpCode.GET_CHILDREN, r.GetChildrenRequest("/p", False))])
            [result] = (await client.request(OpCode.MULTI_READ, read)).results
            batched.add(tuple(result.response.children))  # type: ignore[union-attr]
            owned.add(tuple((await client.ephemerals("/")).record.ephemerals))
    for found, whole in ((children, names), (batched, names), (owned, ["/own-a", "/own-b"])):
        assert len(found) > 1
        assert {tuple(sorted(each)) for each in found} == {tuple(whole)}


async def test_nothing_is_late_while_the_clock_stands_still() -> None:
    async with open_server(hostile=1, clock="frozen") as server:
        watcher, writer = await join(server), await join(server)
        for n in range(60):
            try:
                await watcher.exists(f"/{n}", watch=True)
                await writer.create(f"/{n}")
                with trio.fail_after(10):  # real seconds; as a rule it is there at once
                    await watcher.next_frame()
            except (ClosedError, trio.BrokenResourceError):
                watcher, writer = await join(server), await join(server)


async def test_a_session_that_is_closed_is_closed(autojump_clock: MockClock) -> None:
    async with open_server(hostile=1) as server:
        for _ in range(300):
            client = await join(server)
            assert (await client.request(OpCode.CLOSE_SESSION)).err == 0
        assert server.leaks() == []


async def test_reset_begins_again_with_the_same_seed(autojump_clock: MockClock) -> None:
    async def orders(server: LocalServer) -> list[Any]:
        server.load({"/p": dict.fromkeys("abcdef", "")})
        client = await join(server)
        found: list[Any] = [(await client.children("/p")).record.children for _ in range(5)]
        with suppress(ClosedError):
            while len(found) < 1000:
                found.append((await client.exists("/")).err)
        return found

    async with open_server(hostile=UNDISTURBED) as server:
        first = await orders(server)
        assert len(first) < 1000, "its connection is lost some time, and again at the same request"
        server.reset()
        assert await orders(server) == first


async def test_chaos_goes_beside_it(autojump_clock: MockClock) -> None:
    async with open_server(hostile=UNDISTURBED) as server:
        client = await join(server)
        with server.chaos(1, lose_reply=1.0, op="create") as chaos, pytest.raises(ClosedError):
            await client.create("/a")
        assert chaos.counts == {"lose_reply": 1}
        assert "/a" in server.dump()


def test_the_documentation_has_the_figures() -> None:
    text = (Path(__file__).parents[3] / "docs" / "testing-faults.md").read_text()
    section = text.partition("\n## A hostile server\n")[2].partition("\n## ")[0]
    percent = {fault: 100 * rate for fault, rate in hostile._RATES.items()}
    assert percent["delay_request"] == percent["delay_reply"]
    assert percent["disconnect"] == percent["lose_reply"]
    for said in (
        f"| {percent['delay_request']:g} % of requests, and {percent['delay_reply']:g} % of replies",
        f"are up to {hostile._LONGEST:g} s late",
        f"| {percent['disconnect'] + percent['lose_reply']:g} % of requests lose their connection, half",
        f"{percent['refuse']:g} % of handshakes are not answered",
        f"or up to {hostile._LATEST:g} s late",
    ):
        assert said in section


def test_nobody_pays_for_what_is_not_used() -> None:
    code = """
import sys
from pyzk.server.testing import EmbeddedServer
from pyzk.server.testing.gate import MessageGate
with EmbeddedServer() as server:
    server.dump()
    assert type(server.running.gate) is MessageGate
print([name for name in sys.modules if name.endswith(('.chaos', '.hostile'))])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("wrong", ["seven", 1.5])
def test_a_seed_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="hostile"):
        open_server(hostile=wrong)
