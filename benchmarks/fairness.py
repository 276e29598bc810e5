"""One client floods the server; how long does a polite one wait?

    python -m benchmarks.fairness
    python -m benchmarks.fairness --flooders 3

The polite client has one request in flight. It is measured alone, then while others keep thousands of
requests in flight, and, to tell the server's part from that of the machine's busy cores, while those others
flood a second server beside it. The exit status is 1 if the flood makes its p99 more than three times what
it was.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable
from typing import Any

import attrs

from . import servers, tables, workloads
from .load import Outcome, converse, in_processes
from .wire import Address

WINDOW = 2000
LIMIT = 3.0


@attrs.define
class Case:
    """
    :ivar flooded: which server the others flood: the polite client's, another, or none.
    """

    name: str
    flooded: Address | None
    p50: list[float] = attrs.field(factory=list)
    p99: list[float] = attrs.field(factory=list)
    flood: list[float] = attrs.field(factory=list)


def polite(address: Address, flooded: Address | None, flooders: int, seconds: float) -> Outcome:
    """The latencies of the polite client, and the rate of the others."""

    def job(index: int, count: int, ready: Callable[[], Any]) -> Outcome:
        if index:
            assert flooded is not None
            return Outcome(converse(flooded, [workloads.get(index)], WINDOW, seconds, ready).rate)
        return Outcome(0.0, converse(address, [workloads.get(0)], 1, seconds, ready).latencies)

    return in_processes(job, 1 + (flooders if flooded else 0))


def measure(flooders: int, rounds: int, seconds: float) -> list[Case]:
    with contextlib.ExitStack() as running:
        ours, other = (running.enter_context(servers.ours()).address for _ in range(2))
        for address in (ours, other):
            workloads.prepare(address)
        cases = [Case("nobody else", None), Case("another server", other), Case("the same server", ours)]
        for _ in range(rounds):
            for case in cases:
                found = polite(ours, case.flooded, flooders, seconds)
                case.p50.append(found.percentile(0.5))
                case.p99.append(found.percentile(0.99))
                case.flood.append(found.rate)
    return cases


HEAD = ["flooded is", "p50, µs", "p99, µs", "p99 to quiet", "flood, per second"]


def rows_of(cases: list[Case]) -> list[list[str]]:
    return [
        [
            case.name,
            tables.number(statistics.median(case.p50)),
            tables.number(statistics.median(case.p99)),
            f"{ratio(case, cases[0]):.2f}",
            tables.number(statistics.median(case.flood)),
        ]
        for case in cases
    ]


def ratio(case: Case, quiet: Case) -> float:
    """How many times longer the polite client waits, the median of the rounds."""
    return statistics.median(a / b for a, b in zip(case.p99, quiet.p99, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fairness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--flooders", type=int, default=1, help="clients that flood, each in its own process (default: 1)")
    add("--rounds", type=int, default=5, help="(default: 5)")
    add("--seconds", type=float, default=2.0, help="of each measurement (default: 2)")
    arguments = parser.parse_args()
    print(tables.machine_line(servers.machine()), flush=True)
    cases = measure(arguments.flooders, arguments.rounds, arguments.seconds)
    print(tables.text(HEAD, rows_of(cases)))
    return int(ratio(cases[2], cases[0]) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
