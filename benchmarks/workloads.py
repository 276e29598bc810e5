"""What the clients do, row by row. WORKLOADS is the table; below it, what does not fit into one."""

from __future__ import annotations

import os
import random
import select
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import attrs

from pyzk.protocol.constants import CreateMode

from . import wire
from .load import Outcome, Script, converse, in_processes, part, percentile, share
from .wire import BASE, Address, Client

KEYS = [f"{BASE}/k{number}" for number in range(1000)]
DIRECTORY = f"{BASE}/directory"
LOCK = f"{BASE}/lock"
HOT = f"{BASE}/hot"
_LISTED = 100
_NAMES = f"{DIRECTORY}/child-"


def clear(address: Address) -> None:
    """Take away what the workloads have made."""
    client = Client(address)
    client.clear(BASE)
    client.leave()


def prepare(address: Address, *others: Address) -> None:
    """Make the znodes that the workloads take for granted; the other servers of an ensemble have them too."""
    client = Client(address)
    client.make(BASE, DIRECTORY, LOCK, HOT, *KEYS, *(f"{_NAMES}{number:04}" for number in range(_LISTED)))
    client.leave()
    for other in others:
        client = Client(other)
        client.ask(wire.sync(BASE))
        client.leave()


# --- scripts: one client each ----------------------------------------------------------------------------


def _repeat(frames: list[bytes]) -> Script:
    for item in cycle(frames):  # noqa: UP028 (`yield from` would pass the replies on, to what takes none)
        yield item


def get(client: int) -> Script:
    return _repeat([wire.get(path) for path in _some(client)])


def exists(client: int) -> Script:
    return _repeat([wire.exists(path) for path in _some(client)])


def set_data(client: int) -> Script:
    return _repeat([wire.set_data(path) for path in _some(client)])


def mixed(client: int) -> Script:
    """Nine reads to one write."""
    return _repeat(
        [wire.get(path) if turn % 10 else wire.set_data(path) for turn, path in enumerate(_some(client))]
    )


def list_children(client: int) -> Script:
    return _repeat([wire.children(DIRECTORY)])


def create_delete(client: int) -> Script:
    path = f"{BASE}/c{os.getpid()}-{client}"  # an earlier run may have left its own behind
    return _repeat([wire.create(path), wire.delete(path)])


