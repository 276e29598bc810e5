"""Cancelled, disconnected or expired before any step that trio's scheduler takes (recipe-rules.md D.13: F20,
F1 to F5, F6 to F9): no znode, watch or task is left (I-3, I-4), and the recipe works as before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio._core._run
from trio.testing import MockClock

from pyzk.client import SessionExpiredError, ZooKeeper
from pyzk.recipes import (
    AmbiguousResult,
    Barrier,
    BarrierBroken,
    ClaimQueue,
    Counter,
    DoubleBarrier,
    LeaderElection,
    LeaderLatch,
    Lock,
    LockLost,
    MultiLock,
    NodeCache,
    Partitioner,
    Party,
    PersistentNode,
    Queue,
    QueueEmpty,
    RWLock,
    Semaphore,
    SingleNodeLock,
)
from pyzk.recipes.base.running import steady

from ..support.lab import TICK, Lab

Act = Callable[[ZooKeeper], Awaitable[object]]

ITEMS = ("/q/", "/cq/")
LOST = (LockLost, BarrierBroken, SessionExpiredError)
STALE = "/together/ready"  # the next round knows it by its age (trap E-21)
MOST = 3000
"""More steps than the longest scenario has."""


class Before(trio.abc.Instrument):
    """Does something before the n-th step of any task.

    :ivar happened: whether there were so many.
    """

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.happened = False
        self._action = action
        self._left = number

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if not self._left:
            self.happened = True
            self._action()


async def lock(zk: ZooKeeper) -> None:
    async with Lock(zk, "/lock"):
        await trio.sleep(0.1)


async def bridged_lock(zk: ZooKeeper) -> None:
    async with Lock(zk, "/lock", layout="both"):
        await trio.sleep(0.1)


async def kazoos_lock(zk: ZooKeeper) -> None:
    async with Lock(zk, "/lock", layout="kazoo"):
        await trio.sleep(0.1)


async def reader(zk: ZooKeeper) -> None:
    async with RWLock(zk, "/lock").read():
        await trio.sleep(0.1)


async def writer_that_becomes_a_reader(zk: ZooKeeper) -> None:
    async with RWLock(zk, "/lock").write() as grant, grant.downgrade():
        await trio.sleep(0.1)


async def leases(zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 2).acquire_many(2):
        await trio.sleep(0.1)


async def kazoos_leases(zk: ZooKeeper) -> None:
    async with Semaphore(zk, "/pool", 2, layout="kazoo").acquire_many(2):
        await trio.sleep(0.1)


async def several_locks(zk: ZooKeeper) -> None:
    async with MultiLock([Lock(zk, "/a"), Lock(zk, "/b"), Lock(zk, "/c")]):
        await trio.sleep(0.1)


async def single_node(zk: ZooKeeper) -> None:
    async with SingleNodeLock(zk, "/single"):
        await trio.sleep(0.1)


async def leader(zk: ZooKeeper) -> None:
    async with LeaderElection(zk, "/leader").lead():
        await trio.sleep(0.1)


async def latch(zk: ZooKeeper) -> None:
    async with LeaderLatch(zk, "/latch") as latch, latch.term():
        await trio.sleep(0.1)


async def double_barrier(zk: ZooKeeper) -> None:
    async with DoubleBarrier(zk, "/together", 1):
        await trio.sleep(0.1)


async def barrier(zk: ZooKeeper) -> None:
    await Barrier(zk, "/barrier").wait()


async def barrier_keeper(zk: ZooKeeper) -> None:
    barrier = Barrier(zk, "/barrier")
    await barrier.create()
    await trio.sleep(0.1)
    await barrier.remove()


async def counter(zk: ZooKeeper) -> None:
    before, after = await Counter(zk, "/counter", exactly_once=True).add(1)
    assert after == before + 1


async def queue(zk: ZooKeeper) -> None:
    with suppress(AmbiguousResult, QueueEmpty):
        await Queue(zk, "/q").put(b"x")
        await Queue(zk, "/q").get(wait=False)


async def claim(zk: ZooKeeper) -> None:
    with suppress(AmbiguousResult, QueueEmpty):
        await ClaimQueue(zk, "/cq").put(b"x")
        async with ClaimQueue(zk, "/cq").claim(wait=False):
            await trio.sleep(0.1)


async def member(zk: ZooKeeper) -> None:
    async with Party(zk, "/party", "me") as party:
        await party.members()


async def kept_node(zk: ZooKeeper) -> None:
    async with PersistentNode(zk, "/kept/node", data=b"data") as node:
        await node.ready()


async def cache(zk: ZooKeeper) -> None:
    async with NodeCache(zk, "/cached") as cache:
        await cache.synced()


async def share(zk: ZooKeeper) -> None:
    partitioner = Partitioner(zk, "/work", ["a", "b"], f"member-{zk.session.id}", settle=0.1)
    async with partitioner, partitioner.share():
        await trio.sleep(0.1)


ALONE = [
    lock,
    bridged_lock,
    kazoos_lock,
    reader,
    writer_that_becomes_a_reader,
    leases,
    kazoos_leases,
    several_locks,
    single_node,
    leader,
    latch,
    double_barrier,
    counter,
    queue,
    claim,
    member,
    kept_node,
    cache,
    share,
]
BESIDE: list[tuple[Act, Act]] = [
    (lock, lock),
    (bridged_lock, kazoos_lock),
    (reader, writer_that_becomes_a_reader),
    (writer_that_becomes_a_reader, reader),
    (leases, leases),
    (kazoos_leases, kazoos_leases),
    (several_locks, several_locks),
    (single_node, single_node),
    (leader, leader),
    (latch, latch),
    (barrier, barrier_keeper),
    (counter, counter),
    (queue, queue),
    (claim, claim),
]


async def nothing(zk: ZooKeeper) -> None:
    pass


async def settle(*clients: ZooKeeper) -> None:
    for zk in clients:
        await steady(zk, zk.sync)
        await zk.cleanup.idle()
    await trio.sleep(2 * TICK)


def znodes(lab: Lab, kind: str) -> set[str]:
    return {path for path, node in lab.server.dump(form="nodes").items() if node.kind == kind}


async def at_every_step(
    lab: Lab,
    act: Act,
    rival: Act,
    action: Callable[[ZooKeeper, trio.CancelScope], object],
    errors: tuple[type[Exception], ...] = (),
) -> int:
    """Act again and again, with something done at the first step, at the second, ... Returns how many steps
    there are."""
    zk, other = await lab.client(), await lab.client()
    await act(zk)  # the parents are there
    await settle(zk)
    persistent = znodes(lab, "persistent")
    tasks = trio.lowlevel.current_statistics().tasks_living
    for number in range(1, MOST):
        trio._core._run._r.seed(number)  # in which order tasks run: the same when a failure is looked into
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rival, other)
            with trio.CancelScope() as scope:
                instrument = Before(number, partial(action, zk, scope))
                trio.lowlevel.add_instrument(instrument)
                with suppress(*errors):
                    await act(zk)
            trio.lowlevel.remove_instrument(instrument)
        await settle(zk, other)
        assert znodes(lab, "ephemeral") == set()
        for item in znodes(lab, "persistent") - persistent - {STALE}:
            assert item.startswith(ITEMS), "only what was put before the end is left"
            await other.delete(item)
        assert (zk.watch_count, other.watch_count, lab.watch_count) == (0, 0, 0)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        if not instrument.happened:
            await act(zk)  # as before
            await settle(zk)
            return number
    raise AssertionError(f"not done after {MOST} steps")


everything = pytest.mark.parametrize(
    ("act", "rival"),
    [*((act, nothing) for act in ALONE), *BESIDE],
    ids=[*(act.__name__ for act in ALONE), *(f"{a.__name__}-{b.__name__}" for a, b in BESIDE)],  # type: ignore[attr-defined]
)


@pytest.mark.row("F20")
@everything
async def test_cancelled_before_any_step(autojump_clock: MockClock, lab: Lab, act: Act, rival: Act) -> None:
    assert await at_every_step(lab, act, rival, lambda zk, scope: scope.cancel()) > 5


@pytest.mark.row("F1", "F2", "F3", "F4", "F5")
@everything
async def test_disconnected_before_any_step(
    autojump_clock: MockClock, lab: Lab, act: Act, rival: Act
) -> None:
    def disconnect(zk: ZooKeeper, scope: trio.CancelScope) -> None:
        lab.server.disconnect(zk.session.id)

    assert await at_every_step(lab, act, rival, disconnect) > 5


@pytest.mark.row("F6", "F7", "F8", "F9")
@everything
async def test_expired_before_any_step(autojump_clock: MockClock, lab: Lab, act: Act, rival: Act) -> None:
    def expire(zk: ZooKeeper, scope: trio.CancelScope) -> None:
        if any(known.id == zk.session.id for known in lab.server.sessions()):
            lab.server.expire(zk.session.id)

    assert await at_every_step(lab, act, rival, expire, LOST) > 5
