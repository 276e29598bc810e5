"""Taking a lock away from its holder, and TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.cli.lock import main
from pyzk.cli.status import Status
from pyzk.server.testing import EmbeddedServer

from ..conftest import tls

__all__ = ["tls"]


def test_a_lock_is_taken_from_its_holder(
    server: EmbeddedServer, other: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--hosts", server.hosts]
    lock = other.Lock("/l", "build 7")
    lock.acquire()
    [znode] = (path for path in server.dump() if path.startswith("/l/"))
    assert main([*at, "--break", "/l"]) == 0
    assert capsys.readouterr().err == f"pyzk-lock: deleted {znode}\n"
    assert list(server.dump()) == ["/l"]
    assert main([*at, "--break", "/l"]) == Status.NO
    assert capsys.readouterr().err == "pyzk-lock: nobody holds /l\n"


def test_nobody_can_answer(
    server: EmbeddedServer,
    other: KazooClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyzk.cli.four_letter_words.OURS", "of somebody else")
    other.Lock("/l", "build 7").acquire()
    assert main(["--hosts", server.hosts, "--break", "/l"]) == Status.NO
    said = capsys.readouterr().err
    assert "not confirmed: /l is held by build 7 (session 0x" in said
    assert "pass --yes" in said
    assert main(["--hosts", server.hosts, "--break", "--yes", "/l"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--break", "/l", "--", "true"], "--break runs no command"),
        (["--break", "--list", "/l"], "--list and --break exclude each other; leave out one of them"),
        (["--tls", "--ca-file", "/nothing", "--list", "/l"], "cannot use /nothing"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == Status.USAGE
    assert words in capsys.readouterr().err


def test_tls(tls: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    address, folder = tls
    files = ["--ca-file", f"{folder}/ca.pem", "--cert-file", f"{folder}/ann.pem"]
    assert main(["--hosts", address, "--tls", *files, "--list", "--json", "/l"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "/l", "contenders": []}
