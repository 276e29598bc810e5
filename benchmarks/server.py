"""Measure pyzk-server, beside a real ZooKeeper if there is one.

    python -m benchmarks.server                         # some minutes
    python -m benchmarks.server --rounds 1 --seconds 0.3 --only get
    python -m benchmarks.server --theirs HOST:PORT      # a ZooKeeper that runs already

Both servers stay up, every row is measured in turns, A B A B, and the ratio is the median of the rounds'
ratios: whatever else the machine does meanwhile, it does to both.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

from . import servers, tables, workloads
from .servers import Server
from .wire import Client
from .workloads import WORKLOADS, Workload

Measure = Callable[[Server], dict[str, float]]

UNITS = {
    "rate": "per second",
    "p50": "p50, µs",
    "p99": "p99, µs",
    "seconds": "s",
    "megabytes": "MB",
    "bytes": "bytes",
}


@attrs.define
class Figure:
    """One number of one row, as often as it was measured.

    :ivar kind: a key of UNITS; of a rate more is better, of all others less.
    """

    row: str
    kind: str
    ours: list[float] = attrs.field(factory=list)
    theirs: list[float] = attrs.field(factory=list)

    @property
    def ratio(self) -> float | None:
        """Ours to theirs, the median of the rounds; None if there is none."""
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=False) if b]
        return statistics.median(ratios) if ratios else None

    @property
    def advantage(self) -> float | None:
        """How many times better ours is."""
        ratio = self.ratio
        return ratio if self.kind == "rate" or not ratio else 1 / ratio

    def numbers(self) -> list[str]:
        """Return ours, theirs and the ratio."""
        ratio = self.ratio
        both = [tables.number(statistics.median(side)) if side else "" for side in (self.ours, self.theirs)]
        return [*both, f"{ratio:.2f}" if ratio else ""]

    def cells(self) -> list[str]:
        wanted = "more" if self.kind == "rate" else "less"
        return [self.row, UNITS[self.kind], *self.numbers(), wanted]


HEAD = ["", "figure", "pyzk-server", "ZooKeeper", "ratio", "better is"]


class Benchmark:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.rounds: int = arguments.rounds
        self.seconds: float = arguments.seconds
        self.processes: int = arguments.processes
        self.znodes: int = arguments.znodes
        self.watchers: int = arguments.watchers
        self._wanted = [part.strip() for part in arguments.only.split(",")]
        self.figures: list[Figure] = []

    def wants(self, row: str) -> bool:
        return any(part in row for part in self._wanted)

    def run(self, start: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]]) -> None:
        """Measure everything; ``start`` tells how to get each server, ours first."""
        self._starts(start)
        with contextlib.ExitStack() as running:
            rivals = [running.enter_context(factory()) for factory in start.values()]
            print(" and ".join(f"{rival.name} {rival.version()}" for rival in rivals), flush=True)
            self._idle(rivals)
            for rival in rivals:
                self.warm_up(rival)
            for work in WORKLOADS:
                self.row(work.name, rivals, self.rate(work), self.rounds)
            self.row(f"one change told to {self.watchers:,} watchers", rivals, self._fan_out, self.rounds)
            self.row("sessions opened and closed, 10 at a time", rivals, self._sessions, self.rounds)
            local = [rival for rival in rivals if rival.process is not None]
            self.row(f"memory per znode, {self.znodes:,} of 100 bytes", local, self._per_znode, 1)
            for rival in rivals:
                if rival.process is None:
                    workloads.clear(rival.address)

    def warm_up(self, rival: Server) -> None:
        """Make a server ready for rows of the table."""
        workloads.prepare(*rival.addresses)
        work = Workload("", workloads.mixed, 50)  # a JVM compiles what runs often
        workloads.run(work, rival.addresses, min(4.0, 2 * self.seconds), self.processes)

    def row(self, name: str, rivals: list[Server], measure: Measure, rounds: int) -> None:
        if not self.wants(name):
            return
        found: dict[str, Figure] = {}
        for _ in range(rounds):
            for rival in rivals:
                for kind, value in measure(rival).items():
                    figure = found.setdefault(kind, Figure(name, kind))
                    (figure.ours if rival.name == "pyzk-server" else figure.theirs).append(value)
        for figure in found.values():
            self.figures.append(figure)
            print(_line(figure.cells()), flush=True)

    # --- what is measured --------------------------------------------------------------------------------

    def rate(self, work: Workload) -> Measure:
        def measure(server: Server) -> dict[str, float]:
            found = workloads.run(work, server.addresses, self.seconds, self.processes)
            every = {"rate": found.rate, "p50": found.percentile(0.5), "p99": found.percentile(0.99)}
            return {kind: every[kind] for kind in work.shown}

        return measure

    def _fan_out(self, server: Server) -> dict[str, float]:
        found = workloads.fan_out(server.address, self.watchers, self.seconds)
        return {"p50": found.percentile(0.5), "p99": found.percentile(0.99)}

    def _sessions(self, server: Server) -> dict[str, float]:
        return {"rate": workloads.sessions(server.address, 10, self.seconds, self.processes).rate}

    def _per_znode(self, server: Server) -> dict[str, float]:
        before = server.memory()
        workloads.grow(server.address, self.znodes)
        return {"bytes": (server.memory() - before) / self.znodes}

    def _starts(self, start: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]]) -> None:
        name = "start to first session"
        if not self.wants(name):
            return
        figure = Figure(name, "seconds")
        for _ in range(self.rounds):
            for factory, times in zip(start.values(), (figure.ours, figure.theirs), strict=False):
                began = time.perf_counter()
                with factory() as server:
                    if server.process is None:
                        continue
                    Client(server.address).leave()
                    times.append(time.perf_counter() - began)
        self.figures.append(figure)
        print(_line(figure.cells()), flush=True)

    def _idle(self, rivals: list[Server]) -> None:
        local = [rival for rival in rivals if rival.process is not None]
        if self.wants("memory, idle"):
            time.sleep(min(2.0, self.seconds))  # whatever a server does right after its start
        self.row("memory, idle", local, lambda server: {"megabytes": server.memory() / 1e6}, 1)


def _line(cells: list[str]) -> str:
    name, unit, ours, theirs, ratio, better = cells
    return f"{name:48} {unit:>10} {ours:>12} {theirs:>12} {ratio:>8}  {better}"


# --- the results -----------------------------------------------------------------------------------------


def rows_of(figures: list[Figure]) -> list[list[str]]:
    """The rows of the table, under HEAD."""
    return [figure.cells() for figure in figures]


WIDE = ("rate", "p50", "p99")
"""The kinds of figures that share a row of the page."""


def page(figures: list[Figure]) -> str:
    """Return two tables in Markdown: the rows with the figures of ``WIDE`` side by side, and all others."""
    head = ["", *(cell for kind in WIDE for cell in (f"pyzk-server, {UNITS[kind]}", "ZooKeeper", "ratio"))]
    rows: dict[str, dict[str, list[str]]] = {}
    for figure in figures:
        if figure.kind in WIDE:
            rows.setdefault(figure.row, {})[figure.kind] = figure.numbers()
    wide = [
        [row, *(cell for kind in WIDE for cell in found.get(kind, [""] * 3))] for row, found in rows.items()
    ]
    others = [figure.cells()[:-1] for figure in figures if figure.kind not in WIDE]
    return f"{tables.markdown(head, wide)}\n\n{tables.markdown(HEAD[:-1], others)}"


def as_json(figures: list[Figure], machine: dict[str, str]) -> dict[str, Any]:
    return {
        "machine": machine,
        "caveats": tables.CAVEATS,
        "rows": [{**attrs.asdict(figure), "ratio": figure.ratio} for figure in figures],
    }


def draw(figures: list[Figure], machine: dict[str, str], stem: Path) -> None:
    """Bars: how many times better ours is; without a rival, how many requests per second it serves."""
    plt = tables.pyplot()
    if plt is None or not figures:
        return
    compared = [figure for figure in figures if figure.advantage is not None]
    if compared:
        shown = [(f"{f.row} ({UNITS[f.kind]})", f.advantage or 0.0) for f in compared if f.kind != "p50"]
        title = "How many times better than Apache ZooKeeper on the same machine, no fsync on either side"
    else:
        shown = [(f.row, statistics.median(f.ours)) for f in figures if f.kind == "rate"]
        title = "Requests per second"
    if not shown:
        return
    names, values = zip(*reversed(shown), strict=True)
    figure, axes = plt.subplots(figsize=(11, 0.9 + 0.27 * len(shown)))
    bars = axes.barh(names, values, color=["#2a78b5" if value >= 1 else "#c0504d" for value in values])
    axes.bar_label(bars, [tables.number(value) for value in values], padding=3, fontsize=8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    if compared:
        axes.axvline(1, color="black", linewidth=0.8)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(tables.machine_line(machine), fontsize=7)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.12)
    tables.save_picture(figure, stem)
    plt.close(figure)


# --- the command -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _remote(text: str) -> Iterator[Server]:
    host, _, port = text.rpartition(":")
    yield Server("ZooKeeper", (host, int(port)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="how often each row is measured (default: 3)")
    add("--seconds", type=float, default=2.0, help="how long each time (default: 2)")
    add("--only", default="", metavar="PARTS", help="only rows whose name contains one of these (commas)")
    add("--theirs", metavar="HOST:PORT", help="compare with this server; uses /pyzk-benchmark")
    add("--alone", action="store_true", help="compare with nothing, even if Java and ZooKeeper are there")
    add("--znodes", type=int, default=200_000, help="for the memory per znode (default: 200000)")
    add("--watchers", type=int, default=1000, help="for the fan-out (default: 1000)")
    half = max(1, (os.cpu_count() or 2) // 2)
    add("--processes", type=int, default=half, help="of the load (default here, half the cores: %(default)s)")


def measure(arguments: argparse.Namespace) -> tuple[list[Figure], dict[str, str]]:
    """Everything that was asked for, printed as it comes; the figures and the machine."""
    servers.raise_file_limit(4096)
    machine = servers.machine()
    start: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]] = {"ours": servers.ours}
    missing = "that was asked for" if arguments.alone else servers.missing_zookeeper()
    if arguments.theirs:
        start["theirs"] = lambda: _remote(arguments.theirs)
    elif missing is None:
        start["theirs"] = servers.zookeeper
    else:
        print(f"Without a real ZooKeeper: {missing}.")
    print(tables.machine_line(machine))
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f}; processes of load: ", end="")
    print(f"{arguments.processes}; {arguments.rounds} rounds of {arguments.seconds} s")
    for caveat in tables.CAVEATS:
        print(f"* {caveat}")
    print(_line(HEAD))
    benchmark = Benchmark(arguments)
    benchmark.run(start)
    return benchmark.figures, machine


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--plot", type=Path, metavar="STEM", help="draw STEM.png and STEM.svg")
    arguments = parser.parse_args()
    figures, machine = measure(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(figures, machine), indent=1, ensure_ascii=False) + "\n")
    if arguments.plot:
        draw(figures, machine, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
