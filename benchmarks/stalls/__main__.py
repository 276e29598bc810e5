"""What one client, or one operator, can do to the others: how long does a bystander wait?

    python -m benchmarks.stalls                       # ten minutes at most
    python -m benchmarks.stalls --quick               # a tenth of each size: a minute and a half at most
    python -m benchmarks.stalls --only multi --repeat 3
    python -m benchmarks.stalls --history             # while the server records its history
    python -m benchmarks.stalls --compare ../other/.venv    # A: this one; B: that one, in turns

A server is started, brought into some state, and then attacked, while a bystander asks it for one small
znode every few ms. Shown are the longest wait of the bystander beyond the usual one; the most CPU time
that the server consumed between a request of the bystander and its answer, which does not depend on what
else the machine does, and is what is judged; the CPU time of the whole attack; and how much memory it
took at its peak.

No wait may be longer than 100 ms of CPU time, but for what must be one transaction: 0.5 s, and then the
table has the time per element. The exit status is 1 if any case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
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

import attrs

from .. import servers, tables
from ..wire import BenchmarkError
from . import clients, operators, requests, rights  # noqa: F401 - they fill the table
from .bystander import Bystander
from .case import CASES, Case
from .scene import FILES, NotHere, Scene

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "stalls-table.md"
LIMIT, TRANSACTION = 0.1, 0.5  # CPU seconds that the bystander may have to wait
MEMORY = 3 * 2**30  # bytes of address space that a server may have
_QUIET, _STEP = 0.2, 0.05  # the server is done when it consumes less than this share of a step in seconds
_PREPARATION = 4  # times the patience with an attack: of all that comes before it, and the attack
_MINUTES, _QUICK_MINUTES = 10.0, 1.5
HEAD = ("case", "size", "longest wait, ms", "CPU in it, ms", "CPU in all, s", "memory, MB", "verdict")


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
    """A server in the state that cases begin with, for as long as they can share it."""

    def __init__(self, command: Sequence[str], quick: bool, patience: float, history: bool = False) -> None:
        self._command = command
        self._quick = quick
        self._patience = patience
        self._history = history
        self._set_for: tuple[object, ...] = ()
        self._scene: Scene | None = None
        self._opened = contextlib.ExitStack()

    def scene(self, case: Case) -> Scene:
        """A server where this case can begin."""
        if self._scene is None or self._set_for != case.stage:
            self.clear()
            log = self._opened.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - it is one
            config = {**case.config, **(clients.tls_config() if case.tls else {})}
            server = self._opened.enter_context(
                servers.ours(self._command, stderr=case.stderr or log, **config)
            )
            resource.prlimit(server.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
            self._scene = Scene(server, log, self._patience, self._quick)
            self._opened.callback(self._scene.drop)
            if self._history:
                host, port = server.address
                with urllib.request.urlopen(f"http://{host}:{port}/api/v1/server") as answer:
                    answer.read()
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
                found = measure(self.scene(case), case)
        except (OSError, BenchmarkError) as error:
            size = case.quick if self._quick else case.full
            found = Found(size, 0.0, 0.0, 0.0, 0.0, 0, [f"COULD NOT BE PREPARED: {error}"])
        if case.spoils or case.state is None or found.troubles:
            self.clear()
        return found


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


def measure(scene: Scene, case: Case) -> Found:
    """Carry out one attack."""
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
        if case.memory_each and grown > case.memory_each * size:
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
    ms = (f"{1000 * seconds:,.0f}" for seconds in (found.wait, found.stall))
    verdict = found.verdict(case)[1]
    return [case.name, f"{found.size:,}", *ms, f"{found.cpu:.2f}", f"{found.memory / 1e6:,.0f}", verdict]


def page(machine: str, rows: Iterable[Sequence[str]], quick: bool) -> str:
    what = "a tenth of the size" if quick else "full size"
    explained = "\n".join(f"- **{case.name}**: {case.what}" for case in CASES)
    return (
        "<!-- Written by `python -m benchmarks.stalls --write`; do not edit. -->\n\n"
        f"# How long others wait\n\n{machine}; {what}. [stalls.md](stalls.md) says what the columns mean.\n\n"
        f"{tables.markdown(HEAD, rows)}\n\n## The cases\n\n{explained}\n"
    )


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
    add(
        "--minutes", type=float, help="cases left after that are not measured (default: 10; with --quick 1.5)"
    )
    add("--history", action="store_true", help="the server records its history")
    add("--compare", metavar="VENV_OR_COMMAND", help="another server, measured in turns with this one")
    add("--command", metavar="VENV_OR_COMMAND", help="another server instead of this one")
    add("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
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
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    bad = 0
    lines = Lines(HEAD)
    stages = {
        name: Stage(command, arguments.quick, patience, arguments.history)
        for name, command in commands.items()
    }
    for case in cases:
        if time.monotonic() > deadline:
            lines.say([case.name, "", "", "", "", "", f"not measured: {minutes:g} minutes are over"])
            bad += 1
            continue
        for name, stage in stages.items():
            try:
                runs = [stage.run(case) for _ in range(arguments.repeat)]
            except NotHere as error:
                lines.say([case.name, "", "", "", "", "", f"not measured: {error}"])
                break
            found = middle(runs)
            row = cells(case, found)
            row[0] = f"{case.name} {name}".rstrip()
            rows.append(row)
            lines.say(row)
            good, verdict = found.verdict(case)
            bad += not good
            figures.append({"case": row[0], **attrs.asdict(found), "good": good, "verdict": verdict})
    for stage in stages.values():
        stage.clear()
    print(f"{bad} of {len(cases) * len(stages)} are not as they should be" if bad else "all as it should be")
    if arguments.write:
        PAGE.write_text(page(machine, rows, arguments.quick))
        print(f"wrote {PAGE.relative_to(ROOT)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    return int(bad > 0)


class Lines:
    """A table whose rows are shown as they come."""

    def __init__(self, head: Sequence[str]) -> None:
        self._widths = [max(26 if not column else 9, len(name)) for column, name in enumerate(head)]
        self.say(head)

    def say(self, row: Sequence[str]) -> None:
        first, *others, last = zip(row, self._widths, strict=True)
        middle = "  ".join(cell.rjust(width) for cell, width in others)
        print(f"{first[0].ljust(first[1])}  {middle}  {last[0]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
