"""``python -m release.ways``: each way to get the server, until a client has a session.

It prints the tables of docs/install.md. uv and pipx are installed into a temporary folder, with caches of
their own, which are empty at first. The wheel takes the place of the name, as no index has the project.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from pyzk import blocking

from . import single, tarball
from .build import ROOT, build, command

HEADS: Final = {
    "installed": "| Command | It prints | Seconds, the first time | again | Bytes |\n|---|---|---|---|---|",
    "file": "| Python | Installed copy, s | Its file, s | Processor time | Bytes |\n|---|---|---|---|---|",
    "tarball": "| Command | It prints | Seconds | Bytes |\n|---|---|---|---|",
    "java": "| A test in Java finds the server by | Seconds |\n|---|---|",
}
_JAVA: Final = """\
package pyzk;

public class Start {
    public static void main(String[] arguments) throws Exception {
        PyzkServer server = new PyzkServer(java.util.Map.of());
        System.out.println(server.getConnectString());
        System.in.read();
        System.exit(0);
    }
}
"""
_SERVER: Final = ("--port", "0", "--end-with-stdin", "--log-level", "error")


@attrs.frozen
class Start:
    """One start.

    :ivar ready: the line that the server has printed.
    :ivar seconds: the time from the start of the command until a client has a session.
    :ivar processor: the time of the processor that the server itself has used until then, in s.
    """

    ready: str
    seconds: float
    processor: float


def start(*line: str | Path, around: dict[str, str] | None = None) -> Start:
    """Run the command of a server until a client has a session."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [*map(str, line), *_SERVER], env=around, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().strip()
        with blocking.connect(ready.split()[-1]):
            seconds = time.perf_counter() - begin
            used = [
                path.read_text().split()[0] for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")
            ]
        process.communicate()
    return Start(ready, seconds, sum(map(int, used)) / 1e9)


