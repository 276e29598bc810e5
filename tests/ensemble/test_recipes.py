"""What the recipes do from day to day, on ours, on a real server and on a real ensemble, where each of the
three clients has a server of its own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import pytest
import trio

from pyzk.client import (
    NoNodeError,
    SetData,
    ZooKeeper,
    connect,
)
from pyzk.recipes import (
    INT32,
    Barrier,
    CacheEventType,
    ChildrenCache,
    ClaimQueue,
    Counter,
    Deadlock,
    DelayQueue,
    DoubleBarrier,
    Grant,
    IdQueue,
    InconsistentLimit,
    LeaderElection,
    LeaderLatch,
    Lock,
    LockLost,
    LockRegistry,
    LockRevoked,
    LossReason,
    MultiLock,
    MultiTimeLease,
    NodeCache,
    Partitioner,
    Party,
    PersistentNode,
    PriorityQueue,
    Queue,
    QueueEmpty,
    QueueFull,
    Rebalance,
    RWLock,
    Semaphore,
    SharedValue,
    SingleNodeLock,
    Term,
    TimeLease,
    TreeCache,
    TtlNode,
    WouldBlock,
    contenders,
    revoke,
    watch_children,
    watch_node,
)

from ..support.interop import until
from .ending import end_session

Clients = tuple[ZooKeeper, ZooKeeper, ZooKeeper]
T = TypeVar("T")


def servers(chroot: str) -> list[str]:
    """A connect string for each of three clients."""
    hosts, slash, path = chroot.partition("/")
    each = hosts.split(",")
    return [each[number % len(each)] + slash + path for number in range(3)]


@pytest.fixture
async def clients(chroot: str) -> AsyncIterator[Clients]:
    """Three clients. In the end they have left nothing behind: no watch, and no znode that is theirs."""
    async with AsyncExitStack() as stack:
        a, b, c = [await stack.enter_async_context(connect(each)) for each in servers(chroot)]
        yield a, b, c
        for zk in (a, b, c):
            await zk.janitor.idle()
            await zk.sync()
            assert zk.watch_count == 0
            assert await zk.get_ephemerals() == []


class Stay(Generic[T]):
    """A task that enters a block and stays until it is told to leave."""

    value: T

    def __init__(self, block: AbstractAsyncContextManager[T]) -> None:
        self._block = block
        self._entered = trio.Event()
        self._leave = trio.Event()
        self._left = trio.Event()

    @property
    def inside(self) -> bool:
        return self._entered.is_set() and not self._left.is_set()

    async def run(self) -> None:
        async with self._block as self.value:
            self._entered.set()
            await self._leave.wait()
        self._left.set()

    async def entered(self) -> T:
        with trio.fail_after(10):
            await self._entered.wait()
        return self.value

    async def leave(self) -> None:
        self._leave.set()
        with trio.fail_after(10):
            await self._left.wait()


def stay(nursery: trio.Nursery, block: AbstractAsyncContextManager[T]) -> Stay[T]:
    task = Stay(block)
    nursery.start_soon(task.run)
    return task


async def in_line(zk: ZooKeeper, path: str, count: int) -> None:
    """Wait until so many stand at a lock."""

    async def enough() -> bool:
        return len(await contenders(zk, path)) == count

    await until(enough)


async def children(zk: ZooKeeper, path: str) -> list[str]:
    await zk.sync(path)
    return await zk.get_children(path)


# --- locks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namings", ["curator", "kazoo", "both", "curator kazoo both"])
async def test_a_lock_goes_from_one_to_the_next(clients: Clients, namings: str) -> None:
    names = namings.split()
    width = [2 if name == "both" else 1 for name in (names * 3)[:3]]
    locks = [
        Lock(zk, "/dir/lock", naming=names[number % len(names)], data=b"%d" % number)  # type: ignore[arg-type]
        for number, zk in enumerate(clients)
    ]
    async with trio.open_nursery() as nursery:
        stays: list[Stay[Grant]] = []
        for number, lock in enumerate(locks):
            stays.append(stay(nursery, lock))
            await in_line(clients[0], "/dir/lock", sum(width[: number + 1]))
        first, second, third = stays
        one = await first.entered()
        found = await locks[2].contenders()
        assert [int(each.data) for each in found] == [n for n in range(3) for _ in range(width[n])]
        assert await locks[1].locked()
        with pytest.raises(WouldBlock):
            async with locks[1].try_acquire():
                pass
        await clients[0].multi([*one.fences(), SetData("/dir", b"0")])
        await one.verify()
        assert (second.inside, third.inside) == (False, False)
        await first.leave()
        two = await second.entered()
        assert not third.inside
        with pytest.raises(NoNodeError):
            await clients[0].multi([*one.fences(), SetData("/dir", b"1")])
        await second.leave()
        three = await third.entered()
        assert one.token < two.token < three.token
        assert locks[2].statistics().waiting == 0
        await third.leave()
    async with locks[0].try_acquire() as again:
        assert again.token > three.token
        assert again.requeues == 0
    assert await children(clients[1], "/dir/lock") == []


async def test_never_two_have_a_lock(clients: Clients) -> None:
    inside = 0
    tokens: list[int] = []

    async def work(lock: Lock) -> None:
        nonlocal inside
        for _ in range(4):
            async with lock as grant:
                assert inside == 0
                inside += 1
                tokens.append(grant.token)
                await grant.zk.sync()
                inside -= 1

    async with trio.open_nursery() as nursery:
        for zk in clients:
            lock = Lock(zk, "/lock")
            nursery.start_soon(work, lock)
            nursery.start_soon(work, lock)
    assert len(tokens) == 24
    assert tokens == sorted(set(tokens))


async def test_one_who_gives_up_waiting_holds_nobody_up(clients: Clients) -> None:
    a, b, c = (Lock(zk, "/lock") for zk in clients)
    async with trio.open_nursery() as nursery:
        first = stay(nursery, a)
        await in_line(clients[0], "/lock", 1)
        with trio.CancelScope() as impatient:
            async with trio.open_nursery() as inner:
                stay(inner, b)
                await in_line(clients[0], "/lock", 2)
                third = stay(nursery, c)
                await in_line(clients[0], "/lock", 3)
                impatient.cancel()
        await in_line(clients[0], "/lock", 2)
        assert not third.inside
        await first.leave()
        await third.entered()
        await third.leave()


async def test_a_lock_within_a_process(clients: Clients) -> None:
    zk, other, _ = clients
    lock = Lock(zk, "/lock", reentrant=True)
    async with lock as grant, lock as again:
        assert again is grant
    strict = Lock(other, "/lock")
    async with strict:
        with pytest.raises(Deadlock):
            await strict.acquire()
    registry = LockRegistry(zk, "/locks")
    async with registry["a/b"], registry["c"]:
        assert sorted(await children(other, "/locks")) == ["a%2Fb", "c"]


async def test_a_local_queue(clients: Clients) -> None:
    """One znode for all tasks of a process; the lock passes from task to task twice, then to others."""
    zk, other, looker = clients
    lock = Lock(zk, "/lock", local_queue=True, max_handoffs=2)
    order: list[tuple[str, int]] = []

    async def work(lock: Lock, name: str) -> None:
        async with lock as grant:
            order.append((name, grant.token))

    async with trio.open_nursery() as nursery:
        first = stay(nursery, lock)
        await first.entered()
        for _ in range(3):
            nursery.start_soon(work, lock, "here")
        nursery.start_soon(work, Lock(other, "/lock"), "there")
        await in_line(looker, "/lock", 2)
        assert lock.statistics().waiting == 3
        await first.leave()
    names, tokens = zip(*order, strict=True)
    assert names == ("here", "here", "there", "here")
    assert tokens[0] == tokens[1] == first.value.token < tokens[2] < tokens[3]
    assert lock.statistics().handed_on == 2


async def test_a_lock_is_asked_back_and_taken_away(clients: Clients) -> None:
    zk, other, _ = clients
    lock = Lock(zk, "/lock", on_revoke="cancel")
    with pytest.raises(LockRevoked):
        async with lock as grant:
            await other.sync("/lock")
            (holder,) = await contenders(other, "/lock")
            assert holder.stat.ephemeralOwner == grant.session_id
            await revoke(other, holder)
            await trio.sleep_forever()
    with pytest.raises(LockLost) as lost:
        async with lock as grant:
            await other.sync("/lock")
            await other.delete(grant.path)
            await trio.sleep_forever()
    assert lost.value.reason is LossReason.NODE_DELETED
    assert not await lock.locked()


async def test_the_end_of_a_session_ends_a_hold_and_a_wait(chroot: str, clients: Clients) -> None:
    async with connect(servers(chroot)[0], on_expired="new_session") as zk:
        lock, other = Lock(zk, "/lock"), Lock(clients[1], "/lock")
        async with trio.open_nursery() as nursery:
            with pytest.raises(LockLost) as lost:
                async with lock as grant:
                    await end_session(chroot, zk)
                    await trio.sleep_forever()
            assert lost.value.reason in (LossReason.SESSION_EXPIRED, LossReason.NODE_DELETED)
            await until(lambda: zk.session.generation == 2)
            await zk.session.wait_connected()
            async with other as after:
                assert after.token > grant.token
                waiter = stay(nursery, lock)
                await in_line(clients[1], "/lock", 2)
                await end_session(chroot, zk)
                await until(lambda: zk.session.generation == 3)
                await in_line(clients[1], "/lock", 2)
                assert not waiter.inside
            again = await waiter.entered()
            assert again.requeues >= 1
            await waiter.leave()


@pytest.mark.parametrize("naming", ["curator", "kazoo", "both"])
async def test_readers_and_writers(clients: Clients, naming: str) -> None:
    a, b, c = (RWLock(zk, "/rw", naming=naming) for zk in clients)
    width = 2 if naming == "both" else 1
    async with trio.open_nursery() as nursery:
        reader, another = stay(nursery, a.read()), stay(nursery, b.read())
        await reader.entered()
        await another.entered()
        writer = stay(nursery, c.write())
        await in_line(clients[0], "/rw", 3 * width)
        late = stay(nursery, a.read())
        await in_line(clients[0], "/rw", 4 * width)
        with pytest.raises(WouldBlock):
            async with b.read().try_acquire():
                pass
        await reader.leave()
        assert (another.inside, writer.inside, late.inside) == (True, False, False)
        await another.leave()
        await writer.entered()
        assert not late.inside
        await writer.leave()
        await late.entered()
        await late.leave()


@pytest.mark.parametrize("naming", ["curator", "kazoo", "both"])
async def test_a_writer_becomes_a_reader(clients: Clients, naming: str) -> None:
    a, b, c = (RWLock(zk, "/rw", naming=naming) for zk in clients)
    width = 2 if naming == "both" else 1
    async with trio.open_nursery() as nursery:
        async with a.write() as grant:
            reader = stay(nursery, b.read())
            await in_line(clients[0], "/rw", 2 * width)
            writer = stay(nursery, c.write())
            await in_line(clients[0], "/rw", 3 * width)
            token = grant.token
            async with grant.downgrade() as reading:
                assert reading.shared
                assert (await reader.entered()).token > reading.token == token
                await reading.verify()
                await reader.leave()
                assert not writer.inside
                await clients[0].sync("/rw")
                assert [each.kind.shared for each in await a.read().contenders()] == [True] * width + [
                    False
                ] * width
        await writer.entered()
        await writer.leave()


@pytest.mark.parametrize("layout", ["curator", "kazoo"])
async def test_so_many_leases_and_no_more(clients: Clients, layout: str) -> None:
    a, b, c = (Semaphore(zk, "/dir/s", 2, layout=layout, data=b"x") for zk in clients)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        one, two = stay(nursery, a), stay(nursery, b)
        tokens = [(await one.entered()).token, (await two.entered()).token]
        await clients[2].sync("/dir/s")
        holders = await c.holders()
        assert [holder.stat.czxid for holder in holders] == sorted(tokens)
        assert {holder.data for holder in holders} == {b"x"}
        with pytest.raises(WouldBlock):
            async with c.try_acquire():
                pass
        three = stay(nursery, c)
        await until(lambda: c.zk.watch_count >= 2)  # on the gate and on the leases
        assert not three.inside
        await one.leave()
        await three.entered()
        await two.leave()
        await three.leave()
    async with a.acquire_many(2) as leases:
        assert leases[0].token == leases[1].token > max(tokens)
        with pytest.raises(WouldBlock):
            async with b.try_acquire():
                pass
    inside = most = 0

    async def work(semaphore: Semaphore) -> None:
        nonlocal inside, most
        async with semaphore as lease:
            inside += 1
            most = max(most, inside)
            await lease.verify()
            inside -= 1

    async with trio.open_nursery() as nursery:
        for semaphore in (a, b, c) * 3:
            nursery.start_soon(work, semaphore)
    assert most <= 2
    await clients[1].sync("/dir/s")
    assert await b.holders() == []


async def test_the_limit_of_a_semaphore(clients: Clients) -> None:
    a, b, _ = clients
    async with Semaphore(a, "/k", 2, layout="kazoo"):
        with pytest.raises(InconsistentLimit):
            async with Semaphore(b, "/k", 3, layout="kazoo"):
                pass
    limit = SharedValue(a, "/limit", INT32)
    await limit.set(1)
    first, second = (Semaphore(zk, "/s", 5, limit_source=SharedValue(zk, "/limit", INT32)) for zk in (a, b))
    await b.sync("/limit")
    async with trio.open_nursery() as nursery, first:
        waiter = stay(nursery, second)
        await until(lambda: b.watch_count >= 3)  # on the gate, on the leases and on the limit
        assert not waiter.inside
        await limit.set(2)
        await waiter.entered()
        await waiter.leave()


async def test_several_locks_at_once(clients: Clients) -> None:
    inside: Tally[str] = Tally()

    async def transfer(zk: ZooKeeper, paths: list[str]) -> None:
        several = MultiLock([Lock(zk, path) for path in paths])
        for _ in range(3):
            async with several as grants:
                assert [grant.path.rpartition("/")[0] for grant in grants] == paths
                for path in paths:
                    inside[path] += 1
                    assert inside[path] == 1
                await zk.sync()
                for path in paths:
                    inside[path] -= 1

    async with trio.open_nursery() as nursery:
        for zk, paths in zip(clients, [["/x", "/y"], ["/y", "/x"], ["/z", "/x"]], strict=True):
            nursery.start_soon(transfer, zk, paths)
    a, b, _ = clients
    mixed = MultiLock([SingleNodeLock(a, "/one/lock"), RWLock(a, "/rw").write(), Semaphore(a, "/s", 1)])
    async with mixed:
        await b.sync()
        for each in (SingleNodeLock(b, "/one/lock"), RWLock(b, "/rw").read(), Semaphore(b, "/s", 1)):
            with pytest.raises(WouldBlock):
                async with MultiLock([Lock(b, "/a"), each]).try_acquire():
                    pass
    assert await children(b, "/a") == []


async def test_a_lock_that_is_one_znode(clients: Clients) -> None:
    a, b, c = (SingleNodeLock(zk, "/one/lock", data=b"%d" % n) for n, zk in enumerate(clients))
    async with trio.open_nursery() as nursery:
        first = stay(nursery, a)
        one = await first.entered()
        with pytest.raises(WouldBlock):
            async with b.try_acquire():
                pass
        others = [stay(nursery, b), stay(nursery, c)]
        for zk in clients[1:]:
            await until(lambda zk=zk: zk.watch_count)
        assert not any(each.inside for each in others)
        await first.leave()
        await until(lambda: any(each.inside for each in others))
        others.sort(key=lambda each: not each.inside)
        assert not others[1].inside
        await others[0].leave()
        await others[1].entered()
        assert one.token < others[0].value.token < others[1].value.token
        await others[1].leave()


# --- elections ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["curator-latch", "curator-selector", "kazoo"])
async def test_an_election(clients: Clients, layout: str) -> None:
    a, b, looker = (
        LeaderElection(zk, "/leader", id=name, layout=layout)  # type: ignore[arg-type]
        for zk, name in zip(clients, [b"a", b"b", b""], strict=True)
    )
    async with trio.open_nursery() as nursery:
        seen = looker.observe()
        assert await anext(seen) is None
        first = stay(nursery, a.lead())
        one = await first.entered()
        leader = await anext(seen)
        assert leader is not None
        assert (leader.data, leader.stat.czxid) == (b"a", one.token)
        second = stay(nursery, b.lead())

        async def both() -> bool:
            return [each.data for each in await looker.participants()] == [b"a", b"b"]

        await until(both)
        assert not second.inside
        await first.leave()
        two = await second.entered()
        assert (two.token > one.token, one.number, two.number) == (True, 1, 1)
        leader = await anext(seen)
        assert leader is not None
        assert leader.data == b"b"
        await second.leave()
        assert await anext(seen) is None


async def test_terms_follow_each_other(clients: Clients) -> None:
    """Candidates that stand again and again take turns."""
    terms: list[tuple[int, int]] = []
    enough = trio.Event()

    async def all_stand() -> bool:
        return len(await LeaderElection(clients[0], "/leader").participants()) == 3

    async def lead(number: int, term: Term) -> None:
        if not terms:  # the server of one may be slower than the others
            await until(all_stand)
        terms.append((number, term.token))
        if len(terms) == 9:
            enough.set()
        await term.verify()

    async with trio.open_nursery() as nursery:

        async def stand(number: int) -> None:
            async def lead_here(term: Term) -> None:
                await lead(number, term)

            await LeaderElection(clients[number], "/leader").run(lead_here)

        for number in range(3):
            nursery.start_soon(stand, number)
        with trio.fail_after(30):
            await enough.wait()
        nursery.cancel_scope.cancel()
    tokens = [token for _, token in terms]
    assert tokens == sorted(set(tokens))
    assert {number for number, _ in terms[:3]} == {0, 1, 2}, "somebody did not have his turn"


async def test_leader_latches(clients: Clients) -> None:
    a, b, _ = clients
    async with trio.open_nursery() as nursery:
        first = stay(nursery, LeaderLatch(a, "/leader", id=b"a"))
        latch = await first.entered()
        one = await latch.wait_leader()
        async with LeaderLatch(b, "/leader", id=b"b") as other:
            await in_line(b, "/leader", 0)  # latches are no locks
            await until(lambda: b.watch_count)
            assert (latch.is_leader, other.is_leader) == (True, False)
            with pytest.raises(LockLost) as lost:
                async with latch.term() as term:
                    assert term is one
                    await first.leave()
                    await trio.sleep_forever()
            assert lost.value.reason is LossReason.RELEASED
            async with other.term() as two:
                assert other.is_leader
                assert two.token > one.token
                leader = await other.election.leader()
                assert leader is not None
                assert leader.data == b"b"


async def test_items_are_divided(clients: Clients) -> None:
    items = ["1", "2", "3", "4", "5"]
    shares: dict[str, list[str]] = {}
    owned: Tally[str] = Tally()

    async def work(zk: ZooKeeper, id: str, leave: trio.Event) -> None:
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_after, leave, scope)
            async with Partitioner(zk, "/work", items, id, settle=0.05) as partitioner:
                while True:
                    with suppress(Rebalance):
                        async with partitioner.share() as share:
                            owned.update(share.keys())
                            assert set(owned.values()) <= {0, 1}
                            shares[id] = list(share)
                            try:
                                await trio.sleep_forever()
                            finally:
                                del shares[id]
                                owned.subtract(share.keys())

    async def cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
        await event.wait()
        scope.cancel()

    async with trio.open_nursery() as nursery:
        leaves = {id: trio.Event() for id in "abc"}
        nursery.start_soon(work, clients[0], "a", leaves["a"])
        await until(lambda: shares == {"a": items})
        for id, zk in zip("bc", clients[1:], strict=True):
            nursery.start_soon(work, zk, id, leaves[id])
        await until(lambda: shares == {"a": ["1", "4"], "b": ["2", "5"], "c": ["3"]})
        leaves["a"].set()
        await until(lambda: shares == {"b": ["1", "3", "5"], "c": ["2", "4"]})
        for event in leaves.values():
            event.set()


# --- barriers -------------------------------------------------------------------------------------------


async def test_a_barrier(clients: Clients) -> None:
    a, b, c = (Barrier(zk, "/dir/barrier") for zk in clients)
    await a.wait()
    await a.create()
    await b.create()
    passed = 0

    async def wait(barrier: Barrier) -> None:
        nonlocal passed
        await barrier.zk.sync(barrier.path)
        await barrier.wait()
        passed += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, b)
        nursery.start_soon(wait, c)
        for zk in clients[1:]:
            await until(lambda zk=zk: zk.watch_count == 1)
        assert passed == 0
        assert await a.remove()
    assert passed == 2
    assert not await c.remove()


async def test_a_double_barrier_round_after_round(clients: Clients) -> None:
    came: Tally[int] = Tally()
    ended: Tally[int] = Tally()

    async def member(zk: ZooKeeper) -> None:
        barrier = DoubleBarrier(zk, "/dir/double", 3)
        for number in range(3):
            came[number] += 1
            async with barrier:
                assert came[number] == 3
                await zk.sync()
                ended[number] += 1
            assert ended[number] == 3

    async with trio.open_nursery() as nursery:
        for zk in clients:
            nursery.start_soon(member, zk)
    assert (came, ended) == ({0: 3, 1: 3, 2: 3}, {0: 3, 1: 3, 2: 3})
    assert await children(clients[0], "/dir/double") == []


async def test_a_double_barrier_waits_for_the_number(clients: Clients) -> None:
    a, b, _ = clients
    async with trio.open_nursery() as nursery:
        first = stay(nursery, DoubleBarrier(a, "/double", 2))
        await until(lambda: a.watch_count == 2)  # on ready and on its own
        assert not first.inside
        second = stay(nursery, DoubleBarrier(b, "/double", 2))
        await first.entered()
        await second.entered()
        first._leave.set()
        await until(lambda: a.watch_count == 1)  # on the other, which works still
        assert first.inside
        await second.leave()
        await first.leave()


# --- counters and values --------------------------------------------------------------------------------


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("codec", ["int32", "int64", "ascii"])
async def test_a_counter(clients: Clients, codec: str, exactly_once: bool) -> None:
    counters = [
        Counter(zk, "/dir/n", codec=codec, default=7, exactly_once=exactly_once)  # type: ignore[call-overload]
        for zk in clients
    ]
    changes: list[tuple[int, int]] = []

    async def count(counter: Counter[int]) -> None:
        for amount in (1, -3, 10):
            change = await counter.add(amount)
            changes.append(change)

    async with trio.open_nursery() as nursery:
        for counter in counters:
            nursery.start_soon(count, counter)
    assert Tally(before for before, _ in changes) - Tally(after for _, after in changes) == {7: 1}
    a, b, _ = counters
    await clients[0].sync("/dir/n")
    assert await a.get() == 7 + 3 * 8
    assert sorted(after - before for before, after in changes) == sorted([1, -3, 10] * 3)
    data, stat = await clients[0].get("/dir/n")
    assert (
        data
        == {
            "int32": b"\0\0\0\x1f",
            "int64": b"\0\0\0\0\0\0\0\x1f",
            "ascii": b"31",
        }[codec]
    )
    assert stat.version == 8
    await a.set(100)
    await clients[1].sync("/dir/n")
    assert await b.reserve(5) == range(100, 105)
    await clients[0].sync("/dir/n")
    assert await a.reserve(5) == range(105, 110)
    assert not await a.compare_and_set(0, 1)
    assert await a.compare_and_set(110, 1)
    for zk in clients:
        await zk.janitor.idle()
    if exactly_once:
        assert await children(clients[2], "/dir/n.ops") == []
    else:
        assert await clients[2].exists("/dir/n.ops") is None


async def test_a_value_is_followed(clients: Clients) -> None:
    a, b, c = clients
    raw, number = SharedValue(a, "/dir/v"), SharedValue(b, "/dir/v", INT32)
    async with SharedValue(c, "/dir/v", INT32).updates() as updates:
        assert await anext(updates) is None
        assert await number.compare_and_set(None, 5)
        item = await anext(updates)
        assert item is not None
        assert (item.value, item.version) == (5, 0)
        await a.sync("/dir/v")
        stale = await raw.get()
        assert stale is not None
        assert stale.value == b"\0\0\0\5"
        assert not await raw.compare_and_set(None, b"")
        await number.set(6)
        assert not await raw.compare_and_set(stale, b"\0\0\0\7")
        later = await anext(updates)
        assert later is not None
        assert (later.value, later.version) == (6, 1)
        assert later.mzxid > item.mzxid
        assert await number.compare_and_set(later, 8)
        await b.delete("/dir/v")
        with trio.fail_after(10):
            async for item in updates:
                if item is None:
                    break
                assert item.value == 8
        assert not await number.compare_and_set(later, 9)


# --- queues ---------------------------------------------------------------------------------------------


async def take_all(queues: list[Any], count: int, *, claim: bool) -> list[bytes]:
    """Several consumers take so many items together."""
    taken: list[bytes] = []

    async def consume(queue: Any, scope: trio.CancelScope) -> None:
        while True:
            if claim:
                async with queue.claim() as item:
                    pass
            else:
                item = await queue.get()
            taken.append(item.data)
            if len(taken) >= count:
                scope.cancel()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(consume, queue, nursery.cancel_scope)
    return taken


async def check_queue(
    put: Callable[[int], Awaitable[None]], queues: list[Any], *, claims: bool = True, count: int = 9
) -> None:
    """What holds for each kind of queue."""
    first, second, third = queues
    with pytest.raises(QueueEmpty):
        await second.get(wait=False)
    assert await second.peek() is None
    async with trio.open_nursery() as nursery:
        waiting: list[bytes] = []

        async def wait() -> None:
            waiting.append((await third.get()).data)

        nursery.start_soon(wait)
        await until(lambda: third._zk.watch_count)
        await put(100)
    assert waiting == [b"100"]
    for number in range(count):
        await put(number)
    for queue in queues:
        await queue._zk.sync(queue.path)
        assert await queue.size() == count
    item = await first.peek()
    assert item is not None
    assert item.data == b"0"
    for number in range(3):
        assert (await second.get()).data == b"%d" % number
    if claims:
        with pytest.raises(ZeroDivisionError):
            async with second.claim() as item:
                assert item.data == b"3"
                await first._zk.sync(first.path)
                following = await first.peek()
                assert following is not None
                assert following.data == b"4"
                raise ZeroDivisionError
        await third._zk.sync(third.path)
        async with third.claim() as item:
            assert item.data == b"3", "it is where it was"
    else:
        await third._zk.sync(third.path)
        assert (await third.get()).data == b"3"
    taken = await take_all(queues, count - 4, claim=claims)
    assert sorted(taken) == [b"%d" % number for number in range(4, count)]
    await first._zk.sync(first.path)
    assert await first.size() == 0
    for queue in queues:
        await queue._zk.janitor.idle()


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("layout", ["native", "simple", "kazoo"])
async def test_a_queue(clients: Clients, layout: str, safe: bool) -> None:
    queues = [Queue(zk, "/dir/q", layout=layout, safe=safe) for zk in clients]  # type: ignore[arg-type]
    await check_queue(lambda number: queues[0].put(b"%d" % number), queues, claims=safe)


@pytest.mark.parametrize("layout", ["kazoo-locking", "curator"])
async def test_a_queue_with_claims(clients: Clients, layout: str) -> None:
    queues = [ClaimQueue(zk, "/dir/q", layout=layout) for zk in clients]  # type: ignore[arg-type]
    await check_queue(lambda number: queues[0].put(b"%d" % number), queues)


async def test_a_queue_by_priority(clients: Clients) -> None:
    queues = [PriorityQueue(zk, "/dir/q") for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, number - 4), queues)
    a, b, _ = (PriorityQueue(zk, "/dir/q") for zk in clients)
    await a.put(b"later", 5)
    await a.put_all([b"first", b"second"], -5)
    await clients[1].sync("/dir/q")
    assert [(await b.get()).data for _ in range(3)] == [b"first", b"second", b"later"]


async def test_a_queue_by_time(clients: Clients) -> None:
    now = 1_000_000.0
    queues = [DelayQueue(zk, "/dir/q", clock=lambda: now) for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, number - 200), queues)
    a, b, _ = (DelayQueue(zk, "/dir/q", clock=lambda: now) for zk in clients)
    await a.put(b"late", 20)
    await a.put(b"soon", 10)
    await clients[1].sync("/dir/q")
    with pytest.raises(QueueEmpty):
        await b.get(wait=False)
    now += 10
    assert (await b.get(wait=False)).data == b"soon"
    now += 10
    assert (await b.get()).data == b"late"


async def test_a_queue_by_id(clients: Clients) -> None:
    queues = [IdQueue(zk, "/dir/q") for zk in clients]
    await check_queue(lambda number: queues[0].put(b"%d" % number, "id"), queues)
    a, b, c = (IdQueue(zk, "/dir/q") for zk in clients)
    for number, id in enumerate(["x", "y", "x", "x"]):
        await a.put(b"%d" % number, id)
    await clients[1].sync("/dir/q")
    async with b.claim() as item:
        assert item.data == b"0"
        await clients[2].sync("/dir/q")
        assert await c.remove("x") == 2
        assert await c.remove("none") == 0
    await clients[1].sync("/dir/q")
    assert (await b.get()).data == b"1"
    assert await b.size() == 0


async def test_a_bounded_queue(clients: Clients) -> None:
    a, b, _ = (Queue(zk, "/q", limit=2) for zk in clients)
    await a.put_all([b"0", b"1"])
    with pytest.raises(QueueFull):
        await a.put(b"2", wait=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.put, b"2")
        await until(lambda: clients[0].watch_count)
        await clients[1].sync("/q")
        assert await b.size() == 2
        assert (await b.get()).data == b"0"
    await clients[1].sync("/q")
    assert [(await b.get()).data for _ in range(2)] == [b"1", b"2"]


# --- membership -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["kazoo", "kazoo-shallow", "curator-group"])
async def test_a_party(clients: Clients, layout: str) -> None:
    a, b, looker = (
        Party(zk, "/dir/party", id, layout=layout)  # type: ignore[arg-type]
        for zk, id in zip(clients, ["a", "b", ""], strict=True)
    )
    changes = looker.changes()
    async with trio.open_nursery() as nursery:
        assert await looker.members() == []
        one = stay(nursery, a)
        await one.entered()
        change = await anext(changes)
        assert ([member.id for member in change.joined], change.left) == (["a"], frozenset())
        async with b:
            change = await anext(changes)
            assert ([member.id for member in change.joined], change.left) == (["b"], frozenset())
            assert sorted(member.id for member in await looker.members()) == ["a", "b"]
        change = await anext(changes)
        assert (change.joined, [member.id for member in change.left]) == (frozenset(), ["b"])
        await one.leave()


async def test_a_node_that_stays(chroot: str, clients: Clients) -> None:
    other = clients[1]

    async def held(data: bytes) -> bool:
        with suppress(NoNodeError):
            return (await other.get("/dir/node"))[0] == data
        return False

    async with (
        connect(servers(chroot)[0], on_expired="new_session") as zk,
        PersistentNode(zk, "/dir/node", b"1") as node,
    ):
        await node.ready()
        await other.sync()
        await other.delete("/dir/node")
        await until(lambda: held(b"1"))
        await node.set_data(b"2")
        await until(lambda: held(b"2"))
        await end_session(chroot, zk)
        await other.sync()
        await until(lambda: held(b"2"))
        stat = await other.exists("/dir/node")
        assert stat is not None
        assert stat.ephemeralOwner == zk.session.id
        assert zk.session.generation == 2
    await other.sync()
    assert await other.exists("/dir/node") is None


async def test_a_node_that_outlives(clients: Clients) -> None:
    zk, other, _ = clients
    async with TtlNode(zk, "/dir/node", b"1", ttl=60) as node:
        await node.ready()
        await node.set_data(b"2")
        await other.sync()
        await other.delete("/dir/node", recursive=True)

        async def again() -> bool:
            stats = [await other.exists(path) for path in ("/dir/node", "/dir/node/touch")]
            return None not in stats

        await until(again)
    async with TtlNode(other, "/dir/node", b"3", ttl=60) as node:
        await node.ready()
        data, stat = await other.get("/dir/node")
        assert data == b"3"
        assert stat.ephemeralOwner in (0, -(1 << 56) + 60_000), "the TTL shows in the owner of real servers"
    assert await children(zk, "/dir/node") == ["touch"]


async def test_leases_by_the_clock(clients: Clients) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    a, b, _ = clients
    mine, yours = (TimeLease(zk, "/lease", 60, name, now=lambda: now) for zk, name in ((a, "me"), (b, "you")))
    assert await mine.obtain()
    assert not await yours.obtain()
    tenancy = await yours.tenancy()
    assert tenancy is not None
    assert (tenancy.holder, tenancy.end) == ("me", now + timedelta(seconds=60))
    now += timedelta(seconds=30)
    assert await mine.obtain()
    now += timedelta(seconds=59)
    assert not await yours.obtain()
    now += timedelta(seconds=1)
    assert await yours.obtain()
    await mine.release()
    assert not await mine.obtain()
    await yours.release()
    assert await mine.obtain()
    several = [MultiTimeLease(zk, "/leases", 2, 60, str(n), now=lambda: now) for n, zk in enumerate(clients)]
    obtained = [await each.obtain() for each in several]
    assert [lease and lease.path for lease in obtained] == ["/leases/0", "/leases/1", None]


# --- caches ---------------------------------------------------------------------------------------------


async def test_caches_follow(clients: Clients) -> None:
    zk, other, _ = clients
    await other.create("/app", b"0")
    await other.create("/app/a/b", b"1", make_parents=True)
    await zk.sync()
    async with (
        NodeCache(zk, "/app") as node,
        ChildrenCache(zk, "/app") as below,
        TreeCache(zk, "/app", selector=lambda path: not path.endswith("secret")) as tree,
    ):
        caches = (node, below, tree)
        for cache in caches:
            await cache.synced()
        assert [sorted(cache.nodes) for cache in caches] == [
            ["/app"],
            ["/app", "/app/a"],
            ["/app", "/app/a", "/app/a/b"],
        ]
        events = tree.events()
        kinds = [(event.type, event.path) for event in [await anext(events) for _ in range(4)]]
        assert sorted(path for kind, path in kinds if kind is CacheEventType.ADDED) == sorted(tree.nodes)
        assert kinds[-1] == (CacheEventType.SYNCED, "/app")
        await other.create("/app/secret/c", b"?", make_parents=True)
        await other.set("/app", b"2")
        await until(lambda: all(cache["/app"].data == b"2" for cache in caches))
        await other.delete("/app/a/b")
        await other.create("/app/a/b", b"3")
        await until(lambda: tree["/app/a/b"].data == b"3" if "/app/a/b" in tree else False)
        await other.delete("/app/a", recursive=True)
        await until(lambda: [len(cache.nodes) for cache in caches] == [1, 2, 1])
        assert below.children("/app") == ["secret"]
        held = {path: each.data for path, each in tree.nodes.items()}
    told: dict[str, bytes | None] = dict.fromkeys(path for _, path in kinds)
    async for event in events:
        if event.new is not None:
            told[event.path] = event.new.data
        elif event.type is CacheEventType.REMOVED:
            del told[event.path]
    assert told == held == {"/app": b"2"}


async def test_watching_a_znode_and_its_children(clients: Clients) -> None:
    zk, other, _ = clients
    nodes, names = watch_node(zk, "/a"), watch_children(zk, "/a")
    assert await anext(nodes) == (None, None)
    assert await anext(names) is None
    for data, child in ((b"1", "x"), (b"2", "y")):
        if data == b"1":
            await other.create("/a", data)
        else:
            await other.set("/a", data)
        found, stat = await anext(nodes)
        assert (found, stat.version if stat else None) == (data, int(data) - 1)
        await other.create(f"/a/{child}")
        with trio.fail_after(10):
            async for listed in names:
                if listed and child in listed:
                    break
    assert listed == ["x", "y"]
    await other.delete("/a", recursive=True)
    with trio.fail_after(10):
        async for _, stat in nodes:
            if stat is None:
                break
