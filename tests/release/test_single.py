"""The server as one file, and that file with a Python beside it."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import single, tarball

from .conftest import page, running, said_by

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "server/control/page"

COMPILED = """
import runpy, sys
found = []
def audit(event, arguments):
    if event == "compile" and str(arguments[1]).endswith(".py"):
        found.append(arguments[1])
class Ready:
    def write(self, text):
        if text.strip():
            print(*found, sep="\\n", file=sys.__stdout__, flush=True)
            found.clear()
    def flush(self):
        pass
sys.stdout = Ready()
sys.argv[:] = [sys.argv[1], "--port", "0", "--end-with-stdin"]
sys.addaudithook(audit)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("single") / "pyzk-server.pyz"
    single.make(path)
    return path


@pytest.fixture(scope="module")
def sources_alone(tmp_path_factory: pytest.TempPathFactory, pyz: Path) -> Path:
    """What a release of Python finds for which the file has no bytecode."""
    path = tmp_path_factory.mktemp("sources") / "pyzk-server.pyz"
    with zipfile.ZipFile(pyz) as file, zipfile.ZipFile(path, "w") as packed:
        for name in file.namelist():
            if not name.startswith("bytecode/"):
                packed.writestr(name, file.read(name))
    return path


def compiled(pyz: Path, cwd: Path) -> list[str]:
    """The modules that are compiled until the server is ready."""
    command = [sys.executable, "-I", "-c", COMPILED, str(pyz)]
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [name.removeprefix(f"{pyz}/") for name in done.stdout.split()]


def test_it_is_small_and_holds_the_licences(pyz: Path) -> None:
    assert pyz.stat().st_size <= 2_000_000
    with zipfile.ZipFile(pyz) as file:
        licensed = {
            name.partition("-")[0] for name in file.namelist() if "/licenses/" in name or "LICENSE" in name
        }
    assert {
        "pyzk_server",
        "trio",
        "attrs",
        "h11",
        "idna",
        "outcome",
        "sniffio",
        "sortedcontainers",
    } <= licensed


def test_two_builds_have_equal_bytes(pyz: Path, tmp_path: Path) -> None:
    single.make(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()


def test_its_sources_are_ours_without_docstrings_at_the_same_lines(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as file:
        sources = [name for name in file.namelist() if name.startswith("pyzk/") and name.endswith(".py")]
        held = {name: file.read(name).decode().splitlines() for name in sources}
    assert {"pyzk/server/core/engine.py", "pyzk/cli/main.py"} <= held.keys()
    for name, lines in held.items():
        path = ROOT / name if (ROOT / name).exists() else ROOT / name.removeprefix("pyzk/")
        originals = path.read_text().splitlines()
        assert len(lines) == len(originals)
        others = {line.strip() for line, original in zip(lines, originals, strict=True) if line != original}
        assert others <= {"", '""'}
    assert '""' in (line.strip() for line in held["pyzk/server/core/engine.py"])


def test_nothing_is_compiled_at_its_start(pyz: Path, sources_alone: Path, tmp_path: Path) -> None:
    assert set(compiled(pyz, tmp_path)) == {"__main__.py"}
    assert "pyzk/server/core/engine.py" in compiled(sources_alone, tmp_path)


@pytest.mark.parametrize("which", ["pyz", "sources_alone"])
def test_it_serves_and_is_all_commands(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    python = (sys.executable, "-I", "-W", "error", request.getfixturevalue(which))
    with running(*python, cwd=tmp_path) as (hosts, url):
        said_by(*python, "pyzk-lock", "--hosts", hosts, "/lock", "--", "true", cwd=tmp_path)
        assert "lock" in said_by(*python, "pyzk", "--hosts", hosts, "ls", "/", cwd=tmp_path).split()
        for path in PAGE.iterdir():
            assert page(url, f"page/{path.name}") == path.read_bytes()
    said = [said_by(*python, *name, "--version", cwd=tmp_path) for name in ([], ["pyzk-server"], ["pyzk"])]
    assert [line.split()[0] for line in said] == ["pyzk-server", "pyzk-server", "pyzk"]


def stand_in(path: Path, names: dict[str, bytes]) -> Path:
    """A file in the form of python-build-standalone, whose Python is ours."""
    with tarfile.open(path, "w:gz") as file:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            file.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "python3.13"
        file.addfile(link)
    return path


def test_the_file_with_a_python(pyz: Path, tmp_path: Path) -> None:
    needed = {"python/bin/python3.13": f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode()}
    needed["python/lib/python3.13/os.py"] = b""
    other = (
        "include/python3.13/Python.h",
        "lib/python3.13/test/test_os.py",
        "lib/tk8.6/tk.tcl",
        "lib/libpython3.13.a",
    )
    python = stand_in(tmp_path / "given.tar.gz", {**needed, **{f"python/{name}": b"" for name in other}})
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        tarball.make(python, pyz, tmp_path / name / "pyzk-server-1.tar.gz")
    first, second = (tmp_path / name / "pyzk-server-1.tar.gz" for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as file:
        file.extractall(tmp_path / "there", filter="data")
    top = tmp_path / "there/pyzk-server-1"
    found = {path.relative_to(top).as_posix() for path in top.rglob("*") if not path.is_dir()}
    assert found == {
        *needed,
        "python/bin/python3",
        "pyzk-server.pyz",
        *(f"bin/{name}" for name in ("pyzk", "pyzk-lock", "pyzk-server")),
    }
    (tmp_path / "on-the-path").symlink_to(top / "bin/pyzk-server")
    with running(tmp_path / "on-the-path", cwd=tmp_path) as (hosts, _):
        assert "zookeeper" in said_by(top / "bin/pyzk", "--hosts", hosts, "ls", "/", cwd=tmp_path)


@pytest.mark.parametrize("count", [1, 20])
def test_the_python_is_read_once(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed file is read from its beginning again for each step back."""
    names = {"python/bin/python3.13": b"", **{f"python/lib/{20 - number}": b"x" for number in range(count)}}
    python = stand_in(tmp_path / "given.tar.gz", names)
    (tmp_path / "pyz").write_bytes(b"")
    rewind = gzip._GzipReader._rewind  # type: ignore[attr-defined]
    rewinds: list[object] = []
    monkeypatch.setattr(gzip._GzipReader, "_rewind", lambda self: (rewinds.append(self), rewind(self)))  # type: ignore[attr-defined]
    tarball.make(python, tmp_path / "pyz", tmp_path / "out.tar.gz")
    assert len(rewinds) <= 1


@pytest.mark.parametrize("name", ["python/python.exe", "something"])
def test_a_python_that_does_not_fit(name: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "given.tar", "w") as file:
        file.addfile(tarfile.TarInfo(name))
    with pytest.raises(SystemExit, match=r"Windows|no python/bin/python3"):
        tarball.make(tmp_path / "given.tar", tmp_path, tmp_path / "out.tar.gz")
