"""Every recipe in every package: one body, driven with trio, threads, asyncio and uvloop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyzk import recipes
from pyzk.bridge.wrapped import WRAPPED
from pyzk.server.testing import EmbeddedServer

from .drivers import Body, Driver

USES: list[Body] = []


def use(body: Body) -> Body:
    """Mark what is to be run with each package: ``body(api, zk)``."""
    USES.append(body)
    return body


@use
async def the_client(api: Any, zk: Any) -> None:
    path = await zk.create("/job-", b"x", ephemeral=True, sequential=True)
    data, stat = await zk.get(path)
    assert data == b"x"
    assert stat.ephemeralOwner == zk.session.id
    assert await zk.exists("/missing") is None
    with pytest.raises(api.NoNodeError):
        await zk.set("/missing", b"")
    with pytest.raises(api.BadArgumentsError):
        await zk.get("no path")
    results = await zk.multi([api.Create("/a", b"1"), api.SetData("/a", b"2")])
    assert results[0] == "/a"
    async with zk.transaction() as transaction:
        transaction.check("/a", version=1)
        transaction.delete("/a")
    assert transaction.results == [None, None]
    pending = [zk.submit(api.SetData(path, b"%d" % number)) for number in range(10)]
    assert [(await each.wait()).version for each in pending] == list(range(1, 11))
    assert all(each.settled for each in pending)
    assert zk.session.state is api.SessionState.CONNECTED
    assert zk.session.generation == 1
    assert not zk.session.expired.is_set()
    assert zk.server.port
    assert await api.retry(zk, lambda zk: _get(zk, path)) == b"9"


async def _get(zk: Any, path: str) -> Any:
    data, _ = await zk.get(path)
    return data


@use
async def what_a_service_needs(api: Any, zk: Any) -> None:
    view = zk.view("/app")
    await view.create("/count", b"1", make_parents=True)
    assert (await zk.get("/app/count"))[0] == b"1"

    async def increase(zk: Any) -> int:
        data, stat = await zk.get("/app/count")
        await zk.set("/app/count", b"%d" % (int(data) + 1), version=stat.version)
        return int(data) + 1

    assert await api.retry(zk, increase, policy=api.Backoff(tries=3)) == 2
    with pytest.raises(api.NoNodeError):
        await api.retry(zk, lambda zk: _get(zk, "/missing"))
    await zk.update_hosts(str(zk.server))
    async with api.connect(str(zk.server)) as other:
        changes = other.session.changes()
        assert other.requests_waiting == 0
    assert [change.state async for change in changes] == [api.SessionState.CLOSED]


@use
async def watches(api: Any, zk: Any) -> None:
    await zk.create("/a")
    _, _, watch = await zk.get_and_watch("/a")
    await zk.set("/a", b"new")
    with watch:
        event = await watch.wait()
    assert (event.type, event.path) == (api.EventType.CHANGED, "/a")
    stat, watch = await zk.exists_and_watch("/b")
    assert stat is None
    watch.cancel()
    with pytest.raises(api.ClosingError):
        await watch.wait()
    async with zk.watch("/", recursive=True) as events:
        await zk.create("/a/b")
        await zk.delete("/a/b")
        assert (await events.__anext__()).type is api.EventType.CREATED
        async for event in events:
            assert event.type is api.EventType.DELETED
            break
    assert zk.watch_count == 0


@use
async def lock(api: Any, zk: Any) -> None:
    lock = api.Lock(zk, "/lock")
    async with lock as grant:
        assert grant.zk == zk
        assert await lock.is_locked()
        assert [contender.path for contender in await lock.contenders()] == [grant.path]
        grant.check()
        await grant.verify()
        await zk.multi([grant.fence(), api.Create("/guarded")])
        with pytest.raises(api.Deadlock):
            async with lock:
                pass
        with pytest.raises(api.WouldBlock):
            async with api.Lock(zk, "/lock").nowait():
                pass
        assert not grant.lost.is_set()
    assert not await lock.is_locked()
    grant = await lock.acquire()
    async with _scope(grant):
        pass
    await grant.release()
    with pytest.raises(api.LockLost):
        grant.check()
    assert lock.statistics().acquired == 2


def _scope(grant: Any) -> Any:
    """In trio a scope is entered by ``with``."""
    scope = grant.scope()
    return scope if hasattr(scope, "__aenter__") else _Entered(scope)


class _Entered:
    def __init__(self, scope: Any) -> None:
        self._scope = scope

    async def __aenter__(self) -> Any:
        return self._scope.__enter__()

    async def __aexit__(self, *exc: Any) -> Any:
        return self._scope.__exit__(*exc)


@use
async def reentrant_lock(api: Any, zk: Any) -> None:
    lock = api.Lock(zk, "/lock", reentrant=True)
    async with lock as outer, lock as inner:
        assert outer == inner
    assert not await lock.is_locked()


@use
async def two_contend(api: Any, zk: Any) -> None:
    lock = api.Lock(zk, "/lock")
    inside = 0

    async def work() -> None:
        nonlocal inside
        for _ in range(5):
            async with lock:
                inside += 1
                assert inside == 1
                await zk.exists("/")
                inside -= 1

    await api.both(work, work)
    assert lock.statistics().acquired == 10


@use
async def a_queue_of_this_process(api: Any, zk: Any) -> None:
    lock = api.Lock(zk, "/lock", local_queue=True, max_handoffs=3)

    async def work() -> None:
        for _ in range(4):
            async with lock:
                pass

    await api.both(work, work)
    assert lock.statistics().acquired == 8


@use
async def lock_registry(api: Any, zk: Any) -> None:
    locks = api.LockRegistry(zk, "/locks")
    async with locks["user/7"] as grant:
        assert grant.path.startswith("/locks/user%2F7/")


@use
async def revocation(api: Any, zk: Any) -> None:
    with pytest.raises(api.LockRevoked):
        async with api.Lock(zk, "/lock", on_revoke="cancel") as grant:
            (holder,) = await api.contenders(zk, "/lock")
            await api.revoke(zk, holder)
            await grant.revoked.wait()
            await api.until_lost(grant)

    async with api.Lock(zk, "/lock") as grant:
        await api.revoke(zk, grant.path)
        await grant.revoked.wait()


@use
async def rw_lock(api: Any, zk: Any) -> None:
    lock = api.RWLock(zk, "/rw")
    async with lock.read(), api.RWLock(zk, "/rw").read():
        pass
    async with lock.write() as grant:
        assert not grant.shared
        async with grant.downgrade():
            assert grant.shared


@use
async def semaphore(api: Any, zk: Any) -> None:
    limit = api.SharedValue(zk, "/limit", codec=api.INT32)
    await limit.set(2)
    semaphore = api.Semaphore(zk, "/pool", 1, limit_source=limit)
    async with semaphore as lease:
        assert [holder.path for holder in await semaphore.holders()] == [lease.path]
    async with semaphore.acquire_many(2) as leases:
        first, second = leases
        assert first.path != second.path
        assert leases[1] == second
        await first.release()


@use
async def multi_lock(api: Any, zk: Any) -> None:
    locks = [api.Lock(zk, "/b"), api.Lock(zk, "/a")]
    async with api.MultiLock(locks) as (b, a):
        assert b.path.startswith("/b/")
        assert a.path.startswith("/a/")


@use
async def single_node_lock(api: Any, zk: Any) -> None:
    lock = api.SingleNodeLock(zk, "/single/lock")

    async def work() -> None:
        async with lock as grant:
            assert grant.path == "/single/lock"
            await zk.exists("/")

    await api.both(work, work)
    async with lock:
        with pytest.raises(api.Deadlock):
            await lock.acquire()


@use
async def time_leases(api: Any, zk: Any) -> None:
    lease = api.TimeLease(zk, "/lease", 60, "me")
    assert await lease.obtain()
    assert (await lease.last_holder()).name == "me"
    assert not await api.TimeLease(zk, "/lease", 60, "you").obtain()
    await lease.release()
    several = api.MultiTimeLease(zk, "/leases", 2, 60, "me")
    assert await several.obtain() == several.leases[0]


@use
async def leader_election(api: Any, zk: Any) -> None:
    election = api.LeaderElection(zk, "/leader", id="me")
    async with election.lead() as term:
        assert term.number == 1
        assert (await election.leader()).data == b"me"
        async for leader in election.observe():
            assert leader.data == b"me"
            break
        assert len(await election.contenders()) == 1

    class Enough(Exception):
        pass

    numbers = []

    async def lead(term: Any) -> None:
        numbers.append(term.number)
        await zk.multi([term.fence(), api.SetData("/leader", b"")])
        if len(numbers) == 3:
            raise Enough

    with pytest.raises(Enough):
        await election.run(lead)
    assert numbers == [2, 3, 4]


@use
async def an_election_goes_on_after_a_leader_was_deposed(api: Any, zk: Any) -> None:
    class Enough(Exception):
        pass

    paths = []

    async def lead(term: Any) -> None:
        paths.append(term.path)
        if len(paths) == 2:
            raise Enough
        await zk.delete(term.path)
        await api.until_lost(term)

    with pytest.raises(Enough):
        await api.LeaderElection(zk, "/leader").run(lead)
    assert paths[0] != paths[1]


@use
async def leader_latch(api: Any, zk: Any) -> None:
    async with api.LeaderLatch(zk, "/latch", id="me") as latch:
        async with latch.term() as term:
            assert latch.is_leader
            assert await latch.wait_leader() == term
        assert (await latch.election.leader()).data == b"me"
    assert not latch.is_leader


@use
async def partitioner(api: Any, zk: Any) -> None:
    async with (
        api.Partitioner(zk, "/work", ["a", "b"], id="me", settle=0) as member,
        member.share() as items,
    ):
        assert list(items) == ["a", "b"]
        items["a"].check()


@use
async def barrier(api: Any, zk: Any) -> None:
    barrier = api.Barrier(zk, "/barrier")
    await barrier.create()

    async def remove() -> None:
        assert await barrier.remove()

    await api.both(barrier.wait, remove)


@use
async def double_barrier(api: Any, zk: Any) -> None:
    barrier = api.DoubleBarrier(zk, "/barrier", 2)

    async def work() -> None:
        async with barrier as path:
            assert await zk.exists(path)

    await api.both(work, work)


@use
async def counter(api: Any, zk: Any) -> None:
    counter = api.Counter(zk, "/counter")

    async def work() -> None:
        for _ in range(5):
            await counter.add(1)

    await api.both(work, work)
    assert await counter.get() == 10
    assert await counter.reserve(5) == range(10, 15)
    with pytest.raises(OverflowError):
        await counter.add(2**63)


@use
async def shared_value(api: Any, zk: Any) -> None:
    value = api.SharedValue(zk, "/value", codec=api.INT32)
    async with value.updates() as updates:
        assert await updates.__anext__() is None
        await value.set(5)
        async for item in updates:
            assert item.value == 5
            break
    assert await value.compare_and_set(item, 7)
    assert not await value.compare_and_set(item, 9)


@use
async def queues(api: Any, zk: Any) -> None:
    queue = api.Queue(zk, "/queue", limit=3)
    await queue.put_all([b"1", b"2", b"3"])
    with pytest.raises(api.QueueFull):
        await queue.put(b"4", wait=False)
    assert (await queue.peek()).data == b"1"
    assert (await queue.get()).data == b"1"
    async for item in queue:
        assert item.data == b"2"
        break
    assert await queue.size() == 1
    claims = api.ClaimQueue(zk, "/claims")
    await claims.put(b"x")
    with pytest.raises(KeyError):
        async with claims.claim():
            raise KeyError
    async with claims.claim() as item:
        assert item.data == b"x"
    with pytest.raises(api.QueueEmpty):
        await claims.get(wait=False)
    priorities = api.PriorityQueue(zk, "/priorities")
    await priorities.put(b"late", 2)
    await priorities.put(b"soon", 1)
    assert (await priorities.get()).data == b"soon"
    delays = api.DelayQueue(zk, "/delays")
    await delays.put(b"due", 0.01)
    assert (await delays.get()).data == b"due"
    ids = api.IdQueue(zk, "/ids")
    await ids.put(b"x", "id")
    assert await ids.remove("id") == 1


@use
async def a_consumer_waits(api: Any, zk: Any) -> None:
    queue = api.Queue(zk, "/queue")
    got = []

    async def consume() -> None:
        while len(got) < 3:
            item = await queue.get()
            got.append(item.data)

    async def produce() -> None:
        await queue.put_all([b"0", b"1", b"2"])

    await api.both(consume, produce)
    assert got == [b"0", b"1", b"2"]


@use
async def party(api: Any, zk: Any) -> None:
    async with api.Party(zk, "/party", "me") as party:
        (member,) = await party.members()
        assert member.id == "me"
        async for change in party.changes():
            assert change.joined == {member}
            break


@use
async def kept_nodes(api: Any, zk: Any) -> None:
    async with api.PersistentNode(zk, "/kept", data=b"1") as node:
        await node.ready()
        await node.set_data(b"2")
        assert await _get(zk, "/kept") == b"2"
    assert await zk.exists("/kept") is None
    async with api.TtlNode(zk, "/ttl", data=b"1", ttl=60) as node:
        await node.ready()


@use
async def caches(api: Any, zk: Any) -> None:
    await zk.create("/app/config", b"1", make_parents=True)
    async with api.TreeCache(zk, "/app") as cache:
        await cache.synced()
        assert cache.is_synced
        assert cache["/app/config"].data == b"1"
        assert "/app/missing" not in cache
        assert set(cache.nodes) == {"/app", "/app/config"}
        assert cache.children("/app") == ["config"]
        events = cache.events()
        seen = set()
        async for event in events:
            seen.add(event.path)
            if event.type is api.CacheEventType.SYNCED:
                break
        assert seen == {"/app", "/app/config"}
    async with api.NodeCache(zk, "/app") as cache:
        await cache.synced()
        assert cache.children("/app") == []
    async with api.ChildrenCache(zk, "/app") as cache:
        await cache.synced()
        assert cache.children("/app") == ["config"]
    async with api.Cache(zk, "/app", 0, selector=lambda path: True) as cache:
        await cache.synced()


@use
async def following(api: Any, zk: Any) -> None:
    await zk.create("/a", b"1")
    async for data, stat in api.watch_node(zk, "/a"):
        assert (data, stat.version) == (b"1", 0)
        break
    async for names in api.watch_children(zk, "/a"):
        assert names == []
        break


@pytest.mark.parametrize("body", USES, ids=lambda body: body.__name__)
def test_a_recipe_works_in_each_face(server: EmbeddedServer, driver: Driver, body: Any) -> None:
    async def run(api: Any) -> None:
        async with api.connect(server.hosts) as zk:
            await body(api, zk)

    driver.run(run)


def test_each_recipe_is_used_here() -> None:
    text = Path(__file__).read_text()
    shown = [cls.__name__ for cls in WRAPPED if cls.__name__ in recipes.__all__]
    made_by_others = {"Grant", "Grants", "WriteGrant", "Term"}
    assert [name for name in shown if f"api.{name}(" not in text and name not in made_by_others] == []


def test_the_fixture_would_see_what_a_client_leaves(server: EmbeddedServer) -> None:
    from pyzk.blocking import connect

    with connect(server.hosts) as zk:
        zk.create("/left", ephemeral=True)
        assert "/left" in server.leaks()[0]
