"""What is the same for whoever holds something alone, whatever it is: rows F10, F11 and F14 of
recipe-rules.md D.13, and trap E-30. What differs stands with each recipe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ConnectionLossError, NoNodeError, ZooKeeper
from pyzk.recipes import Grant, LeaderElection, Lock, LockLost, LossReason, RWLock, Semaphore, SingleNodeLock

from ..support.lab import SESSION_TIMEOUT, TICK, Lab

Hold = Callable[..., AbstractAsyncContextManager[Grant]]

HOLDS: dict[str, Hold] = {
    "lock": lambda zk, **options: Lock(zk, "/x", **options),
    "write lock": lambda zk, **options: RWLock(zk, "/x", **options).write(),
    "the only lease": lambda zk, **options: Semaphore(zk, "/x", 1, **options),
    "single znode": lambda zk, **options: SingleNodeLock(zk, "/x", **options),
    "latch": lambda zk, **options: LeaderElection(zk, "/x", layout="curator-latch", **options).lead(),
    "selector": lambda zk, **options: LeaderElection(zk, "/x", layout="curator-selector", **options).lead(),
    "kazoo election": lambda zk, **options: LeaderElection(zk, "/x", layout="kazoo", **options).lead(),
}


@pytest.fixture(params=HOLDS)
def hold(request: pytest.FixtureRequest) -> Hold:
    return HOLDS[request.param]


async def free(lab: Lab, *clients: ZooKeeper) -> None:
    """Nothing is left: no session's znode, no watch."""
    for zk in clients:
        await zk.cleanup.idle()
    await trio.sleep(TICK)
    assert [path for path, node in lab.server.dump(form="nodes").items() if node.owner > 0] == []
    assert (lab.watch_count, *(zk.watch_count for zk in clients)) == (0,) * (1 + len(clients))


@pytest.mark.row("F10", "F11")
@pytest.mark.parametrize("keep_data", [True, False])
async def test_the_server_restarts_while_another_waits(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, hold: Hold, keep_data: bool
) -> None:
    other = await lab.client()
    order = []

    async def use(zk: ZooKeeper, name: str) -> None:
        try:
            async with hold(zk):
                order.append(name)
                await trio.sleep(10)
        except LockLost:
            order.append("lost")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, other, "holder")
        await trio.sleep(1)
        nursery.start_soon(use, zk, "waiter")
        await trio.sleep(1)
        lab.server.restart(keep_data=keep_data)
    # Sessions that were forgotten end when their clients hear of it, in any order: a service that loses its
    # data loses its locks.
    assert order == ["holder", "waiter"] if keep_data else sorted(order) == ["holder", "lost", "waiter"]
    await free(lab, zk, other)


@pytest.mark.row("F11")
async def test_a_body_that_writes_while_the_server_restarts_is_told_of_the_loss(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, hold: Hold
) -> None:
    """Whichever comes first: the loss, or the error of a request."""
    await zk.create("/data")
    with pytest.raises(LockLost) as caught:
        async with hold(zk):
            lab.server.restart(keep_data=False)
            while True:
                with suppress(ConnectionLossError, NoNodeError):
                    await zk.set("/data", b"")
    assert caught.value.reason is LossReason.SESSION_EXPIRED
    await free(lab, zk)


@pytest.mark.row("F10")
async def test_a_short_absence_disturbs_no_holder(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, hold: Hold
) -> None:
    async with hold(zk) as grant:
        for _ in range(5):
            lab.cut_off(zk)
            await trio.sleep(SESSION_TIMEOUT / 4)
            lab.let_through(zk)
            await trio.sleep(SESSION_TIMEOUT)
        await grant.verify()
    await free(lab, zk)


@pytest.mark.row("F14")
@pytest.mark.parametrize("suspended", ["deadline", "cancel"])
async def test_a_partition_ends_the_holder_before_another_has_it(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, hold: Hold, suspended: Any
) -> None:
    other = await lab.client()
    times: dict[str, float] = {}

    async def holder() -> None:
        with pytest.raises(LockLost):
            async with hold(zk, suspended=suspended):
                lab.cut_off(zk)
                try:
                    await trio.sleep_forever()
                finally:
                    times["stopped"] = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(holder)
        await trio.sleep(1)
        async with hold(other) as grant:
            times["granted"] = trio.current_time()
            lab.let_through(zk)  # who comes back takes nothing away
            await zk.session.wait_connected()
            await trio.sleep(5)
            await grant.verify()
    assert times["stopped"] < times["granted"] < 2 * SESSION_TIMEOUT
    assert (times["stopped"] < SESSION_TIMEOUT * 0.8) == (suspended == "cancel")
    await free(lab, zk, other)
