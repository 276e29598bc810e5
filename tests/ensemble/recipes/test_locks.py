"""Locks, semaphores and leases from day to day: on ours, on a real server and on a real ensemble."""

from __future__ import annotations

from collections import Counter as Tally
from datetime import UTC, datetime, timedelta

import pytest
import trio

from pyzk.client import NoNodeError, SetData, ZooKeeper, connect
from pyzk.recipes import (
    INT32,
    Deadlock,
    Grant,
    InconsistentLimit,
    Lock,
    LockLost,
    LockRegistry,
    LockRevoked,
    LossReason,
    MultiLock,
    MultiTimeLease,
    RWLock,
    Semaphore,
    SharedValue,
    SingleNodeLock,
    TimeLease,
    WouldBlock,
    contenders,
    revoke,
)

from ...support.waiting import until
from ..ending import end_session
from .scene import Clients, Stay, children, in_line, servers, stay


@pytest.mark.parametrize("namings", ["curator", "kazoo", "both", "curator kazoo both"])
async def test_a_lock_goes_from_one_to_the_next(clients: Clients, namings: str) -> None:
    names = namings.split()
    width = [2 if name == "both" else 1 for name in (names * 3)[:3]]
    locks = [
        Lock(zk, "/dir/lock", layout=names[number % len(names)], data=b"%d" % number)  # type: ignore[arg-type]
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
        assert await locks[1].is_locked()
        with pytest.raises(WouldBlock):
            async with locks[1].nowait():
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
    async with locks[0].nowait() as again:
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
    assert not await lock.is_locked()


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


@pytest.mark.parametrize("layout", ["curator", "kazoo", "both"])
async def test_readers_and_writers(clients: Clients, layout: str) -> None:
    a, b, c = (RWLock(zk, "/rw", layout=layout) for zk in clients)
    width = 2 if layout == "both" else 1
    async with trio.open_nursery() as nursery:
        reader, another = stay(nursery, a.read()), stay(nursery, b.read())
        await reader.entered()
        await another.entered()
        writer = stay(nursery, c.write())
        await in_line(clients[0], "/rw", 3 * width)
        late = stay(nursery, a.read())
        await in_line(clients[0], "/rw", 4 * width)
        with pytest.raises(WouldBlock):
            async with b.read().nowait():
                pass
        await reader.leave()
        assert (another.inside, writer.inside, late.inside) == (True, False, False)
        await another.leave()
        await writer.entered()
        assert not late.inside
        await writer.leave()
        await late.entered()
        await late.leave()


@pytest.mark.parametrize("layout", ["curator", "kazoo", "both"])
async def test_a_writer_becomes_a_reader(clients: Clients, layout: str) -> None:
    a, b, c = (RWLock(zk, "/rw", layout=layout) for zk in clients)
    width = 2 if layout == "both" else 1
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
            async with c.nowait():
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
            async with b.nowait():
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
    limit = SharedValue(a, "/limit", codec=INT32)
    await limit.set(1)
    first, second = (
        Semaphore(zk, "/s", 5, limit_source=SharedValue(zk, "/limit", codec=INT32)) for zk in (a, b)
    )
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
                async with MultiLock([Lock(b, "/a"), each]).nowait():
                    pass
    assert await children(b, "/a") == []


async def test_a_lock_that_is_one_znode(clients: Clients) -> None:
    a, b, c = (SingleNodeLock(zk, "/one/lock", data=b"%d" % n) for n, zk in enumerate(clients))
    async with trio.open_nursery() as nursery:
        first = stay(nursery, a)
        one = await first.entered()
        with pytest.raises(WouldBlock):
            async with b.nowait():
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


async def test_leases_by_the_clock(clients: Clients) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    a, b, _ = clients
    mine, yours = (TimeLease(zk, "/lease", 60, name, now=lambda: now) for zk, name in ((a, "me"), (b, "you")))
    assert await mine.obtain()
    assert not await yours.obtain()
    tenancy = await yours.last_holder()
    assert tenancy is not None
    assert (tenancy.name, tenancy.end) == ("me", now + timedelta(seconds=60))
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
