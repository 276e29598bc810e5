"""``python -m release.single FILE``: the server and its commands as one file, ``pyzk-server.pyz``.

The file holds the sources of pyzk, except the client for threads and asyncio, and of all that it needs, as
this interpreter has them installed, so it runs with any Python from 3.11. For the release of Python that
makes it, it also holds the bytecode of the modules that are loaded until the server is ready: there it starts
as quickly as an installed copy (``release/single_main.py``). The file has at most 2 MB, which are 2,000,000
bytes. So functions and modules of pyzk have no docstrings there. Those of classes stay: some are messages.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import marshal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from .build import ROOT, build, command, zip_entry
from .locked import check_installed, locked

_SHEBANG: Final = b"#!/usr/bin/env python3\n"
_LEFT_OUT: Final = ("_tests", "testing", "_tools", "py.typed")
"""Parts of names of what packages bring for other purposes. Ours are not looked at."""
_NO_COMMANDS: Final = ("pyzk/aio/", "pyzk/blocking/", "pyzk/bridge/")
"""What no command uses: the client for threads and asyncio."""
_DOCUMENTED: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)
_LOADED: Final = """
import sys
sys.path.insert(0, sys.argv[1])
import trio
from pyzk.server.app.cli import main
class Ready:
    def write(self, text):
        if text.strip():
            print(*sorted(sys.modules), file=sys.__stdout__, flush=True)
    def flush(self):
        pass
sys.stdout = Ready()
sys.exit(main(["--port", "0", "--end-with-stdin", "--log-level", "error"]))
"""


def _needed() -> Iterator[tuple[str, bytes]]:
    """Yield the sources and the licences of what is locked, as installed here."""
    for each in locked():
        for path in distribution(each.name).files or []:
            licence = ".dist-info/licenses/" in str(path) or path.name.startswith(("LICENSE", "AUTHORS"))
            source = path.suffix == ".py" and not set(_LEFT_OUT) & set(path.parts)
            if (licence or source) and ".." not in path.parts:
                yield path.as_posix(), path.read_binary()


def _ours(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            if name.endswith("py.typed") or name.startswith(_NO_COMMANDS):
                continue
            if ".dist-info/" not in name or "/licenses/" in name:
                content = file.read(name)
                yield name, _undocumented(content) if name.endswith(".py") else content


def _loaded(unpacked: Path) -> set[str]:
    """Return the modules that a server has loaded when it is ready."""
    command = [sys.executable, "-I", "-c", _LOADED, str(unpacked)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def _undocumented(source: bytes) -> bytes:
    """Return a module with empty docstrings, at the same lines: they are a quarter of it, compressed."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, _DOCUMENTED) or ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        first, last = text.lineno - 1, (text.end_lineno or 0) - 1
        behind = lines[last][text.end_col_offset :]
        lines[first : last + 1] = [
            lines[first][: text.col_offset] + b'""' + b"\n" * (last - first) + behind,
            *[b""] * (last - first),
        ]
    return b"".join(lines)


def _bytecode(files: dict[str, bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        loaded = _loaded(Path(folder))
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in files
        if name.endswith(".py")
    }
    compiled = functools.partial(compile, dont_inherit=True, optimize=0)
    return marshal.dumps(
        {
            module: marshal.dumps(compiled(_undocumented(files[name]), f"pyzk-server.pyz/{name}", "exec"))
            for module, name in sorted(modules.items())
            if module in loaded
        }
    )


def make(to: Path, *, bytecode: bool = True) -> None:
    """Write the file, for its owner and others to run.

    :param bytecode: false leaves the bytecode out.
    :raises SystemExit: the project cannot be built.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = dict([*_needed(), *_ours(build("wheel", ROOT, Path(folder)))])
    if bytecode:
        files[f"bytecode/{importlib.util.MAGIC_NUMBER.hex()}"] = _bytecode(files)
    files["__main__.py"] = (ROOT / "release/single_main.py").read_bytes()
    with to.open("wb") as out:
        out.write(_SHEBANG)
        with zipfile.ZipFile(out, "w") as packed:
            for name in sorted(files):
                packed.writestr(zip_entry(name), files[name], compresslevel=9)
    to.chmod(0o755)


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="pyzk-server.pyz")
    parser.add_argument("--locked", action="store_true", help="refuse versions other than those of lock.txt")
    parser.add_argument("--no-bytecode", action="store_true", help="smaller, and slower to start")
    arguments = parser.parse_args()
    if arguments.locked:
        check_installed()
    make(arguments.file, bytecode=not arguments.no_bytecode)
    print(arguments.file, arguments.file.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
