"""What is held: never by more than may hold it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..holds import HOLDS, block, one
from .workload import UNTIL_ANSWERED, Check, Inside, Scene, Worker, nothing_left, tree, workload

ITEMS = ("a", "b", "c")


def exclusive(run: Scene, enter: Callable[[Any, Any], Any], held_by: Callable[[Any], Any]) -> Check:
    """One holds it at a time. Tokens grow, so nobody writes behind a later holder."""
    inside = Inside()

    async def hold(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with enter(api, zk) as held:
                with inside:
                    await api.retry(zk, lambda zk: write(api, zk, held_by(held)), policy=UNTIL_ANSWERED)

    async def write(api: Any, zk: Any, grant: Any) -> None:
        try:
            data, stat = await zk.get("/guarded")
        except api.NoNodeError:
            await zk.create("/guarded", b"0")
            data, stat = await zk.get("/guarded")
        assert int(data) <= grant.token
        await zk.multi([*grant.fences(), api.SetData("/guarded", b"%d" % grant.token, stat.version)])

    run.add(hold, 2)
    return nothing_left("/held")


def _enter_table(kind: str) -> None:
    def build(run: Scene) -> Check:
        return exclusive(run, lambda api, zk: block(api, zk, kind), lambda held: one(held, kind))

    build.__name__ = f"one_holds_a_{kind}"
    workload(kind)(build)


for _kind in HOLDS:
    _enter_table(_kind)


@workload("LockRegistry")
def one_holds_a_lock_of_a_registry(run: Scene) -> Check:
    return exclusive(run, lambda api, zk: api.LockRegistry(zk, "/held")["user/7"], lambda grant: grant)


@workload("LeaderLatch")
def one_leads(run: Scene) -> Check:
    """Terms follow each other, and those who look on see no leader of the past."""
    inside = Inside()
    seen_last = False

    async def stand(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.LeaderLatch(zk, "/latch") as latch, latch.term() as term:
                with inside:
                    assert latch.is_leader
                    await term.verify()

    async def stand_last(api: Any, zk: Any, me: Worker) -> None:
        await stand(api, zk, me)
        await me.until(lambda: not run.at_work(stand))
        async with api.LeaderLatch(zk, "/latch", id="last") as latch, latch.term():
            await me.until(lambda: seen_last)

    async def look_on(api: Any, zk: Any, me: Worker) -> None:
        nonlocal seen_last
        newest = 0
        async for leader in api.LeaderElection(zk, "/latch").observe():
            if leader is not None:
                assert leader.stat.czxid >= newest, "a leader of the past"
                newest = leader.stat.czxid
                if leader.data == b"last":
                    break
            await me.step()
        seen_last = True

    run.add(stand, 2)
    run.add(stand_last)
    run.add(look_on)
    return nothing_left("/latch")


@workload("contenders", "revoke")
def a_lock_is_given_back(run: Scene) -> Check:
    inside = Inside()

    async def hold(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            with suppress(api.LockRevoked):
                async with api.Lock(zk, "/lock", on_revoke="cancel") as grant:
                    with inside:
                        await api.until_lost(grant)

    async def ask(api: Any, zk: Any, me: Worker) -> None:
        while run.at_work(hold):
            for contender in (await api.contenders(zk, "/lock"))[:1]:
                await api.revoke(zk, contender)
            await me.step()

    run.add(hold, 2)
    run.add(ask)
    return nothing_left("/lock")


@workload("RWLock")
def readers_and_writers(run: Scene) -> Check:
    writing, reading = Inside(), Inside(4)

    async def write(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.RWLock(zk, "/rw").write() as grant:
                with writing:
                    await zk.exists("/")
                    assert not reading.count
                async with grant.downgrade():
                    await read_on(zk)

    async def read(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.RWLock(zk, "/rw").read():
                await read_on(zk)

    async def read_on(zk: Any) -> None:
        with reading:
            await zk.exists("/")
            assert not writing.count

    run.add(write, 2)
    run.add(read, 2)
    return nothing_left("/rw")


@workload("Semaphore")
def no_lease_beyond_the_limit(run: Scene) -> Check:
    inside = Inside(2)

    async def take_one(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.Semaphore(zk, "/pool", 2):
                with inside:
                    await me.linger()

    async def take_two(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.Semaphore(zk, "/pool", 2).acquire_many(2):
                with inside, inside:
                    await me.linger()

    run.add(take_one, 2)
    run.add(take_two)
    return nothing_left("/pool")


@workload("TimeLease", "MultiTimeLease")
def leases_that_end_by_the_clock(run: Scene) -> Check:
    only, some = Inside(), Inside(2)

    async def lease_one(api: Any, zk: Any, me: Worker) -> None:
        lease = api.TimeLease(zk, "/lease", 3600, me.name)
        while await me.step():
            if await lease.obtain():
                with only:
                    await me.linger()
                    assert (await lease.last_holder()).name == me.name
                await lease.release()

    async def lease_any(api: Any, zk: Any, me: Worker) -> None:
        leases = api.MultiTimeLease(zk, "/leases", 2, 3600, me.name)
        while await me.step():
            lease = await leases.obtain()
            if lease is not None:
                with some:
                    await me.linger()
                await lease.release()

    run.add(lease_one, 2)
    run.add(lease_any, 3)

    async def check(api: Any, zk: Any) -> None:
        left = [*await tree(api, zk, "/lease"), *await tree(api, zk, "/leases")]
        assert [path for path in left if path.endswith("lease_holder") or path[-10:].isdigit()] == []

    return check


@workload("Partitioner")
def no_item_belongs_to_two(run: Scene) -> Check:
    owners = {item: Inside() for item in ITEMS}

    async def stay(api: Any, zk: Any, me: Worker) -> None:
        async with api.Partitioner(zk, "/work", ITEMS, me.name, settle=0) as member:
            while await me.step():
                await work_once(api, zk, member)

    async def come_and_go(api: Any, zk: Any, me: Worker) -> None:
        while await me.step():
            async with api.Partitioner(zk, "/work", ITEMS, me.name, settle=0) as member:
                await work_once(api, zk, member)

    async def work_once(api: Any, zk: Any, member: Any) -> None:
        with suppress(api.Rebalance, api.LockLost):
            async with member.share() as items:
                for item in items:
                    with owners[item]:
                        await zk.exists("/")

    run.add(stay, 2)
    run.add(come_and_go)

    async def check(api: Any, zk: Any) -> None:
        async with api.Partitioner(zk, "/work", ITEMS, "judge", settle=0) as member, member.share() as items:
            assert tuple(items) == ITEMS

    return check
