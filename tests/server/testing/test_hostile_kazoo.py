"""kazoo's recipes, unmodified, on a hostile server.

Where kazoo itself promises no more, the test asks no more. Its Queue may lose an item if the reply to the
delete is lost, its Counter may count an addition twice, its LockingQueue leaves retries to the user.
HYPOTHESIS_PROFILE=nightly tries 20 seeds of each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from pyzk.server.testing import EmbeddedServer, UnknownSessionError

from ...support.threads import WAIT, Inside, Worker
from ...support.waiting import wait_until

SEEDS = range(20 if settings.get_current_profile_name() == "nightly" else 2)
CLIENTS = 3

Clients = list[KazooClient]


@pytest.fixture(params=SEEDS)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(hostile=request.param) as server:
        yield server


@pytest.fixture
def clients(server: EmbeddedServer, connect: Callable[..., KazooClient]) -> Clients:
    return [connect(server) for _ in range(CLIENTS)]


def each(clients: Clients, work: Callable[[KazooClient, int], Any]) -> None:
    """Do the same with each client at the same time."""
    workers = [Worker(work, client, number) for number, client in enumerate(clients)]
    for worker in workers:
        worker.result()


def lost_replies(server: EmbeddedServer, op: str) -> int:
    return sum("REPLY LOST" in entry.text for entry in server.history(kind="fault", op=op))


def test_a_lock(clients: Clients) -> None:
    inside = Inside()

    def work(client: KazooClient, number: int) -> None:
        lock = client.Lock("/lock", f"worker {number}")
        for _ in range(2):
            assert lock.acquire(timeout=WAIT)
            with inside:
                client.retry(client.exists, "/lock")
            lock.release()

    each(clients, work)
    assert (inside.most, inside.total) == (1, 2 * CLIENTS)


def test_an_election(clients: Clients) -> None:
    inside = Inside()

    def lead() -> None:
        with inside:
            pass

    each(clients, lambda client, number: client.Election("/election", f"{number}").run(lead))
    assert (inside.most, inside.total) == (1, CLIENTS)


def test_a_queue(server: EmbeddedServer, clients: Clients) -> None:
    put = [b"%d" % n for n in range(30)]
    for item in put:
        clients[0].retry(clients[0].Queue("/queue").put, item)
    taken: list[bytes] = []
    lock = threading.Lock()

    def work(client: KazooClient, number: int) -> None:
        queue = client.Queue("/queue")
        while (item := queue.get()) is not None:
            with lock:
                taken.append(item)

    each(clients, work)
    assert len(set(put) - set(taken)) <= lost_replies(server, "delete")
    assert len(taken) - len(set(taken)) <= lost_replies(server, "create")
    assert not server.dump("/queue").keys() - {"/queue"}


def test_a_locking_queue(server: EmbeddedServer, clients: Clients) -> None:
    put = [b"%d" % n for n in range(12)]
    clients[0].retry(clients[0].LockingQueue("/queue").put_all, put)
    taken: set[bytes] = set()

    def work(client: KazooClient, number: int) -> None:
        queue = client.LockingQueue("/queue")
        while len(taken) < len(put):
            with suppress(ConnectionLoss):
                if (item := queue.get(timeout=0.3)) is not None:
                    taken.add(item)
                    queue.consume()
                    continue
            # An item may be locked of which it does not know: only the end of the session frees that
            session = client._session_id or 0  # which client_id tells while it is connected
            client.stop()
            with suppress(UnknownSessionError):  # it is closed already, if the client was not cut off
                server.expire(session)
            client.start(WAIT)
            queue = client.LockingQueue("/queue")

    each(clients, work)
    assert taken == set(put)


def test_parties(clients: Clients) -> None:
    parties = [client.Party("/party", f"guest{n}") for n, client in enumerate(clients)]
    for party in parties:
        party.join()
    names = [f"guest{n}" for n in range(CLIENTS)]
    assert clients[0].retry(lambda: sorted(parties[0])) == names
    parties[1].leave()
    wait_until(lambda: clients[0].retry(lambda: sorted(parties[0])) == [names[0], names[2]])


def test_a_counter(server: EmbeddedServer, clients: Clients) -> None:
    def work(client: KazooClient, number: int) -> None:
        counter = client.Counter("/counter")
        for _ in range(10):
            counter += 1

    each(clients, work)
    counted = clients[0].retry(lambda: clients[0].Counter("/counter").value)
    assert 0 <= counted - 10 * CLIENTS <= lost_replies(server, "set_data")


def test_a_barrier(clients: Clients) -> None:
    keeper, *others = clients
    keeper.Barrier("/barrier").create()
    waiting = [Worker(other.Barrier("/barrier").wait, WAIT) for other in others]
    assert keeper.Barrier("/barrier").remove() in (True, False)
    assert all(worker.result() for worker in waiting)


def test_a_double_barrier(server: EmbeddedServer, clients: Clients) -> None:
    entered = threading.Barrier(CLIENTS)

    def work(client: KazooClient, number: int) -> None:
        barrier = client.DoubleBarrier("/double", CLIENTS)
        barrier.enter()
        assert len(client.retry(client.get_children, "/double")) == CLIENTS + 1
        entered.wait(WAIT)  # kazoo's barrier loses who is slow to enter, once somebody leaves
        barrier.leave()

    each(clients, work)
    wait_until(lambda: server.dump("/double").keys() == {"/double"})
