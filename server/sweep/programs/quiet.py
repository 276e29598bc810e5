"""Finds out when all programs of a run wait for the server.

The rules:

1. Where there is ``/proc``, a thread waits if the kernel says that the thread sleeps. The sweep checks all
   threads of the programs twice. At both checks all threads must sleep. The programs count as waiting only if
   no thread has run and no message has arrived between the checks.
2. On other systems, the programs wait if no message has arrived for 20 ms. This is a guess, and the last line
   of the sweep says so.
3. A program that sleeps for a chosen time also counts as waiting. The sweep cannot find out when this program
   continues.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import trio
import trio.testing

_BETWEEN: Final = 0.0003  # seconds between the two checks of rule 1
_AGAIN: Final = 0.001  # seconds until the next check of programs that run
_GUESS: Final = 0.02
"""The seconds without a message after which programs count as waiting (rule 2)."""
_ASLEEP: Final = frozenset((b"S", b"Z", b"X", b"I"))
"""The states of threads that wait or have ended. A thread in state D (disk) continues by itself."""


class Quiet(Protocol):
    """Waits until all programs wait.

    :ivar words: the sign that all programs wait, in words.
    """

    words: str

    async def settle(self, arrived: Callable[[], Hashable]) -> None:
        """Wait until all programs wait for the server.

        :param arrived: a function whose result changes with each message that comes to the server.
        """


class ByProc:
    """Waits by rule 1.

    :param leaders: a function that returns the ids of the processes that began the sessions (setsid) of the
        programs. The function returns None while a program is starting.
    """

    words = "the threads of all programs sleep (/proc)"

    def __init__(self, leaders: Callable[[], Iterable[int] | None]) -> None:
        self._leaders = leaders
        self._known: set[int] = set()
        self._processes: dict[int, bool] = {}  # by id: whether the process belongs to the programs
        self._threads: dict[tuple[int, str], _Thread] = {}

    async def settle(self, arrived: Callable[[], Hashable]) -> None:
        while True:
            await trio.testing.wait_all_tasks_blocked()
            before = arrived(), self._look()
            if before[1] is None:
                await trio.sleep(_AGAIN)
                continue
            time.sleep(
                _BETWEEN
            )  # it blocks this thread, so the server handles nothing between the two checks
            if self._look() == before[1]:
                await trio.testing.wait_all_tasks_blocked()
                if arrived() == before[0]:
                    return

    def _look(self) -> dict[tuple[int, str], bytes] | None:
        """Return how often each thread has run; None if a thread runs now."""
        found: dict[tuple[int, str], bytes] = {}
        leaders = self._leaders()
        if leaders is None:
            return None
        for process in self._find_processes(set(leaders)):
            try:
                names = os.listdir(f"/proc/{process}/task")
            except OSError:
                continue  # the process has ended
            for name in names:
                counted = self._thread(process, name)
                if counted is None:
                    return None
                found[process, name] = counted
        for gone in self._threads.keys() - found.keys():
            self._threads.pop(gone).close()
        return found

    def _thread(self, process: int, name: str) -> bytes | None:
        key = process, name
        try:
            thread = self._threads.get(key)
            if thread is None:
                thread = self._threads[key] = _Thread(f"/proc/{process}/task/{name}")
            return thread.look()
        except OSError:
            return b"ended"

    def _find_processes(self, leaders: set[int]) -> list[int]:
        """List the processes of the programs. The session (setsid) of a process shows to which program the
        process belongs."""
        if leaders != self._known:  # a known process may have begun its session after the last check
            self._known = leaders
            self._processes.clear()
        there = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        for process in self._processes.keys() - there:
            del self._processes[process]
        for process in there - self._processes.keys():
            with suppress(OSError):
                self._processes[process] = os.getsid(process) in leaders
        return [process for process, is_ours in self._processes.items() if is_ours]

    def close(self) -> None:
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()
        self._processes.clear()


class _Thread:
    """The two open files from which the state of one thread is read. The files stay open, because opening a
    file takes longer than reading it."""

    def __init__(self, folder: str) -> None:
        self._state = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._ran = os.open(f"{folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._state)
            raise

    def look(self) -> bytes | None:
        """Return how often and for how long the thread has run; None if the thread runs now."""
        state = os.pread(self._state, 512, 0).rpartition(b") ")[2][:1]
        return os.pread(self._ran, 64, 0) if state in _ASLEEP else None

    def close(self) -> None:
        os.close(self._state)
        os.close(self._ran)


class ByTime:
    """Waits by rule 2."""

    words = f"no message arrives for {_GUESS * 1000:.0f} ms (this platform does not show which threads sleep)"

    async def settle(self, arrived: Callable[[], Hashable]) -> None:
        before = None
        while before != (now := arrived()):
            before = now
            await trio.sleep(_GUESS)
            await trio.testing.wait_all_tasks_blocked()

    def close(self) -> None:
        pass


def detector(leaders: Callable[[], Iterable[int] | None]) -> ByProc | ByTime:
    """Return the best detector for this platform."""
    return ByProc(leaders) if sys.platform == "linux" and _tells_of_threads() else ByTime()


def _tells_of_threads() -> bool:
    return Path("/proc/self/task").is_dir() and Path("/proc/self/schedstat").exists()
