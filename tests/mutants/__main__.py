"""``python -m tests.mutants ROOM``: see the head of the package."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .changes import Mutant, sample
from .measuring import Measured
from .rooms import ROOMS, ROOT, Room
from .trying import Trial, try_all

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")


def trial_of(mutant: Mutant, measured: Measured, budget: float) -> Trial:
    """The tests that may notice, as many as fit into the budget.

    These are the tests that execute the line. For a line that the import executes there come behind them
    those that execute the function or the class around it, then those of its module; if nothing in the module
    is ever called, all tests. Of each kind the quickest come first.
    """
    tests = itself = measured.of(mutant.path, mutant.lines)
    around: set[str] = set()
    if "" in tests or (not tests and mutant.function is None):
        around = measured.of(mutant.path, mutant.scope)
        tests = tests | around | measured.of(mutant.path, range(1, 1 << 20))
        mutant = mutant.at_import()
        if tests == {""}:  # any test that imports it may notice
            tests = set(measured.seconds)
    chosen, limits, total = [], [], 0.0
    for test in sorted(
        tests - {""},
        key=lambda test: (test not in itself, test not in around, measured.seconds[test], test),
    ):
        seconds = measured.seconds[test]
        if (total := total + seconds) > budget:
            break
        chosen.append(test)
        limits.append(15 + 15 * seconds)
    return Trial(mutant, chosen, limits)


def mutate(
    room: Room, number: int, seed: int, *, only: list[int], budget: float, measured: Path | None
) -> int:
    """Print what happened to each mutant; return how many survived. Runs in the copy."""
    files = room.files()
    mutants = sample(Path.cwd(), files, number, seed)
    if measured is None:
        measured = Path.cwd() / "build" / "measured.json"
    if not measured.exists():
        measured.parent.mkdir(parents=True, exist_ok=True)
        argv = [
            sys.executable,
            "-m",
            "tests.mutants.measuring",
            str(measured),
            *map(str, files),
            "--",
            *room.arguments(),
        ]
        subprocess.run(argv, check=True)
    lines = Measured.read(measured)
    numbers = only or list(range(len(mutants)))
    trials = [trial_of(mutants[n], lines, budget) for n in numbers]
    survived = 0
    for k, test in try_all(trials):
        trial = trials[k]
        survived += test is None
        what = f"noticed by {test}" if test else f"SURVIVED {len(trial.tests)} tests"
        print(f"{numbers[k]:4} {trial.mutant.name}: {what}", flush=True)
    print(f"{len(trials) - survived} of {len(trials)} noticed, seed {seed}")
    return survived


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", type=int, nargs="*", default=[], help="the numbers of the mutants to try again"
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests for a mutant")
    parser.add_argument(
        "--measured", type=Path, help="a file that keeps, or has kept, which test executes what"
    )
    parser.add_argument("--in-copy", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_copy:
        mutate(
            ROOMS[options.room],
            options.number,
            options.seed,
            only=options.only,
            budget=options.budget,
            measured=options.measured,
        )
        return
    if options.measured:
        options.measured = options.measured.absolute()
    # A shell starts what runs in the background deaf to SIGINT, and tests send it to themselves.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        again = [*sys.argv[1:], "--in-copy"]
        if options.measured:
            again += ["--measured", str(options.measured)]
        raise SystemExit(in_copy(ROOT, Path(folder), ["-m", "tests.mutants", *again]))


def in_copy(root: Path, folder: Path, arguments: list[str]) -> int:
    """Run Python in a copy of the project, where ``pyzk`` is that of the copy, for its processes too."""
    copied = folder / "copy"
    shutil.copytree(root, copied, ignore=_LEFT_OUT, symlinks=True)
    environment = {**os.environ, "PYTHONPATH": str(copied)}
    return subprocess.run([sys.executable, *arguments], cwd=copied, env=environment, check=False).returncode


if __name__ == "__main__":
    main()
