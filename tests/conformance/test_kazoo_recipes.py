"""kazoo's recipes, each between several clients."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent

from ..support.threads import WAIT, Inside, Worker
from ..support.waiting import wait_until
from .kazoo_fixtures import MakeKazoo, kazoo, make_kazoo

__all__ = ["kazoo", "make_kazoo"]  # fixtures


# --- locks -------------------------------------------------------------------------------------------------


def test_twenty_threads_take_a_lock_in_turn(make_kazoo: MakeKazoo) -> None:
    clients = [make_kazoo() for _ in range(4)]
    inside = Inside()

    def work(number: int) -> None:
        lock = clients[number % 4].Lock("/lock", f"worker {number}")
        for _ in range(2):
            assert lock.acquire(timeout=WAIT)
            with inside:
                time.sleep(0.001)  # long enough for somebody else to come in, if anybody could
            lock.release()

    workers = [Worker(work, number) for number in range(20)]
    for worker in workers:
        worker.result()
    assert (inside.most, inside.total) == (1, 40)
    assert clients[0].get_children("/lock") == []


def test_a_lock_tells_who_waits(make_kazoo: MakeKazoo) -> None:
    first, second = make_kazoo(), make_kazoo()
    held = first.Lock("/lock", "holder")
    assert held.acquire(timeout=WAIT)
    assert not second.Lock("/lock", "impatient").acquire(blocking=False)
    waiter = second.Lock("/lock", "waiter")
    worker = Worker(waiter.acquire, True, WAIT)
    wait_until(lambda: held.contenders() == ["holder", "waiter"])
    held.release()
    assert worker.result() is True
    waiter.release()
    assert first.get_children("/lock") == []


def test_a_lost_holder_lets_go(make_kazoo: MakeKazoo) -> None:
    holder, waiter = make_kazoo(), make_kazoo()
    assert holder.Lock("/lock").acquire(timeout=WAIT)
    worker = Worker(waiter.Lock("/lock").acquire, True, WAIT)
    wait_until(lambda: len(waiter.get_children("/lock")) == 2)
    holder.stop()
    assert worker.result() is True


def test_read_and_write_locks(make_kazoo: MakeKazoo) -> None:
    first, second, third = make_kazoo(), make_kazoo(), make_kazoo()
    readers = [first.ReadLock("/lock"), second.ReadLock("/lock")]
    for reader in readers:
        assert reader.acquire(timeout=WAIT)  # both at once
    writer = third.WriteLock("/lock")
    assert not writer.acquire(blocking=False)
    worker = Worker(writer.acquire, True, WAIT)
    wait_until(lambda: len(first.get_children("/lock")) == 3)
    assert not first.ReadLock("/lock").acquire(blocking=False)  # behind the writer
    for reader in readers:
        reader.release()
    assert worker.result() is True
    writer.release()
    assert first.get_children("/lock") == []


def test_a_semaphore(make_kazoo: MakeKazoo) -> None:
    clients = [make_kazoo() for _ in range(3)]
    inside = Inside()

    def work(number: int) -> None:
        semaphore = clients[number % 3].Semaphore("/semaphore", max_leases=2)
        assert semaphore.acquire(timeout=WAIT)
        with inside:
            time.sleep(0.005)  # let the others try
        semaphore.release()

    workers = [Worker(work, number) for number in range(9)]
    for worker in workers:
        worker.result()
    assert inside.total == 9
    assert inside.most <= 2
    assert clients[0].Semaphore("/semaphore", max_leases=2).lease_holders() == []


def test_an_election(make_kazoo: MakeKazoo) -> None:
    clients = [make_kazoo() for _ in range(3)]
    leaders: list[int] = []
    inside = Inside()

    def lead(number: int) -> None:
        with inside:
            leaders.append(number)

    elections = [client.Election("/election", f"candidate {n}") for n, client in enumerate(clients)]
    workers = [Worker(election.run, lead, n) for n, election in enumerate(elections)]
    for worker in workers:
        worker.result()
    assert sorted(leaders) == [0, 1, 2]
    assert inside.most == 1
    assert elections[0].contenders() == []


# --- barriers and parties ----------------------------------------------------------------------------------


def test_a_barrier(make_kazoo: MakeKazoo) -> None:
    keeper, waiter = make_kazoo(), make_kazoo()
    barrier = keeper.Barrier("/barrier")
    barrier.create()
    assert waiter.Barrier("/barrier").wait(timeout=0.05) is False
    worker = Worker(waiter.Barrier("/barrier").wait, WAIT)
    assert barrier.remove() is True
    assert worker.result() is True
    assert barrier.remove() is False


def test_a_double_barrier(make_kazoo: MakeKazoo) -> None:
    clients = [make_kazoo() for _ in range(3)]
    entered = threading.Barrier(3)

    def work(client: KazooClient) -> None:
        barrier = client.DoubleBarrier("/double", 3)
        barrier.enter()
        assert len(client.get_children("/double")) == 4  # all three, and that they are ready
        entered.wait(WAIT)  # kazoo's barrier loses who is slow to enter, once somebody leaves
        barrier.leave()

    workers = [Worker(work, client) for client in clients]
    for worker in workers:
        worker.result()
    wait_until(lambda: clients[0].get_children("/double") == [])


@pytest.mark.parametrize("kind", ["Party", "ShallowParty"])
def test_a_party(make_kazoo: MakeKazoo, kind: str) -> None:
    clients = [make_kazoo() for _ in range(3)]
    parties = [getattr(client, kind)("/party", f"guest{n}") for n, client in enumerate(clients)]
    for party in parties:
        party.join()
    assert sorted(parties[0]) == ["guest0", "guest1", "guest2"]
    parties[1].leave()
    assert sorted(parties[0]) == ["guest0", "guest2"]
    clients[2].stop()
    wait_until(lambda: len(parties[0]) == 1)


# --- queues and counters -----------------------------------------------------------------------------------


def test_a_queue(make_kazoo: MakeKazoo) -> None:
    producer, consumer = make_kazoo(), make_kazoo()
    queue = producer.Queue("/queue")
    for number in range(5):
        queue.put(b"%d" % number)
    queue.put(b"urgent", priority=1)
    other = consumer.Queue("/queue")
    assert len(other) == 6
    assert [other.get() for _ in range(7)] == [b"urgent", b"0", b"1", b"2", b"3", b"4", None]


def test_a_locking_queue(make_kazoo: MakeKazoo) -> None:
    producer, consumers = make_kazoo(), [make_kazoo() for _ in range(3)]
    producer.LockingQueue("/queue").put_all([b"%d" % number for number in range(12)])
    taken: list[bytes] = []

    def consume(client: KazooClient) -> None:
        queue = client.LockingQueue("/queue")
        while len(taken) < 12:  # None may also mean that it was too slow
            if (item := queue.get(timeout=0.2)) is not None:
                taken.append(item)
                assert queue.consume()

    workers = [Worker(consume, client) for client in consumers]
    for worker in workers:
        worker.result()
    assert sorted(taken, key=int) == [b"%d" % number for number in range(12)]
    assert len(producer.LockingQueue("/queue")) == 0


def test_a_counter(make_kazoo: MakeKazoo) -> None:
    clients = [make_kazoo() for _ in range(3)]

    def count(client: KazooClient) -> None:
        counter = client.Counter("/counter", default=100)
        for _ in range(10):
            counter += 1

    workers = [Worker(count, client) for client in clients]
    for worker in workers:
        worker.result()
    assert clients[0].Counter("/counter", default=100).value == 130


# --- watchers ----------------------------------------------------------------------------------------------


def test_data_watch(make_kazoo: MakeKazoo) -> None:
    watcher, writer = make_kazoo(), make_kazoo()
    seen: list[bytes | None] = []

    @watcher.DataWatch("/n")  # type: ignore[untyped-decorator]
    def changed(data: bytes | None, stat: Any) -> None:
        seen.append(data)

    assert seen == [None]
    writer.create("/n", b"1")
    wait_until(lambda: seen == [None, b"1"])
    writer.set("/n", b"2")
    wait_until(lambda: seen == [None, b"1", b"2"])
    writer.delete("/n")
    wait_until(lambda: seen == [None, b"1", b"2", None])
    writer.create("/n", b"3")
    wait_until(lambda: seen[-1] == b"3")


def test_children_watch(make_kazoo: MakeKazoo) -> None:
    watcher, writer = make_kazoo(), make_kazoo()
    writer.create("/n")
    seen: list[list[str]] = []

    @watcher.ChildrenWatch("/n")  # type: ignore[untyped-decorator]
    def changed(children: list[str]) -> None:
        seen.append(sorted(children))

    writer.create("/n/a")
    wait_until(lambda: seen == [[], ["a"]])
    writer.create("/n/b")
    wait_until(lambda: seen[-1] == ["a", "b"])
    writer.delete("/n/a")
    wait_until(lambda: seen[-1] == ["b"])


def test_watchers_survive_a_lost_connection(make_kazoo: MakeKazoo) -> None:
    watcher, writer = make_kazoo(), make_kazoo()
    writer.create("/n", b"1")
    seen: list[bytes | None] = []
    watcher.DataWatch("/n", lambda data, stat: seen.append(data) or True)
    watcher._connection._socket.shutdown(2)  # the network takes the connection away
    writer.set("/n", b"2")
    wait_until(lambda: seen[-1] == b"2")


def test_a_tree_cache(make_kazoo: MakeKazoo) -> None:
    watcher, writer = make_kazoo(), make_kazoo()
    writer.create("/tree/a/b", b"1", makepath=True)
    ready = threading.Event()
    cache = TreeCache(watcher, "/tree")
    cache.listen(lambda event: ready.set() if event.event_type == TreeEvent.INITIALIZED else None)
    cache.start()
    assert ready.wait(WAIT)
    assert cache.get_data("/tree/a/b").data == b"1"
    writer.set("/tree/a/b", b"2")
    writer.create("/tree/a/c")
    wait_until(lambda: cache.get_data("/tree/a/b").data == b"2")
    wait_until(lambda: cache.get_children("/tree/a", frozenset()) == frozenset(["b", "c"]))
    writer.delete("/tree/a", recursive=True)
    wait_until(lambda: cache.get_data("/tree/a") is None)
    cache.close()
