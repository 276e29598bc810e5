"""Our elections and Apache Curator's at one path (recipe-rules.md B.6, D.7)."""

from __future__ import annotations

import pytest
import trio

from pyzk.client import connect
from pyzk.recipes.election import ElectionLayout, LeaderElection, Term
from pyzk.recipes.errors import LockLost, LossReason
from pyzk.recipes.leader_latch import LeaderLatch
from pyzk.server.testing import EmbeddedServer

from ....support.waiting import until, waits_for, when_there_are
from .process import CuratorProcess

KINDS: list[tuple[ElectionLayout, str]] = [("curator-latch", "latch"), ("curator-selector", "selector")]


class Candidate:
    """A task that stands for election, and leads until it is told to resign."""

    def __init__(self, election: LeaderElection) -> None:
        self.term: Term | None = None
        self.leads = trio.Event()
        self.resigned = trio.Event()
        self._election = election
        self._resign = trio.Event()

    async def run(self) -> None:
        async with self._election.lead() as self.term:
            self.leads.set()
            await self._resign.wait()
        self.resigned.set()

    async def resign(self) -> None:
        self._resign.set()
        await self.resigned.wait()

    async def waits(self) -> None:
        """Wait until it waits: it watches its own znode and the one before."""
        await until(lambda: self._election.zk.watch_count == 2)
        assert not self.leads.is_set()


@pytest.mark.parametrize(("layout", "kind"), KINDS)
async def test_leaders_in_turn(
    hosts: str, curator: CuratorProcess, layout: ElectionLayout, kind: str
) -> None:
    async with (
        connect(hosts) as zk,
        connect(hosts) as looking_on,
        curator.client(hosts) as client,
        trio.open_nursery() as nursery,
    ):
        first = Candidate(LeaderElection(zk, "/leader", id="ours", layout=layout))
        nursery.start_soon(first.run)
        await first.leads.wait()
        theirs = await client.make(kind, "/leader", "theirs")
        await theirs("start")
        await when_there_are(2, zk, "/leader")
        assert await theirs("participants") == ["ours", "theirs"]
        assert await theirs("leader") == "ours"
        assert await theirs("leads") is False
        leaders = LeaderElection(looking_on, "/leader", layout=layout).observe()
        leader = await anext(leaders)
        assert leader is not None
        assert leader.data == b"ours"

        await first.resign()
        assert await theirs.event() == "leads"
        leader = await anext(leaders)
        assert leader is not None
        assert (leader.data, leader.stat.ephemeralOwner) == (b"theirs", client.session)

        again = LeaderElection(zk, "/leader", id="again", layout=layout)
        second = Candidate(again)
        nursery.start_soon(second.run)
        await second.waits()
        assert [candidate.data for candidate in await again.contenders()] == [b"theirs", b"again"]
        assert await theirs("participants") == ["theirs", "again"]
        await theirs("close" if kind == "latch" else "resign")
        await second.leads.wait()
        assert first.term is not None
        assert second.term is not None
        assert first.term.token < leader.stat.czxid < second.term.token
        await second.resign()


@pytest.mark.parametrize(("layout", "kind"), KINDS)
async def test_curators_leader_loses_its_session(
    server: EmbeddedServer, curator: CuratorProcess, layout: ElectionLayout, kind: str
) -> None:
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs = await client.make(kind, "/leader", "theirs")
        await theirs("start")
        assert await theirs.event() == "leads"
        ours = Candidate(LeaderElection(zk, "/leader", layout=layout))
        nursery.start_soon(ours.run)
        await ours.waits()
        server.expire(client.session)
        await ours.leads.wait()
        assert await theirs.event() == "deposed"
        await client.remote.wait_event("RECONNECTED")
        if kind == "latch":  # it stands again, behind ours
            await when_there_are(2, zk, "/leader")
            assert await theirs("leads") is False
            await ours.resign()
            assert await theirs.event() == "leads"
        else:
            await ours.resign()


