"""The promise of docs/privacy.md: strace shows each connection, and each file that is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .support.needs import need

BIN = Path(sys.executable).parent
FILES = ("open", "openat", "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "linkat")
CALLS = ",".join(("%network", *FILES))
READS = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "nscd")
"""Who resolves a name reads one of these."""


@pytest.fixture(autouse=True)
def _strace() -> None:
    need(None if shutil.which("strace") else "no strace on the PATH")


def traced(to: Path, *command: str | Path) -> list[str]:
    return [
        "strace",
        "-f",
        "-qq",
        "-y",
        "-s",
        "300",
        "-e",
        f"trace={CALLS}",
        "-o",
        str(to),
        *map(str, command),
    ]


def around(folder: Path) -> dict[str, str]:
    """As a user has it: a home and a temporary folder of his own. Python writes no caches."""
    for name in ("home", "temporary"):
        (folder / name).mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "temporary"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }


def connected(calls: str) -> set[str]:
    """The addresses to which something connects, or sends without a connection."""
    found = set()
    for line in calls.splitlines():
        if re.match(r"\d+ +(connect|sendto|sendmsg|sendmmsg)\(", line) and "sa_family" in line:
            match = re.search(r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([\d.]+)"\)', line)
            found.add(f"{match[2]}:{match[1]}" if match else line)
    return found


def written(calls: str) -> set[str]:
    """The files that are opened for writing, made or renamed."""
    found = set()
    for line in calls.splitlines():
        call = line.split(maxsplit=1)[1].partition("(")[0]
        opens = call in ("open", "openat")
        if call not in FILES or " = -1 " in line:
            continue
        if not opens or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", line):
            found |= set(re.findall(r'"([^"]*)"', line))
    return found - {"/dev/null", "/dev/tty"}


def resolved(calls: str) -> list[str]:
    return [line for line in calls.splitlines() if any(each in line for each in READS)]


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[str, Path]]:
    """A traced server: its connect string, and the file with its calls, whole when the block is left."""
    calls = folder / "server.calls"
    line = traced(calls, BIN / "pyzk-server", "--port", "0", "--end-with-stdin", *arguments)
    with subprocess.Popen(
        line, cwd=folder, env=around(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], calls
        process.communicate()
        assert process.returncode == 0


def test_the_server_with_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with running(tmp_path, "--data", str(data)) as (hosts, calls):
        for words in (["create", "/a", "x"], ["get", "/a"], ["locks", "/"], ["health"]):
            own = tmp_path / f"{words[0]}.calls"
            line = traced(own, BIN / "pyzk", "--hosts", hosts, *words)
            subprocess.run(line, cwd=tmp_path, env=around(tmp_path), check=True, stdout=subprocess.DEVNULL)
            found = own.read_text()
            assert connected(found) == {hosts}
            assert written(found) == set()
            assert resolved(found) == []
    found = calls.read_text()
    assert connected(found) == set()
    assert resolved(found) == []
    assert set(re.findall(r'inet_addr\("([\d.]+)"\)', found)) == {"127.0.0.1"}
    assert written(found)
    assert {path for path in written(found) if not Path(tmp_path, path).is_relative_to(data)} == set()


def test_the_server_without_files(tmp_path: Path) -> None:
    with running(tmp_path) as (_, calls):
        pass
    assert written(calls.read_text()) == set()


TESTS = """
def test_the_server_and_a_client(zk_server, zk_client):
    zk_client.create("/a")
    zk_server.expire(zk_client.client_id[0])

def test_a_process(zk_proc):
    assert zk_proc.hosts
"""


def test_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    calls = tmp_path / "plugin.calls"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"]
    line = traced(calls, sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py"))
    done = subprocess.run(line, cwd=tmp_path, env=around(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    found = calls.read_text()
    assert {address.partition(":")[0] for address in connected(found)} == {"127.0.0.1"}
    temporary = tmp_path / "temporary"
    outside = {path for path in written(found) if not Path(tmp_path, path).is_relative_to(temporary)}
    assert outside == set()


def test_what_the_trace_notices(tmp_path: Path) -> None:
    """Otherwise the tests above show nothing."""
    code = """
import os, socket
with EMPTY: pass
try: socket.getaddrinfo("localhost", 80)
except OSError: pass
s = socket.socket(); s.setblocking(False); s.connect_ex(("127.0.0.1", 9))
""".replace("EMPTY", f'open("{tmp_path}/outside", "w")')
    calls = tmp_path / "calls"
    subprocess.run(traced(calls, sys.executable, "-c", code), env=around(tmp_path), check=True)
    found = calls.read_text()
    assert "127.0.0.1:9" in connected(found)
    assert written(found) == {f"{tmp_path}/outside"}
    assert resolved(found)
