"""What one client, or one operator, can do to the others: how long does a bystander wait?

    python -m benchmarks.stalls                       # twenty minutes at most
    python -m benchmarks.stalls --quick               # a tenth of each size: three minutes at most
    python -m benchmarks.stalls --only multi --repeat 3
    python -m benchmarks.stalls --history on          # only while the server records its history
    python -m benchmarks.stalls --compare ../other/.venv    # A: this one; B: that one, in turns

A server is started, brought into some state, and then attacked, while a bystander asks it for one small
znode every few ms. Shown are the longest wait of the bystander beyond the usual one; the most CPU time
that the server consumed between a request of the bystander and its answer, which does not depend on what
else the machine does, and is what is judged; the CPU time of the whole attack; and how much memory it
took at its peak. Each case is measured twice, one after the other: at a server as it starts, and at one that
records its whole history, as every embedded server does.

No wait may be longer than 100 ms of CPU time, but for what must be one transaction: 0.5 s, and then the
table has the time per element. The exit status is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import re
import resource
import shlex
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from pyzk.server.testing.history import MOST_BYTES as KEPT

from .. import servers, tables, wire
from ..wire import BenchmarkError
from . import clients, control, operators, requests, rights  # noqa: F401 - they fill the table
from .bystander import Bystander
from .case import CASES, FOLDER, Case
from .scene import BATCH, FILES, NotHere, Scene

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "stalls-table.md"
RESULTS = ROOT / "benchmarks" / "results" / "stalls.json"
"""The figures that the page is made of, as ``--json`` writes them."""
LIMIT, TRANSACTION = 0.1, 0.5  # CPU seconds that the bystander may have to wait
MEMORY = 3 * 2**30  # bytes of address space that a server may have
_QUIET, _STEP = 0.2, 0.05  # the server is done when it consumes less than this share of a step in seconds
_PREPARATION = 4  # times the patience with an attack: of all that comes before it, and the attack
_MINUTES, _QUICK_MINUTES = 20.0, 3.0
_FIGURES = ("longest wait, ms", "CPU in it, ms", "CPU in all, s", "memory, MB", "verdict")
HEAD = ("case", "size", *_FIGURES)
SHOWN = ("case", "CPU, ms", "with history", "memory, MB", "verdict")
"""The columns of the page."""
LEAST = LIMIT / 2, 50e6
"""A row of the page has at least so much CPU time in seconds, or so many bytes of memory."""
Figures = dict[str, Any]
"""The fields of a :class:`Found`, with ``case``, ``history``, ``good`` and ``verdict``."""
_OLD = 10_000
"""Requests that a history holds when a case begins: with their replies as many entries as it keeps."""


@attrs.define
class Found:
    """What one attack has shown. ``elements``: the parts of the transaction, if it is one."""

    size: int
    wait: float
    stall: float
    cpu: float
    memory: float
    elements: int
    troubles: list[str]

    def verdict(self, case: Case) -> tuple[bool, str]:
        """Whether it is good, and in words."""
        if self.troubles:
            return False, "; ".join(self.troubles)
        each = (
            f"{tables.number(1e6 * self.stall / self.elements)} µs per element" if self.elements > 1 else ""
        )
        if self.stall <= LIMIT:
            return True, f"good{each and ', ' + each}"
        if case.transaction and self.stall <= TRANSACTION:
            return True, f"one transaction: {each}"
        return False, f"TOO LONG{' for one transaction' * case.transaction}{each and ': ' + each}"


# --- a case ----------------------------------------------------------------------------------------------


class Stage:
    """A server in the state that cases begin with, for as long as they can share it.

    :ivar history: whether the server records its history.
    """

    def __init__(self, command: Sequence[str], quick: bool, patience: float, history: bool = False) -> None:
        self._command = command
        self._quick = quick
        self._patience = patience
        self.history = history
        self._set_for: tuple[object, ...] = ()
        self._scene: Scene | None = None
        self._opened = contextlib.ExitStack()

    def scene(self, case: Case) -> Scene:
        """A server where this case can begin."""
        if self._scene is None or self._set_for != case.stage:
            self.clear()
            log = self._opened.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - it is one
            config = {**case.config, **(clients.tls_config() if case.tls else {})}
            folder = self._opened.enter_context(tempfile.TemporaryDirectory())
            arguments = [folder if argument is FOLDER else argument for argument in case.arguments]
            server = self._opened.enter_context(
                servers.ours([*self._command, *arguments], stderr=case.stderr or log, **config)
            )
            resource.prlimit(server.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            self._scene = Scene(server, log, self._patience, self._quick)
            self._opened.callback(self._scene.drop)
            if self.history:
                record(self._scene)
            self._set_for = case.stage
            if case.state is not None:
                case.state(self._scene)
        return self._scene

    def clear(self) -> None:
        """End the server."""
        self._scene = None
        self._opened.close()

    def run(self, case: Case) -> Found:
        """Prepare a case and carry it out. Raises :class:`.scene.NotHere`."""
        try:
            with limited(_PREPARATION * self._patience):
                found = measure(self.scene(case), case, KEPT if self.history else 0)
        except (OSError, BenchmarkError) as error:
            size = case.quick if self._quick else case.full
            found = Found(size, 0.0, 0.0, 0.0, 0.0, 0, [f"COULD NOT BE PREPARED: {error}"])
        if case.spoils or case.state is None or found.troubles:
            self.clear()
        return found


def record(scene: Scene) -> None:
    """Have a server record its history, and fill it: what comes later drives out something older."""
    host, port = scene.server.address
    with urllib.request.urlopen(f"http://{host}:{port}/api/v1/server") as answer:
        answer.read()
    client = scene.client()
    for _ in range(_OLD // BATCH):
        client.ask(*[wire.exists("/")] * BATCH)
    client.leave()


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeoutError` in the block when it has taken so long, whatever it waits for."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(scene: Scene, case: Case, kept: int) -> Found:
    """Carry out one attack.

    :param kept: bytes that the history may take, whatever the size.
    """
    size = case.quick if scene.quick else case.full
    server = scene.server
    scene.elements, scene.troubles = 0, []
    steps = case.run(scene, size)
    next(steps)
    with Bystander(server) as bystander:
        time.sleep(0.1)  # so that there is a usual wait
        server.forget_peak()
        memory, cpu, lines = server.memory(), server.cpu(), scene.tracebacks()
        try:
            for _ in steps:
                pass
            settle(scene)
        except TimeoutError:
            scene.trouble(f"NOT DONE in {scene.patience:g} s")
        except (OSError, BenchmarkError) as error:
            scene.trouble(f"{error}")
        assert server.process is not None
        gaps = bystander.end()
        if (status := server.process.poll()) is not None:
            scene.trouble(f"THE SERVER HAS ENDED with status {status}")
            return Found(size, gaps.worst, gaps.cpu, 0.0, 0.0, scene.elements, scene.troubles)
        if gaps.lost:
            scene.trouble(f"the bystander is lost: {gaps.lost}")
        if more := scene.tracebacks() - lines:
            scene.trouble(f"{more} tracebacks")
        grown = server.memory("VmHWM") - memory
        found = Found(size, gaps.worst, gaps.cpu, server.cpu() - cpu, grown, scene.elements, scene.troubles)
        if case.memory_each and grown > case.memory_each * size + kept:
            scene.trouble(f"{grown / size / 1000:,.1f} kB each")
        return found


def settle(scene: Scene) -> None:
    """Wait until the server has nothing left to do. Raises :class:`TimeoutError`."""
    deadline = time.monotonic() + scene.patience
    before = scene.server.cpu()
    while True:
        time.sleep(_STEP)
        now = scene.server.cpu()
        if now - before < _QUIET * _STEP:
            return
        if time.monotonic() > deadline:
            raise TimeoutError
        before = now


def middle(found: Sequence[Found]) -> Found:
    """The median of each figure, and every trouble."""
    figures = ("wait", "stall", "cpu", "memory")
    medians = {name: statistics.median(getattr(one, name) for one in found) for name in figures}
    troubles = list(dict.fromkeys(trouble for one in found for trouble in one.troubles))
    return attrs.evolve(found[0], **medians, troubles=troubles)


# --- tables ----------------------------------------------------------------------------------------------


def cells(case: Case, found: Found) -> list[str]:
    """The figures of a row."""
    ms = (f"{1000 * seconds:,.0f}" for seconds in (found.wait, found.stall))
    return [*ms, f"{found.cpu:.2f}", f"{found.memory / 1e6:,.0f}", found.verdict(case)[1]]


def page(machine: str, figures: Sequence[Figures]) -> str:
    """Return the page: the cases that cost something, and the number of all others."""
    sizes = {figure["case"]: figure["size"] for figure in figures}
    rows = []
    cases = {case.name: case for case in CASES}
    for case in (cases[name] for name in sizes if name in cases):  # in the order of the figures
        of_case = {figure["history"]: figure for figure in figures if figure["case"] == case.name}
        worst = max(of_case.values(), key=lambda figure: (not figure["good"], figure["stall"]))
        memory = max(figure["memory"] for figure in of_case.values())
        if not worst["good"] or worst["stall"] >= LEAST[0] or memory >= LEAST[1]:
            what = re.sub(r"\bN\b", f"{sizes[case.name]:,}", case.what)
            ms = [f"{1000 * of_case[key]['stall']:,.0f}" if key in of_case else "" for key in (False, True)]
            rows.append((what, *ms, f"{memory / 1e6:,.0f}", worst["verdict"]))
    return (
        "<!-- Written by `python -m benchmarks.stalls --write`; do not edit. -->\n\n"
        f"# How long others wait\n\n{machine}. [stalls.md](stalls.md#measure) explains the columns.\n\n"
        f"{tables.markdown(SHOWN, rows)}\n\nThe other {len(sizes) - len(rows)} cases stay below "
        f"{1000 * LEAST[0]:.0f} ms and {LEAST[1] / 1e6:.0f} MB. "
        "`python -m benchmarks.stalls --list` has all cases.\n"
    )


def merged(kept: Sequence[Figures], new: Sequence[Figures]) -> list[Figures]:
    """Return the kept figures, with the new ones in place of older ones of the same case."""
    return list({(figure["case"], figure["history"]): figure for figure in (*kept, *new)}.values())


def command_of(text: str) -> list[str]:
    """A server's command: a virtual environment's, or the one given."""
    python = Path(text) / "bin" / "python"
    return [str(python.absolute()), "-m", "pyzk.server"] if python.exists() else shlex.split(text)


def chosen(only: Sequence[str]) -> list[Case]:
    """The cases whose name has one of these parts, or matches it as a pattern. Those that begin alike come
    together, and what spoils their state last."""
    stages = list(dict.fromkeys(case.stage for case in CASES))
    return sorted(
        (
            case
            for case in CASES
            if not only or any(part in case.name or fnmatch.fnmatch(case.name, part) for part in only)
        ),
        key=lambda case: (stages.index(case.stage), case.spoils),
    )


def together(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Yield lists of cases that one server can serve one after the other: only one server is in a large state
    at a time."""

    def key(case: Case) -> object:
        return case.name if case.state is None else case.stage

    return (list(group) for _, group in itertools.groupby(cases, key))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stalls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a tenth of each size")
    add(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="cases with this in their name; repeatable",
    )
    add("--list", action="store_true", help="show the cases and end")
    add("--repeat", type=int, default=1, help="take medians of so many runs (default: 1)")
    add("--patience", type=float, metavar="SECONDS", help="of a case (default: 15; quick: 5)")
    add("--minutes", type=float, help="cases left after that are not measured (default: 20; with --quick 3)")
    add(
        "--history",
        choices=("both", "off", "on"),
        default="both",
        help="measure servers that record their whole history, servers as they start, or (default) both",
    )
    add("--compare", metavar="VENV_OR_COMMAND", help="another server, measured in turns with this one")
    add("--command", metavar="VENV_OR_COMMAND", help="another server instead of this one")
    add(
        "--write",
        action="store_true",
        help=f"write {PAGE.relative_to(ROOT)} and {RESULTS.relative_to(ROOT)}; with --only, these cases",
    )
    add("--json", type=Path, metavar="FILE", help="write the figures here too")
    arguments = parser.parse_args()
    cases = chosen(arguments.only)
    if arguments.list:
        print("\n".join(f"{case.name:24}{case.full:>12,}  {case.what}" for case in cases))
        return 0
    servers.raise_file_limit(FILES)
    machine = tables.machine_line(servers.machine())
    print(machine, flush=True)
    patience = arguments.patience or (5.0 if arguments.quick else 15.0)
    minutes = arguments.minutes or (_QUICK_MINUTES if arguments.quick else _MINUTES)
    deadline = time.monotonic() + 60 * minutes
    commands = {"": command_of(arguments.command) if arguments.command else servers.OURS}
    if arguments.compare:
        commands = {"A": commands[""], "B": command_of(arguments.compare)}
    if arguments.write and arguments.history != "both":
        parser.error("--write is for both: without the history and with it")
    words = {"off": ("",), "on": ("history",), "both": ("", "history")}[arguments.history]
    stages = {
        (name, word): Stage(command, arguments.quick, patience, history=bool(word))
        for name, command in commands.items()
        for word in words
    }
    figures: list[Figures] = []
    bad = 0
    lines = Lines(HEAD)
    for group in together(cases):
        for (name, word), stage in stages.items():
            for case in group:
                size, shown, reason = "", [""] * len(_FIGURES), ""
                if time.monotonic() > deadline:
                    reason = f"not measured: {minutes:g} minutes are over"
                    bad += 1
                else:
                    try:
                        found = middle([stage.run(case) for _ in range(arguments.repeat)])
                    except NotHere as error:
                        reason = f"not measured: {error}"
                label = f"{case.name} {name}".rstrip()
                if reason:
                    shown[-1] = reason
                else:
                    size, shown = f"{found.size:,}", cells(case, found)
                    good, verdict = found.verdict(case)
                    bad += not good
                    outcome = {"good": good, "verdict": verdict, "history": stage.history}
                    figures.append({"case": label, **attrs.asdict(found), **outcome})
                lines.say([f"{label} {word}".rstrip(), size, *shown])
            stage.clear()
    print(f"{bad} of {len(cases) * len(stages)} are not as they should be" if bad else "all as it should be")
    if arguments.write:
        what = "a tenth of the size" if arguments.quick else "full size"
        when = f"{time.strftime('%Y-%m-%d')}, load average {os.getloadavg()[2]:.0f}"
        kept = json.loads(RESULTS.read_text())["found"] if arguments.only else []
        written = {"about": f"{machine}; {what}; {when}", "found": merged(kept, figures)}
        RESULTS.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(page(written["about"], written["found"]))
        print(f"wrote {RESULTS.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    return int(bad > 0)


class Lines:
    """A table whose rows are shown as they come."""

    def __init__(self, head: Sequence[str]) -> None:
        self._widths = [max(34 if not column else 9, len(name)) for column, name in enumerate(head)]
        self.say(head)

    def say(self, row: Sequence[str]) -> None:
        first, *others, last = zip(row, self._widths, strict=True)
        middle = "  ".join(cell.rjust(width) for cell, width in others)
        print(f"{first[0].ljust(first[1])}  {middle}  {last[0]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
