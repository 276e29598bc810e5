"""Measure a pretend ensemble of three servers, beside a real one if it can be had.

    python -m benchmarks.ensemble                       # some minutes
    python -m benchmarks.ensemble --rounds 1 --seconds 0.3 --only get

Clients are shared out among the servers. Both ensembles stay up, every row is measured in turns, A B A B, and
the ratio is the median of the rounds' ratios. The other rows compare three servers with one of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs

from pyzk.server.testing import EmbeddedEnsemble

from . import server as single
from . import servers, tables, workloads
from .embedded import first_session
from .workloads import WORKLOADS

SERVERS = 3
_three = partial(servers.ours, (*servers.OURS, "--ensemble", str(SERVERS)), log_level="error")
_one = servers.ours
_Start: TypeAlias = Callable[[], AbstractContextManager[servers.Server]]
ROWS = ("get, 50 clients", "set, 50 clients", "mixed (90 % get, 10 % set), 50 clients")
ROWS += ("create + delete, 50 clients",)
HEAD = ("", "figure", "three", "beside", "judged", "", "wanted", "kept")


@attrs.frozen
class Row:
    """
    :ivar three: what was measured of our three servers.
    :ivar beside: the same of what they are compared with; None if there is nothing.
    :ivar judged: the number that is wanted to be within ``bound``; ``of`` says what it is.
    :ivar is_least: whether the bound is the least or the most.
    """

    name: str
    unit: str
    three: float
    beside: float | None
    judged: float | None
    of: str
    bound: float
    is_least: bool = False

    @property
    def kept(self) -> bool | None:
        if self.judged is None:
            return None
        return self.judged >= self.bound if self.is_least else self.judged <= self.bound

    def cells(self) -> list[str]:
        figures = map(tables.number, (self.three, self.beside, self.judged))
        wanted = f"{'>=' if self.is_least else '<='} {tables.number(self.bound)}"
        kept = {None: "", True: "yes", False: "NO"}[self.kept]
        return [self.name, self.unit, *figures, self.of, wanted, kept]


def throughput(arguments: argparse.Namespace, theirs: bool) -> list[Row]:
    """Reads and writes beside a real ensemble, which is to be no faster."""
    benchmark = single.Benchmark(arguments)
    wanted = [work for work in WORKLOADS if work.name in ROWS and benchmark.wants(work.name)]
    if not wanted:
        return []
    with contextlib.ExitStack() as running:
        rivals = [running.enter_context(_three())]
        if theirs:
            rivals.append(running.enter_context(servers.zookeeper(SERVERS)))
        for rival in rivals:
            benchmark.warm_up(rival)
        for work in wanted:
            benchmark.row(work.name, rivals, benchmark.rate(work), benchmark.rounds)
    rates = [figure for figure in benchmark.figures if figure.kind == "rate"]
    return [
        Row(
            figure.row,
            "per second",
            statistics.median(figure.ours),
            statistics.median(figure.theirs) if figure.theirs else None,
            figure.ratio,
            "times",
            1.0,
            is_least=True,
        )
        for figure in rates
    ]


def embedded_start(rounds: int) -> Row:
    """How long a test waits until three servers are up, and the first has answered a client."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        ensemble = EmbeddedEnsemble(SERVERS)
        ensemble.start()
        times.append(1e3 * (time.perf_counter() - began))
        first_session(ensemble[1].port)
        ensemble.stop()
    found = statistics.median(times[1:])  # the first one imports
    return Row("three servers up, embedded", "ms", found, None, found, "ms", 5.0)


def command_start(rounds: int) -> Row:
    """From the command to the first session: of three servers, and of one."""
    times: dict[_Start, list[float]] = {_three: [], _one: []}
    for _ in range(rounds + 1):
        for start, found in times.items():
            began = time.perf_counter()
            with start() as server:
                first_session(server.address[1])
                found.append(1e3 * (time.perf_counter() - began))
    of_three, of_one = (found[1:] for found in times.values())  # the first ones compile
    three, one = map(statistics.median, (of_three, of_one))
    more = statistics.median(a - b for a, b in zip(of_three, of_one, strict=True))
    return Row("start of the command to first session", "ms", three, one, more, "ms more", 20.0)


def memory(znodes: int) -> Row:
    """What a tree takes in three servers, and in one."""

    def taken(start: _Start) -> float:
        with start() as server:
            workloads.prepare(server.address)
            before = server.memory()
            workloads.grow(server.address, znodes)
            return (server.memory() - before) / 1e6

    three, one = taken(_three), taken(_one)
    return Row(f"tree of {znodes:,} znodes", "MB", three, one, three / one, "times", 3.3)


def measure(arguments: argparse.Namespace) -> list[Row]:
    """Everything that was asked for, as a table that is printed at the end."""
    missing = "that was asked for" if arguments.alone else servers.missing_zookeeper()
    if missing:
        print(f"Without a real ensemble: {missing}.")
    rows = throughput(arguments, theirs=missing is None)
    others: dict[str, Callable[[], Row]] = {
        "start": partial(embedded_start, 10 * arguments.rounds),
        "command": partial(command_start, arguments.rounds),
        "memory": partial(memory, arguments.znodes),
    }
    parts = [part.strip() for part in arguments.only.split(",")]
    return [*rows, *(run() for name, run in others.items() if any(part in name for part in parts))]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ensemble",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="how often each row is measured (default: 5)")
    add("--seconds", type=float, default=2.0, help="how long each time (default: 2)")
    add("--only", default="", metavar="PARTS", help="get, set, start, command, memory (commas)")
    add("--alone", action="store_true", help="compare with no real ensemble, even if it can be had")
    add("--znodes", type=int, default=100_000, help="of the tree (default: 100000)")
    half = max(1, (os.cpu_count() or 2) // 2)
    add("--processes", type=int, default=half, help="of the load (default here, half the cores: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    arguments.watchers = 0
    servers.raise_file_limit(4096)
    machine = servers.machine()
    print(f"{tables.machine_line(machine)}; load of the machine at the start: {os.getloadavg()[0]:.1f}")
    rows = measure(arguments)
    print(tables.text(HEAD, [row.cells() for row in rows]))
    print("Beside: a real ensemble of three JVMs for the rates, one server of ours for the others.")
    print("Nothing is replicated in ours, and neither syncs to a disk.")
    if arguments.json:
        found = {"machine": machine, "rows": [{**attrs.asdict(row), "kept": row.kept} for row in rows]}
        arguments.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
