"""The command as a process: its flags do what they say to clients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyzk.server import cli

from ..support.wire import WireClient


@contextmanager
def command(*flags: str, **options: Any) -> Iterator[tuple[tuple[str, int], subprocess.Popen[str]]]:
    """A server on a free port: its address, and the process, which has ended in order afterwards."""
    argv = [sys.executable, "-m", "pyzk.server", "--port", "0", *flags]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, **options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            match = re.match(r"pyzk-server is ready at 127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert match, process.stderr.read()
            yield ("127.0.0.1", int(match[1])), process
            process.terminate()
            assert process.wait(10) == 0
        finally:
            process.kill()


def refusal(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Why the command does not start."""
    assert cli.main(flags) == 2
    return capsys.readouterr().err


# --- the trace --------------------------------------------------------------------------------------------


def test_the_trace_goes_to_standard_output() -> None:
    with command("--trace") as (address, process):
        with WireClient(address) as client:
            client.connect()
            client.create("/a", b"x")
        process.terminate()
        assert process.stdout is not None
        lines = process.stdout.read()
    assert "-> create /a 'x'\n" in lines
    assert "<- create /a: ok" in lines
    assert "\x1b" not in lines


def test_the_trace_goes_to_a_file_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    flags = ["--trace-file", str(file), "--trace-format", "json", "--trace-op", "create"]
    for _ in range(2):
        with command(*flags) as (address, process):
            with WireClient(address) as client:
                client.connect()
                client.create("/a", b"x")
                client.exists("/a")
            process.terminate()
            assert process.stdout is not None
            assert "create" not in process.stdout.read()
    assert [json.loads(line)["kind"] for line in file.read_text().splitlines()] == ["request", "reply"] * 2
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--trace-op", "destroy"], "--trace-op: unknown op 'destroy'; there are: add_watch"),
        (["--trace-session", "me"], "--trace-session"),
        (["--trace-format", "xml"], "--trace-format"),
        (["--trace-file", "/nowhere/trace"], "cannot write to /nowhere/trace: No such file or directory"),
    ],
)
def test_a_trace_that_cannot_be_had(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refusal(capsys, *flags)
