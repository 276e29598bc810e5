"""The examples of docs/data.md."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pyzk.cli.main import main
from pyzk.server.app import cli
from pyzk.server.testing import EmbeddedServer

from ...support.needs import need

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A directory with the files that the page is about, and a server to load them into."""
    monkeypatch.chdir(tmp_path)
    with EmbeddedServer(data="data", initial_zxid=0) as server:
        zk = KazooClient(server.hosts)
        zk.start()
        zk.create("/app", b"")
        zk.create("/app/config", b"debug=0")
        zk.create("/app/jobs", b"nothing to do today")
        zk.set("/app/config", b"debug=1")
        zk.stop()
        zk.close()
    with EmbeddedServer() as server:
        monkeypatch.setenv("PYZK_HOSTS", server.hosts)
        yield


def normal(text: str) -> list[str]:
    for pattern, word in (
        (r"0x[0-9a-f]{6,}", "ID"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
        (r"digest \d+", "digest DIGEST"),
    ):
        text = re.sub(pattern, word, text)
    return text.splitlines()


@pytest.mark.parametrize("block", CONSOLE)
def test_what_is_typed(block: str) -> None:
    shown = ""
    for line in block.splitlines():
        if line.startswith("$ "):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                assert main(shlex.split(line[2:])[1:]) == 0
            shown += f"{line}\n{output.getvalue()}"
    assert normal(shown) == normal(block)


@pytest.mark.parametrize("block", PYTHON)
def test_what_a_test_does(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "data.md", "exec"), {})
    assert "debug=1" in capsys.readouterr().out
    with EmbeddedServer(data="copy") as server:
        assert server.dump("/app/config") == {"/app/config": b"debug=1"}


def test_a_tree_moves_by_curl(tmp_path: Path) -> None:
    tools = [tool for tool in ("curl", "openssl") if shutil.which(tool) is None]
    need(f"no {tools[0]} on the PATH" if tools else None)
    moving, starting = SHELL[-2:]
    digest = starting.replace("pyzk-server", "echo")
    flags = subprocess.run(["sh", "-c", digest], capture_output=True, text=True, check=True).stdout.split()
    settings = {"super_digest": flags[-1].partition("=")[2]}
    with EmbeddedServer(data="data", **settings) as source, EmbeddedServer(**settings) as target:
        for port, server in (("2181", source), ("2182", target)):
            moving = moving.replace(f"127.0.0.1:{port}", server.hosts)
        subprocess.run(["sh", "-ec", moving], cwd=tmp_path, check=True, capture_output=True, timeout=30)
        assert target.dump() == source.dump()
        assert target.dump("/app/config") == {"/app/config": b"debug=1"}


def test_the_flags_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    for flag in ("--data", "--data-repair", "--load"):
        assert flag in PAGE
        assert f"{flag} " in shown
