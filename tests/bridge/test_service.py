"""The service's main loop, as a program of each kind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from pyzk.blocking import connect
from pyzk.server.testing import EmbeddedServer

from ..support.waiting import PATIENCE, wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "service"
STATE = "/example-service/state"


def start(name: str, hosts: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(FOLDER / name), hosts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # the log goes to stderr


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


def ephemerals(server: EmbeddedServer) -> list[str]:
    return [path for session in server.sessions() for path in session.ephemerals]


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_the_main_loop(name: str) -> None:
    with EmbeddedServer() as server, start(name, server.hosts) as first:
        try:
            assert line(first.stdout) == "leading: term 1"
            server.expire(server.sessions()[0].id)
            assert line(first.stdout) == "leading: term 2", "it comes back in a new session"
            (path,) = ephemerals(server)
            with start(name, server.hosts) as second:
                try:
                    wait_until(lambda: len(ephemerals(server)) == 2, PATIENCE)
                    with connect(server.hosts) as operator:
                        operator.delete(path)  # deposed
                    assert line(second.stdout) == "leading: term 1"
                    wait_until(lambda: len(ephemerals(server)) == 2)  # the first is a candidate again
                    wait_until(lambda: int(server.dump()[STATE] or 0) > 0)
                    second.send_signal(signal.SIGTERM)
                    assert line(second.stdout) == "stopped"
                    assert line(first.stdout) == "leading: term 3", "at once: the second has resigned"
                    assert second.wait(10) == 0
                finally:
                    second.kill()
            first.send_signal(signal.SIGTERM)
            assert line(first.stdout) == "stopped"
            assert first.wait(10) == 0
        finally:
            first.kill()
        assert server.sessions() == [], "each has closed its session"
