"""Our elections and partitioners and kazoo's at one path (recipe-rules.md B.6, B.10, D.7, D.11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import attrs
import pytest
import trio
from kazoo.client import KazooClient
from kazoo.recipe.election import Election
from kazoo.recipe.partitioner import SetPartitioner

from pyzk.client import connect
from pyzk.recipes import LockLost, LossReason, Rebalance
from pyzk.recipes.election import LeaderElection, Term
from pyzk.recipes.leader_latch import LeaderLatch
from pyzk.recipes.partitioner import Partitioner
from pyzk.server.testing import EmbeddedServer

from ....support.interop import kazoo_client
from ....support.waiting import PATIENCE, until, waits_for, when_there_are

in_thread = trio.to_thread.run_sync


# --- elections ----------------------------------------------------------------------------------------------


class KazooCandidate:
    """A candidate of kazoo's, which leads until it is told to resign."""

    def __init__(self, kazoo: KazooClient, id: str) -> None:
        self.election = Election(kazoo, "/leader", id)
        self.leads = False
        self._resign = threading.Event()

    async def run(self) -> None:
        await in_thread(self.election.run, self._lead)

    def _lead(self) -> None:
        self.leads = True
        self._resign.wait(PATIENCE)
        self.leads = False

    def resign(self) -> None:
        self._resign.set()


@attrs.define
class Candidate:
    """One of ours."""

    election: LeaderElection
    term: Term | None = None
    reason: LossReason | None = None
    _resign: trio.Event = attrs.Factory(trio.Event)

    async def run(self) -> None:
        try:
            async with self.election.lead() as self.term:
                await self._resign.wait()
        except LockLost as error:
            self.reason = error.reason
        self.term = None

    def resign(self) -> None:
        self._resign.set()


async def test_leaders_of_both_in_turn(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts) as zk,
        connect(server.hosts) as looking_on,
        kazoo_client(server.hosts) as kazoo,
        kazoo_client(server.hosts) as second_kazoo,
        trio.open_nursery() as nursery,
    ):
        election = LeaderElection(zk, "/leader", id="ours", layout="kazoo")
        ours = Candidate(election)
        theirs, last = KazooCandidate(kazoo, "theirs"), KazooCandidate(second_kazoo, "last")
        observed = LeaderElection(looking_on, "/leader", layout="kazoo").observe()
        assert await anext(observed) is None
        for number, candidate in enumerate((theirs, ours, last), 1):
            nursery.start_soon(candidate.run)
            await when_there_are(number, zk, "/leader")
        assert [node.data for node in await election.contenders()] == [b"theirs", b"ours", b"last"]
        assert await in_thread(theirs.election.contenders) == ["theirs", "ours", "last"]
        await until(lambda: theirs.leads)
        leader = await anext(observed)
        assert leader is not None
        assert leader.data == b"theirs"
        await until(lambda: zk.watch_count == 2)  # ours waits: its own znode, and the one before
        assert ours.term is None

        theirs.resign()
        await until(lambda: ours.term and not theirs.leads)
        leader = await anext(observed)
        assert leader is not None
        assert leader.data == b"ours"
        await waits_for(server, second_kazoo.client_id[0], leader.path)
        assert not last.leads

        ours.resign()
        await until(lambda: last.leads and ours.term is None)
        last.resign()


async def test_our_leader_loses_its_session_and_kazoo_leads(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts, on_expired="new_session") as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        ours, theirs = Candidate(LeaderElection(zk, "/leader", layout="kazoo")), KazooCandidate(kazoo, "")
        nursery.start_soon(ours.run)
        await until(lambda: ours.term)
        nursery.start_soon(theirs.run)
        await when_there_are(2, zk, "/leader")
        server.expire(zk.session.id)
        await until(lambda: theirs.leads)
        await until(lambda: ours.term is None)
        assert ours.reason is LossReason.SESSION_EXPIRED
        theirs.resign()


