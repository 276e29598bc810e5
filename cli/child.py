"""Runs a command as a child process, and ends all processes that the command has started.

The rules:

* On Linux the processes of a command are all its descendants, also daemons. This process is their
  *subreaper*: if the parent of a descendant ends, the descendant becomes a child of this process. All
  processes of the command have ended when this process has no children.
* On other POSIX systems the processes of a command are the processes of its process group. If the command
  runs at a terminal on such a system, only the command itself counts, not its child processes.
* No command is run on Windows, because Windows has neither process groups nor SIGTERM.
* Processes that were children of this process before the command started get no signal.
* To end the processes, this process sends SIGTERM, and after a time SIGKILL.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from .status import Failure, Status

_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
]
_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""The numbers of two options of prctl(2)."""
_libc: Any = ctypes.CDLL(None) if _LINUX else None

_POLL_INTERVAL = 0.05
"""Seconds between two checks for remaining processes. The checks are needed because SIGCHLD announces only
the end of this process's own children."""


class Child:
    """A command that runs.

    Without a terminal the command has its own process group. At a terminal the command stays in the process
    group of this process. So the command can read from the terminal, and the terminal can stop and interrupt
    the command.

    :ivar ended: set when the command itself has ended, and its status is known. Other processes of the
        command may still run.
    :raises OSError: the command cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.ended = trio.Event()
        self._left = True
        self._own_group = not _has_terminal()
        self._others: set[int] = set()  # children that are not of the command
        prepare = None
        if _LINUX:
            # A shell that replaces itself by this process (exec) leaves its children: exec > >(logger).
            self._others = _descendants({os.getpid()})
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            prepare = ends_with_us()
        self._process = subprocess.Popen(
            command, env=environment, process_group=0 if self._own_group else None, preexec_fn=prepare
        )

    @property
    def status(self) -> int:
        """The exit status of the command; after a signal, 128 + the number of the signal."""
        code = self._process.returncode
        return code if code >= 0 else Status.SIGNAL - code

    @property
    def _target(self) -> int:
        """The process group of the command, or the process of the command, as an argument of kill(2)."""
        return -self._process.pid if self._own_group else self._process.pid

    def signal(self, number: int) -> None:
        """Pass a signal on. A signal of the terminal has already reached the command."""
        if self.ended.is_set() or (not self._own_group and number in (signal.SIGINT, signal.SIGQUIT)):
            return
        _kill(self._target, number)

    def reap(self) -> None:
        """Collect the processes that have ended. The caller must call this method at each SIGCHLD."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._process.pid:
                    self._process.returncode = os.waitstatus_to_exitcode(found[1])
                    self.ended.set()
        except ChildProcessError:
            self._left = not _LINUX and _kill(self._target, 0)

    async def end(self, grace: float) -> None:
        """End all remaining processes: by SIGTERM, and after ``grace`` seconds by SIGKILL."""
        kill_at = trio.current_time() + grace
        asked: set[int] = set()
        self.reap()
        while self._left:
            processes = self._processes()
            if self._others and not processes:
                return
            left = kill_at - trio.current_time()
            if left <= 0:
                _kill_all(processes, signal.SIGKILL)
            elif not processes & asked:  # a process that was asked may start others to clean up
                asked |= processes
                _kill_all(processes, signal.SIGTERM)
                _kill_all(processes, signal.SIGCONT)  # a stopped process would not get SIGTERM
            await trio.sleep(min(left, _POLL_INTERVAL) if left > 0 else _POLL_INTERVAL)
            self.reap()

    def _processes(self) -> set[int]:
        """The remaining processes, as arguments of kill(2)."""
        if _LINUX:
            return _descendants({os.getpid()}) - self._others - _descendants(self._others)
        return {self._target}


def heeded() -> list[int]:
    """The signals that are passed on to the command. A signal that is ignored, as under nohup, stays
    ignored."""
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def runnable(command: str) -> Iterator[None]:
    """Turn an OSError into a failure which says that the command cannot be run.

    :raises Failure: the command cannot be run; the exit status is the status that shells use.
    """
    try:
        yield
    except OSError as error:
        status = Status.NOT_FOUND if isinstance(error, FileNotFoundError) else Status.NOT_EXECUTABLE
        raise Failure(status, f"{command}: {error.strerror}") from None


def ends_with_us() -> Callable[[], None] | None:
    """Return the function that a new process runs first; None if there is no such function. The function
    makes the new process end when this process is killed."""
    return partial(_end_with, os.getpid()) if _LINUX else None


def find(command: str) -> None:
    """Check that a command can be run, before a long wait for the lock.

    :raises Failure: no command can be run on this platform.
    :raises OSError: there is no such command.
    """
    if not hasattr(signal, "SIGCHLD"):
        raise Failure(
            Status.USAGE,
            f"{sys.platform} lacks the signals that end a command and all its processes; hold the lock in "
            "Python instead: pyzk.blocking",
        )
    if shutil.which(command) is None:
        code = errno.EACCES if "/" in command and os.path.exists(command) else errno.ENOENT
        raise OSError(code, os.strerror(code))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _end_with(parent: int) -> None:
    """Let the kernel kill the calling new process when its parent process is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(Status.SIGNAL + signal.SIGKILL)


def _kill(target: int, number: int) -> bool:
    """Send a signal. Returns False if the process does not exist."""
    try:
        os.kill(target, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _kill_all(targets: set[int], number: int) -> None:
    for target in targets:
        _kill(target, number)


def _descendants(ancestors: set[int]) -> set[int]:
    """Return all descendants of some processes: the children, the children of the children, and so on."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_bytes().rpartition(b")")[2].split()[1])
    known = found = ancestors
    while found:
        found = {process for process, parent in parents.items() if parent in found} - known
        known = known | found
    return known - ancestors
