"""A process that is stopped for longer than its lease makes no step once another could have its lock.

Each process is stopped with SIGSTOP while it holds a lock. The session expires, another client takes the
lock, and only then is the process let go on. A process that waited makes no step at all. One that was stopped
in the middle of its own work ends what it has begun, up to its next wait.

HYPOTHESIS_PROFILE=nightly stops each 50 times for each session timeout, on a pretend ensemble and on a real
one as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pyzk.blocking import Lock, connect
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from ..support import jvm
from ..support.needs import need
from ..support.real import Ensemble
from .stepping import PAUSE, WRAPPERS

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="it takes minutes: HYPOTHESIS_PROFILE=nightly")
PROCESSES = 10 if NIGHTLY else 1
ROUNDS = 5 if NIGHTLY else 2


def waits(pid: int, package: str) -> bool:
    """Whether the main thread of a stopped process was in a system call that waits. An event loop that waits
    for another thread (a futex) waits for the interpreter, in the middle of its work. One that polls with a
    timeout of 0 has tasks that are ready to run."""
    call, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
    if call in _POLLING[platform.machine()] and int(arguments[3], 16) == 0:
        return False
    return call in _WAITING[platform.machine()] or (package == "threads" and call in ("202", "98"))


_POLLING = {"x86_64": {"232", "281"}, "aarch64": {"22"}}  # epoll_wait, epoll_pwait
_WAITING = {  # epoll_wait, epoll_pwait, epoll_pwait2, nanosleep, clock_nanosleep
    "x86_64": {"232", "281", "441", "35", "230"},
    "aarch64": {"22", "441", "101", "115"},
}


def late_steps(package: str, hosts: str, timeout: float, number: int) -> list[tuple[bool, int]]:
    """Stop a process of its own in each of :data:`ROUNDS`.

    :returns: whether its main thread waited, and how many steps followed, for each round.
    """
    path = f"/stopped-{package}-{number}"
    command = [sys.executable, "-m", "tests.bridge.stepping", package, hosts, path, str(timeout), str(ROUNDS)]
    late = []
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process,
        connect(hosts, session_timeout=60) as zk,
    ):
        try:
            assert process.stdout is not None
            for _ in range(ROUNDS):
                assert json.loads(process.stdout.readline()) == "holding"
                time.sleep(random.uniform(2, 30) * PAUSE)
                process.send_signal(signal.SIGSTOP)
                try:
                    with Lock(zk, path):
                        waited = waits(process.pid, package)
                        went_on = time.monotonic()
                        process.send_signal(signal.SIGCONT)
                        steps = json.loads(process.stdout.readline())
                finally:
                    process.send_signal(signal.SIGCONT)
                late.append((waited, sum(step > went_on for step in steps)))
            assert process.wait() == 0
        finally:
            process.kill()
    return late


def check(package: str, hosts: str, timeout: float) -> None:
    with ThreadPoolExecutor(PROCESSES) as pool:
        rounds = pool.map(lambda number: late_steps(package, hosts, timeout, number), range(PROCESSES))
        late = [each for process in rounds for each in process]
    waiting = [steps for waited, steps in late if waited]
    running = [steps for waited, steps in late if not waited]
    print(f"{package}, {timeout} s: late steps of those that waited {waiting}, of others {running}")
    assert len(late) == PROCESSES * ROUNDS
    assert sum(waiting) == 0
    assert max(running, default=0) <= 1, "what had begun before the stop is one step at most"


@contextlib.contextmanager
def one_server() -> Iterator[str]:
    with EmbeddedServer(tick_time=100, min_session_timeout=500, max_session_timeout=60_000) as server:
        yield server.hosts


@contextlib.contextmanager
def pretended_ensemble() -> Iterator[str]:
    with EmbeddedEnsemble(3, tick_time=100, max_session_timeout=60_000) as ensemble:
        yield ensemble.hosts


@contextlib.contextmanager
def real_ensemble() -> Iterator[str]:
    need(jvm.missing())
    with Ensemble(3, tick=200, settings={"maxSessionTimeout": 60_000}) as ensemble:
        yield ensemble.hosts


PLACES = [
    one_server,
    pytest.param(pretended_ensemble, marks=nightly),
    pytest.param(real_ensemble, marks=nightly),
]


@pytest.mark.parametrize("timeout", [1, pytest.param(4, marks=nightly), pytest.param(10, marks=nightly)])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("package", WRAPPERS)
def test_no_step_behind_the_lease(
    package: str, place: Callable[[], AbstractContextManager[str]], timeout: int
) -> None:
    with place() as hosts:
        check(package, hosts, timeout)
