"""What is written: neither lost nor doubled."""

from __future__ import annotations

import itertools
from collections import Counter as Tally
from collections.abc import Callable
from typing import Any

from .workload import UNTIL_ANSWERED, Check, Scene, Worker, tree, workload

END = b"end"
LAST = 1_000_000
"""Added to a counter when all others have ended."""


@workload("ConnectionLossError")
def nothing_acknowledged_is_lost(run: Scene) -> Check:
    """The client itself: what it says of each write is so."""
    fates: dict[str, str] = {}

    async def write(api: Any, zk: Any, me: Worker) -> None:
        await api.retry(zk, lambda zk: zk.ensure_path("/log"), policy=UNTIL_ANSWERED)
        for number in itertools.count():
            value = f"{me.name} {number}"
            fates[value] = "unknown"
            try:
                await zk.create("/log/e-", value.encode(), sequential=True)
                fates[value] = "done"
            except api.ConnectionLossError as error:
                fates[value] = "unknown" if error.sent else "unsent"
            if not await me.step():
                break

    async def check(api: Any, zk: Any) -> None:
        log = [data.decode() for path, data in sorted((await tree(api, zk, "/log")).items()) if data]
        assert "unknown" in fates.values(), "no reply was ever lost: the kills missed"
        assert len(log) == len(set(log)), "an entry was written twice"
        for value, fate in fates.items():
            assert fate == "unknown" or (value in log) == (fate == "done"), (value, fate)
        for name in run.steps:
            own = [int(value.split()[-1]) for value in log if value.startswith(name)]
            assert own == sorted(own), "writes of one client came out of order"

    run.add(write, 3)
    return check


@workload("Counter", "SharedValue")
def a_counter_counts_each_addition_once(run: Scene) -> Check:
    added: list[int] = []
    reserved: list[int] = []

    async def add(api: Any, zk: Any, me: Worker) -> None:
        counter = api.Counter(zk, "/count", exactly_once=True)
        while await me.step():
            before, after = await counter.add(1)
            assert after == before + 1
            added.append(after)

    async def add_last(api: Any, zk: Any, me: Worker) -> None:
        await add(api, zk, me)
        await me.until(lambda: not run.at_work(add))
        await api.Counter(zk, "/count", exactly_once=True).add(LAST)

    async def reserve(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            reserved.extend(await api.Counter(zk, "/numbers").reserve(3))

    async def follow(api: Any, zk: Any, me: Worker) -> None:
        newest = seen = 0
        async with api.SharedValue(zk, "/count", codec=api.INT64).updates() as updates:
            async for item in updates:
                if item is not None:
                    assert item.mzxid > newest, "an old value after a newer one"
                    assert item.value > seen
                    newest, seen = item.mzxid, item.value
                if seen >= LAST:
                    break
                await me.step()

    async def check(api: Any, zk: Any) -> None:
        assert sorted(added) == list(range(1, len(added) + 1))
        await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
        assert await api.Counter(zk, "/count").get() == LAST + len(added)
        assert len(reserved) == len(set(reserved)), "a number was given to two"
        assert set(await tree(api, zk, "/count.ops")) <= {"/count.ops"}, "a marker was left"

    run.add(add)
    run.add(add_last)
    run.add(reserve, 2)
    run.add(follow)
    return check


@workload("SharedValue")
def one_replaces_a_value(run: Scene) -> Check:
    won: list[int] = []

    async def replace(api: Any, zk: Any, me: Worker) -> None:
        value = api.SharedValue(zk, "/value", codec=api.INT32, exactly_once=True)
        while await me.step():
            present = await value.get()
            following = present.value + 1 if present else 1
            if await value.compare_and_set(present, following):
                won.append(following)

    async def check(api: Any, zk: Any) -> None:
        await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
        final = await api.SharedValue(zk, "/value", codec=api.INT32).get()
        assert sorted(won) == list(range(1, final.value + 1))

    run.add(replace, 2)
    return check


def items_flow(run: Scene, make: Callable[[Any, Any], Any], put: Callable[[Any, bytes], Any]) -> Check:
    """Each item that was put is taken once, in whatever way, or is there still."""
    sure: set[bytes] = set()
    ambiguous: set[bytes] = set()
    taken: Tally[bytes] = Tally()

    async def produce(api: Any, zk: Any, me: Worker) -> None:
        queue = make(api, zk)
        for number in itertools.count():
            await once(api, queue, b"%d" % number)
            if not await me.step():
                break
        while run.at_work(get, claim):
            await once(api, queue, END)
            await me.step()

    async def once(api: Any, queue: Any, data: bytes) -> None:
        try:
            await put(queue, data)
            sure.add(data)
        except api.AmbiguousResult:
            ambiguous.add(data)

    async def get(api: Any, zk: Any, me: Worker) -> None:
        queue, data = make(api, zk), b""
        while data != END:
            data = (await queue.get()).data
            taken[data] += 1
            await me.step()

    async def claim(api: Any, zk: Any, me: Worker) -> None:
        queue, data = make(api, zk), b""
        while data != END:
            async with queue.claim() as item:
                data = item.data
            taken[data] += 1
            await me.step()

    async def check(api: Any, zk: Any) -> None:
        await api.retry(zk, lambda zk: zk.sync("/"), policy=UNTIL_ANSWERED)
        queue = make(api, zk)
        while await queue.size():
            taken[(await queue.get()).data] += 1
        del taken[END]
        assert set(taken.values()) == {1}, "an item was taken twice"
        assert sure - {END} <= taken.keys() <= sure | ambiguous

    run.add(produce)
    run.add(get)
    run.add(claim)
    return check


@workload("Queue")
def items_of_a_queue(run: Scene) -> Check:
    return items_flow(
        run, lambda api, zk: api.Queue(zk, "/queue", limit=9), lambda queue, data: queue.put(data)
    )


@workload("ClaimQueue")
def items_that_are_claimed(run: Scene) -> Check:
    return items_flow(run, lambda api, zk: api.ClaimQueue(zk, "/queue"), lambda queue, data: queue.put(data))


@workload("PriorityQueue")
def items_by_priority(run: Scene) -> Check:
    return items_flow(
        run,
        lambda api, zk: api.PriorityQueue(zk, "/queue"),
        lambda queue, data: queue.put(data, 9 if data == END else int(data) % 3),
    )


@workload("DelayQueue")
def items_that_are_due(run: Scene) -> Check:
    return items_flow(
        run, lambda api, zk: api.DelayQueue(zk, "/queue"), lambda queue, data: queue.put(data, 0.005)
    )


@workload("IdQueue")
def items_with_ids(run: Scene) -> Check:
    return items_flow(
        run, lambda api, zk: api.IdQueue(zk, "/queue"), lambda queue, data: queue.put(data, f"id {data!r}")
    )
