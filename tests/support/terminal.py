"""A shell at a terminal of its own, at which a test types."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs

from .waiting import wait_until


@attrs.define
class Terminal:
    """The keyboard and the screen of a program.

    :ivar shown: all that the program has written.
    """

    _master: int
    shown: bytes = b""

    def type(self, keys: str) -> None:
        """Type these keys, without a look at the screen."""
        os.write(self._master, keys.encode())

    def read(self) -> bytes:
        """Take what was written since; returns all that was shown."""
        while select.select([self._master], [], [], 0.02)[0]:
            try:
                self.shown += os.read(self._master, 65536)
            except OSError:  # the program has ended
                break
        return self.shown

    def wait_for(self, text: str) -> None:
        """Wait until the text was shown."""
        wait_until(lambda: text.encode() in self.read())


@contextmanager
def terminal(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a program at a terminal, which it controls."""
    master, slave = os.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
        )
    finally:
        os.close(slave)
    try:
        yield Terminal(master)
    finally:
        os.close(master)  # the shell is told by SIGHUP
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
