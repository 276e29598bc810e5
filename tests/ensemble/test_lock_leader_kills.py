"""Locks on a real ensemble whose leader dies while they are acquired, held and released."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Literal

import attrs
import pytest
import trio

from pyzk.client import UNANSWERED, NoNodeError, SetData, ZooKeeper, connect
from pyzk.recipes import Grant, Lock, LockLost, RWLock
from pyzk.recipes.locks.semaphore import Semaphore

from ..support.real import Ensemble
from ..support.waiting import PATIENCE

pytestmark = pytest.mark.row("F12", "F13")

CLIENTS = 5
SESSION_TIMEOUT = 20.0
Phase = Literal["acquire", "hold", "release"]


@attrs.define
class Resource:
    """What the lock guards. It knows nothing of ZooKeeper but the token."""

    last: int = 0
    inside: list[int] = attrs.Factory(list)
    turns: Counter[int] = attrs.Factory(Counter)
    turned: trio.Event = attrs.Factory(trio.Event)
    waiting_for: dict[Phase, trio.Event] = attrs.Factory(dict)

    def enter(self, client: int, token: int) -> None:
        assert self.inside == [], ("two holders", self.inside, client)
        assert token > self.last, ("a token from the past", token, self.last)
        self.last = token
        self.inside.append(client)

    def leave(self, client: int) -> None:
        self.inside.remove(client)
        self.turns[client] += 1
        self.turned.set()
        self.turned = trio.Event()

    def reached(self, phase: Phase) -> None:
        """Somebody is in the middle of this now."""
        event = self.waiting_for.pop(phase, None)
        if event is not None:
            event.set()

    async def next(self, phase: Phase) -> None:
        event = self.waiting_for[phase] = trio.Event()
        await event.wait()

    async def everybody_again(self) -> None:
        goal = {client: self.turns[client] + 2 for client in range(CLIENTS)}
        with trio.fail_after(PATIENCE):
            while any(self.turns[client] < turns for client, turns in goal.items()):
                await self.turned.wait()


async def work(zk: ZooKeeper, client: int, resource: Resource, layout: str) -> None:
    """Take the lock, write under its fence, and again."""
    lock = Lock(zk, "/lock", layout=layout)  # type: ignore[arg-type]
    while True:
        resource.reached("acquire")
        with suppress(LockLost):
            async with lock as grant:
                resource.enter(client, grant.token)
                try:
                    resource.reached("hold")
                    await write(zk, grant)
                finally:
                    resource.leave(client)
                    resource.reached("release")
        await trio.sleep(0.005)


async def write(zk: ZooKeeper, grant: Grant) -> None:
    """The znode holds the highest token that was ever written: a fence lets nobody write after its time."""
    while True:
        try:
            data, stat = await zk.get("/guarded")
            assert int(data or b"0") <= grant.token, "a later holder has written already"
            fenced = [*grant.fences(), SetData("/guarded", b"%d" % grant.token, stat.version)]
            await zk.multi(fenced)
            return
        except UNANSWERED:
            await zk.session.wait_connected()
        except NoNodeError:
            await grant.verify()
            raise


@pytest.mark.parametrize("layout", ["curator", "both"])
async def test_never_two_holders_while_leaders_die(ensemble: Ensemble, layout: str) -> None:
    resource = Resource()
    async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as judge:
        await judge.create("/guarded", b"0")
        async with trio.open_nursery() as nursery:
            clients: list[ZooKeeper] = []

            async def live(client: int, task_status: trio.TaskStatus[None]) -> None:
                # nothing is left behind only where there is the time to close the session
                async with connect(
                    ensemble.hosts, session_timeout=SESSION_TIMEOUT, close_grace=PATIENCE
                ) as zk:
                    clients.append(zk)
                    task_status.started()
                    await work(zk, client, resource, layout)

            for client in range(CLIENTS):
                await nursery.start(live, client)
            phases: list[Phase] = ["acquire", "hold", "release"]
            for phase in phases:
                await resource.everybody_again()
                leader = await trio.to_thread.run_sync(ensemble.leader)
                await resource.next(phase)
                leader.kill()
                await resource.everybody_again()
                leader.start()
                await trio.to_thread.run_sync(ensemble.wait_until_whole)
            await resource.everybody_again()
            assert sum(zk.metrics.connections for zk in clients) > CLIENTS, "nobody noticed anything"
            assert all(zk.session.generation == 1 for zk in clients), "no session was lost"
            nursery.cancel_scope.cancel()

        with trio.fail_after(PATIENCE):
            await judge.sync("/lock")
            assert await judge.get_children("/lock") == [], "nobody has left anything behind"


async def test_readers_writers_and_leases_survive_the_leader(ensemble: Ensemble) -> None:
    inside: Counter[str] = Counter()
    turns: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:

        async def use(kind: str) -> None:
            async with connect(ensemble.hosts, session_timeout=SESSION_TIMEOUT) as zk:
                rw, semaphore = RWLock(zk, "/rw"), Semaphore(zk, "/semaphore", 2)
                resource = {"read": rw.read(), "write": rw.write(), "lease": semaphore}[kind]
                while True:
                    async with resource:
                        inside[kind] += 1
                        assert inside["write"] <= 1
                        assert not (inside["write"] and inside["read"])
                        assert inside["lease"] <= 2
                        await trio.sleep(0.01)
                        inside[kind] -= 1
                        turns[kind] += 1
                    await trio.sleep(0.005)

        async def progress() -> None:
            goal = {kind: turns[kind] + 6 for kind in ("read", "write", "lease")}
            with trio.fail_after(PATIENCE):
                while any(turns[kind] < count for kind, count in goal.items()):
                    await trio.sleep(0.01)

        for kind in ["read", "read", "write", "write", "lease", "lease", "lease"]:
            nursery.start_soon(use, kind)
        await progress()
        leader = await trio.to_thread.run_sync(ensemble.leader)
        leader.kill()
        await progress()
        leader.start()
        await trio.to_thread.run_sync(ensemble.wait_until_whole)
        await progress()
        nursery.cancel_scope.cancel()
