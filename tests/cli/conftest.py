from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import trustme

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


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server that speaks TLS, and a folder with the certificates."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    authority.issue_cert("ann").private_key_and_cert_chain_pem.write_to_path(folder / "ann.pem")
    (folder / "zoo.cfg").write_text(
        f"secureClientPort=0\nssl.keyStore.location={folder}/server.pem\n"
        f"ssl.trustStore.location={folder}/ca.pem\nssl.clientAuth=need\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pyzk.server", "--port", "0", "--config", str(folder / "zoo.cfg")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    with process:
        words = process.stdout.readline().split()
        yield words[words.index("secure") + 1].replace("127.0.0.1", "localhost"), folder
        process.terminate()
