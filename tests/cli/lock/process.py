"""``pyzk-lock`` as a process, and others that hold what it waits for."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from pyzk.cli.lock.arguments import Options, parse
from pyzk.server.testing import EmbeddedServer

from ...support.waiting import PATIENCE

COMMAND = [sys.executable, "-W", "error", "-m", "pyzk.cli.lock"]
BUSY_WAIT = "while :; do sleep 0.02; done"
SHELL_REPORTS = re.compile(r"^.*\b(Terminated|Killed)\b.*\n", re.MULTILINE)
"""What a shell may say of its children's deaths."""
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells of the children of children"
)


def occupy(other: KazooClient, path: str = "/x", data: bytes = b"somebody") -> str:
    """Let somebody else hold a lock; returns the znode to delete."""
    name = f"{path}/_c_{uuid.uuid4()}-lock-"
    return other.create(name, data, ephemeral=True, sequence=True, makepath=True)  # type: ignore[no-any-return]


def queue_up(other: KazooClient, *markers: str) -> None:
    for marker in markers:
        name = f"/x/_c_{uuid.uuid4()}{marker}"
        other.create(name, "Zoë".encode(), ephemeral=True, sequence=True, makepath=True)


class Process:
    """One ``pyzk-lock``, without a terminal. No wait for it is for ever."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.popen = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._timer = threading.Timer(PATIENCE, self.popen.kill)
        self._timer.start()

    def line(self) -> str:
        """The next line of the command's output."""
        assert self.popen.stdout
        return self.popen.stdout.readline().rstrip("\n")

    def complaint(self) -> str:
        """The next line that pyzk-lock itself says."""
        assert self.popen.stderr
        return self.popen.stderr.readline().rstrip("\n")

    def write(self, text: str) -> None:
        assert self.popen.stdin
        self.popen.stdin.write(text)
        self.popen.stdin.flush()

    def end(self) -> tuple[int, str, str]:
        """Wait for the end of all that has the output open; the status, the output, the complaints."""
        output, errors = self.popen.communicate(timeout=PATIENCE)
        self._timer.cancel()
        return self.popen.returncode, output, SHELL_REPORTS.sub("", errors)

    def kill(self) -> None:
        self._timer.cancel()
        self.popen.kill()
        with self.popen:
            pass


Start = Callable[..., Process]


def contenders(server: EmbeddedServer, path: str = "/x") -> list[str]:
    return [znode for znode in server.dump() if znode.startswith(f"{path}/")]


def holding(
    start: Start, *arguments: str, script: str = "read line", first: str = ":"
) -> tuple[Process, int]:
    """One that holds the lock until it is sent a line, and its session.

    :param first: what its shell does before it tells the session, such as a trap.
    """
    process = start(*arguments, "--", "sh", "-c", f"{first}; echo $PYZK_LOCK_SESSION; {script}")
    return process, int(process.line(), 16)


def options(*argv: str, **environ: str) -> Options:
    return parse(argv, environ)
