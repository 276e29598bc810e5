"""Tries mutants in a process of the copy: ``python -m tests.mutants.trying JOB``.

All tests are collected once. For each mutant this process forks. The child gives the function the changed
code and runs the tests. A change that takes effect at import, or one that a function cannot be given, needs
a process of its own: the module is written to the copy, and written back when the process has ended.

No mutant counts that was not really there: a function must have been replaced, or the module that the tests
have imported must be that of the copy, with the mark of the mutant in it.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings

from .changes import Mutant

MEMORY = 4 << 30
"""Bytes of address space that a mutant may take."""
_MARK = "_mutant_of_this_run"


@attrs.frozen
class Trial:
    """A mutant, and the tests that may notice it, in their order.

    :ivar limits: for each test, after how many seconds it counts as one that hangs.
    """

    mutant: Mutant
    tests: list[str]
    limits: list[float]


PYTEST = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
"""The warning: hypothesis is imported before pytest looks at it."""


def without_shrinking() -> None:
    """Let hypothesis try what it tries in each ordinary run, and stop at the first failure.

    The tests' conftest loads the profile, by its name in the environment.
    """
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    settings.register_profile(
        "mutants",
        deadline=None,
        max_examples=60,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


class NotReplacedError(Exception):
    """The function of the mutant is not in this process, or cannot be given this code."""


def replace(mutant: Mutant) -> None:
    """Give the functions of this process the code of the mutant, and those that they have returned."""
    assert mutant.function is not None
    gc.unfreeze()  # the tests' conftest has frozen what was there: the collector does not list that
    file, inner = os.path.realpath(mutant.path), f"{mutant.function}.<locals>."
    found = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and f"{each.__code__.co_qualname}.<locals>.".startswith(inner)
        and os.path.realpath(each.__code__.co_filename) == file
    ]
    name = found[0].__code__.co_filename if found else file
    made = {_place(code): code for code in _codes(compile(mutant.tree, name, "exec"), inner)}
    if not found:
        raise NotReplacedError
    for function in found:
        try:
            function.__code__ = made[_place(function.__code__)]
        except (KeyError, ValueError) as exc:  # another function of that name, or other free variables
            raise NotReplacedError from exc


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType, inner: str) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if f"{each.co_qualname}.<locals>.".startswith(inner):
                yield each
            yield from _codes(each, inner)


class Tries:
    """A plugin of pytest that tries mutants in the place of running tests.

    :ivar noticed: for each trial the test that noticed it, None if none did; a trial that needs a process of
        its own is missing.
    :ivar has_begun: the tests were collected.
    """

    def __init__(self, trials: list[Trial], *, replaced: bool) -> None:
        self._trials = trials
        self._replaced = replaced
        self.noticed: dict[int, str | None] = {}
        self.has_begun = False
        self._reports = -1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.has_begun = True
        items = {item.nodeid: item for item in session.items}
        for number, trial in enumerate(self._trials):
            try:
                importlib.import_module(_module(trial.mutant.path))
            except Exception:  # the mutant breaks it
                self.noticed[number] = "the import"
                continue
            reading, writing = os.pipe()
            if not (pid := os.fork()):
                self._reports = writing
                self._try(trial, items)
            os.close(writing)
            outcome = _follow(pid, reading, trial)
            if outcome == _ABSENT:
                raise RuntimeError(f"the tests have not imported {trial.mutant.name}")
            if outcome != _ELSEWHERE:
                self.noticed[number] = outcome or None
        return True

    def _try(self, trial: Trial, items: dict[str, pytest.Item]) -> None:
        """In the child: ends it."""
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for n in (0, 1, 2):
            os.dup2(nothing, n)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            if self._replaced:
                replace(trial.mutant)
            elif not _imported(trial.mutant):
                self._tell(f"! {_ABSENT}")
                os._exit(1)
        except NotReplacedError:
            self._tell(f"! {_ELSEWHERE}")
            os._exit(1)
        except BaseException:  # a child that ends without a word would count as one that has noticed
            self._tell(f"! {_ABSENT}")
            os._exit(1)
        chosen = [items[test] for test in trial.tests if test in items]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            self._tell(f"{item.nodeid}")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        self._tell("! ")
        os._exit(0)

    def _tell(self, line: str) -> None:
        os.write(self._reports, f"{line}\n".encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell(f"! {report.nodeid}")
            os._exit(1)


def _module(path: Path) -> str:
    """The name by which tests import a source. A function may be the only one who imports it: then no test
    has done so yet."""
    parts = path.with_suffix("").parts
    return ".".join(("pyzk", *(parts[:-1] if parts[-1] == "__init__" else parts)))


_ELSEWHERE = "in a process of its own"
_ABSENT = "not there"
_FIRST = 120.0
"""Seconds until a child has begun its first test."""


def _imported(mutant: Mutant) -> bool:
    """Whether it is the changed module that the tests have imported."""
    file = (Path.cwd() / mutant.path).resolve()
    modules = [
        m for m in sys.modules.values() if (f := getattr(m, "__file__", None)) and Path(f).resolve() == file
    ]
    return any(hasattr(module, _MARK) for module in modules)


def _follow(pid: int, reading: int, trial: Trial) -> str:
    """What noticed the mutant; "" if nothing. Ends the child and what it started."""
    limits = dict(zip(trial.tests, trial.limits, strict=True))
    test, until, text = "its first test", time.monotonic() + _FIRST, b""
    outcome = None
    while outcome is None:
        if not select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
            outcome = f"{test} (did not end)"
        elif not (chunk := os.read(reading, 65536)):
            outcome = f"{test} (the process ended)"
        else:
            *lines, text = (text + chunk).split(b"\n")
            for line in map(bytes.decode, lines):
                if line.startswith("! "):
                    outcome = line[2:]
                    break
                test, until = line, time.monotonic() + limits[line]
    os.close(reading)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return outcome


def run(trials: list[Trial], *, replaced: bool) -> dict[int, str | None]:
    """Try them in this process."""
    without_shrinking()
    tries = Tries(trials, replaced=replaced)
    files = sorted({test.partition("::")[0] for trial in trials for test in trial.tests})
    if files:
        status = pytest.main([*PYTEST, *files], plugins=[tries])
        if status and not replaced and not tries.has_begun:  # not even collected
            return dict.fromkeys(range(len(trials)), "the import")
        if len(tries.noticed) < len(trials) and not replaced:
            raise RuntimeError(f"a mutant was not tried: pytest ended with {status}")
    return tries.noticed


def run_apart(trial: Trial) -> str | None:
    """Try one that takes effect at import."""
    file = Path.cwd() / trial.mutant.path
    before = file.read_text()
    try:
        file.write_text(f"{ast.unparse(trial.mutant.tree)}\n{_MARK} = True\n")
        os.utime(file, (next(_times),) * 2)  # else what was compiled before could be taken for it
        return _command([trial], replaced=False)[0]
    finally:
        file.write_text(before)
        os.utime(file, (next(_times),) * 2)


_times = iter(range(int(time.time()), 1 << 40))


def _command(trials: list[Trial], *, replaced: bool) -> dict[int, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        job, answer = Path(folder, "job"), Path(folder, "answer")
        job.write_bytes(pickle.dumps((trials, replaced)))
        output = Path(folder, "output")
        with output.open("w") as out:
            argv = [sys.executable, "-m", "tests.mutants.trying", str(job), str(answer)]
            status = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
        if not answer.exists():
            raise RuntimeError(f"status {status}: {output.read_text()[-3000:]}")
        return {int(n): test for n, test in json.loads(answer.read_text()).items()}


def try_all(trials: list[Trial]) -> Iterator[tuple[int, str | None]]:
    """The number of each trial, and the test that noticed; None for a survivor."""
    here = [n for n, trial in enumerate(trials) if trial.tests and trial.mutant.function]
    done = _command([trials[n] for n in here], replaced=True)
    known = {n: done[k] for k, n in enumerate(here) if k in done}
    for n, trial in enumerate(trials):
        yield n, known[n] if n in known else run_apart(trial) if trial.tests else None


if __name__ == "__main__":
    pickled, to = map(Path, sys.argv[1:])
    given, in_place = pickle.loads(pickled.read_bytes())
    to.write_text(json.dumps(run(given, replaced=in_place)))
