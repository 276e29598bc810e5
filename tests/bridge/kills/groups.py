"""Who is there, and what is to be seen: all pass or none, and copies become what they are copies of."""

from __future__ import annotations

import random
from collections import Counter as Tally
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

from .workload import UNTIL_ANSWERED, Check, Scene, Worker, nothing_left, tree, workload

END = b"end"


@workload("Barrier")
def a_barrier_holds_all_up(run: Scene) -> Check:
    """Round after round. Nobody passes before the barrier is opened, and then all do."""
    closed = opened = 0
    came: dict[str, int] = {}
    passed: dict[str, int] = {}

    async def guard(api: Any, zk: Any, me: Worker) -> None:
        nonlocal closed, opened
        barrier = api.Barrier(zk, "/barriers/one")
        while await me.step():
            await barrier.create()
            closed += 1
            await me.until(lambda: everybody(came))
            opened += 1
            assert await barrier.remove()
            await me.until(lambda: everybody(passed))

    def everybody(those: dict[str, int]) -> bool:
        return list(those.values()) == [closed, closed]

    async def wait(api: Any, zk: Any, me: Worker) -> None:
        barrier = api.Barrier(zk, "/barriers/one")
        while True:
            await me.until(lambda: closed > came.get(me.name, 0) or not run.at_work(guard))
            if not run.at_work(guard):
                break
            await api.retry(zk, lambda zk: zk.sync("/barriers"), policy=UNTIL_ANSWERED)
            came[me.name] = closed
            await barrier.wait()
            assert opened == came[me.name], "let through a closed barrier"
            passed[me.name] = opened
            await me.step()

    run.add(guard)
    run.add(wait, 2)
    return nothing_left("/barriers")


@workload("DoubleBarrier")
def a_double_barrier_lets_all_in_and_out(run: Scene) -> Check:
    came: Tally[int] = Tally()
    ended: Tally[int] = Tally()
    last = False

    async def take_part(api: Any, zk: Any, me: Worker) -> None:
        nonlocal last
        barrier, number = api.DoubleBarrier(zk, "/rounds", 3), 0
        while not last:
            number += 1
            came[number] += 1
            async with barrier:
                assert came[number] == 3, "let in too early"
                await zk.exists("/")
                last = last or run.over  # nobody leaves before all have come to this
                ended[number] += 1
            assert ended[number] == 3, "let out too early"
            await me.step()

    async def check(api: Any, zk: Any) -> None:
        assert set(await tree(api, zk, "/rounds")) <= {"/rounds"}

    run.add(take_part, 3)
    return check


