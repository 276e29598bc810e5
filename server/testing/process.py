"""The command as a subprocess, for tests that need a server outside of their own process.

* :meth:`ProcessServer.start` returns after the server has written its first line. This line says that the
  server is ready, and has its address. Therefore the kernel can choose the port.
* The log is written to a temporary file. A pipe would block a server that logs much.
* :meth:`ProcessServer.stop` sends SIGTERM to the process, and kills the process after 10 seconds.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

_READY = "is ready at "


class ProcessServer:
    """``pyzk-server`` as a subprocess; use it with ``with``.

    :param port: the port; with 0 the kernel chooses one.
    :param arguments: more arguments of the command.
    :param executable: the command; by default this Python's own server.
    :param timeout: the number of seconds within which the server must be ready.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        arguments: Sequence[str] = (),
        executable: Sequence[str] = (sys.executable, "-m", "pyzk.server"),
        timeout: float = 30.0,
    ) -> None:
        self._command = [*executable, "--host", host, "--port", str(port), *arguments]
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._hosts = ""

    def __repr__(self) -> str:
        return f"<ProcessServer {self._hosts or 'not running'}>"

    @property
    def hosts(self) -> str:
        """The connect string.

        :raises RuntimeError: the server does not run.
        """
        if not self._hosts:
            raise RuntimeError("the server is not running")
        return self._hosts

    @property
    def host(self) -> str:
        return self.hosts.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.hosts.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """The process's id.

        :raises RuntimeError: the server does not run.
        """
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def log(self) -> str:
        """Return what the server has written to its standard error."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()

    def start(self) -> Self:
        """Start the server, and return when clients can connect.

        :raises RuntimeError: it ended, or was not ready in time; the error has its output.
        """
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        line = self._first_line(self._process)
        if _READY not in line:
            ended = self._process.poll()
            why = "is not ready in time" if ended is None else f"has ended with status {ended}"
            log = self.log()
            self.stop()
            raise RuntimeError(f"{' '.join(self._command)} {why}:\n{line}{log}")
        self._hosts = line.partition(_READY)[2].split()[0]
        return self

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout
        ready = [process.stdout]
        if os.name != "nt":  # where select() is for sockets alone, and a server that hangs is waited for
            ready, _, _ = select.select(ready, [], [], max(0.0, deadline - time.monotonic()))
        line = process.stdout.readline() if ready else ""
        if ready and not line:
            process.wait(self._timeout)  # it has closed its output: it is about to end
        return line

    def stop(self) -> None:
        """End the process. ``stop`` does nothing if the process does not run."""
        process, self._process = self._process, None
        self._hosts = ""
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
