"""Platforms that lack what Linux has: all starts and works, or says in one sentence what is missing."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from .support.needs import need

ROOT = Path(__file__).parents[1]
PLATFORMS = ("windows", "macos")

EMBEDDED = """
    import asyncio, logging
    from kazoo.client import KazooClient
    from pyzk import aio, blocking
    from pyzk.server.testing import EmbeddedServer

    async def tasks(hosts):
        async with aio.connect(hosts) as zk:
            for _ in range(100):  # some of many calls in a row are made over a direct connection
                await zk.get("/found")
            async with aio.Lock(zk, "/lock"):
                await zk.create("/of_tasks", ephemeral=True)
            return (await zk.get("/found"))[0]

    def threads(hosts):
        with blocking.connect(hosts) as zk:
            for _ in range(100):
                zk.get("/found")
            with blocking.Lock(zk, "/lock"):
                zk.create("/of_threads", ephemeral=True)
            return zk.get("/found")[0]

    with EmbeddedServer() as server:
        kazoo = KazooClient(server.hosts)
        kazoo.start()
        kazoo.create("/found", b"it")
        with kazoo.Lock("/lock", "me"):
            assert kazoo.Lock("/lock").contenders() == ["me"]
        print(kazoo.get("/found")[0], threads(server.hosts), asyncio.run(tasks(server.hosts)))
        print(kazoo.command(b"envi").split()[0], kazoo.command(b"ruok"))
        logging.disable()  # kazoo warns of the end of its session
        server.expire(kazoo.client_id[0])
        kazoo.stop()
        kazoo.close()
"""


def code_of(platform: str, body: str) -> list[str]:
    head = f"import sys; from tests.support import platforms; platforms.{platform}()\n"
    return [sys.executable, "-W", "error", "-c", head + textwrap.dedent(body)]


def command(platform: str, module: str, *arguments: str) -> list[str]:
    return [*code_of(platform, f"from {module} import main; sys.exit(main(sys.argv[1:]))"), *arguments]


def run(line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@contextmanager
def served(platform: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    line = command(platform, "pyzk.server.app.cli", "--port", "0", "--trace")
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1], process
        finally:
            process.terminate()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_embedded_server_kazoo_threads_and_asyncio(platform: str) -> None:
    done = run(code_of(platform, EMBEDDED))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["b'it' b'it' b'it'", "Environment: imok"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_commands(platform: str) -> None:
    with served(platform) as (hosts, process):
        client = KazooClient(hosts)
        client.start()
        client.create("/found", b"it")
        pyzk = run(command(platform, "pyzk.cli.main", "--hosts", hosts, "get", "/found"))
        assert (pyzk.returncode, pyzk.stdout, pyzk.stderr) == (0, "it\n", "")
        with client.Lock("/lock", "me"):
            held = run(command(platform, "pyzk.cli.lock", "--hosts", hosts, "--list", "/lock"))
        assert (held.returncode, held.stderr) == (0, "")
        assert "me" in held.stdout
        client.stop()
        client.close()
        process.terminate()
        assert process.stdout is not None
        assert process.stderr is not None
        assert "create" in process.stdout.read()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("module", "arguments", "lacks"),
    [
        (
            "pyzk.cli.lock",
            ["--hosts", "127.0.0.1:1", "/lock", "--", "true"],
            "the signals that end a command",
        ),
        ("pyzk.cli.main", ["exec", "--", "true"], "the signals that end a command"),
        ("pyzk.server.app.cli", ["--port", "0", "--data", "data"], "locks of directories"),
    ],
)
def test_what_windows_cannot_do_is_said_in_one_sentence(
    module: str, arguments: list[str], lacks: str
) -> None:
    done = run(command("windows", module, *arguments))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "win32" in line
    assert f"lacks {lacks}" in line


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_module_can_be_imported(platform: str) -> None:
    body = """
        import importlib, pkgutil, pyzk
        for found in pkgutil.walk_packages(pyzk.__path__, "pyzk."):
            if not found.name.endswith(("__main__", "server.net.hub")):
                importlib.import_module(found.name)
    """
    done = run(code_of(platform, body))
    assert (done.returncode, done.stderr) == (0, "")


CONFORMANCE = ("test_multi.py", "test_watches.py")
"""What runs each time; all of tests/conformance runs with HYPOTHESIS_PROFILE=nightly."""


def test_a_variable_takes_epoll_away() -> None:
    """It is the path that macOS and Windows have, on any system."""
    code = "from pyzk.server.net import server; print(server._HAS_HUB)"
    for value, expected in (("1", "False"), ("", str(hasattr(select, "epoll")))):
        around = {**os.environ, "PYZK_WITHOUT_EPOLL": value}
        assert (
            subprocess.check_output([sys.executable, "-c", code], env=around, text=True).strip() == expected
        )


SELECT_ALONE = {"PYZK_WITHOUT_EPOLL": "1", "PYTHONPATH": str(ROOT / "tests/support/select_alone")}
"""The server takes the path without epoll, and trio and asyncio wait with ``select``."""


def test_a_server_waits_with_select_alone(tmp_path: Path) -> None:
    need(None if shutil.which("strace") else "no strace on the PATH")
    calls = tmp_path / "calls"
    waits = "/^(epoll_p?wait|p?poll|p?select)"
    line = ["strace", "-f", "-qq", "-e", f"trace={waits}", "-o", str(calls), sys.executable]
    line += ["-m", "pyzk.server", "--port", "0", "--end-with-stdin", "--log-level", "error"]
    with subprocess.Popen(
        line, cwd=ROOT, env={**os.environ, **SELECT_ALONE}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        client = KazooClient(process.stdout.readline().split()[-1].decode())
        client.start()
        client.create("/found")
        client.stop()
        client.close()
        process.communicate()
    assert process.returncode == 0
    assert set(re.findall(r"^\d+ +(\w+)\(", calls.read_text(), re.MULTILINE)) <= {"select", "pselect6"}
    assert "select" in calls.read_text()


def test_conformance_with_select_alone() -> None:
    nightly = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
    folder = ROOT / "tests/conformance"
    files = [folder] if nightly else [folder / name for name in CONFORMANCE]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-k", "ours", "--long", "whole"]
    around = {**os.environ, **SELECT_ALONE, "HYPOTHESIS_PROFILE": "ci"}
    line = [sys.executable, "-m", "pytest", *options, *map(str, files)]
    done = subprocess.run(line, cwd=ROOT, env=around, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_zk_proc_starts_its_server() -> None:
    body = """
        from pyzk.server.testing.process import ProcessServer
        with ProcessServer() as server:
            print(server.hosts)
    """
    done = run(code_of("windows", body))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("127.0.0.1:")