async def test_kazoos_leader_loses_its_session_and_our_latch_leads(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        theirs = KazooCandidate(kazoo, "theirs")
        nursery.start_soon(theirs.run)
        await until(lambda: theirs.leads)
        async with LeaderLatch(zk, "/leader", layout="kazoo") as latch:
            await when_there_are(2, zk, "/leader")
            assert not latch.is_leader
            server.expire(kazoo)
            await latch.wait_leader()
            assert latch.is_leader
            assert theirs.leads, "nobody tells a leader of kazoo's"
            theirs.resign()


# --- partitioners -------------------------------------------------------------------------------------------

ITEMS = ["a", "b", "c", "d", "e"]
SETTLE = 0.05


class KazooMember:
    """A member of kazoo's, at work in a thread as its documentation has it.

    :ivar content: it does not ask for another share. (If it does while its session ends, a thread of kazoo's
        may raise ValueError: it does not find itself among the members.)
    """

    def __init__(self, kazoo: KazooClient, id: str) -> None:
        self.share: list[str] | None = None
        self.content = False
        self._kazoo = kazoo
        self._id = id
        self._stop = threading.Event()
        self._over = trio.Event()

    async def run(self) -> None:
        await in_thread(self._work)
        self._over.set()

    def _work(self) -> None:
        member = SetPartitioner(
            self._kazoo, "/work", ITEMS, identifier=self._id, time_boundary=SETTLE, max_reaction_time=0.05
        )
        while not self._stop.is_set() and not member.failed:
            if member.release:
                self.share = None
                if not self.content:
                    member.release_set()
            elif member.acquired:
                self.share = list(member)
            if not member.allocating:
                time.sleep(0.005)
            else:
                member.wait_for_acquire(0.05)
        self.share = None
        member.finish()

    async def stop(self) -> None:
        self._stop.set()
        await self._over.wait()


class Member:
    """One of ours."""

    def __init__(self, partitioner: Partitioner, beside: KazooMember | None = None) -> None:
        self.share: list[str] | None = None
        self._partitioner = partitioner
        self._beside = beside
        self._scope = trio.CancelScope()
        self._over = trio.Event()

    async def run(self) -> None:
        with self._scope:
            async with self._partitioner:
                while True:
                    with suppress(Rebalance, LockLost):
                        async with self._partitioner.share() as items:
                            with self._owning(list(items)):
                                await trio.sleep_forever()
        self._over.set()

    @contextmanager
    def _owning(self, items: list[str]) -> Iterator[None]:
        if self._beside is not None:
            assert not set(items) & set(self._beside.share or [])
        self.share = items
        try:
            yield
        finally:
            self.share = None

    async def stop(self) -> None:
        self._scope.cancel()
        await self._over.wait()


@pytest.mark.parametrize(("our_id", "their_id"), [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("first", ["ours", "theirs"])
async def test_members_of_both(server: EmbeddedServer, our_id: str, their_id: str, first: str) -> None:
    async with (
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        theirs = KazooMember(kazoo, their_id)
        ours = Member(Partitioner(zk, "/work", ITEMS, our_id, settle=SETTLE), theirs)
        here, comes = (ours, theirs) if first == "ours" else (theirs, ours)
        nursery.start_soon(here.run)
        await until(lambda: here.share == ITEMS)
        nursery.start_soon(comes.run)
        shares = {"x": ["a", "c", "e"], "y": ["b", "d"]}
        await until(lambda: ours.share == shares[our_id] and theirs.share == shares[their_id])
        await here.stop()
        await until(lambda: comes.share == ITEMS)
        await comes.stop()
        assert await zk.get_children("/work/party") == []


async def test_our_member_loses_its_session_and_comes_back(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts, on_expired="new_session") as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        theirs = KazooMember(kazoo, "y")
        ours = Member(Partitioner(zk, "/work", ITEMS, "x", settle=SETTLE), theirs)
        nursery.start_soon(theirs.run)
        nursery.start_soon(ours.run)
        await until(lambda: ours.share == ["a", "c", "e"] and theirs.share == ["b", "d"])
        server.expire(zk.session.id)
        await until(lambda: ours.share is None)
        await until(lambda: ours.share == ["a", "c", "e"] and theirs.share == ["b", "d"])
        assert zk.session.generation == 2
        await theirs.stop()
        await ours.stop()


async def test_kazoos_member_loses_its_session(server: EmbeddedServer) -> None:
    async with (
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        theirs = KazooMember(kazoo, "y")
        ours = Member(Partitioner(zk, "/work", ITEMS, "x", settle=SETTLE))  # kazoo is told late
        nursery.start_soon(theirs.run)
        await until(lambda: theirs.share == ITEMS)
        nursery.start_soon(ours.run)
        await until(lambda: ours.share == ["a", "c", "e"])
        await until(lambda: theirs.share == ["b", "d"])
        theirs.content = True
        server.expire(kazoo)
        await until(lambda: theirs.share is None)
        await until(lambda: ours.share == ITEMS)
        await ours.stop()
