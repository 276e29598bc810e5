"""Nothing that is held is held twice, whatever happens to one of the servers: many holders at once, sessions
of several timeouts, contenders at other servers. What counts is when the code of a holder was cancelled, and
when the same lock was granted to another.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import attrs
import pytest
import trio

from pyzk.client import SessionExpiredError, connect
from pyzk.recipes import Lock, LockLost

from ..support import jvm
from ..support.needs import need
from ..support.real import HOST, Ensemble, Node
from ..support.waiting import until

TICK = 2.0
"""Seconds; as in the sample configuration of the real server, and ``syncLimit`` likewise."""
SYNC_LIMIT = 5
PATIENCE = 90.0  # seconds; for a lock to be passed on
TIMEOUTS = (4.0, 6.0, 10.0)
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
HOLDERS = 20
"""For each timeout."""
ROUNDS = 20 if NIGHTLY else 1
nightly = pytest.mark.skipif(not NIGHTLY, reason="half a minute of waiting: HYPOTHESIS_PROFILE=nightly")


@pytest.fixture(scope="module")
def servers() -> Iterator[Ensemble]:
    need(jvm.missing())
    with Ensemble(3, tick=round(TICK * 1000), sync_limit=SYNC_LIMIT, linked=True) as ensemble:
        yield ensemble


@attrs.define
class Held:
    """One lock: its holder's timeout, when the holder's code was cancelled, when another was granted it."""

    timeout: float
    cancelled: float | None = None
    granted: float | None = None


def at(*nodes: Node) -> str:
    return ",".join(f"{HOST}:{node.port}" for node in nodes)


def roles(ensemble: Ensemble) -> tuple[Node, Node, Node]:
    """The leader, and its followers."""
    leader = ensemble.leader()
    ensemble.wait_until_whole()
    one, two = (node for node in ensemble.nodes if node is not leader)
    return leader, one, two


@asynccontextmanager
async def holders(
    holder_hosts: str, other_hosts: str, timeouts: tuple[float, ...] = TIMEOUTS
) -> AsyncIterator[list[Held]]:
    """Many locks, each held by a session at ``holder_hosts`` and wanted by one at ``other_hosts``."""
    locks = [Held(timeout) for timeout in timeouts for _ in range(HOLDERS)]
    base = f"/lease-{random.randrange(2**60)}"

    async def hold(held: Held, path: str, task_status: trio.TaskStatus[None]) -> None:
        await trio.sleep(random.uniform(0, TICK))  # at any moment between two reports
        while held.cancelled is None:  # a machine under load may lose a session before it holds anything
            with suppress(SessionExpiredError, LockLost):
                async with (
                    connect(
                        holder_hosts, session_timeout=held.timeout, connect_timeout=60, close_grace=0
                    ) as zk,
                    Lock(zk, path),
                ):
                    task_status.started()
                    try:
                        await trio.sleep_forever()
                    finally:
                        held.cancelled = trio.current_time()

    async def want(held: Held, path: str) -> None:
        async with connect(other_hosts, session_timeout=60, connect_timeout=60) as zk, Lock(zk, path):
            held.granted = trio.current_time()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as starting:
            for number, held in enumerate(locks):
                starting.start_soon(nursery.start, hold, held, f"{base}-{number}")
        for number, held in enumerate(locks):
            nursery.start_soon(want, held, f"{base}-{number}")
        await trio.sleep(max(timeouts) / 2 + random.uniform(0, TICK))  # the lease is as short as it gets
        yield locks
        nursery.cancel_scope.cancel()


def judge(locks: list[Held], fault: float, title: str) -> None:
    """No lock had two holders. Prints, for each timeout, when holders were cancelled and others granted."""
    print(f"\n{title}")
    for timeout in sorted({held.timeout for held in locks}):
        ours = [held for held in locks if held.timeout == timeout]
        given = [held for held in ours if held.granted is not None]
        for held in given:
            assert held.cancelled is not None, f"{title}: granted while held, at a timeout of {timeout} s"
        gaps = [held.granted - held.cancelled for held in given if held.granted and held.cancelled]
        if gaps:
            cancelled = max(held.cancelled - fault for held in given if held.cancelled)
            granted = min(held.granted - fault for held in given if held.granted)
            print(
                f"  timeout {timeout:4.0f} s: {len(given)} of {len(ours)} passed on; last holder cancelled "
                f"after {cancelled:.2f} s, first other granted after {granted:.2f} s, "
                f"least time between {min(gaps):.2f} s"
            )
            assert min(gaps) > 0, f"{title}: two holders for {-min(gaps):.2f} s at a timeout of {timeout} s"
        else:
            print(f"  timeout {timeout:4.0f} s: all {len(ours)} kept")


def passed_on(locks: list[Held]) -> bool:
    return all(held.granted is not None for held in locks)


@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_follower_cut_off_from_its_leader(servers: Ensemble, round: int) -> None:
    leader, follower, other = roles(servers)
    async with holders(at(follower), at(leader, other)) as locks:
        fault = trio.current_time()
        servers.cut(follower, leader)
        try:
            await until(lambda: passed_on(locks), PATIENCE)
        finally:
            servers.heal(follower, leader)
    judge(locks, fault, "a follower is cut off from its leader")


@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_follower_killed(servers: Ensemble, round: int) -> None:
    leader, follower, other = roles(servers)
    async with holders(at(follower), at(leader, other)) as locks:
        fault = trio.current_time()
        follower.kill()
        try:
            await until(lambda: passed_on(locks), PATIENCE)
        finally:
            follower.start()
    judge(locks, fault, "a follower is killed")


@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_follower_stopped_for_a_while(servers: Ensemble, round: int) -> None:
    """When it goes on it has messages of both sides to catch up with, in any order."""
    leader, follower, other = roles(servers)
    async with holders(at(follower), at(leader, other)) as locks:
        fault = trio.current_time()
        follower.pause()
        try:
            await trio.sleep(random.uniform(1, 5))
        finally:
            follower.resume()
        await trio.sleep(max(TIMEOUTS))
    judge(locks, fault, "a follower stands still for a while")


@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_leader_stopped_for_a_while(servers: Ensemble, round: int) -> None:
    """For less than ``syncLimit``: it goes on as the leader."""
    leader, follower, other = roles(servers)
    async with holders(at(follower), at(other)) as locks:
        fault = trio.current_time()
        leader.pause()
        try:
            await trio.sleep(random.uniform(1, SYNC_LIMIT * TICK - TICK))
        finally:
            leader.resume()
        await trio.sleep(max(TIMEOUTS))
    judge(locks, fault, "the leader stands still for a while")


@nightly
@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_leader_replaced_in_its_sleep(servers: Ensemble, round: int) -> None:
    """When it wakes it answers its own clients as if nothing had happened, for a tick at most."""
    leader, one, two = roles(servers)
    async with holders(at(leader, one, two), at(one, two)) as locks:
        fault = trio.current_time()
        leader.pause()
        try:
            await trio.sleep(SYNC_LIMIT * TICK + random.uniform(0, 4))
        finally:
            leader.resume()
        await trio.sleep(max(TIMEOUTS) + TICK)
    judge(locks, fault, "the leader is replaced while it stands still")


@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_leader_cut_off_from_its_followers(servers: Ensemble, round: int) -> None:
    leader, one, two = roles(servers)
    async with holders(at(leader, one, two), at(one, two)) as locks:
        fault = trio.current_time()
        servers.cut(leader, one, two)
        try:
            await trio.sleep(SYNC_LIMIT * TICK + TICK + max(TIMEOUTS) + TICK)
        finally:
            servers.heal(leader, one, two)
    judge(locks, fault, "the leader is cut off from its followers")


@nightly
@pytest.mark.parametrize("round", range(ROUNDS))
async def test_a_leader_killed(servers: Ensemble, round: int) -> None:
    leader, one, two = roles(servers)
    async with holders(at(leader), at(one, two)) as locks:
        fault = trio.current_time()
        leader.kill()
        try:
            await until(lambda: passed_on(locks), PATIENCE)
        finally:
            leader.start()
    judge(locks, fault, "the leader is killed")


@nightly
@pytest.mark.parametrize("fault", ["cut off", "killed"])
async def test_clients_that_know_other_servers_lose_nothing(servers: Ensemble, fault: str) -> None:
    """They find out in time that their server does not reach the leader. With a session timeout that leaves
    some seconds for it, should the machine stand still."""
    timeout = 20.0
    leader, follower, other = roles(servers)
    async with holders(at(follower, other), at(leader), (timeout,)) as locks:
        began = trio.current_time()
        if fault == "cut off":
            servers.cut(follower, leader)
        else:
            follower.kill()
        try:
            await trio.sleep(timeout + 2 * TICK)
            lost = [held for held in locks if held.cancelled is not None]
        finally:
            if fault == "cut off":
                servers.heal(follower, leader)
            else:
                follower.start()
    judge(locks, began, f"a follower is {fault}, and its clients know another")
    assert lost == []