@workload("Party")
def the_members_are_those_that_live(run: Scene) -> Check:
    told = False
    settled: set[str] = set()  # who stays and looks no longer: until all do so, nobody may leave

    async def stay(api: Any, zk: Any, me: Worker) -> None:
        async with api.Party(zk, "/party", me.name) as party:
            joined: set[str] = set()
            while await me.step():
                ids = {member.id for member in await party.members()}
                assert ids >= joined | {me.name}, "a member is missing"
                joined |= ids - {"guest"}
            settled.add(me.name)
            await me.until(lambda: told and len(settled) == 2)

    async def come_and_go(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.Party(zk, "/party", "guest") as party:
                assert "guest" in {member.id for member in await party.members()}
        async with api.Party(zk, "/party", "last") as party:
            assert sorted(member.id for member in await party.members()) == ["last", "stay 0", "stay 1"]
            await me.until(lambda: told)

    async def follow(api: Any, zk: Any, me: Worker) -> None:
        nonlocal told
        present: frozenset[Any] = frozenset()
        async for change in api.Party(zk, "/party").changes():
            assert change.left <= present
            assert not change.joined & present
            present = present - change.left | change.joined
            if "last" in {member.id for member in present}:
                break
            await me.step()
        assert sorted(member.id for member in present) == ["last", "stay 0", "stay 1"]
        told = True

    async def check(api: Any, zk: Any) -> None:
        await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
        assert await api.Party(zk, "/party").members() == []

    run.add(stay, 2)
    run.add(come_and_go)
    run.add(follow)
    return check


@workload("PersistentNode", "TtlNode")
def a_kept_node_comes_back(run: Scene) -> Check:
    """Others delete it all the time; in the end it is there, with the last data."""

    async def keep(api: Any, zk: Any, me: Worker) -> None:
        await keep_node(zk, me, api.PersistentNode(zk, "/kept/node"))
        await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
        assert await zk.exists("/kept/node") is None

    async def keep_for_a_time(api: Any, zk: Any, me: Worker) -> None:
        await keep_node(zk, me, api.TtlNode(zk, "/kept/ttl", ttl=3600))

    async def keep_node(zk: Any, me: Worker, kept: Any) -> None:
        number = 0
        async with kept as node:
            await node.ready()
            while await me.step():
                number += 1
                await node.set_data(b"%d" % number)
            await me.until(lambda: not run.at_work(delete))
            await node.set_data(END)
            data, stat = await zk.get(node.path)
            assert data == END
            assert stat.ephemeralOwner in (zk.session.id, 0, -(1 << 56) + 3_600_000)

    async def delete(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            for path in ("/kept/node", "/kept/ttl"):
                with suppress(*api.UNANSWERED, api.NoNodeError, api.NotEmptyError):
                    await zk.delete(path, recursive=True)

    async def check(api: Any, zk: Any) -> None:
        kept = await tree(api, zk, "/kept")
        assert (kept["/kept/ttl"], set(kept)) == (END, {"/kept", "/kept/ttl", "/kept/ttl/touch"})

    run.add(keep)
    run.add(keep_for_a_time)
    run.add(delete)
    return check


@workload("Cache", "ChildrenCache", "NodeCache", "TreeCache", "watch_children", "watch_node")
def copies_become_what_is_there(run: Scene) -> Check:
    """What is held in the end, and what was told of the changes on the way."""
    inner = [f"/tree/{name}" for name in "ab"]
    paths = [*inner, *(f"{path}/{name}" for path in inner for name in "xy")]

    async def write(api: Any, zk: Any, me: Worker) -> None:
        await api.retry(zk, lambda zk: zk.ensure_path("/tree"), policy=UNTIL_ANSWERED)
        choice, number = random.Random(me.name), 0
        while await me.step():
            number += 1
            path, data = choice.choice(paths), b"%d" % number
            with suppress(*api.UNANSWERED, api.NoNodeError, api.NodeExistsError, api.NotEmptyError):
                await zk.set("/tree", data)
                match choice.choice(["create", "set", "delete"]):
                    case "create":
                        await zk.create(path, data)
                    case "set":
                        await zk.set(path, data)
                    case "delete":
                        await zk.delete(path)

    async def write_last(api: Any, zk: Any, me: Worker) -> None:
        await write(api, zk, me)
        await me.until(lambda: not run.at_work(write))
        await api.retry(zk, lambda zk: zk.ensure_path("/tree/end"), policy=UNTIL_ANSWERED)
        await api.retry(zk, lambda zk: zk.set("/tree", END), policy=UNTIL_ANSWERED)

    async def copy(api: Any, zk: Any, me: Worker) -> None:
        kinds: list[tuple[Any, Callable[[str], bool]]] = [
            (api.NodeCache(zk, "/tree"), lambda path: path == "/tree"),
            (api.ChildrenCache(zk, "/tree"), lambda path: path.count("/") < 3),
            (api.TreeCache(zk, "/tree"), lambda path: True),
            (api.Cache(zk, "/tree", None, selector=_without_b), _without_b),
        ]
        async with AsyncExitStack() as stack:
            caches = [(await stack.enter_async_context(cache), holds) for cache, holds in kinds]
            streams = [cache.events() for cache, _ in caches]
            while await me.step():
                pass
            await me.until(lambda: not run.at_work(write, write_last))
            there = await tree(api, zk, "/tree")
            for cache, holds in caches:
                wanted = {path: data for path, data in there.items() if holds(path)}
                await me.until(lambda cache=cache, wanted=wanted: held(cache) == wanted)  # type: ignore[misc]
        for (cache, _), stream in zip(caches, streams, strict=True):
            told = {}
            async for event in stream:
                if event.new is not None:
                    told[event.path] = event.new.data
                elif event.type is api.CacheEventType.REMOVED:
                    del told[event.path]
            assert told == held(cache)

    def held(cache: Any) -> dict[str, bytes]:
        return {path: node.data for path, node in cache.nodes.items()}

    async def follow_data(api: Any, zk: Any, me: Worker) -> None:
        newest = 0
        async for data, stat in api.watch_node(zk, "/tree"):
            if stat is not None:
                assert stat.mzxid > newest, "old data after newer data"
                newest = stat.mzxid
            if data == END:
                break
            await me.step()

    async def follow_names(api: Any, zk: Any, me: Worker) -> None:
        async for names in api.watch_children(zk, "/tree"):
            if names and "end" in names:
                break
            await me.step()

    async def check(api: Any, zk: Any) -> None:
        there = await tree(api, zk, "/tree")
        assert there["/tree"] == END

    run.add(write)
    run.add(write_last)
    run.add(copy)
    run.add(follow_data)
    run.add(follow_names)
    return check


def _without_b(path: str) -> bool:
    return "/b" not in path
