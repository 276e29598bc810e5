"""A long run: does the server's memory stay flat, and is nothing left when everybody has gone?

    python -m benchmarks.soak                        # ten million requests
    python -m benchmarks.soak --requests 100000

Clients come and go in all ways there are (they close their session, take it up again from a new connection,
or vanish and let it expire), arm watches of every kind, fire them, and create znodes under ever new names
and delete them. Resident memory is sampled all along; after the warm-up a line is fitted through the samples,
and what it rises must stay below the tolerance. The exit status is 1 if it does not, or if the server still
counts znodes, watches, sessions or connections at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyzk.protocol.constants import AddWatchMode, CreateMode
from pyzk.protocol.operations import OpCode
from pyzk.protocol.records import AddWatchRequest

from . import servers, tables, wire
from .servers import Server
from .wire import Address, BenchmarkError, Client

BASE = "/soak"
HOT = [f"{BASE}/hot{number}" for number in range(50)]
TICK = 500  # ms
TIMEOUT = 2000  # ms; of the sessions that are left to expire
WARM_UP = 0.5  # of all requests: the allocator's pools settle slowly where clients come and go at random
SAMPLES = 200
_POOL = 20  # clients of one process
_LIFE = 30  # batches until a client goes, on average
_NO_NODE = -101
_NODE_EXISTS = -110


# --- what the clients do: batches of requests ------------------------------------------------------------


def _create_and_delete(names: Iterator[int]) -> list[bytes]:
    paths = [f"{BASE}/n{next(names)}" for _ in range(25)]
    return [make(path) for make in (wire.create, wire.set_data, wire.get, wire.delete) for path in paths]


def _read(names: Iterator[int]) -> list[bytes]:
    return [wire.get(path) for path in HOT] + [wire.exists(path) for path in HOT]


def _watch(names: Iterator[int]) -> list[bytes]:
    return [
        *(wire.get(path, watch=True) for path in HOT[:20]),
        *(wire.exists(f"{BASE}/missing{next(names)}", watch=True) for _ in range(5)),
        wire.children(BASE, watch=True),
        *(
            wire.request(OpCode.ADD_WATCH, AddWatchRequest(path, mode))
            for path, mode in zip(HOT[20:24], itertools.cycle(AddWatchMode), strict=False)
        ),
    ]


def _change(names: Iterator[int]) -> list[bytes]:
    return [wire.set_data(path) for path in HOT] + [wire.multi_set(HOT[:10])]


def _own(names: Iterator[int]) -> list[bytes]:
    """Ephemerals, which go when their session goes; several clients want those without a number."""
    sequential = CreateMode.EPHEMERAL_SEQUENTIAL
    return [
        *(wire.create(f"{BASE}/s{next(names)}-", b"", sequential) for _ in range(3)),
        *(wire.create(f"{BASE}/shared{number}", b"", CreateMode.EPHEMERAL) for number in range(3)),
    ]


BATCHES = {_create_and_delete: 6, _read: 4, _watch: 2, _change: 2, _own: 1}
"""Each with its weight."""


class Crowd:
    """The clients of one process."""

    def __init__(self, address: Address, index: int) -> None:
        self._address = address
        self._random = random.Random(index)
        self._names = itertools.count(index << 48)
        self._clients: list[Client] = []
        self.lost = 0  # clients whose session has expired under them, as on a machine too busy

    def batch(self) -> int:
        """One client does one thing; returns how many requests were answered."""
        chance = self._random
        if len(self._clients) < _POOL:
            self._clients.append(Client(self._address, timeout=TIMEOUT))
        place = chance.randrange(len(self._clients))
        client = self._clients[place]
        requests = chance.choices(list(BATCHES), list(BATCHES.values()))[0](self._names)
        try:
            client.ask(*requests, may_fail=[_NO_NODE, _NODE_EXISTS])
            if chance.random() < 1 / _LIFE:
                self._end(place, chance.choice(("close", "vanish", "move")))
        except (OSError, BenchmarkError):
            self.lost += 1
            self._clients.pop(place).drop()
            return 0
        return len(requests)

    def _end(self, place: int, way: str) -> None:
        client = self._clients[place]
        if way == "close":
            client.leave()
        else:
            client.drop()
        if way == "move":
            self._clients[place] = Client(self._address, timeout=TIMEOUT, session=client.session)
        else:
            del self._clients[place]

    def leave(self) -> None:
        for client in self._clients:
            with contextlib.suppress(OSError, BenchmarkError):
                client.leave()


def _work(address: Address, index: int, requests: int, done: Any, lost: Any) -> None:
    crowd = Crowd(address, index)
    while done[index] < requests:
        done[index] += crowd.batch()
        lost[index] = crowd.lost
        if crowd.lost > 100 and crowd.lost * 100 > done[index]:
            raise BenchmarkError("the server ends connections")
    crowd.leave()


# --- memory ----------------------------------------------------------------------------------------------


def rise(samples: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """What a line through the samples (requests, bytes) after the warm-up rises, in bytes over all of it,
    and the mean."""
    first = samples[-1][0] * WARM_UP
    late = [(x, y) for x, y in samples if x >= first]
    middle_x, middle_y = (sum(values) / len(late) for values in zip(*late, strict=True))
    spread = sum((x - middle_x) ** 2 for x, _ in late)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in late) / spread if spread else 0.0
    return slope * (late[-1][0] - late[0][0]), middle_y


def run(
    server: Server, requests: int, processes: int, tell: Callable[[int, int], None]
) -> tuple[list[tuple[int, int]], int]:
    """Put the server through it; returns the samples, and how many clients have lost their session."""
    context = multiprocessing.get_context("fork")
    done = context.Array("q", processes, lock=False)
    lost = context.Array("q", processes, lock=False)
    each = -(-requests // processes)
    crowds = [
        context.Process(target=_work, args=(server.address, index, each, done, lost), daemon=True)
        for index in range(processes)
    ]
    for crowd in crowds:
        crowd.start()
    samples: list[tuple[int, int]] = []
    while any(crowd.is_alive() for crowd in crowds):
        time.sleep(0.01)
        total = sum(done)
        if total * SAMPLES >= requests * (len(samples) + 1) and total <= requests:
            samples.append((total, server.memory()))
            tell(*samples[-1])
    for crowd in crowds:
        crowd.join()
        if crowd.exitcode:
            raise BenchmarkError("a process of the load has failed")
    return samples, sum(lost)


COUNTS = ("zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_num_alive_connections")


def counts(address: Address) -> dict[str, int]:
    found = wire.monitor(address)
    return {name: found[name] for name in COUNTS}


def settled(address: Address, before: dict[str, int]) -> dict[str, int]:
    """What is counted once the last sessions have expired."""
    deadline = time.monotonic() + 5 * TIMEOUT / 1000
    while (now := counts(address)) != before and time.monotonic() < deadline:
        time.sleep(0.1)  # sessions expire in ticks
    return now


def soak(requests: int, processes: int, tell: Callable[[int, int], None]) -> dict[str, Any]:
    """The whole run; what was found, ready for JSON."""
    with servers.ours(tickTime=TICK, minSessionTimeout=TIMEOUT, **{"4lw.commands.whitelist": "*"}) as server:
        client = Client(server.address, timeout=TIMEOUT)
        client.make(BASE, *HOT)
        client.leave()
        before = counts(server.address)
        began = time.perf_counter()
        samples, lost = run(server, requests, processes, tell)
        seconds = time.perf_counter() - began
        after = settled(server.address, before)
    grown, mean = rise(samples)
    return {
        "requests": requests,
        "seconds": seconds,
        "lost": lost,
        "samples": samples,
        "mean": mean,
        "rise": grown,
        "left": {name: after[name] - before[name] for name in COUNTS if after[name] != before[name]},
    }


def summary(found: dict[str, Any]) -> str:
    per_million = found["rise"] / (found["requests"] * (1 - WARM_UP)) * 1e6
    left = ", ".join(f"{name} {value:+}" for name, value in found["left"].items()) or "nothing"
    return (
        f"{found['requests']:,} requests in {found['seconds']:,.0f} s: {found['mean'] / 1e6:.1f} MB "
        f"resident, {found['rise'] / found['mean']:+.2%} over the run after its warm-up "
        f"({per_million / 1024:+,.1f} KiB per million requests); left at the end: {left}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    half = max(1, (os.cpu_count() or 2) // 2)
    parser.add_argument("--requests", type=int, default=10_000_000, help="(default: ten million)")
    parser.add_argument("--processes", type=int, default=half, help="of clients (default here: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.03, help="share it may rise (default: 0.03)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the samples here too")
    arguments = parser.parse_args()
    print(tables.machine_line(servers.machine()), flush=True)
    shown = itertools.count(1)

    def tell(requests: int, memory: int) -> None:
        if next(shown) % (SAMPLES // 20) == 0:
            print(f"{requests:>14,} requests  {memory / 1e6:8.1f} MB", flush=True)

    found = soak(arguments.requests, arguments.processes, tell)
    print(summary(found))
    if found["lost"]:
        print(f"{found['lost']} sessions expired while in use: the machine was too busy")
    if arguments.json:
        arguments.json.write_text(json.dumps(found) + "\n")
    return int(found["rise"] > arguments.tolerance * found["mean"] or bool(found["left"]))


if __name__ == "__main__":
    sys.exit(main())