@pytest.mark.parametrize(("layout", "kind"), KINDS)
async def test_our_leader_loses_its_session(
    server: EmbeddedServer, curator: CuratorProcess, layout: ElectionLayout, kind: str
) -> None:
    async with curator.client(server.hosts) as client:
        with pytest.raises(LockLost) as lost:
            async with (
                connect(server.hosts, on_expired="new_session") as zk,
                LeaderElection(zk, "/leader", layout=layout).lead() as term,
            ):
                theirs = await client.make(kind, "/leader", "theirs")
                await theirs("start")
                await waits_for(server, client.session, term.path)
                server.expire(term.session_id)
                await trio.sleep_forever()
        assert lost.value.reason is LossReason.SESSION_EXPIRED
        assert await theirs.event() == "leads"


async def test_curators_leader_is_disconnected(server: EmbeddedServer, curator: CuratorProcess) -> None:
    """It does not lead until it is back; nobody else does either, for it keeps its place."""
    async with (
        connect(server.hosts) as zk,
        curator.client(server.hosts) as client,
        trio.open_nursery() as nursery,
    ):
        theirs = await client.make("latch", "/leader", "theirs")
        await theirs("start")
        assert await theirs.event() == "leads"
        place = await theirs("path")
        ours = Candidate(LeaderElection(zk, "/leader"))
        nursery.start_soon(ours.run)
        await ours.waits()
        server.disconnect(client.session)
        assert await theirs.event() == "deposed"
        assert await theirs.event() == "leads"
        assert await theirs("path") == place
        await ours.waits()
        await theirs("close")
        await ours.leads.wait()
        await ours.resign()


async def test_latches_of_both(hosts: str, curator: CuratorProcess) -> None:
    async with connect(hosts) as zk, curator.client(hosts) as client:
        theirs = await client.make("latch", "/leader", "theirs")
        await theirs("start")
        assert await theirs.event() == "leads"
        async with LeaderLatch(zk, "/leader", id="ours") as latch:
            await when_there_are(2, zk, "/leader")
            assert await theirs("participants") == ["theirs", "ours"]
            assert not latch.is_leader
            await theirs("close")
            async with latch.term():
                again = await client.make("latch", "/leader", "again")
                await again("start")
                await when_there_are(2, zk, "/leader")
                assert await again("leader") == "ours"
                assert await again("leads") is False
            assert latch.is_leader
        assert await again.event() == "leads"


async def test_somebody_deletes_our_leaders_znode(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("latch", "/leader", "theirs")
        with pytest.raises(LockLost) as lost:
            async with LeaderElection(zk, "/leader").lead() as term:
                await theirs("start")
                await waits_for(server, client.session, term.path)
                await zk.delete(term.path)
                await trio.sleep_forever()
        assert lost.value.reason is LossReason.NODE_DELETED
        assert await theirs.event() == "leads"


async def test_curator_asks_our_leader_to_resign(server: EmbeddedServer, curator: CuratorProcess) -> None:
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        theirs = await client.make("selector", "/leader", "theirs")
        async with LeaderElection(zk, "/leader", layout="curator-selector").lead() as term:
            await theirs("start")
            await waits_for(server, client.session, term.path)
            await client.remote("revoke", term.path)
            await term.revoked.wait()
            assert await theirs("leads") is False
        assert await theirs.event() == "leads"


async def test_our_candidate_whose_create_loses_its_reply(
    server: EmbeddedServer, curator: CuratorProcess
) -> None:
    """One znode, and Curator behind it."""
    async with connect(server.hosts) as zk, curator.client(server.hosts) as client:
        await zk.create("/leader")
        with server.fault(op="create", session=zk.session.id, when="after", action="disconnect"):
            async with LeaderElection(zk, "/leader", id="ours").lead() as term:
                theirs = await client.make("latch", "/leader", "theirs")
                await theirs("start")
                await waits_for(server, client.session, term.path)
                assert await theirs("participants") == ["ours", "theirs"]
        assert await theirs.event() == "leads"
