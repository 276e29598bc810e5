"""Which exceptions that end the process come of a lack of memory."""

from __future__ import annotations

import pytest
import trio

from pyzk.server.app import cli
from pyzk.server.core.failures import OutOfMemory, ran_out

CAUSED = trio.TrioInternalError()
CAUSED.__cause__ = MemoryError()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OutOfMemory(), True),
        (CAUSED, True),
        (BaseExceptionGroup("", [ValueError(), ExceptionGroup("", [CAUSED])]), True),
        (ValueError(), False),
        (BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]), False),
    ],
    ids=repr,
)
def test_what_comes_of_a_lack_of_memory(error: BaseException, expected: bool) -> None:
    assert ran_out(error) is expected


def test_the_command_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(*args: object) -> None:
        raise CAUSED

    monkeypatch.setattr(trio, "run", run)
    assert cli.main(["--port", "0"]) == 3
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1] == "pyzk-server: memory ran out; raise its limit (ulimit -v), or keep less"
    assert "Traceback" not in "".join(lines)
