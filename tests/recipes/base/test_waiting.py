"""A wait that lasts a second says for whom: in one line of the log, without a request."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyzk.client import ZooKeeper
from pyzk.protocol.text import session_text
from pyzk.recipes import (
    PARENT,
    Barrier,
    DoubleBarrier,
    LeaderElection,
    Lock,
    Partitioner,
    PersistentNode,
    Queue,
    RWLock,
    Semaphore,
    SingleNodeLock,
)
from pyzk.recipes.base.waiting import waiting_for

from ...support.lab import Lab, open_lab

PATH = "/path"
LOGGER = "pyzk.recipes"
Act = Callable[[ZooKeeper], Awaitable[object]]


async def enter(block: Any) -> None:
    async with block:
        pass


def entering(make: Callable[[ZooKeeper], Any]) -> Act:
    return lambda zk: enter(make(zk))


def staying(make: Callable[[ZooKeeper], Any]) -> Act:
    async def stay(zk: ZooKeeper) -> None:
        async with make(zk):
            await trio.sleep_forever()

    return stay


async def nothing(zk: ZooKeeper) -> None:
    pass


async def leave_first(zk: ZooKeeper) -> None:
    await enter(DoubleBarrier(zk, PATH, 2))


async def fill(zk: ZooKeeper) -> None:
    await Queue(zk, PATH).put(b"item")


def partitioner(zk: ZooKeeper) -> Partitioner:
    return Partitioner(zk, PATH, ["a"], "me", settle=60)


async def share(zk: ZooKeeper) -> None:
    async with partitioner(zk) as member, member.share():
        pass


HELD = r"held by 'first' \(session {first}, znode \S+-lock-0000000000\)"
WAITS: dict[str, tuple[Act, Act, str]] = {
    "lock": (
        staying(lambda zk: Lock(zk, PATH, data=b"first")),
        entering(lambda zk: Lock(zk, PATH)),
        f"{PATH}, {HELD}",
    ),
    "lock that all watch": (
        staying(lambda zk: Lock(zk, PATH)),
        entering(lambda zk: Lock(zk, PATH, strategy=PARENT)),
        f"{PATH}, behind 1 others",
    ),
    "reader": (
        staying(lambda zk: RWLock(zk, PATH, data=b"first").write()),
        entering(lambda zk: RWLock(zk, PATH).read()),
        rf"{PATH}, behind 'first' \(session {{first}}, znode \S+\)",
    ),
    "election": (
        staying(lambda zk: LeaderElection(zk, PATH, id="first").lead()),
        entering(lambda zk: LeaderElection(zk, PATH, id="second").lead()),
        rf"{PATH}, held by 'first' \(session {{first}}, znode \S+\)",
    ),
    "semaphore": (
        staying(lambda zk: Semaphore(zk, PATH, 1)),
        entering(lambda zk: Semaphore(zk, PATH, 1)),
        rf"{PATH} \(leases: 1\), of 1 leases 1 are taken",
    ),
    "single znode": (
        staying(lambda zk: SingleNodeLock(zk, f"{PATH}/node")),
        entering(lambda zk: SingleNodeLock(zk, f"{PATH}/node")),
        f"{PATH}/node, which is the znode of another",
    ),
    "barrier": (
        lambda zk: Barrier(zk, PATH).create(),
        lambda zk: Barrier(zk, PATH).wait(),
        f"{PATH}, whose znode is not removed",
    ),
    "double barrier": (
        nothing,
        entering(lambda zk: DoubleBarrier(zk, PATH, 2)),
        f"{PATH}, which had 1 of 2 members",
    ),
    "double barrier at its end": (
        staying(lambda zk: DoubleBarrier(zk, PATH, 2)),
        leave_first,
        rf"{PATH}, where the member \S+ has not left",
    ),
    "queue": (nothing, lambda zk: Queue(zk, PATH).get(), f"an item of {PATH}"),
    "full queue": (
        fill,
        lambda zk: Queue(zk, PATH, limit=1).put(b"another"),
        f"room in {PATH}, which had 1 items, and the limit is 1",
    ),
    "ephemeral znode": (
        staying(lambda zk: PersistentNode(zk, PATH)),
        staying(lambda zk: PersistentNode(zk, PATH, conflict="wait")),
        f"{PATH}, which belongs to session {{first}}",
    ),
    "partitioner": (nothing, share, f"{PATH}, whose members must stay the same for 60 s"),
}


@asynccontextmanager
async def held_and_waited_for(name: str, first: ZooKeeper, second: ZooKeeper) -> AsyncIterator[None]:
    """One client holds, and another one has begun to wait."""
    hold, wait, _ = WAITS[name]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait, second)
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", WAITS)
async def test_a_wait_of_a_second_is_one_line(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    first = await lab.client()
    level = logging.DEBUG if name == "queue" else logging.INFO
    with caplog.at_level(level, LOGGER):
        async with held_and_waited_for(name, first, zk):
            await trio.sleep(0.9)
            assert caplog.record_tuples == []
            await trio.sleep(30)
    expected = WAITS[name][2].replace("{first}", session_text(first.session.id))
    own = session_text(zk.session.id)
    (line,) = caplog.records
    assert (line.name, line.levelno) == (LOGGER, level)
    assert re.fullmatch(
        f"Session {own} has waited 1.00 s for {expected}, and is still waiting.", line.message
    )


@pytest.mark.parametrize("name", WAITS)
async def test_the_line_changes_no_request_and_no_time(
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    sent = []
    for level in (logging.CRITICAL, logging.DEBUG):
        caplog.set_level(level, LOGGER)
        monkeypatch.setattr(uuid, "uuid4", (uuid.UUID(int=number) for number in count(1)).__next__)
        async with open_lab() as lab:
            first, second = await lab.client(), await lab.client()
            async with held_and_waited_for(name, first, second):
                await trio.sleep(5)
            history = lab.server.history(kind="request")
            sent.append(sorted((entry.client, round(entry.time, 9), str(entry.op)) for entry in history))
    assert sent[0] == sent[1]
    assert len(sent[0]) > 2


class Spawned(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@pytest.mark.parametrize(
    "make",
    [
        lambda zk: Lock(zk, PATH),
        lambda zk: Lock(zk, PATH, local_queue=True),
        lambda zk: RWLock(zk, PATH).read(),
        lambda zk: Semaphore(zk, PATH, 1),
        lambda zk: SingleNodeLock(zk, f"{PATH}/node"),
    ],
    ids=["lock", "local-queue", "reader", "semaphore", "single-znode"],
)
async def test_a_lock_that_is_free_has_no_timer(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture, make: Any
) -> None:
    counts = []
    for level in (logging.CRITICAL, logging.CRITICAL, logging.DEBUG):
        with caplog.at_level(level, LOGGER):
            trio.lowlevel.add_instrument(spawned := Spawned())
            await enter(make(zk))
            trio.lowlevel.remove_instrument(spawned)
        counts.append(spawned.count)
    assert counts[1] == counts[2]  # the first one creates the parents


async def test_without_a_reader_of_the_log_there_is_no_timer(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    for level, tasks in ((logging.WARNING, 0), (logging.INFO, 1)):
        with caplog.at_level(level, LOGGER):
            trio.lowlevel.add_instrument(spawned := Spawned())
            with waiting_for(zk, PATH):
                assert spawned.count == tasks
            trio.lowlevel.remove_instrument(spawned)


async def test_the_reason_is_the_one_of_that_moment(
    autojump_clock: MockClock, lab: Lab, zk: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """The contender before this one gives up after half a second."""
    clients = [zk, *[await lab.client() for _ in range(2)]]

    async def contend(number: int, seconds: float) -> None:
        with trio.move_on_after(seconds):
            async with Lock(clients[number], PATH, data=b"%d" % number):
                await trio.sleep_forever()

    with caplog.at_level(logging.INFO, LOGGER):
        async with trio.open_nursery() as nursery:
            for number, seconds in enumerate((10, 0.5, 10)):
                nursery.start_soon(contend, number, seconds)
                await trio.testing.wait_all_tasks_blocked()
    (line,) = caplog.messages
    assert "held by '0' (session " + session_text(zk.session.id) in line


async def test_a_wait_in_a_client_that_is_closed_is_quiet(
    autojump_clock: MockClock, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    async with lab.connect() as own:
        pass
    with caplog.at_level(logging.INFO, LOGGER), waiting_for(own, PATH):
        await trio.sleep(2)
    assert caplog.record_tuples == []
