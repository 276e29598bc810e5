"""Operations per second of one client: ours beside kazoo, on the same server, in the same run.

    python benchmarks/client.py                         # against pyzk-server, started for this
    python benchmarks/client.py --hosts 127.0.0.1:2181  # against a server that runs

Each figure is the median of some rounds, in which the two clients take turns. Sequential: each operation
waits for the one before. Pipelined: 100 tasks share the client; kazoo keeps 100 asynchronous calls in flight
from one thread, which is faster for it than 100 threads.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio
from kazoo.client import KazooClient

from pyzk.client import ZooKeeper, connect

TASKS = 100
DATA = b"x" * 100
NODE = "/benchmark"

Ours = Callable[[ZooKeeper], Awaitable[Any]]

OPERATIONS: dict[str, tuple[Ours, str, tuple[Any, ...]]] = {
    "exists": (lambda zk: zk.exists(NODE), "exists", (NODE,)),
    "get": (lambda zk: zk.get(NODE), "get", (NODE,)),
    "get_children": (lambda zk: zk.get_children(NODE), "get_children", (NODE,)),
    "set": (lambda zk: zk.set(NODE, DATA), "set", (NODE, DATA)),
}


@contextmanager
def our_server() -> Iterator[str]:
    command = [sys.executable, "-m", "pyzk.server", "--port", "0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


async def ours_sequential(zk: ZooKeeper, operation: Ours, count: int) -> None:
    for _ in range(count):
        await operation(zk)


async def ours_pipelined(zk: ZooKeeper, operation: Ours, count: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(TASKS):
            nursery.start_soon(ours_sequential, zk, operation, count // TASKS)


def run_ours(hosts: str, operation: Ours, count: int, *, pipelined: bool) -> float:
    async def main() -> float:
        async with connect(hosts) as zk:
            run = ours_pipelined if pipelined else ours_sequential
            await run(zk, operation, count // 10)  # warm up
            started = time.perf_counter()
            await run(zk, operation, count)
            return count / (time.perf_counter() - started)

    return trio.run(main)


def kazoo_sequential(client: KazooClient, name: str, args: tuple[Any, ...], count: int) -> None:
    call = getattr(client, name)
    for _ in range(count):
        call(*args)


def kazoo_pipelined(client: KazooClient, name: str, args: tuple[Any, ...], count: int) -> None:
    call = getattr(client, f"{name}_async")
    in_flight = deque(call(*args) for _ in range(TASKS))
    for _ in range(count - TASKS):
        in_flight.popleft().get()
        in_flight.append(call(*args))
    for result in in_flight:
        result.get()


def run_kazoo(hosts: str, name: str, args: tuple[Any, ...], count: int, *, pipelined: bool) -> float:
    client = KazooClient(hosts=hosts)
    client.start()
    try:
        run = kazoo_pipelined if pipelined else kazoo_sequential
        run(client, name, args, max(count // 10, TASKS))
        started = time.perf_counter()
        run(client, name, args, count)
        return count / (time.perf_counter() - started)
    finally:
        client.stop()
        client.close()


def prepare(hosts: str) -> None:
    async def main() -> None:
        async with connect(hosts) as zk:
            await zk.ensure_path(NODE)
            await zk.set(NODE, DATA)
            for number in range(10):
                await zk.ensure_path(f"{NODE}/child-{number}")

    trio.run(main)


def compare(hosts: str, rounds: int, count: int) -> bool:
    """Print the table; returns whether ours is ahead in each row."""
    prepare(hosts)
    print(f"{'':24} {'ours':>10} {'kazoo':>10}   operations per second, median of {rounds}")
    ahead = True
    for pipelined in (False, True):
        for title, (ours, name, args) in OPERATIONS.items():
            many = count * 4 if pipelined else count
            figures: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                figures[0].append(run_ours(hosts, ours, many, pipelined=pipelined))
                figures[1].append(run_kazoo(hosts, name, args, many, pipelined=pipelined))
            one, other = (statistics.median(each) for each in figures)
            ahead &= one > other
            row = f"{title}, {f'{TASKS} in flight' if pipelined else 'sequential'}"
            print(f"{row:24} {one:10,.0f} {other:10,.0f}   {one / other:5.2f}x", flush=True)
    return ahead


def main() -> int:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description="Our client beside kazoo.")
    parser.add_argument("--hosts", help="a server that runs; without it, pyzk-server is started")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2500, help="operations per round")
    options = parser.parse_args()
    if options.hosts:
        return not compare(options.hosts, options.rounds, options.count)
    with our_server() as hosts:
        return not compare(hosts, options.rounds, options.count)


if __name__ == "__main__":
    sys.exit(main())
