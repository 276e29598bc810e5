from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pytest

from pyzk.cli.main import main
from pyzk.server.testing import EmbeddedServer


@attrs.frozen
class Result:
    """What a run of ``pyzk`` came to."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Result]


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tick_time=50, max_session_timeout=60_000, extended_types=True) as server:
        yield server


@pytest.fixture
def pyzk(server: EmbeddedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``pyzk`` with these arguments, on the server of this test."""
    monkeypatch.setenv("PYZK_HOSTS", server.hosts)

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        status = main(arguments)
        return Result(status, *capsys.readouterr())

    return run
