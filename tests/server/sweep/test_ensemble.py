"""Sweeps on a pretend ensemble: its followers lag, its leader dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from pyzk import aio, blocking
from pyzk.client import ConnectionLossError, NodeExistsError, NoNodeError, ZooKeeper
from pyzk.recipes import Lock
from pyzk.server.sweep import FAULTS, Lab, Scenario, SweepFailed, scenarios, sweep
from pyzk.server.sweep.faults import chosen
from pyzk.server.sweep.model import Cell
from pyzk.server.sweep.orders import Rounds
from pyzk.server.sweep.run import run
from pyzk.server.sweep.threads.lab import ThreadLab

LONG = 1e6  # seconds: a budget that no machine uses up
OF_ENSEMBLE = [name for name, fault in FAULTS.items() if fault.of == "ensemble"]


def reading(sync: bool) -> Scenario:
    """A client is told that a znode has changed, and reads it at a server that may not know yet.

    :param sync: whether it syncs its server before.
    """

    async def scenario(lab: Lab) -> None:
        lab.server.load({"/configuration": "old"})
        writer, reader = await lab.client("a"), await lab.client("b")
        told = trio.Event()

        async def write() -> None:
            while not told.is_set():
                with suppress(ConnectionLossError):
                    await writer.set("/configuration", b"new")
                    told.set()

        async def read() -> None:
            with trio.move_on_after(60):  # the writer may have to give up
                await told.wait()
            if sync and told.is_set():
                await reader.sync("/configuration")
            data, _ = await reader.get("/configuration")
            assert data == b"new" or not told.is_set(), (
                "the reader was told of the new value, and reads the old one"
            )

        await lab.together(write, read)

    return scenario


async def lock_by_write(lab: Lab) -> None:
    """A lock that is an ephemeral znode: whoever does not get a reply to its create believes that the lock is
    another client's, although it is its own."""
    first, second = await lab.client("a"), await lab.client("b")
    inside: list[ZooKeeper] = []

    async def work(zk: ZooKeeper) -> None:
        while True:
            try:
                await zk.create("/lock", ephemeral=True)
                break
            except ConnectionLossError:
                continue
            except NodeExistsError:
                async with zk.watch("/lock") as events:
                    if await zk.exists("/lock") is not None:
                        async for _ in events:
                            break
        inside.append(zk)
        while await zk.exists("/lock") is not None:
            with suppress(ConnectionLossError, NoNodeError):
                await zk.delete("/lock")
                break

    await lab.together(partial(work, first), partial(work, second))
    assert len(inside) == 2


def failing(scenario: Scenario, **options: Any) -> SweepFailed:
    with pytest.raises(SweepFailed) as caught:
        sweep(scenario, budget=LONG, orders=None, ensemble=3, **options)
    return caught.value


def test_a_stale_read_at_a_follower_that_lags_is_found_and_replayed() -> None:
    report = failing(reading(sync=False)).report
    assert {str(cell) for cell in report.results.bad} == {"a1-lag-others"}
    assert "reads the old one" in str(failing(reading(sync=False), replay="f1-a1-lag-others"))


def test_a_read_behind_a_sync_is_not_stale() -> None:
    report = sweep(reading(sync=True), orders=None, budget=LONG, ensemble=3)
    assert report.results.cells == report.results.all_cells


def test_a_lock_whose_leader_dies_with_the_reply_is_found() -> None:
    report = failing(lock_by_write, faults=["leader-before", "leader-mid", "leader-after"]).report
    assert {str(cell): outcome.verdict for cell, outcome in report.results.bad.items()} == {
        "a1-leader-mid": "hang",
        "b5-leader-mid": "hang",
    }, "the create of each"
    assert "APPLIED, REPLY LOST, the leader dies" in report.results.findings[0].outcome.steps[0].text


def test_our_lock_holds_at_every_request() -> None:
    report = sweep(scenarios.lock(lambda zk: Lock(zk, "/lock")), orders=None, budget=LONG, ensemble=3)
    assert report.results.cells == report.results.all_cells == 14 * len(chosen("zookeeper", in_ensemble=True))


def locked(lab: ThreadLab) -> None:
    first, second = lab.blocking("a"), lab.blocking("b")

    def work(zk: blocking.ZooKeeper) -> None:
        with blocking.Lock(zk, "/lock"), lab.inside("lock"):
            pass

    lab.together(partial(work, first), partial(work, second))


