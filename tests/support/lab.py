"""A server in memory, in virtual time, and any number of clients, for tests of recipes.

async def test_something(autojump_clock: MockClock, lab: Lab, zk: ZooKeeper) -> None:
    other = await lab.client()
    with lab.server.fault(op="create", path="/lock/*", session=zk.session.id, when="after"):
        ...
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from pyzk.client import ZooKeeper, connect
from pyzk.protocol.operations import OpCode
from pyzk.recipes import LockLost
from pyzk.server.testing import Controls, UnknownSessionError, open_server

HOSTILE = os.environ.get("HOSTILE")
"""A seed: all labs have hostile servers. This is for the property tests, which hold there too; others may
count on how soon an event comes."""
SESSION_TIMEOUT = 10.0
TICK = 0.1
LONGEST = 20_000.0
"""Seconds of virtual time that a test may take."""


@attrs.define(eq=False)
class Lab:
    """
    :ivar server: the controls of the server: sessions, faults, time, data, history.
    """

    server: Controls
    _nursery: trio.Nursery
    _cut_off: set[int] = attrs.Factory(set)  # the numbers of clients
    _numbers: dict[ZooKeeper, int] = attrs.Factory(dict)
    _next_number: Iterator[int] = attrs.Factory(itertools.count)

    async def client(self, **options: Any) -> ZooKeeper:
        """Another client, which lives until the test ends. A session that expires is replaced."""
        return await self._nursery.start(self._live, options)  # type: ignore[no-any-return]

    async def _live(self, options: dict[str, Any], task_status: trio.TaskStatus[ZooKeeper]) -> None:
        async with self.connect(**options) as zk:
            task_status.started(zk)
            await trio.sleep_forever()

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[ZooKeeper]:
        """A client for the length of a block."""
        number = next(self._next_number)

        async def connector(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            if number in self._cut_off:
                raise ConnectionRefusedError
            return self.server.open_stream()

        defaults: dict[str, Any] = {
            "session_timeout": SESSION_TIMEOUT,
            "on_expired": "new_session",
            "rng": random.Random(number),
        }
        servers = "server:2181" + options.pop("chroot", "")
        async with connect(servers, connector=connector, **(defaults | options)) as zk:
            self._numbers[zk] = number
            yield zk

    def cut_off(self, zk: ZooKeeper) -> None:
        """Let no byte pass between a client and the server. Neither of them is told."""
        self.refuse(zk)
        self.server.pause(zk.session.id)

    def refuse(self, zk: ZooKeeper) -> None:
        """Let no further connection of this client through; the present one stays."""
        self._cut_off.add(self._numbers[zk])

    def let_through(self, zk: ZooKeeper) -> None:
        """End :meth:`cut_off`. What the client has sent meanwhile is lost with its old connection."""
        self._cut_off.discard(self._numbers[zk])
        with suppress(UnknownSessionError):  # it is over
            self.server.disconnect(zk.session.id)
        self.server.resume(zk.session.id)

    def outlive(self, zk: ZooKeeper) -> None:
        """Tell a client that its session has expired, while the session lives on until its timeout, as a
        follower that lags behind does (trap E-04)."""
        zk.session._machine.data.password = b"another"
        self.server.disconnect(zk.session.id)

    @property
    def watch_count(self) -> int:
        """How many watches the server holds."""
        return self.server.running.engine.watches.count()

    def count_children(self, path: str, created: int) -> None:
        """Make an empty znode below which so many children have been created already."""
        count_children(self.server, path, created)

    def requests(self, zk: ZooKeeper) -> Counter[str]:
        """How many requests a client has sent so far, by name in lower case; pings left out."""
        names = Counter({OpCode(op).name.lower(): n for op, n in zk.metrics.requests.items()})
        del names["ping"]
        return names


@asynccontextmanager
async def open_lab(**settings: Any) -> AsyncIterator[Lab]:
    """A fresh server; sessions of 0.2 to 100 s, in ticks of 0.1 s."""
    defaults = {
        "hostile": int(HOSTILE) if HOSTILE else None,
        "tick_time": round(1000 * TICK),
        "min_session_timeout": 200,
        "max_session_timeout": 100_000,
        "extended_types": True,
    }
    async with open_server(**(defaults | settings)) as server, trio.open_nursery() as nursery:
        nursery.start_soon(_end_a_hang)
        yield Lab(server, nursery)
        nursery.cancel_scope.cancel()


async def _end_a_hang() -> None:
    """Fail a test that waits for ever: virtual time goes on, so nothing else would end it."""
    await trio.sleep(LONGEST)
    raise AssertionError(f"the test hangs: it waits for something that did not come in {LONGEST} s")


def count_children(server: Controls, path: str, created: int) -> None:
    server.load({f"{path}/first": b""})
    children = server.running.engine.tree.find(path).children
    assert children is not None
    children.clear()
    children.created = created


async def lose_while_stopped(clock: MockClock, block: AbstractAsyncContextManager[object]) -> None:
    """Stop the process inside a block for longer than a session lasts. The loss is raised at the first
    checkpoint after that (F19 of recipe-rules.md D.13)."""
    steps = []
    with pytest.raises(LockLost):
        async with block:
            clock.jump(3 * SESSION_TIMEOUT)
            steps.append("it cannot know yet")
            await trio.sleep(0)
            await trio.sleep(0.001)
            steps.append("it must not come here")
    assert steps == ["it cannot know yet"]


# --- fixtures, for conftest.py to import -------------------------------------------------------------------


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A server in virtual time."""
    # The clock has to be asked for by the test itself; a fixture of a fixture goes unnoticed.
    assert isinstance(trio.lowlevel.current_clock(), MockClock), "ask for autojump_clock too"
    async with open_lab() as lab:
        yield lab


@pytest.fixture
async def zk(lab: Lab) -> ZooKeeper:
    """A client of it."""
    return await lab.client()
