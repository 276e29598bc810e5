"""The figures of the sweep: what it takes, what it finds, and how often a run repeats.

    python -m benchmarks.sweep                # all of them: less than 12 minutes on a quiet machine
    python -m benchmarks.sweep replays orders # some of them
    python -m benchmarks.sweep --quick        # a twentieth of the runs

Seconds are those of the processor, of this process with its threads: another process does not change them.
Only the figures of programs in other languages are in real time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import kazoo
import pytest

from pyzk.server.sweep import SweepFailed, explore, sweep, tokens
from pyzk.server.sweep.dpor import Explorer
from pyzk.server.sweep.faults import chosen
from pyzk.server.sweep.model import Cell, Outcome, switches
from pyzk.server.sweep.orders import PCT, POS, Order, Random, Replay, Rounds
from pyzk.server.sweep.programs.command import main as pyzk_sweep
from pyzk.server.sweep.programs.subject import Programs
from pyzk.server.sweep.run import InProcess, Scenario, run
from tests.server.sweep import bugs
from tests.server.sweep.programs.test_found import BARRIER, compiled
from tests.server.sweep.test_recipes import KNOWN, RECIPES
from tests.server.sweep.test_sweep import SMALL, every_outcome, outcomes_that_differ
from tests.server.sweep.test_threads import crossed_locks as kazoo_hang
from tests.server.sweep.test_threads import lock as kazoo_lock
from tests.support import jvm
from tests.support.languages import go_variables, link_node_modules
from tests.support.needs import need

LONG = 1e6  # seconds: a budget that no machine uses up
FAMILIES = ("lock", "write lock", "semaphore", "counter", "queue")
SEEDS = 20
FOUND = Path(__file__).parents[1] / "examples" / "found"
SWEPT = FOUND.parent / "sweep"
SMALL_LATE = [bugs.lost_update, bugs.sum_of_two, bugs.announced_too_early]
TOKENS = [
    ("kazoo_counter", "f1-a3-reply-lost", "wrong"),
    ("kazoo_counter", "f1-b5-reply-lost", "wrong"),
    ("kazoo_counter", "f1-a3-gone-mid", "wrong"),
    ("kazoo_counter", "f1-a3-lost", "ok"),
    ("kazoo_counter", "f1-a3-restart", "wrong"),
    ("kazoo_double_barrier", "f1-a2-cut-after", "hang"),
    ("kazoo_locking_queue", "f1-b5-reply-lost", "wrong"),
    ("kazoo_locking_queue_watch", "f1-consumer1-cut-after", "wrong"),
    ("kazoo_queue", "f1-a4-reply-lost", "wrong"),
    ("kazoo_queue", "f1-a4-gone-mid", "wrong"),
    ("lost_registration", "f1-a1-ghost", "wrong"),
    ("lock", "f1-a3-reply-lost", "ok"),
    ("lock", "f1-b2-restart", "ok"),
    ("lock", "f1-a2-gone-mid", "ok"),
    ("lock", "o1-", "ok"),
    ("lock", "o1-3a,2b,a,b", "ok"),
    ("lock", "o1-4b,a", "ok"),
    ("lock", "o1-2a,4b,3a", "ok"),
    ("lock", "o1-a,3b,2a,b", "ok"),
    ("lock", "o1-b,a,b,a,b,a", "ok"),
]


class Figures:
    """
    :ivar share: which part of the runs is made.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    def _some(self, number: int) -> int:
        return max(1, round(number * self.share))

    def cells(self) -> Iterator[tuple[str, str]]:
        """Five families of recipes: each fault at each request."""
        spent, cells, bad = 0.0, 0, 0
        for name in FAMILIES:
            seconds, results = measured(
                partial(swept, RECIPES[name](), orders=None, allow=KNOWN.get(name, []))
            )
            spent, cells, bad = spent + seconds, cells + results.cells, bad + len(results.bad)
        speed = cells / spent
        yield (
            "five recipes, all cells",
            f"{cells} cells in {spent:.1f} s, {speed:.0f} a second, {bad} findings (10 s, 0)",
        )

    def orders(self) -> Iterator[tuple[str, str]]:
        """The same: orders by the samplers."""
        runs = bad = 0
        for name in FAMILIES:
            scenario, length = RECIPES[name](), len(run(RECIPES[name](), Rounds()).steps)
            for order in islice(explore._samplers(length), self._some(1000)):
                runs, bad = runs + 1, bad + run(scenario, order).is_bad
        yield "five recipes, orders", f"{runs:,} orders, {bad} findings (5,000, 0)"

    def exhausted(self) -> Iterator[tuple[str, str]]:
        """A lock with two clients: all that there is to try."""
        seconds, results = measured(partial(swept, RECIPES["lock"](), orders="all"))
        yield (
            "our lock, all orders and all faults",
            (f"{results.orders} orders, {results.cells} cells in {seconds:.1f} s (10 s)"),
        )
        for name, scenario in ("our lock", RECIPES["lock"]()), ("kazoo's lock", kazoo_lock):
            seconds, runs = measured(partial(exhaust, scenario))
            limit = 2 if name == "our lock" else 4
            yield f"{name}, all orders", f"{runs} orders in {seconds:.1f} s ({limit} s)"

    def reduction(self) -> Iterator[tuple[str, str]]:
        """Small scenarios: the orders that differ have the outcomes of all orders, by brute force."""
        same = [outcomes_that_differ(each, False) == every_outcome(each, 3000, False) for each in SMALL]
        late = [outcomes_that_differ(each, True) == every_outcome(each, 3000, True) for each in SMALL_LATE]
        yield "reduction, outcomes of brute force", f"{sum(same)} of {len(same)} scenarios alike"
        yield "the same with late replies", f"{sum(late)} of {len(late)} scenarios alike"

    def replays(self) -> Iterator[tuple[str, str]]:
        """Orders by chance, each run twice."""
        for name, scenario, number in (
            ("our lock", RECIPES["lock"](), 1000),
            ("kazoo's lock", kazoo_lock, 400),
        ):
            alike = 0
            for seed in range(self._some(number)):
                first = run(scenario, Random(seed))
                again = run(scenario, Replay(first.actors))
                alike += told(first) == told(again)
            yield f"replays, {name}", f"{alike:,} of {self._some(number):,} alike"

    def kazoo(self) -> Iterator[tuple[str, str]]:
        """kazoo: what a cell takes."""
        seconds, results = measured(partial(swept, kazoo_lock, orders=None))
        yield "kazoo's lock, a cell", f"{1000 * seconds / results.cells:.0f} ms (50 ms)"
        seconds, outcome = measured(partial(run, kazoo_hang, Rounds()))
        yield "kazoo, a run that hangs", f"{outcome.verdict} in {seconds:.2f} s (0.4 s)"

    def verdicts(self) -> Iterator[tuple[str, str]]:
        """kazoo: cells whose verdict is another one when they run again, or is one that must not be."""
        wanted, false, differ, made = self._some(2000), 0, 0, 0
        subject = InProcess(kazoo_lock)
        base = run(kazoo_lock, Rounds())
        cells = list(explore._cells(base, chosen("zookeeper")))
        while made < wanted:
            for cell in cells[: wanted - made]:
                first, again = subject.run(Rounds(), cell), subject.run_again(Rounds(), cell)
                made += 1
                false += first.is_bad and again.fails_like(first)
                differ += (told(first), first.verdict) != (told(again), again.verdict)
        yield "kazoo's lock, cells run twice", f"{made:,} cells, {false} false verdicts, {differ} differ (0)"

    def corpus(self) -> Iterator[tuple[str, str]]:
        """The planted bugs: how many runs until each is found, with each seed; and what a sweep finds."""
        counts = [
            [found_after(scenario, 1000 * seed) for seed in range(self._some(SEEDS))]
            for scenario in bugs.ORDERS
        ]
        everything = [count for each in counts for count in each]
        yield (
            f"{len(bugs.ORDERS)} bugs of order",
            f"{sum(count <= 100 for count in everything)} of {len(everything)} found in 100 orders; "
            f"most {max(everything)}",
        )
        found = sum(bool(swept(scenario, orders=None).bad) for scenario in bugs.FAULTS)
        yield f"{len(bugs.FAULTS)} bugs of faults", f"{found} found in the first sweep"
        found = sum(bool(swept(each, faults=None, replies=True).findings) for each in bugs.LATE_REPLIES)
        yield f"{len(bugs.LATE_REPLIES)} bugs of late replies", f"{found} found with replies=True"

    def shortened(self) -> Iterator[tuple[str, str]]:
        """The planted bugs of order: how far each is shortened."""
        most, longest = 0, 0.0
        for scenario in bugs.ORDERS:
            seconds, results = measured(partial(swept, scenario, faults=None))
            actors = results.findings[0].outcome.actors
            most, longest = max(most, switches(actors)), max(longest, seconds)
        yield (
            "bugs of order, shortened",
            f"at most {most} switches; found and shortened in {longest:.1f} s at most",
        )

    def tokens(self) -> Iterator[tuple[str, str]]:
        """Tokens, as they were found once: each must come to the same verdict with every Python and kazoo."""
        right = 0
        for name, token, verdict in TOKENS:
            scenario = kazoo_lock if name == "lock" else runpy.run_path(str(FOUND / f"{name}.py"))["scenario"]
            which = tokens.read(token)
            cell = which if isinstance(which, Cell) else None
            order = Rounds() if isinstance(which, Cell) else Replay(which)
            right += run(scenario, order, cell).verdict == verdict
        python = ".".join(map(str, sys.version_info[:3]))
        yield f"tokens, {python}, kazoo {kazoo.__version__}", f"{right} of {len(TOKENS)} hold (20 of 20)"

    def greenlets(self) -> Iterator[tuple[str, str]]:
        """A program with gevent, from outside: how often a token comes to the same steps."""
        program = SWEPT / "greenlets.py"
        seen: Counter[str] = Counter()
        with TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            command = [str(Path(sys.executable).with_name("pyzk-sweep")), "--json", str(report)]
            command += ["--replay", "f1-a2-reply-lost", "--", sys.executable, str(program)]
            for _ in range(self._some(40)):
                subprocess.run(command, capture_output=True, check=False)
                seen[str([each["steps"] for each in json.loads(report.read_text())["findings"]])] += 1
        alike = max(seen.values())
        yield "replays, gevent with pyzk-sweep", f"{alike} of {self._some(40)} alike"

    def languages(self) -> Iterator[tuple[str, str]]:
        """Programs in Go, JavaScript and Java: the real time of a run."""
        for name, prepare, limit in ("Go", _go, 100), ("Node", _node, 100), ("kept JVM", _java, 300):
            with TemporaryDirectory() as folder:
                try:
                    command = prepare(Path(folder))
                except pytest.skip.Exception as missing:
                    yield name, f"not measured: {missing}"
                    continue
                orders, cells = timed(command)
            yield (
                f"{name}, a run",
                f"{1000 * median(orders):.0f} ms without a fault ({limit} ms, median of {len(orders)}); "
                f"{1000 * median(cells):.0f} ms with a fault (median of {len(cells)})",
            )

    def curator(self) -> Iterator[tuple[str, str]]:
        """Two of Curator's recipes: the real time of the sweep that finds what is wrong."""
        for name, options in (
            ("CuratorLeaderLatch", ("--faults", "restart-empty")),
            ("CuratorDoubleBarrier", BARRIER),
        ):
            with TemporaryDirectory() as folder:
                try:
                    command = compiled(Path(folder), name)
                except pytest.skip.Exception as missing:
                    yield name, f"not measured: {missing}"
                    continue
                file = Path(folder, "report.json")
                began = time.monotonic()
                with redirect_stdout(io.StringIO()):
                    pyzk_sweep(
                        ["--clients", "a", "--orders", "none", "--json", str(file), *options, "--", *command]
                    )
                report, seconds = json.loads(file.read_text()), time.monotonic() - began
            words = "; ".join(each["detail"] for each in report["findings"]) or "nothing"
            cells = f"{len(report['bad_cells'])} of {report['cells']} cells"
            yield name, f"{words}: {cells} in {seconds:.0f} s (30 s)"

    def unused(self) -> Iterator[tuple[str, str]]:
        """What is loaded where nothing is swept."""
        code = "import sys, pyzk.server.testing.plugin; print(sum('sweep' in name for name in sys.modules))"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        yield "unused", f"{loaded.stdout.strip()} modules of it are loaded with the plugin (0)"


