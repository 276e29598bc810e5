"""What is built of the project, installed where nothing else of it is: wheel, source distribution, zipapp."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from release.build import build

from .conftest import EPOCH, FOLDERS, files_of_the_code, page, running, said_by

ROOT = Path(__file__).parents[2]
COMMANDS = ("pyzk", "pyzk-server", "pyzk-lock", "pyzk-sweep")

pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 or newer builds the project")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def sdist(archive: Path) -> Path:
    """The unpacked source distribution."""
    with tarfile.open(archive) as file:
        file.extractall(archive.parent / "unpacked", filter="data")
    (unpacked,) = (archive.parent / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds what the project needs, and not the project: the folder of its commands."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    needed = Path(pytest.__file__).parents[1]  # files *.pth in there are not looked at, so ours is not found
    (packages / "needed.pth").write_text(f"{needed}\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(bare: Path, wheel: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", bare / "python"]
    subprocess.run([*pip, "install", "--no-compile", "--no-deps", "--no-index", wheel], check=True)
    return bare


def test_the_folder_pyzk_links_to_each_folder_of_code() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"pyzk", "tests", "benchmarks", "release"} == set(FOLDERS)
    for name in FOLDERS:
        assert (ROOT / "pyzk" / name).readlink() == Path("..", name)


def test_the_wheel_holds_the_code_and_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if name.startswith("pyzk/")} == files_of_the_code()


def test_the_source_distribution_holds_what_a_reader_needs(sdist: Path) -> None:
    found = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    for folder in ("docs", "examples", "conf", *FOLDERS):
        here = {path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"}
        assert {path.relative_to(ROOT).as_posix() for path in here} <= found
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"} <= found
    assert {"pyproject.toml", "setup.py"} <= found


def test_two_builds_have_equal_bytes(sdist: Path, archive: Path, wheel: Path, tmp_path: Path) -> None:
    """The second one is made of the source distribution: other times, other modes, another place."""
    for path in sdist.rglob("*"):
        path.chmod(0o700)
    assert build("wheel", sdist, tmp_path).read_bytes() == wheel.read_bytes()
    with tarfile.open(build("sdist", sdist, tmp_path)) as again, tarfile.open(archive) as first:
        left_out = ("/setup.cfg", "/SOURCES.txt")  # names what is beside it
        ours, theirs = (
            {member.name: (member.mtime, member.mode, member.uid, member.uname) for member in file}
            for file in (first, again)
        )
        assert {name for name in ours if not name.endswith(left_out)} <= set(theirs)
        assert {about[:1] + about[2:] for about in (*ours.values(), *theirs.values())} == {(EPOCH, 0, "")}
        assert set(ours.values()) == set(theirs.values())
    assert archive.read_bytes()[4:8] == EPOCH.to_bytes(4, "little")  # the time in the head of the .gz file


def test_the_index_would_take_them(wheel: Path, archive: Path) -> None:
    said_by(sys.executable, "-m", "twine", "--no-color", "check", "--strict", wheel, archive, cwd=ROOT)


def test_an_installation_in_a_bare_environment_works(installed: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(project["scripts"]) == sorted(COMMANDS)
    assert project["name"] in COMMANDS  # so uvx and pipx need no other name
    with running(installed / "pyzk-server", cwd=tmp_path) as (hosts, url):
        said_by(installed / "pyzk-lock", "--hosts", hosts, "/lock", "--", "true", cwd=tmp_path)
        for pyzk in ([installed / "pyzk"], [installed / "python", "-m", "pyzk"]):
            assert "lock" in said_by(*pyzk, "--hosts", hosts, "ls", "/", cwd=tmp_path).split()
        for file, content in written(installed / "pyzk", tmp_path).items():
            assert content == (ROOT / "examples" / file).read_bytes()
        assert page(url) == (ROOT / "server/control/page/index.html").read_bytes()
    code = "import pyzk, pyzk.aio as aio; print(pyzk.__version__, pyzk.__file__, aio.__file__)"
    version, *files = said_by(installed / "python", "-c", code, cwd=tmp_path).split()
    said = [said_by(installed / command, "--version", cwd=tmp_path).split()[1] for command in COMMANDS]
    assert said == [version] * len(COMMANDS)
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


def written(pyzk: Path, folder: Path) -> dict[str, bytes]:
    """What ``pyzk helper`` writes, by its place in ``examples/``."""
    found = {}
    for language, place in (("java", "java/src/main/java"), ("go", "go"), ("node", "node")):
        target = folder / language
        for name in said_by(pyzk, "helper", language, target, cwd=folder).splitlines():
            found[f"{place}/{Path(name).relative_to(target).as_posix()}"] = Path(name).read_bytes()
    assert len(found) == 5
    return found


def test_what_errors_say_to_install_are_the_extras() -> None:
    """By their own names: ``pyzk-server[tls]`` installs nothing while no index has the project."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {need.split(">=")[0] for name in ("snappy", "metrics", "tls", "srv") for need in extras[name]}
    said = {
        name
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"pip install ([\w-]+)", path.read_text())
    }
    assert said == known
