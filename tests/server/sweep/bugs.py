"""Scenarios with a bug each, for the sweep to find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from pyzk.client import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError, ZooKeeper
from pyzk.server.sweep import Lab

Work = Callable[[Lab, ZooKeeper], Awaitable[object]]


async def _two(lab: Lab, work: Work) -> ZooKeeper:
    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(work, lab, first), partial(work, lab, second))
    return first


async def lost_update(lab: Lab) -> None:
    """An increment that does not say which version it changes."""
    lab.server.load({"/n": "0"})

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        data, _ = await zk.get("/n")
        await zk.set("/n", b"%d" % (int(data or b"") + 1))

    await _two(lab, work)
    assert lab.server.dump()["/n"] == b"2", "an increment is lost"


async def check_then_create(lab: Lab) -> None:
    """An election that looks for a leader, and then believes that there is still none."""
    leaders = []

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        if await zk.exists("/leader") is None:
            with suppress(NodeExistsError):
                await zk.create("/leader", ephemeral=True)
            leaders.append(zk)

    await _two(lab, work)
    assert len(leaders) == 1, f"{len(leaders)} leaders"


async def parent_vanishes(lab: Lab) -> None:
    """A lock that removes its parent as soon as it is empty."""

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        with suppress(NodeExistsError):
            await zk.create("/parent")
        await zk.create("/parent/mine-", sequential=True, ephemeral=True)
        for name in await zk.get_children("/parent"):
            with suppress(NoNodeError):
                await zk.delete(f"/parent/{name}")
        with suppress(NoNodeError):
            await zk.delete("/parent")

    await _two(lab, work)


async def stale_read(lab: Lab) -> None:
    """A flag that is read once, long before it is acted upon."""
    lab.server.load({"/open": "yes", "/log": ""})

    async def closes(lab: Lab, zk: ZooKeeper) -> None:
        await zk.set("/open", b"no")

    async def writes(lab: Lab, zk: ZooKeeper) -> None:
        data, _ = await zk.get("/open")
        for _ in range(3):
            await zk.exists("/log")
        now, _ = await zk.get("/open")
        assert now == data, "it was closed meanwhile"

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(closes, lab, first), partial(writes, lab, second))


async def crossed_locks(lab: Lab) -> None:
    """Two locks, taken in opposite order."""

    async def take(zk: ZooKeeper, path: str) -> None:
        while True:
            try:
                await zk.create(path, ephemeral=True)
                return
            except NodeExistsError:
                await trio.sleep(1)

    async def work(lab: Lab, zk: ZooKeeper, *paths: str) -> None:
        with trio.move_on_after(5) as patience:
            for path in paths:
                await take(zk, path)
            for path in paths:
                await zk.delete(path)
        assert not patience.cancelled_caught, "they wait for each other"

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(work, lab, first, "/x", "/y"), partial(work, lab, second, "/y", "/x"))


ORDERS = [lost_update, check_then_create, parent_vanishes, stale_read, crossed_locks]
"""What fails in some order of the requests."""


async def repeated_increment(lab: Lab) -> None:
    """A lost reply is taken for a request that was not made."""
    lab.server.load({"/n": "0"})

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        while True:
            try:
                data, stat = await zk.get("/n")
                await zk.set("/n", b"%d" % (int(data or b"") + 1), version=stat.version)
                return
            except (BadVersionError, ConnectionLossError):
                pass

    await _two(lab, work)
    data = lab.server.dump()["/n"]
    assert data == b"2", f"two increments, and it is {data!r}"


async def lock_without_identity(lab: Lab) -> None:
    """A znode that was made, and whose reply was lost, stands in the way of its own client."""
    lab.server.load({"/lock": {}})

    async def create(zk: ZooKeeper) -> str:
        while True:
            try:
                return await zk.create("/lock/n-", ephemeral=True, sequential=True)
            except ConnectionLossError:
                pass

    async def call(function: Callable[[], Awaitable[object]]) -> object:
        while True:
            try:
                return await function()
            except ConnectionLossError:
                pass
            except NoNodeError:
                return None

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        path = await create(zk)
        while True:
            names = await call(partial(zk.get_children, "/lock"))
            assert isinstance(names, list)
            if f"/lock/{min(names)}" == path:
                break
            await trio.sleep(5)
        async with lab.inside("the lock"):
            pass
        await call(partial(zk.delete, path))

    await _two(lab, work)


async def half_registration(lab: Lab) -> None:
    """Two znodes that belong together, made one after the other."""

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        mine = f"/host-{'a' if zk.session.id % 2 else 'b'}"
        await zk.create(mine)
        try:
            await zk.create(f"{mine}/alive", ephemeral=True)
        finally:
            with trio.CancelScope(shield=True):
                for path in (f"{mine}/alive", mine):
                    with suppress(NoNodeError, ConnectionLossError):
                        await zk.delete(path)

    await _two(lab, work)


FAULTS = [repeated_increment, lock_without_identity, half_registration]
"""What some fault breaks, in the order of each in turn."""
