"""``pyzk-lock`` and its command at a terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.server.testing import EmbeddedServer

from ...support.waiting import wait_until
from .process import BUSY_WAIT, COMMAND, PATIENCE, contenders, occupy


class Terminal:
    """A terminal in which ``pyzk-lock`` runs."""

    def __init__(self, server: EmbeddedServer, *arguments: str) -> None:
        self._master, self._slave = os.openpty()
        # The first terminal that a session's leader opens is that session's.
        shell = ["sh", "-c", 'exec <>"$1" >&0 2>&0; shift; exec "$@"', "sh", os.ttyname(self._slave)]
        environment = os.environ | {"PYZK_HOSTS": server.hosts, "PS1": "$ ", "TERM": "dumb"}
        self._popen = subprocess.Popen(
            [*shell, *COMMAND, *arguments], env=environment, start_new_session=True
        )
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        """Read until this appears; returns what came before."""
        while text not in self._seen:
            assert select.select([self._master], [], [], PATIENCE)[0], f"only {self._seen!r} came"
            self._seen += os.read(self._master, 1000).decode()
        before, _, self._seen = self._seen.partition(text)
        return before

    def send_signal(self, number: signal.Signals) -> None:
        """To pyzk-lock alone."""
        self._popen.send_signal(number)

    def foreground(self) -> str:
        """The command line of the group in the foreground."""
        with suppress(OSError):
            return Path(f"/proc/{os.tcgetpgrp(self._master)}/cmdline").read_text().replace("\0", " ")
        return ""

    def end(self) -> int:
        return self._popen.wait(PATIENCE)

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def terminal(server: EmbeddedServer) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        terminals.append(Terminal(server, *arguments))
        return terminals[-1]

    yield open_terminal
    for terminal in terminals:
        terminal.close()


def test_a_wait_at_a_terminal_names_the_holder(terminal: Callable[..., Terminal], other: KazooClient) -> None:
    occupy(other)
    it = terminal("/x", "--", "true")
    it.expect("pyzk-lock: waiting: /x is held by somebody (session 0x")
    it.type("\x03")
    assert it.end() == 130


def test_the_command_has_the_terminal(terminal: Callable[..., Terminal]) -> None:
    it = terminal("/x", "--", "cat")
    it.type("hello\n")
    it.expect("hello\r\nhello\r\n")  # the echo, and what cat says
    it.type("\x03")
    assert it.end() == 130


def test_an_interrupt_at_the_terminal_is_not_passed_on_once_more(terminal: Callable[..., Terminal]) -> None:
    traps = "trap 'echo interrupted' INT; trap 'echo passed on' USR1"
    it = terminal("/x", "--", "sh", "-c", f"{traps}; echo go; {BUSY_WAIT}")
    it.expect("go")
    it.send_signal(signal.SIGINT)
    it.send_signal(signal.SIGUSR1)
    assert "interrupted" not in it.expect("passed on")
    it.type("\x03")
    it.expect("interrupted")
    it.send_signal(signal.SIGTERM)
    assert it.end() == 143


def test_a_shell_with_its_jobs(terminal: Callable[..., Terminal], server: EmbeddedServer) -> None:
    it = terminal("/x", "--", "bash", "--norc", "-i")
    it.expect("$ ")
    it.type("echo token=$PYZK_LOCK_TOKEN\n")
    it.expect("token=")
    it.type("sleep 1000\n")
    wait_until(lambda: "sleep 1000" in it.foreground())
    it.type("\x1a")
    it.expect("Stopped")
    it.type("exit 4\n")
    it.expect("stopped jobs")
    it.type("exit 4\n")
    assert it.end() == 4
    assert contenders(server) == []