def size(*paths: Path) -> int:
    """The bytes of files and folders."""
    files = (file for path in paths for file in ([path] if path.is_file() else path.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


@contextmanager
def tools(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """uv and pipx: the folder of their commands, and the variables with which they use an own cache."""
    subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
    subprocess.run([folder / "tools/bin/pip", "install", "--quiet", "uv", "pipx"], check=True)
    names = ("UV_CACHE_DIR", "UV_TOOL_DIR", "PIPX_HOME", "PIPX_BIN_DIR", "PIP_CACHE_DIR")
    own = {name: str(folder / name.lower()) for name in names}
    yield folder / "tools/bin", {**os.environ, **own, "UV_PYTHON": sys.executable}


def first_and_again(wheel: Path, folder: Path) -> Iterator[str]:
    """Yield the rows of the first table."""

    def row(text: str, first: Start, again: Start, taken: int) -> str:
        return f"| {text} | `{again.ready}` | {first.seconds:.1f} | {again.seconds:.1f} | {taken:,} |"

    with tools(folder) as (commands, around):
        for text, line, places in (
            ("uvx --from {}", (commands / "uvx", "--from", wheel), ("UV_CACHE_DIR", "UV_TOOL_DIR")),
            ("pipx run --spec {}", (commands / "pipx", "run", "--spec", wheel), ("PIPX_HOME",)),
        ):
            found = [start(*line, "pyzk-server", around=around) for _ in range(2)]
            taken = size(*(Path(around[name]) for name in places))
            yield row(f"`{text.format(wheel.name)} pyzk-server --port 0`", found[0], found[1], taken)
    begin = time.perf_counter()
    installed(wheel, folder / "venv")
    installing = time.perf_counter() - begin
    found = [start(folder / "venv/bin/pyzk-server") for _ in range(2)]
    first = attrs.evolve(found[0], seconds=found[0].seconds + installing)
    text = "`python3 -m venv`, `pip install`, `pyzk-server --port 0`"
    yield row(text, first, found[1], size(folder / "venv"))


def by_the_action(folder: Path) -> str:
    """Return the row of what the GitHub action runs; it installs the tree itself."""
    folder.mkdir()
    output = folder / "output"
    given = {"PYTHON": sys.executable, "PORT": "0", "ARGUMENTS": "", "SOURCE": str(ROOT)}
    given |= {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(output), "GITHUB_PATH": str(folder / "path")}
    begin = time.perf_counter()
    line = ["bash", str(ROOT / "release/action/start.sh")]
    printed = subprocess.run(line, env=os.environ | given, check=True, capture_output=True, text=True).stdout
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    with blocking.connect(outputs["hosts"]):
        seconds = time.perf_counter() - begin
    os.kill(int(outputs["pid"]), signal.SIGTERM)
    return (
        f"| `release/action/start.sh` | `{printed.splitlines()[0]}` | {seconds:.1f} | - | {size(folder):,} |"
    )


def by_java(wheel: Path, folder: Path) -> Iterator[str]:
    """Yield the rows of what the helper for Java finds: ``PyzkServer`` and ``PyzkCommand``."""
    folder.mkdir()
    classes, python = folder / "classes", folder / "python"
    (folder / "Start.java").write_text(_JAVA)
    sources = [
        ROOT / f"examples/java/src/main/java/pyzk/{name}.java" for name in ("PyzkServer", "PyzkCommand")
    ]
    subprocess.run(["javac", "-d", classes, *sources, folder / "Start.java"], check=True)
    command = installed(wheel, folder / "venv")
    python.mkdir()
    (python / "python3").symlink_to(Path(sys.executable).resolve())
    java = str(shutil.which("java"))

    def row(what: str, *places: Path, **variables: str) -> str:
        path = os.pathsep.join([*map(str, places), "/usr/bin", "/bin"])
        found = start(java, "-cp", classes, "pyzk.Start", around={**os.environ, **variables, "PATH": path})
        return f"| {what} | {found.seconds:.1f} |"

    yield row("`PYZK_SERVER`", PYZK_SERVER=str(command))
    yield row("`pyzk-server` on the `PATH`", command.parent)
    with tools(folder) as (commands, around):
        yield row("`uvx` on the `PATH`, the first time", commands, UV_FIND_LINKS=str(wheel.parent), **around)
    single.make(classes / "pyzk/pyzk-server.pyz")
    yield row("`pyzk-server.pyz` beside the classes", python)


def installed(wheel: Path, folder: Path, python: str = sys.executable) -> Path:
    """Install the wheel in an environment of its own, and return the command."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", wheel], check=True)
    return folder / "bin/pyzk-server"


def in_turns(lines: Sequence[Sequence[str | Path]], rounds: int) -> list[Start]:
    """Start each command so many times, in turns: the lower quartiles."""
    found: list[list[Start]] = [[] for _ in lines]
    for _ in range(rounds):
        for starts, line in zip(found, lines, strict=True):
            starts.append(start(*line))
    return [
        Start(
            starts[0].ready,
            statistics.quantiles([each.seconds for each in starts])[0],
            statistics.quantiles([each.processor for each in starts])[0],
        )
        for starts in found
    ]


def one_file(wheel: Path, folder: Path, python: str, rounds: int) -> str:
    """Return a row of the second table."""
    ours = installed(wheel, folder, python)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "setuptools>=77"], check=True)
    pyz = folder / "pyzk-server.pyz"
    subprocess.run(
        [folder / "bin/python", "-m", "release.single", pyz], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    version = subprocess.check_output(
        [python, "-c", "import platform; print(platform.python_version())"], text=True
    )
    copy, file = in_turns([[ours], [folder / "bin/python", "-I", pyz]], rounds)
    ratio = file.processor / copy.processor
    return f"| {version.strip()} | {copy.seconds:.2f} | {file.seconds:.2f} | {ratio:.0%} | {size(pyz):,} |"


def with_a_python(python: Path, folder: Path, rounds: int) -> str:
    """Return the row of the tarball.

    :param python: a file of python-build-standalone, or one in that form, with the release that runs this.
    """
    folder.mkdir()
    pyz, file = folder / "pyzk-server.pyz", folder / "pyzk-server.tar.gz"
    single.make(pyz)
    tarball.make(python, pyz, file)
    with tarfile.open(file) as packed:
        packed.extractall(folder, filter="data")
    (found,) = in_turns([[folder / "pyzk-server/bin/pyzk-server"]], rounds)
    return f"| `bin/pyzk-server --port 0` | `{found.ready}` | {found.seconds:.2f} | {size(file):,} |"


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--python", action="append", default=[], help="one more Python, for the one file")
    parser.add_argument("--standalone", type=Path, help="a file of python-build-standalone, for the tarball")
    parser.add_argument("--rounds", type=int, default=25, help="starts of each command, in turns")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        wheel = build("wheel", ROOT, folder)
        print(HEADS["installed"])
        for row in first_and_again(wheel, folder):
            print(row, flush=True)
        print(by_the_action(folder / "action"), flush=True)
        print("", HEADS["java"], sep="\n")
        for row in by_java(wheel, folder / "java"):
            print(row, flush=True)
        print("", HEADS["file"], sep="\n")
        for number, python in enumerate((sys.executable, *given.python)):
            print(one_file(wheel, folder / str(number), python, given.rounds), flush=True)
        if given.standalone:
            print("", HEADS["tarball"], sep="\n")
            print(with_a_python(given.standalone, folder / "tarball", given.rounds))


if __name__ == "__main__":
    main()
