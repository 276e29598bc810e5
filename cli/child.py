"""The command, and the processes that come of it.

On Linux that is everything it has started, wherever it went: a process whose parent has ended becomes a child
of ours, so it is over when we have no children any more. Elsewhere it is the process group.
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

import trio

from .status import Failure, Status

_SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)

_LOOK_AGAIN = 0.05
"""Seconds. Not every process is a child of ours that announces its end."""


class Child:
    """A command that runs.

    It has a process group of its own, unless there is a terminal: then it stays in ours, so that the terminal
    reads from it, stops it and interrupts it as if we were not there.

    :ivar ended: set when the command has ended; its status is then known. Others may be left.

    Raises OSError if it cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.ended = trio.Event()
        self._left = True
        self._own_group = not _has_terminal()
        self._strangers: set[int] = set()
        prepare = None
        if _LINUX:
            # A shell that has called us by exec leaves us its children, as in: exec > >(logger).
            self._strangers = _descendants({os.getpid()})
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            prepare = ends_with_us()
        self._process = subprocess.Popen(
            command, env=environment, process_group=0 if self._own_group else None, preexec_fn=prepare
        )

    @property
    def status(self) -> int:
        """Its exit status, as a shell has it."""
        code = self._process.returncode
        return code if code >= 0 else Status.SIGNAL - code

    @property
    def _target(self) -> int:
        """The group, or the process, in the way of kill(2)."""
        return -self._process.pid if self._own_group else self._process.pid

    def signal(self, number: int) -> None:
        """Pass a signal on. What a terminal sends, it has sent to the command as well."""
        if self.ended.is_set() or (not self._own_group and number in (signal.SIGINT, signal.SIGQUIT)):
            return
        _kill(self._target, number)

    def reap(self) -> None:
        """Notice who has ended; to be called at SIGCHLD."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._process.pid:
                    self._process.returncode = os.waitstatus_to_exitcode(found[1])
                    self.ended.set()
        except ChildProcessError:
            self._left = not _LINUX and _kill(self._target, 0)

    async def end(self, grace: float) -> None:
        """End what is left of it: by SIGTERM, and those who are there after ``grace`` seconds by SIGKILL."""
        kill_at = trio.current_time() + grace
        asked: set[int] = set()
        self.reap()
        while self._left:
            processes = self._processes()
            if self._strangers and not processes:
                return
            patience = kill_at - trio.current_time()
            if patience <= 0:
                _kill_all(processes, signal.SIGKILL)
            elif not processes & asked:  # who has been asked may start others to clean up
                asked |= processes
                _kill_all(processes, signal.SIGTERM)
                _kill_all(processes, signal.SIGCONT)  # one that is stopped would not notice
            await trio.sleep(min(patience, _LOOK_AGAIN) if patience > 0 else _LOOK_AGAIN)
            self.reap()

    def _processes(self) -> set[int]:
        """What is left of it, in the way of kill(2)."""
        if _LINUX:
            return _descendants({os.getpid()}) - self._strangers - _descendants(self._strangers)
        return {self._target}


def heeded() -> list[int]:
    """The signals that are for the command. One that is ignored already, say by nohup, stays ignored."""
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def runnable(command: str) -> Iterator[None]:
    """Turn the OSError of a command that cannot be run into a failure.

    :raises Failure: with the status that shells give it.
    """
    try:
        yield
    except OSError as error:
        status = Status.NOT_FOUND if isinstance(error, FileNotFoundError) else Status.NOT_EXECUTABLE
        raise Failure(status, f"{command}: {error.strerror}") from None


def ends_with_us() -> Callable[[], None] | None:
    """What a new process has to run first so that it ends when we are killed; None where there is no such."""
    return partial(_end_with, os.getpid()) if _LINUX else None


def find(command: str) -> None:
    """Raises OSError if there is no such command, for those who would wait long for nothing."""
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
    """Runs in the new process: should its parent be killed, the kernel kills it too."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(Status.SIGNAL + signal.SIGKILL)


def _kill(target: int, number: int) -> bool:
    """Returns False if there is nobody to be sent a signal."""
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
    """Their children, and the children of those, and so on."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_bytes().rpartition(b")")[2].split()[1])
    known = found = ancestors
    while found:
        found = {process for process, parent in parents.items() if parent in found} - known
        known = known | found
    return known - ancestors