def locked_kazoo(lab: ThreadLab) -> None:
    first, second = lab.client("a"), lab.client("b")

    def work(zk: KazooClient) -> None:
        with zk.Lock("/lock"), lab.inside("lock"):
            pass

    lab.together(partial(work, first), partial(work, second))


def locked_aio(lab: ThreadLab) -> None:
    async def work(hosts: str) -> None:
        zk = aio.connect(hosts, session_timeout=10.0, on_expired="new_session")
        async with zk as client, aio.Lock(client, "/lock"):
            with lab.inside("lock"):
                pass

    hosts = lab.hosts("a"), lab.hosts("b")
    lab.together(*(partial(_run, work, each) for each in hosts))


def reading_aio(lab: ThreadLab) -> None:
    lab.server.load({"/configuration": "old"})
    told: list[bool] = []

    async def write(hosts: str) -> None:
        async with aio.connect(hosts, session_timeout=10.0) as zk:
            await zk.set("/configuration", b"new")
            told.append(True)

    async def read(hosts: str) -> None:
        async with aio.connect(hosts, session_timeout=10.0) as zk:
            await asyncio.sleep(1)
            data, _ = await zk.get("/configuration")
            assert data == b"new" or not told, "the reader was told of the new value, and reads the old one"

    lab.together(partial(_run, write, lab.hosts("a")), partial(_run, read, lab.hosts("b")))


def _run(main: Callable[[str], Coroutine[Any, Any, None]], hosts: str) -> None:
    asyncio.run(main(hosts))


def test_a_stale_read_with_asyncio_is_found() -> None:
    report = failing(reading_aio, faults=["lag-others"]).report
    assert {str(cell) for cell in report.results.bad} == {"a1-lag-others"}


@pytest.mark.breaks_rules("the reply to a ping passes those that the sweep holds")
@pytest.mark.parametrize("scenario", [locked, locked_aio, locked_kazoo])
def test_locks_of_threads_hold(scenario: Any) -> None:
    report = sweep(scenario, faults=OF_ENSEMBLE, orders=None, budget=LONG, ensemble=3)
    assert report.results.cells == report.results.all_cells >= 14 * len(OF_ENSEMBLE)


def test_the_orders_of_an_ensemble_are_those_of_one_server() -> None:
    async def scenario(lab: Lab) -> None:
        first, second = await lab.client("a"), await lab.client("b")
        await lab.together(partial(first.create, "/a"), partial(second.get_children, "/"))

    alone, together = (sweep(scenario, faults=None, orders="all", ensemble=number) for number in (None, 3))
    assert together.results.orders == alone.results.orders == 2
    assert together.results.base.steps == alone.results.base.steps


@pytest.mark.parametrize("fault", chosen("keeper", in_ensemble=True))
def test_each_fault_comes_to_pass_and_clients_get_over_it(fault: str) -> None:
    where: list[set[int]] = []

    async def scenario(lab: Lab) -> None:
        zk, other = await lab.client("a"), await lab.client("b")
        where.append(servers(lab))

        async def work() -> None:
            await zk.exists("/x")

        await lab.together(work, partial(other.exists, "/y"))

    def servers(lab: Lab) -> set[int]:
        assert lab.ensemble is not None
        return {server.number for server in lab.ensemble if server.running.service.connections}

    outcome = run(scenario, Rounds(), Cell("a", 1, fault), ensemble=3)
    assert outcome.fired
    assert outcome.verdict == "ok", outcome.detail
    assert "!!" in outcome.steps[0].text
    assert where == [{1, 2}], "each client is at a follower of its own"


def test_faults_and_servers_that_do_not_fit() -> None:
    async def idle(lab: Lab) -> None:
        pass

    with pytest.raises(ValueError, match=r"lag-own needs an ensemble: sweep\(scenario, ensemble=3\)"):
        sweep(idle, faults=["lag-own"])
    with pytest.raises(ValueError, match="leader-mid needs an ensemble"):
        sweep(idle, replay="f1-a1-leader-mid")
    with pytest.raises(ValueError, match="restart-empty is only for a single server"):
        sweep(idle, faults=["restart-empty"], ensemble=3)
    with pytest.raises(ValueError, match="3 servers or more, not 2"):
        sweep(idle, ensemble=2)
