"""The examples of docs/pyzk.md and docs/ensemble.md, run one after the other."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.cli.main import main
from pyzk.cli.parser import VERBS
from pyzk.server.testing import EmbeddedEnsemble, EmbeddedServer

from ..support.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS, OF_ENSEMBLE = (
    re.findall(r"```console\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    for name in ("pyzk.md", "ensemble.md")
)
_U36 = "e5d7c9ac-3b4e-4c55-9b5b-0c6f3f7a1d2e"
_H32 = _U36.replace("-", "")


def contend(client: KazooClient) -> None:
    """Four contenders, by the names of four libraries."""
    for name, data in (
        (f"_c_{_U36}-lock-", b"build-7 pid 4711: make"),
        (f"z{_H32}__lock__", b"build-7 pid 4711: make"),
        ("_c_00000000-0000-4000-8000-000000000000-lock-", b"10.0.0.7"),
        ("5bb2adfd0f0b4a1f8d0a8a2b8f2f7f10__lock__", b"worker-2"),
        (f"_c_{_H32}-lock-", b"scheduler"),
    ):
        client.create(f"/locks/printer/{name}", data, ephemeral=True, sequence=True, makepath=True)


def normal(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    for pattern, word in (
        (r"0x[0-9a-f]{6,}", "ID"),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME"),
        (r"\d\d:\d\d:\d\d\.\d{3}", "TIME"),
        (r"\d+\.\d{3} (m?s)\b", r"TIME \1"),
        (r"\b(\d+ min )?\d+ s\b", "AGE"),
        (r"(?m)^ {4,6}(\d+\.\d{3}| {5}) ", " TIME "),  # left out where it is that of the line above
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"ADDRESS  .*?\(pid \d+\)", "ADDRESS PROGRAM"),
        (r"\d+/[\d.]+/\d+ ms", "LATENCY"),
        (r"/locks/printer/\S+…", "NAME…"),
        (r"\b(PING|CREA)\b", "LAST"),
        (r" +", " "),
    ):
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def environment(tmp_path: Path, server: EmbeddedServer) -> Iterator[dict[str, str]]:
    program = tmp_path / "pyzk"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m pyzk.cli "$@"\n')
    program.chmod(0o755)
    client = KazooClient(server.hosts)
    client.start()
    contend(client)
    yield os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYZK_HOSTS": server.hosts,
        "OUR_HOSTS": server.hosts,
    }
    client.stop()
    client.close()


def run(command: str, environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; one that needs no shell is run in this process, which is quicker."""
    if not re.search(r"[|&;$]", command):
        main(shlex.split(command)[1:])
        return "".join(capsys.readouterr())
    done = subprocess.run(command, shell=True, text=True, env=environment, capture_output=True, check=False)
    return done.stderr + done.stdout


def test_the_examples(
    server: EmbeddedServer,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PYZK_HOSTS", environment["PYZK_HOSTS"])
    monkeypatch.chdir(tmp_path)  # one verb writes files
    for block in BLOCKS:
        shown, behind = "", []
        for line in block.splitlines(keepends=True):
            if line.startswith("$ ") and line.rstrip().endswith("&"):
                command = line[2:].rstrip().removesuffix("&")
                behind.append(subprocess.Popen(command, shell=True, text=True, stdout=-1, env=environment))
                wait_until(lambda command=command: has_begun(command, server))
                shown += line
            elif line.startswith("$ "):
                shown += line + run(line[2:], environment, capsys)
        for process in behind:
            shown += process.communicate(timeout=30)[0]
        assert normal(shown) == normal(block)


def test_the_examples_with_an_ensemble(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedEnsemble(3, observers=1, clock="frozen") as ensemble:
        monkeypatch.setenv("PYZK_HOSTS", ensemble.hosts)
        (block,) = OF_ENSEMBLE
        check(block, capsys)


def check(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a block, and compare what they print."""
    shown = ""
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            shown += line + run(line[2:], {}, capsys)
    assert normal(shown) == normal(block)


def has_begun(command: str, server: EmbeddedServer) -> bool:
    """Whether a command that goes on has come as far as it will by itself."""
    words = shlex.split(command)
    if words[1] == "trace":
        recorder = server.running.recorder
        return recorder is not None and bool(recorder.listeners)
    if words[1] == "create":
        return words[-1] in server.dump()
    return any(session.watches for session in server.sessions())


def test_there_are_examples_of_all_verbs() -> None:
    used = set(re.findall(r"pyzk (?:--hosts \S+ )?([a-z]+)", "\n".join([*BLOCKS, *OF_ENSEMBLE])))
    assert set(VERBS) - used == {"completion"}