def ephemeral_sequential(client: int) -> Script:
    creation = wire.create(f"{BASE}/e{client}-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    while True:
        reply = yield creation
        yield wire.deletion_of(reply)


def multi(client: int) -> Script:
    return _repeat([wire.multi_set(_some(client, 10)) for _ in range(20)])


def lock(client: int) -> Script:
    """The lock of the recipe: a queue of ephemeral sequential znodes, each watching the one before it.
    Counted is the deletion of one's own, that is, the hand-over."""
    no = wire.UNCOUNTED
    creation = wire.create(f"{LOCK}/lock-", b"", CreateMode.EPHEMERAL_SEQUENTIAL, xid=no)
    listing = wire.children(LOCK, xid=no)
    while True:
        mine = wire.created_path((yield creation))
        name = mine.rpartition("/")[2]
        while True:
            names = wire.names_in((yield listing))
            before = max((other for other in names if other < name), default=None)
            if before is None:
                break
            reply = yield wire.exists(f"{LOCK}/{before}", watch=True, xid=no)
            if not wire.REPLY.unpack_from(reply)[2]:
                yield b""  # until the event comes
        yield wire.delete(mine)


def _some(client: int, count: int = 200) -> list[str]:
    return random.Random(client).choices(KEYS, k=count)


# --- the table -------------------------------------------------------------------------------------------


@attrs.frozen
class Workload:
    """
    :ivar window: how many requests each client has in flight.
    :ivar shown: the figures that make sense: of rate (things per second), p50 and p99 (µs).
    """

    name: str
    script: Callable[[int], Script]
    clients: int
    window: int = 1
    shown: tuple[str, ...] = ("rate", "p50", "p99")


WORKLOADS = [
    Workload("get, 50 clients", get, 50),
    Workload("exists, 50 clients", exists, 50),
    Workload("children (100 names), 50 clients", list_children, 50),
    Workload("set, 50 clients", set_data, 50),
    Workload("mixed (90 % get, 10 % set), 50 clients", mixed, 50),
    Workload("create + delete, 50 clients", create_delete, 50),
    Workload("ephemeral sequential + delete, 50 clients", ephemeral_sequential, 50),
    Workload("get, 1,000 clients", get, 1000),
    Workload("get, 10 clients with 64 in flight", get, 10, 64),
    Workload("set, 10 clients with 64 in flight", set_data, 10, 64),
    Workload("create + delete, 10 clients with 64 in flight", create_delete, 10, 64),
    Workload("multi of 10 sets, 10 clients with 16 in flight", multi, 10, 16),
    Workload("get, one client", get, 1),
    Workload("set, one client", set_data, 1),
    Workload("lock hand-over, 100 waiting", lock, 100, shown=("rate",)),
]


def run(work: Workload, addresses: Sequence[Address], seconds: float, processes: int) -> Outcome:
    """Measure one row once.

    :param addresses: of the servers, among which the clients are shared out.
    """

    def job(index: int, count: int, ready: Callable[[], Any]) -> Outcome:
        clients = share(work.clients, index, count)
        scripts = [(addresses[client % len(addresses)], work.script(client)) for client in clients]
        return converse(scripts, work.window, seconds, ready)

    return in_processes(job, min(processes, work.clients))


# --- watches: from one change to the last of all notifications -------------------------------------------


def fan_out(address: Address, watchers: int, seconds: float) -> Outcome:
    """One znode changes, all watch it; the latency is that of the last to be told."""
    return in_processes(partial(_fan_out, address, watchers, seconds), 1)


def _fan_out(
    address: Address, watchers: int, seconds: float, index: int, count: int, ready: Callable[[], Any]
) -> Outcome:
    writer = Client(address)
    clients = {client.socket.fileno(): client for client in (Client(address) for _ in range(watchers))}
    poller = select.epoll()
    for fd in clients:
        poller.register(fd, select.EPOLLIN)
    arm, change = wire.get(HOT, watch=True), wire.set_data(HOT)
    latencies = array("d")
    ready()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or not latencies:
        for client in clients.values():
            client.socket.sendall(arm)
        for client in clients.values():
            client.take_replies(1)
        began = time.perf_counter()
        writer.socket.sendall(change)
        left = watchers
        while left:
            for fd, _ in poller.poll(10.0):
                clients[fd].socket.recv(1 << 16)
                left -= 1
        latencies.append(1e6 * (time.perf_counter() - began))
        writer.take_replies(1)
    part([writer, *clients.values()])
    return Outcome(watchers * 1e6 / percentile(latencies, 0.5), latencies)


# --- sessions --------------------------------------------------------------------------------------------


def sessions(address: Address, clients: int, seconds: float, processes: int) -> Outcome:
    """Connections that come, get a session, close it and go, ``clients`` at a time."""

    def job(index: int, count: int, ready: Callable[[], Any]) -> Outcome:
        ready()
        together = len(share(clients, index, count))
        began = time.perf_counter()
        done = 0
        while time.perf_counter() - began < seconds:
            part(list(_connect(address, together)))
            done += together
        return Outcome(done / (time.perf_counter() - began))

    return in_processes(job, min(processes, clients))


def _connect(address: Address, count: int) -> Iterator[Client]:
    fresh = [Client(address, wait=False) for _ in range(count)]
    for client in fresh:
        client.shake_hands()
        yield client


# --- bytes per znode -------------------------------------------------------------------------------------


def grow(address: Address, znodes: int) -> None:
    """Create that many znodes of 100 bytes under one parent."""
    client = Client(address)
    client.make(f"{BASE}/many")
    client.ask_all(wire.create(f"{BASE}/many/k{number}") for number in range(znodes))
    client.leave()
