"""What waiting for a lock costs the server, by strategy: requests, events and bytes per acquisition.

    python -m benchmarks.lock_strategies                 # half a minute
    python -m benchmarks.lock_strategies --write         # docs/lock-strategies.md and .svg

N contenders, each with a session of its own, arrive one after the other while the first holds the lock; each
acquires it once and holds it for a time H. Polling looks every T. Nothing is timed: the server counts, and
all live in virtual time, so that every run gives the same numbers (but where clients race for one thing).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from pyzk.client import ZooKeeper, connect
from pyzk.recipes import PARENT, PREDECESSOR, Lock, SingleNodeLock, polling
from pyzk.server.testing import open_server

from . import tables

COUNTS = (1, 2, 5, 10, 20, 40, 60, 80, 100)
PRINTED = (10, 100)
"""The numbers of contenders in the table of the document; its picture has all."""
RATIOS = (1, 2, 5, 10)
HOLD = 10.0
ARRIVAL = 0.001
"""Seconds between two arrivals: all are there before the first release."""
_FOR_EVER = 1_000_000.0  # seconds; no session sends a ping meanwhile

Make = Callable[[ZooKeeper], AbstractAsyncContextManager[Any]]

STRATEGIES: dict[str, Make] = {
    "predecessor": lambda zk: Lock(zk, "/lock", monitor=False, strategy=PREDECESSOR),
    "parent": lambda zk: Lock(zk, "/lock", monitor=False, strategy=PARENT),
    "single znode": lambda zk: SingleNodeLock(zk, "/lock/lock"),
} | {
    f"polling, H/T = {ratio}": lambda zk, ratio=ratio: Lock(  # type: ignore[misc]
        zk, "/lock", monitor=False, strategy=polling(HOLD / ratio)
    )
    for ratio in RATIOS
}


@attrs.frozen
class Cost:
    """What the server counted, for all acquisitions together."""

    contenders: int
    requests: int
    events: int
    bytes: int

    def each(self, total: int) -> float:
        return total / self.contenders


def measure(make: Make, contenders: int) -> Cost:
    """Run N contenders through one lock; connecting, the lock's directory and closing are left out."""
    return trio.run(_measure, make, contenders, clock=trio.testing.MockClock(autojump_threshold=0))


async def _measure(make: Make, contenders: int) -> Cost:
    async with open_server(
        max_session_timeout=round(_FOR_EVER * 1000), max_client_connections=0, record=False
    ) as server:

        async def connector(host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            return server.open_stream()

        ready, done = trio.Semaphore(0), trio.Semaphore(0)
        begin, end = trio.Event(), trio.Event()

        async def contend(number: int) -> None:
            async with connect("server:2181", connector=connector, session_timeout=_FOR_EVER) as zk:
                if not number:
                    await zk.create("/lock")
                ready.release()
                await begin.wait()
                await trio.sleep(number * ARRIVAL)
                async with make(zk):
                    await trio.sleep(HOLD)
                done.release()
                await end.wait()

        async with trio.open_nursery() as nursery:
            for number in range(contenders):
                nursery.start_soon(contend, number)
            for _ in range(contenders):
                await ready.acquire()
            stats = server.running.engine.stats
            before = stats.packets_received, stats.packets_sent, stats.bytes_received + stats.bytes_sent
            begin.set()
            for _ in range(contenders):
                await done.acquire()
            requests = stats.packets_received - before[0]
            cost = Cost(
                contenders,
                requests,
                stats.packets_sent - before[1] - requests,
                stats.bytes_received + stats.bytes_sent - before[2],
            )
            end.set()
    return cost


def rows(costs: dict[str, list[Cost]]) -> Iterator[list[str]]:
    for name, measured in costs.items():
        for cost in measured:
            yield [
                name,
                str(cost.contenders),
                *(tables.number(cost.each(total)) for total in (cost.requests, cost.events, cost.bytes)),
            ]


HEAD = ["strategy", "contenders", "requests", "events", "bytes"]


def draw(costs: dict[str, list[Cost]], stem: Path) -> bool:
    plt = tables.pyplot()
    if plt is None:
        return False
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    for axis, what in zip(axes, ("requests", "events", "bytes"), strict=True):
        for name, measured in costs.items():
            points = [(cost.contenders, cost.each(getattr(cost, what))) for cost in measured]
            style = "--" if name.startswith("polling") else "-"
            axis.plot(*zip(*points, strict=True), style, marker=".", label=name)
        axis.set_xlabel("contenders")
        axis.set_title(f"{what} per acquisition")
        axis.set_yscale("symlog" if what == "events" else "log")
        axis.grid(visible=True, alpha=0.3)
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), fontsize="small")
    tables.save_picture(figure, stem)
    return True


DOCUMENT = """\
# What waiting for a lock costs

N contenders arrive while the first holds the lock. Each contender acquires it once and holds it for a
time H. Polling contenders look every T. The figures are counts of the server for each acquisition, in
virtual time, without connecting, closing and the lock's directory. `python -m benchmarks.lock_strategies
--write` writes this page.

![Requests, events and bytes per acquisition](lock-strategies.svg)

- **predecessor**, what `Lock` does: 5N-2 requests and N-1 events for all N together. Bytes grow with N,
  because each contender reads the list twice. The locks here have `monitor=False`; by default each contender
  also watches its own znode: 6N-2 requests, 2N-1 events.
- **parent**: each change wakes all contenders, and all of them read the whole list: about N requests and
  N events per acquisition, and N² bytes.
- **single znode**: each release makes all waiters try to create the znode, and all but one fail. Each failure
  is a write that goes through the leader.
- **polling**: no events. Requests grow with the queue and with how often a contender looks. A hand-over takes
  0.5 T on average. With H/T below 3 it costs *less* than watching the parent.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=max(COUNTS), help="contenders (default: 100)")
    parser.add_argument("--write", action="store_true", help="write docs/lock-strategies.md and its picture")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the totals there")
    arguments = parser.parse_args()
    counts = [count for count in COUNTS if count <= arguments.largest]
    costs = {name: [measure(make, count) for count in counts] for name, make in STRATEGIES.items()}
    print(tables.text(HEAD, rows(costs)))
    if arguments.json:
        plain = {name: [attrs.asdict(cost) for cost in measured] for name, measured in costs.items()}
        arguments.json.write_text(json.dumps(plain, indent=1) + "\n")
    if arguments.write:
        docs = Path(__file__).parents[1] / "docs"
        draw(costs, docs / "lock-strategies")
        printed = {
            name: [cost for cost in measured if cost.contenders in PRINTED]
            for name, measured in costs.items()
        }
        (docs / "lock-strategies.md").write_text(DOCUMENT + tables.markdown(HEAD, rows(printed)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
