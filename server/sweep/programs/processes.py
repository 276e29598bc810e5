"""The processes of a run: each program starts in its own session (setsid), and is killed after the run."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

_KEPT: Final = 8 * 1024
"""The number of bytes of a program's output that are kept. These are the last bytes."""
_RECEIVE: Final = 64 * 1024  # bytes
_LAST_WORDS: Final = 0.2
"""Seconds for reading the rest of the output after a program has ended."""


class Running:
    """A program that runs. The object keeps the end of the program's standard output and standard error.

    :ivar ended: an event that is set when the program itself has ended.
    """

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._written = b""
        self._read = trio.Event()
        self.ended = trio.Event()

    @property
    def leader(self) -> int:
        """The id of the process that leads the session (setsid) of the program and of its child processes."""
        return self._process.pid

    @property
    def status(self) -> int:
        """The exit status; after a signal, 128 + the number of the signal. The program must have ended."""
        code = self._process.returncode
        assert code is not None
        return code if code >= 0 else 128 - code

    @property
    def written(self) -> str:
        """The end of the program's output, without control characters other than line ends."""
        text = self._written.decode("utf-8", "replace").strip()
        return "".join(char if char == "\n" or char.isprintable() else " " for char in text)

    async def read(self) -> None:
        """Read the program's output until the last process that can write to it has ended, and keep the end
        of the output."""
        assert self._process.stdout is not None
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            while data := await self._process.stdout.receive_some(_RECEIVE):
                self._written = (self._written + data)[-_KEPT:]
        self._read.set()

    async def wait(self) -> None:
        """Wait until the program has ended and its output is read."""
        await self._process.wait()
        with trio.move_on_after(_LAST_WORDS):  # a child process may continue to write
            await self._read.wait()
        self.ended.set()

    async def kill(self) -> None:
        """Kill the program and its child processes, except child processes that began their own session
        (setsid)."""
        with trio.CancelScope(shield=True):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            assert self._process.stdout is not None
            await self._process.stdout.aclose()


async def start(command: Sequence[str], environment: Mapping[str, str], nursery: trio.Nursery) -> Running:
    """Start a program. The caller must kill the program before the nursery ends.

    :raises OSError: the command cannot be run.
    """
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    running = Running(process)
    nursery.start_soon(running.read)
    nursery.start_soon(running.wait)
    return running
