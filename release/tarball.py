"""``python -m release.tarball PYTHON PYZ FILE``: a Python and ``pyzk-server.pyz`` in one ``.tar.gz`` file.

PYTHON is a file ``cpython-3.13...-install_only.tar.gz`` of python-build-standalone, for any platform but
Windows, where trio needs cffi. PYZ has the bytecode of that release (``release/single.py``). Nothing is
downloaded. What a server does not need is left out: tests, headers, pip, Tk.
"""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path
from typing import Final

from .build import add, command, compress

_LEFT_OUT: Final = re.compile(
    r"python/(include|share)/|.*\.a$|.*/(tk|tcl|itcl|thread)\d[^/]*/"
    r"|python/lib/python3\.\d+/(test|idlelib|tkinter|turtledemo|lib2to3|ensurepip|site-packages|config-[^/]*)/"
)
_LAUNCHER: Final = """#!/bin/sh
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/../python/bin/python3" -I "$here/../pyzk-server.pyz" {} "$@"
"""


def make(python: Path, pyz: Path, to: Path) -> None:
    """Write the file; it has one folder, named as the file.

    :raises SystemExit: ``python`` is not of python-build-standalone, or for Windows.
    """
    top = to.name.removesuffix(".tar.gz")
    written = io.BytesIO()
    with tarfile.open(python) as given:  # read once, in its order: a compressed file has no other places
        members = [(member, given.extractfile(member).read() if member.isfile() else b"") for member in given]  # type: ignore[union-attr]
    with tarfile.open(fileobj=written, mode="w") as packed:
        names = {member.name for member, _ in members}
        if "python/python.exe" in names:
            raise SystemExit("no file for Windows: trio needs cffi there, which is compiled")
        if "python/bin/python3" not in names:
            raise SystemExit(f"{python} has no python/bin/python3: it is no install_only file")

        def program(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(content), 0o755
            add(packed, member, io.BytesIO(content))

        for name in ("pyzk", "pyzk-lock", "pyzk-server"):
            program(f"bin/{name}", _LAUNCHER.format(name).encode())
        program("pyzk-server.pyz", pyz.read_bytes())
        for member, content in sorted(members, key=lambda found: found[0].name):
            if not _LEFT_OUT.match(f"{member.name}/" if member.isdir() else member.name):
                member.name = f"{top}/{member.name}"
                if member.islnk():
                    member.linkname = f"{top}/{member.linkname}"
                add(packed, member, io.BytesIO(content) if member.isfile() else None)
    compress(written.getvalue(), to)


def main() -> None:
    parser = command(__doc__)
    for name in ("python", "pyz", "file"):
        parser.add_argument(name, type=Path, metavar=name.upper())
    arguments = parser.parse_args()
    make(arguments.python, arguments.pyz, arguments.file)
    print(arguments.file, arguments.file.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
