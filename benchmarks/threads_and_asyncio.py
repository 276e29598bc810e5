"""pyzk.blocking and pyzk.aio beside kazoo and aiozk: rates, the cost of the bridge, start and stop.

    python -m benchmarks.threads_and_asyncio                         # against pyzk-server, started for this
    python -m benchmarks.threads_and_asyncio --hosts 127.0.0.1:2181  # against a server that runs

Each figure is that of the best of many short rounds, in which all clients take turns: what else runs on the
machine only makes them slower. Below the table: how many times as fast ours were as the others, round by
round. In sequence: each operation waits for the one before. In flight: 100 threads, or 100 tasks, share a
client; kazoo keeps 100 asynchronous calls in flight from one thread, which is faster for it than 100 threads.
uvloop and aiozk are left out if they are not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import logging
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from kazoo.client import KazooClient

from pyzk import aio, blocking, client

from .client import DATA, NODE, TASKS, kazoo_pipelined, kazoo_sequential, our_server, prepare

OPERATIONS: dict[str, tuple[Any, ...]] = {"get": (NODE,), "set": (NODE, DATA)}
Runner = Callable[[str, str, int, bool], float]
"""Takes hosts, an operation, a number, and whether to pipeline; returns seconds. The number 0 is a start and
a stop."""


def trio_runner(hosts: str, name: str, count: int, pipelined: bool) -> float:
    async def some(zk: Any, number: int) -> None:
        call = getattr(zk, name)
        for _ in range(number):
            await call(*OPERATIONS[name])

    async def main() -> float:
        began = time.perf_counter()
        async with client.connect(hosts) as zk:
            if count:
                await some(zk, count // 10)
                began = time.perf_counter()
                async with trio.open_nursery() as nursery:
                    for _ in range(TASKS if pipelined else 1):
                        nursery.start_soon(some, zk, count // (TASKS if pipelined else 1))
                return time.perf_counter() - began
        return time.perf_counter() - began

    return trio.run(main)


def blocking_runner(hosts: str, name: str, count: int, pipelined: bool) -> float:
    def some(number: int) -> None:
        call = getattr(zk, name)
        for _ in range(number):
            call(*OPERATIONS[name])

    began = time.perf_counter()
    with blocking.connect(hosts) as zk:
        if count:
            some(count // 10)
            began = time.perf_counter()
            if pipelined:
                threads = [threading.Thread(target=some, args=(count // TASKS,)) for _ in range(TASKS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                some(count)
            return time.perf_counter() - began
    return time.perf_counter() - began


async def _asyncio(zk: Any, name: str, arguments: tuple[Any, ...], count: int, pipelined: bool) -> float:
    async def some(number: int) -> None:
        call = getattr(zk, name)
        for _ in range(number):
            await call(*arguments)

    await some(count // 10)
    began = time.perf_counter()
    if pipelined:
        await asyncio.gather(*[some(count // TASKS) for _ in range(TASKS)])
    else:
        await some(count)
    return time.perf_counter() - began


def aio_runner(run: Callable[[Awaitable[float]], float]) -> Runner:
    async def main(hosts: str, name: str, count: int, pipelined: bool) -> float:
        began = time.perf_counter()
        async with aio.connect(hosts) as zk:
            if count:
                return await _asyncio(zk, name, OPERATIONS[name], count, pipelined)
        return time.perf_counter() - began

    return lambda *args: run(main(*args))


def kazoo_runner(hosts: str, name: str, count: int, pipelined: bool) -> float:
    began = time.perf_counter()
    zk = KazooClient(hosts=hosts)
    zk.start()
    try:
        if count:
            run = kazoo_pipelined if pipelined else kazoo_sequential
            run(zk, name, OPERATIONS[name], max(count // 10, TASKS))
            began = time.perf_counter()
            run(zk, name, OPERATIONS[name], count)
            return time.perf_counter() - began
    finally:
        zk.stop()
        zk.close()
    return time.perf_counter() - began


def aiozk_runner(hosts: str, name: str, count: int, pipelined: bool) -> float:
    names = {"get": ("get", (NODE,)), "set": ("set_data", (NODE, DATA, -1))}

    async def main() -> float:
        began = time.perf_counter()
        zk = importlib.import_module("aiozk").ZKClient(hosts)
        await zk.start()
        try:
            if count:
                return await _asyncio(zk, *names[name], count, pipelined)
        finally:
            await zk.close()
        return time.perf_counter() - began

    return asyncio.run(main())


def runners() -> dict[str, Runner]:
    """Return the clients that are installed; the first one is what the bridge is compared with."""
    found: dict[str, Runner] = {
        "trio": trio_runner,
        "blocking": blocking_runner,
        "aio": aio_runner(asyncio.run),
    }  # type: ignore[arg-type]
    if importlib.util.find_spec("uvloop"):
        found["aio, uvloop"] = aio_runner(importlib.import_module("uvloop").run)
    found["kazoo"] = kazoo_runner
    if importlib.util.find_spec("aiozk"):
        found["aiozk"] = aiozk_runner
    return found


PAIRS = (("blocking", "kazoo"), ("aio", "aiozk"), ("aio, uvloop", "aiozk"))
"""Which client of ours is compared with which other one."""

Times = dict[str, list[float]]


def measure(clients: dict[str, Runner], rounds: int, run: Callable[[Runner], float]) -> Times:
    """Return the times of each client in each round, in seconds; the clients take turns."""
    times: Times = {name: [] for name in clients}
    for _ in range(rounds):
        for name, runner in clients.items():
            times[name].append(run(runner))
    return times


def best(times: Times) -> dict[str, float]:
    """Return the best time of each client."""
    return {name: min(each) for name, each in times.items()}


def ratios(times: Times) -> str:
    """Return in words how many times as fast ours were as the others, in the same rounds."""
    texts = []
    for ours, other in PAIRS:
        if ours in times and other in times:
            each = sorted(theirs / own for own, theirs in zip(times[ours], times[other], strict=True))
            texts.append(f"{ours} {statistics.median(each):.2f} x {other} (from {each[len(each) // 10]:.2f})")
    return "; ".join(texts)


def compare(hosts: str, rounds: int, count: int) -> None:
    """Print the table."""
    prepare(hosts)
    clients = runners()
    print("| | " + " | ".join(clients) + " |\n|---" + "|---" * len(clients) + "|")
    bridge: dict[str, float] = {}
    compared: list[str] = []
    for pipelined in (False, True):
        for operation in OPERATIONS:
            many = count * 5 if pipelined else count
            times = measure(clients, rounds, lambda run: run(hosts, operation, many, pipelined))  # noqa: B023
            seconds = best(times)
            row = [f"{many / each:,.0f}" for each in seconds.values()]
            title = f"{operation}, {f'{TASKS} in flight' if pipelined else 'in sequence'}"
            print(f"| {title}: operations/s | {' | '.join(row)} |", flush=True)
            compared.append(f"{title}: {ratios(times)}")
            if operation == "get" and not pipelined:
                bridge = {name: (each - seconds["trio"]) / many * 1e6 for name, each in seconds.items()}
    print(
        "| get, in sequence: us more than trio | "
        + " | ".join(f"{each:.0f}" for each in bridge.values())
        + " |"
    )
    seconds = best(measure(clients, rounds * 3, lambda run: run(hosts, "get", 0, False)))
    print("| start and stop: ms | " + " | ".join(f"{each * 1000:.1f}" for each in seconds.values()) + " |")
    print("\nIn the same rounds, the median (nine of ten rounds are above the figure in brackets):\n")
    print("\n".join(compared))


def main() -> int:
    for name in ("kazoo", "aiozk"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description="pyzk.blocking and pyzk.aio beside kazoo and aiozk.")
    parser.add_argument("--hosts", help="a server that runs; without it, pyzk-server is started")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--count", type=int, default=400, help="operations per round")
    options = parser.parse_args()
    if options.hosts:
        compare(options.hosts, options.rounds, options.count)
    else:
        with our_server() as hosts:
            compare(hosts, options.rounds, options.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
