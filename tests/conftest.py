"""How much hypothesis tries: HYPOTHESIS_PROFILE=nightly tries far more, and something else each time. Which
long tests run. What makes the suite quicker. The rules that every test with an ensemble is held against.

``tests/long.txt`` names the test functions that cost most: a third of the tests, nine tenths of the
processor's time. ``--long`` says which of their cases run:

* ``sample`` (the default): an eleventh of them. The hash of the commit chooses: the next commit has others.
* ``whole``: all. What the command line names runs whole: a folder, a file, a test.
* ``rest``: those that are not in the sample, and no other test. ``.ci/run`` runs ``sample``, then ``rest``.

All tests in the folders of ``WITH_A_START`` (tests/support/costs.py) are long.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from benchmarks.compiled import keep_compiled

from .support.costs import WITH_A_START, function_of
from .support.ensemble_rules.recording import checked

TESTS = Path(__file__).parent
LONG = frozenset((TESTS / "long.txt").read_text().split())
"""The functions whose cases cost a quarter of a second of processor time, or take two seconds, in all."""
_LONG_FILES = frozenset(name.partition("::")[0] for name in LONG)

PARTS = 11
"""The hash puts each case into one of this number of parts. A power of two would give all commits the same
parts."""
CHOSEN = {"sample": range(1), "rest": range(1, PARTS), "whole": range(PARTS)}
"""The parts that ``--long`` chooses."""

_SLOW_MACHINE = [HealthCheck.too_slow]

# The same examples in every run, so that a change is judged by what it changed.
settings.register_profile(
    "ci", deadline=None, max_examples=60, derandomize=True, suppress_health_check=_SLOW_MACHINE
)
settings.register_profile(
    "nightly", deadline=None, max_examples=3000, print_blob=True, suppress_health_check=_SLOW_MACHINE
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

keep_compiled()  # hundreds of processes are started

LONG_FIRST = (
    "ensemble/test_lease.py",
    "ensemble/test_everywhere.py",
    "ensemble/recipes",
    "ensemble/test_recipes_leader_kills.py",
    "ensemble/test_leader_kills.py",
    "ensemble/test_lock_leader_kills.py",
    "conformance",
    "server/sweep",
    "server/page",
    "ensemble/compared",
    "attacks",
    "recipes/beside",
    "server/control/test_languages.py",
    "release",
    "cli",
    "benchmarks",
    "bridge",
    "ensemble",
    "recipes/locks",
    "recipes",
)
"""How the paths of the files begin that take long, the longest first, and between those that wait most of the
time those that compute. A worker that comes to one of them in the end would still be at work while the others
have nothing left to do."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto`` is two more than there are cores: whoever waits for a real server's timeout needs none."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files that share a real server or a browser go to one worker: see tests/support/sharing.py."""
    if config.getvalue("dist") != "loadfile":
        return None
    from .support.sharing import SharedScheduling

    return SharedScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", choices=sorted(CHOSEN), help="which cases of tests/long.txt run")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has started this in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.loadscopereorder = False  # xdist takes the files with the most tests first otherwise
    config.addinivalue_line("markers", "long: one of tests/long.txt: see tests/conftest.py")
    if config.option.long is None:
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        nightly = settings.get_current_profile_name() == "nightly"
        config.option.long = "whole" if named or nightly else "sample"
    os.environ.setdefault("TESTED_COMMIT", _commit())  # for the workers, too
    gc.disable()  # until all tests are collected


def _commit() -> str:
    """The commit that is tried, or nothing where there is no repository or no git."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["all_files"] = node.config.args_source is not pytest.Config.ArgsSource.ARGS


def pytest_sessionstart(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", {})
    if worker.get("all_files"):
        from .support.sharing import import_a_part

        import_a_part(
            [path for path in TESTS.rglob("test_*.py") if not _left_out(path, session.config)], worker
        )


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.long == "whole":
        return "long tests: all cases"
    commit = os.environ["TESTED_COMMIT"][:7] or "no commit"
    return f"long tests: {config.option.long} of their cases, by {commit}; all with --long whole"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return _left_out(collection_path, config) or None


def _left_out(path: Path, config: pytest.Config) -> bool:
    """Files without a long test need not be read for the rest."""
    if config.option.long != "rest" or not path.name.startswith("test_") or path.is_dir():
        return False
    file = path.relative_to(TESTS).as_posix()
    return not (file in _LONG_FILES or file.startswith(WITH_A_START))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        name = function_of(item.nodeid)
        long = name in LONG or name.startswith(WITH_A_START)
        if long:
            item.add_marker("long")
        (chosen if runs(item.nodeid, config.option.long, long=long) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = sorted(chosen, key=lambda item: _rank(item.path.relative_to(TESTS).as_posix()))


def pytest_collection_finish() -> None:
    """Keep the 14,000 tests themselves out of each garbage collection: a seventh of the processor's time.
    What is garbage already stays: to look for it costs half a second in each worker."""
    gc.freeze()
    gc.enable()


def runs(nodeid: str, which: str, *, long: bool) -> bool:
    """Whether a case runs; ``which`` is the value of ``--long``."""
    if not long:
        return which in ("sample", "whole")
    return crc32(f"{os.environ['TESTED_COMMIT']} {nodeid}".encode()) % PARTS in CHOSEN[which]


def _rank(path: str) -> int:
    return next((n for n, start in enumerate(LONG_FIRST) if path.startswith(start)), len(LONG_FIRST))


@pytest.fixture(autouse=True)
def rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """No pretend ensemble breaks the rules of ensemble.md section 15.2, but where a test says why."""
    if request.node.get_closest_marker("breaks_rules"):
        yield
    else:
        with checked():
            yield


@pytest.fixture(autouse=True)
def a_plain_pytest_inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that runs pytest sees the same everywhere. pytest-asyncio wants a setting of each suite, or
    warns. Where CI or BUILD_NUMBER is set, pytest prints whole messages in its summary."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:asyncio")
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.delenv("BUILD_NUMBER", raising=False)
