"""Our barriers and kazoo's at one path (recipe-rules.md B.7)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.recipe.barrier import Barrier as KazooBarrier
from kazoo.recipe.barrier import DoubleBarrier as KazooDoubleBarrier

from pyzk.client import ZooKeeper, connect
from pyzk.recipes.barrier import Barrier
from pyzk.recipes.double_barrier import READY, DoubleBarrier
from pyzk.server.testing import EmbeddedServer

from ....support.interop import kazoo_client
from ....support.waiting import until, waits_for, when_there_are

PATH = "/barrier"


def session_of(kazoo: KazooClient) -> int:
    return kazoo.client_id[0]  # type: ignore[no-any-return]


async def test_kazoo_waits_for_ours(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        ours, theirs = Barrier(zk, PATH), KazooBarrier(kazoo, PATH)
        await ours.create()
        through: list[bool] = []

        async def wait() -> None:
            through.append(await trio.to_thread.run_sync(theirs.wait, 10))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await waits_for(server, session_of(kazoo), PATH)
            assert through == []
            assert await ours.remove() is True
        assert through == [True]


async def test_ours_waits_for_kazoos(server: EmbeddedServer) -> None:
    async with connect(server.hosts) as zk, kazoo_client(server.hosts) as kazoo:
        ours, theirs = Barrier(zk, PATH), KazooBarrier(kazoo, PATH)
        await trio.to_thread.run_sync(theirs.create)
        await ours.create()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.wait)
            await waits_for(server, zk.session.id, PATH)
            server.disconnect(zk.session.id)
            assert await trio.to_thread.run_sync(theirs.remove) is True
        assert await ours.remove() is False


def waits_for_another(server: EmbeddedServer, session: int) -> bool:
    """Whether a session watches the znode of a member."""
    watches = [path for found in server.sessions() if found.id == session for path in found.watches]
    return any(path.startswith(f"{PATH}/") and not path.endswith(READY) for path in watches)


class Ours:
    """Our member, in a task."""

    def __init__(self, zk: ZooKeeper, n: int) -> None:
        self.session = zk.session.id
        self.inside = False
        self.out = False
        self._barrier = DoubleBarrier(zk, PATH, n)
        self._end = trio.Event()

    async def run(self) -> None:
        async with self._barrier:
            self.inside = True
            await self._end.wait()
        self.out = True

    def leave(self) -> None:
        self._end.set()


class Theirs:
    """kazoo's member. Its calls block a thread each."""

    def __init__(self, kazoo: KazooClient, n: int) -> None:
        self.session = session_of(kazoo)
        self.inside = False
        self.out = False
        self._barrier = KazooDoubleBarrier(kazoo, PATH, n)
        self._end = trio.Event()

    async def run(self) -> None:
        await trio.to_thread.run_sync(self._barrier.enter)
        assert self._barrier.participating
        self.inside = True
        await self._end.wait()
        await trio.to_thread.run_sync(self._barrier.leave)
        self.out = True

    def leave(self) -> None:
        self._end.set()


@asynccontextmanager
async def members(server: EmbeddedServer, order: str) -> AsyncIterator[list[Ours | Theirs]]:
    """One member after the other: O is ours, K is kazoo's."""
    async with (
        connect(server.hosts) as observer,
        connect(server.hosts) as zk,
        kazoo_client(server.hosts) as kazoo,
        trio.open_nursery() as nursery,
    ):
        there: list[Ours | Theirs] = []
        for letter in order:
            assert not any(member.inside for member in there)
            member = Ours(zk, len(order)) if letter == "O" else Theirs(kazoo, len(order))
            nursery.start_soon(member.run)
            there.append(member)
            if len(there) < len(order):
                await when_there_are(len(there), observer, PATH)
                await waits_for(server, member.session, f"{PATH}/{READY}")
        yield there
    assert all(member.out for member in there)
    left = [path for path in server.dump() if path.startswith(f"{PATH}/")]
    assert left == []


@pytest.mark.parametrize("order", ["OK", "KO", "OKO", "KOK", "OOK", "KKO"])
async def test_they_begin_together_and_end_together(server: EmbeddedServer, order: str) -> None:
    async with members(server, order) as there:
        await until(lambda: all(member.inside for member in there))
        for member in there[:-1]:
            member.leave()
        await until(lambda: all(waits_for_another(server, member.session) for member in there[:-1]))
        assert not any(member.out for member in there)
        there[-1].leave()


@pytest.mark.parametrize("order", ["OK", "KO"])
async def test_kazoo_leaves_at_once(server: EmbeddedServer, order: str) -> None:
    """It deletes ``ready`` as it begins to leave: ours must have been let in all the same."""
    async with members(server, order) as there:
        for member in there:
            if isinstance(member, Theirs):
                member.leave()
        await until(lambda: all(member.inside for member in there))
        for member in there:
            member.leave()


async def test_names(server: EmbeddedServer) -> None:
    """They differ, and both count."""
    async with members(server, "OK") as there:
        await until(lambda: all(member.inside for member in there))
        names = sorted(path.removeprefix(f"{PATH}/") for path in server.dump() if path.startswith(f"{PATH}/"))
        assert names[-1] == READY
        assert sorted(len(name) for name in names[:-1]) == [32, 36]
        assert all(re.fullmatch("[0-9a-f-]+", name) for name in names[:-1])
        for member in there:
            member.leave()
