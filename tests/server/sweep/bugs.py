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


async def watch_behind_the_read(lab: Lab) -> None:
    """What is read first and watched later may change between the two."""
    lab.server.load({"/config": "old"})

    async def follows(lab: Lab, zk: ZooKeeper) -> None:
        seen, _ = await zk.get("/config")
        async with zk.watch("/config") as events:
            await zk.exists("/log")
            with trio.move_on_after(30):
                while seen != b"new":
                    await anext(aiter(events))
                    seen, _ = await zk.get("/config")
        assert seen == b"new", "the change was missed"

    async def changes(lab: Lab, zk: ZooKeeper) -> None:
        await zk.exists("/log")
        await zk.exists("/log")
        await zk.exists("/log")
        await zk.set("/config", b"new")

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(follows, lab, first), partial(changes, lab, second))


async def name_by_count(lab: Lab) -> None:
    """A name that is the number of names so far."""
    lab.server.load({"/members": {}})

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        names = await zk.get_children("/members")
        await zk.create(f"/members/{len(names)}", ephemeral=True)

    await _two(lab, work)


async def taken_twice(lab: Lab) -> None:
    """An item that is done before it is deleted, whoever else does it."""
    lab.server.load({"/queue": {"item": ""}})
    done = []

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        for name in await zk.get_children("/queue"):
            with suppress(NoNodeError):
                await zk.get(f"/queue/{name}")
                done.append(name)
                await zk.delete(f"/queue/{name}")

    await _two(lab, work)
    assert done == ["item"], f"done: {done}"


async def released_by_number(lab: Lab) -> None:
    """Whoever leaves deletes the first znode, which may be another's by then."""
    lab.server.load({"/lock": {}})

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        mine = await zk.create("/lock/n-", ephemeral=True, sequential=True)
        names = await zk.get_children("/lock")
        first = min(names)
        await zk.exists("/lock")
        await zk.delete(f"/lock/{first}")
        left = await zk.get_children("/lock")
        assert len(names) > 1 or mine.rpartition("/")[2] not in left

    await _two(lab, work)


async def sum_of_two(lab: Lab) -> None:
    """A reader sees a transfer half done."""
    lab.server.load({"/x": "5", "/y": "5"})

    async def moves(lab: Lab, zk: ZooKeeper) -> None:
        await zk.set("/x", b"4")
        await zk.set("/y", b"6")

    async def adds(lab: Lab, zk: ZooKeeper) -> None:
        values = [int((await zk.get(path))[0] or b"") for path in ("/x", "/y")]
        assert sum(values) == 10, f"{values} are not 10"

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(adds, lab, first), partial(moves, lab, second))


ORDERS = [
    lost_update,
    check_then_create,
    parent_vanishes,
    stale_read,
    crossed_locks,
    watch_behind_the_read,
    name_by_count,
    taken_twice,
    released_by_number,
    sum_of_two,
]
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


async def deleted_twice(lab: Lab) -> None:
    """A delete that is repeated finds nothing, and that is taken for an error."""
    lab.server.load({"/a": "", "/b": ""})

    async def work(path: str, zk: ZooKeeper) -> None:
        while True:
            try:
                await zk.delete(path)
                return
            except ConnectionLossError:
                pass

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(work, "/a", first), partial(work, "/b", second))


async def nobody_leads(lab: Lab) -> None:
    """A candidate whose own znode stands there takes it for another's."""
    leaders = []

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        while True:
            try:
                await zk.create("/leader", ephemeral=True)
                leaders.append(zk)
                return
            except NodeExistsError:
                return
            except ConnectionLossError:
                pass

    await _two(lab, work)
    assert len(leaders) == 1, f"{len(leaders)} leaders"


async def put_twice(lab: Lab) -> None:
    """A sequential znode that is made again after a lost reply."""
    lab.server.load({"/queue": {}})

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        while True:
            try:
                await zk.create("/queue/item-", sequential=True)
                return
            except ConnectionLossError:
                pass

    first = await _two(lab, work)
    items = await first.get_children("/queue")
    assert len(items) == 2, f"two items were put, and there are {len(items)}"


FAULTS = [
    repeated_increment,
    lock_without_identity,
    half_registration,
    deleted_twice,
    nobody_leads,
    put_twice,
]
"""What some fault breaks, in the order of each in turn."""


async def announced_too_early(lab: Lab) -> None:
    """A service that is registered before it listens."""
    listens = False

    async def serves(zk: ZooKeeper) -> None:
        nonlocal listens
        await zk.create("/service")
        listens = True

    async def calls(zk: ZooKeeper) -> None:
        await zk.exists("/log")
        if await zk.exists("/service") is not None:
            assert listens, "the service is registered, but does not listen"

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(serves, first), partial(calls, second))


async def noted_too_late(lab: Lab) -> None:
    """A holder of a lock that deletes the note of who holds it, after it has released the lock."""
    holder: list[ZooKeeper] = []

    async def work(lab: Lab, zk: ZooKeeper) -> None:
        while True:
            try:
                await zk.create("/lock", ephemeral=True)
                break
            except NodeExistsError:
                async with zk.watch("/lock") as events:
                    if await zk.exists("/lock") is not None:
                        await anext(aiter(events))
        holder[:] = [zk]
        await zk.exists("/work")
        assert holder == [zk], "the note of the holder is gone"
        await zk.delete("/lock")
        holder.clear()

    await _two(lab, work)


async def old_value_is_kept(lab: Lab) -> None:
    """A cache that forgets a value when it is told of a change, and may store the old value after that."""
    lab.server.load({"/config": "old"})
    cache: list[bytes | None] = []

    async def follows(zk: ZooKeeper) -> None:
        async def forget() -> None:
            async for _ in events:
                cache.clear()

        async with zk.watch("/config") as events, trio.open_nursery() as nursery:
            nursery.start_soon(forget)
            data, _ = await zk.get("/config")
            await trio.sleep(0)  # to parse it
            cache[:] = [data]
            with trio.move_on_after(30):
                while cache == [b"old"]:
                    await trio.sleep(1)
            assert cache != [b"old"], "the old value stays in the cache"
            nursery.cancel_scope.cancel()

    async def changes(zk: ZooKeeper) -> None:
        await zk.set("/config", b"new")

    first, second = await lab.client("a"), await lab.client("b")
    await lab.together(partial(follows, first), partial(changes, second))


LATE_REPLIES = [announced_too_early, noted_too_late, old_value_is_kept]
"""What breaks only if a reply comes late."""
