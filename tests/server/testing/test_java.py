"""The Java client is in the test's hands as well: Apache ZooKeeper's own command line client."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator

import pytest

from pyzk.server.testing import EmbeddedServer

from ...support import jvm
from ...support.needs import need
from ...support.waiting import wait_until


class CommandLine:
    """``zkCli.sh`` without the shell script."""

    def __init__(self, hosts: str) -> None:
        self.output = ""
        self._process = subprocess.Popen(
            jvm.java("org.apache.zookeeper.ZooKeeperMain", "-server", hosts),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line

    def say(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def java(server: EmbeddedServer) -> Iterator[CommandLine]:
    need(jvm.missing())
    line = CommandLine(server.hosts)
    yield line
    line.close()


def test_the_java_client_loses_a_reply_and_then_its_session(
    server: EmbeddedServer, java: CommandLine
) -> None:
    [session] = wait_until(server.sessions, 30)
    with server.fault("create", "/mine", when="after") as fault:
        java.say("create -e /mine me")
        fault.wait(30)
    wait_until(lambda: "ConnectionLoss" in java.output, 30)
    server.assert_tree({"/mine": "me"})

    wait_until(lambda: server.sessions()[0].connected, 30)
    assert server.sessions()[0].id == session.id
    server.expire(session)
    server.assert_tree({})
    wait_until(lambda: "state:Expired" in java.output, 30)
