"""Signals, and what is left of the command."""

from __future__ import annotations

import os
import signal

import pytest

from pyzk.server.testing import EmbeddedServer

from .process import BUSY_WAIT, Start, contenders, holding, needs_linux


def test_a_signal_is_the_command_s_and_the_lock_stays_until_it_has_ended(
    server: EmbeddedServer, start: Start
) -> None:
    process, _ = holding(start, "/x", script=f"trap 'echo got; read line; exit 9' TERM; echo; {BUSY_WAIT}")
    process.line()
    process.popen.terminate()
    assert process.line() == "got"
    assert len(contenders(server)) == 1
    process.write("\n")
    assert process.end() == (9, "", "")
    assert contenders(server) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signals_that_are_passed_on(number: signal.Signals, start: Start) -> None:
    process, _ = holding(start, "/x", script="exec sleep 1000")
    process.popen.send_signal(number)
    assert process.end() == (128 + number, "", "")


def test_what_is_ignored_stays_ignored(start: Start) -> None:
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    process = start("/x", "--", "sh", "-c", "echo; read line", by=nohup)
    process.line()
    process.popen.send_signal(signal.SIGHUP)
    process.write("\n")
    assert process.end() == (0, "", "")


@pytest.mark.parametrize(
    ("script", "grace"),
    [
        ("sleep 1000 & exit 3", "1000"),
        pytest.param("setsid sleep 1000 & exit 3", "1000", marks=needs_linux),
        ("trap '' TERM; sleep 1000 & exit 3", "0.1"),
        ("sleep 1000 & kill -STOP $!; exit 3", "1000"),
    ],
    ids=["background", "daemon", "stubborn", "stopped"],
)
def test_nothing_of_the_command_outlives_the_lock(script: str, grace: str, start: Start) -> None:
    # The output ends when the last that has it open is gone.
    assert start("--kill-after", grace, "/x", "--", "sh", "-c", script).end() == (3, "", "")


@needs_linux
def test_children_that_a_shell_has_left_us_are_not_the_command_s(start: Start) -> None:
    shell = ("sh", "-c", 'sleep 1000 >&- 2>&- <&- & echo $!; exec "$@"', "sh")
    process = start("/x", "--", "sh", "-c", "setsid sleep 1000 & exit 3", by=shell)
    pid = int(process.line())
    try:
        assert process.end() == (3, "", "")
        os.kill(pid, 0)  # it is there
    finally:
        os.kill(pid, signal.SIGKILL)


@needs_linux
def test_the_command_does_not_outlive_a_pyzk_lock_that_is_killed(start: Start) -> None:
    process, _ = holding(start, "/x", script="exec sleep 1000")
    process.popen.kill()
    assert process.end() == (-signal.SIGKILL, "", "")
