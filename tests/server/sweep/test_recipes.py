"""The recipes hold: every fault at every request, and every order as far as there is time."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import trio

from pyzk.client import ZooKeeper
from pyzk.recipes import ASCII_INT, Counter, DoubleBarrier, Lock, PersistentNode, Queue, RWLock, Semaphore
from pyzk.server.sweep import Scenario, scenarios, sweep

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
LONG = 1e6  # seconds: a budget that no machine uses up


def _counter() -> Scenario:
    def of(zk: ZooKeeper) -> Counter[int]:
        return Counter(zk, "/n", codec=ASCII_INT, exactly_once=True)

    async def add(zk: ZooKeeper) -> None:
        await of(zk).add(1)

    async def read(zk: ZooKeeper) -> int:
        return await of(zk).get()

    return scenarios.counter(add, read)


def _queue() -> Scenario:
    async def put(zk: ZooKeeper, item: bytes) -> None:
        await Queue(zk, "/queue").put(item)

    async def take(zk: ZooKeeper) -> bytes:
        return (await Queue(zk, "/queue").get()).data

    return scenarios.queue(put, take, items=[b"only"])


def _registration() -> Scenario:
    async def register(zk: ZooKeeper) -> None:
        async with PersistentNode(zk, "/me"):
            await trio.sleep_forever()

    return scenarios.registration(register, "/me")


RECIPES: dict[str, Callable[[], Scenario]] = {
    "lock": lambda: scenarios.lock(lambda zk: Lock(zk, "/lock")),
    "write lock": lambda: scenarios.lock(lambda zk: RWLock(zk, "/lock").write()),
    "semaphore": lambda: scenarios.lock(lambda zk: Semaphore(zk, "/pool", 1)),
    "counter": _counter,
    "queue": _queue,
    "persistent node": _registration,
    "double barrier": lambda: scenarios.barrier(lambda zk: DoubleBarrier(zk, "/barrier", 2)),
}


KNOWN = {"counter": ["*-gone-after"]}
"""The marker of a change outlives a client that is gone before it can delete it; a later change does so."""


@pytest.mark.parametrize("name", RECIPES)
def test_every_fault_at_every_request(name: str) -> None:
    report = sweep(RECIPES[name](), orders=None, budget=LONG, allow=KNOWN.get(name, []))
    assert report.results.cells == report.results.all_cells >= 8


@pytest.mark.skipif(not NIGHTLY, reason="it takes a minute: HYPOTHESIS_PROFILE=nightly")
@pytest.mark.parametrize("name", RECIPES)
def test_every_fault_of_an_ensemble(name: str) -> None:
    allow = ["*-gone-*", "*-ghost"] if name in KNOWN else []
    report = sweep(RECIPES[name](), orders=None, budget=LONG, allow=allow, ensemble=3)
    assert report.results.cells == report.results.all_cells >= 8


def test_every_order_of_two_contenders() -> None:
    report = sweep(RECIPES["lock"](), faults=None, orders="all")
    assert report.results.exhausted
    assert report.results.orders >= 100


@pytest.mark.skipif(not NIGHTLY, reason="it takes minutes: HYPOTHESIS_PROFILE=nightly")
@pytest.mark.parametrize("name", RECIPES)
def test_thousands_of_orders(name: str) -> None:
    sweep(RECIPES[name](), faults=None, budget=60)