def measured(call: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function; returns seconds of the processor, and what it returns."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def timed(command: list[str]) -> tuple[list[float], list[float]]:
    """Sweep a command; return the seconds of the runs without a fault, and of the runs with a fault."""
    spent: tuple[list[float], list[float]] = [], []
    real = Programs.run

    def run_timed(programs: Programs, order: Order, cell: Cell | None = None) -> Outcome:
        began = time.monotonic()
        outcome = real(programs, order, cell)
        if list(programs._options.command) == command:
            spent[cell is not None].append(time.monotonic() - began)
        return outcome

    with mock.patch.object(Programs, "run", run_timed), redirect_stdout(io.StringIO()):
        pyzk_sweep(["--faults", "lost,cut-after", "--orders", "all", "--budget", "60", "--", *command])
    return spent


def _go(folder: Path) -> list[str]:
    variables, program = os.environ | go_variables(folder), folder / "increment"
    subprocess.run(["go", "build", "-o", program, SWEPT / "increment.go"], env=variables, check=True)
    return [str(program)]


def _node(folder: Path) -> list[str]:
    link_node_modules(folder)
    return ["node", str(shutil.copy(SWEPT / "increment.mjs", folder))]


def _java(folder: Path) -> list[str]:
    need(jvm.missing(jvm.ZOOKEEPER, "javac"))
    path = jvm.class_path(jvm.ZOOKEEPER)
    subprocess.run(["javac", "-d", folder, "-cp", path, SWEPT / "Increment.java"], check=True)
    return jvm.java("Increment", jars=jvm.ZOOKEEPER, folders=(folder,), log_level="off")


def swept(scenario: Scenario, **options: Any) -> explore.Results:
    try:
        return sweep(scenario, budget=LONG, **options).results
    except SweepFailed as error:
        return error.report.results


def exhaust(scenario: Scenario) -> int:
    explorer = Explorer()
    while explorer.more:
        assert not run(scenario, explorer.order()).is_bad
        explorer.learn()
    return explorer.runs


def found_after(scenario: Scenario, seed: int) -> int:
    """Return the number of the first run that fails, of the samplers in turn."""
    length = len(run(scenario, Rounds()).steps)
    for number in range(1, 1000):
        kinds: list[Callable[[], Order]] = [
            partial(POS, seed + number),
            partial(Random, seed + number),
            partial(PCT, seed + number, length),
        ]
        if run(scenario, kinds[number % 3]()).is_bad:
            return number
    return 1000


def told(outcome: Outcome) -> list[tuple[str, str]]:
    return [(step.actor, step.text) for step in outcome.steps]


def main() -> None:
    names = [name for name in vars(Figures) if not name.startswith("_")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a twentieth of the runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.figures) - set(names):
        parser.error(f"there is no figure {unknown.pop()}")
    figures = Figures(0.05 if arguments.quick else 1)
    for name in arguments.figures or names:
        for what, text in getattr(figures, name)():
            print(f"{what:38} {text}", flush=True)


if __name__ == "__main__":
    main()
