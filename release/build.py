"""``python -m release.build FOLDER``: the wheel and the source distribution, equal bytes at each build.

setuptools leaves in both what differs between machines: times, owners, modes, the order of files. Both are
packed again without. The version of setuptools itself is in the wheel: equal bytes need an equal version.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import IO, Final, Literal

ROOT: Final = Path(__file__).parents[1]
_HOOK: Final = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
_FILE, _PROGRAM, _FOLDER = 0o644, 0o755, 0o755


def epoch() -> int:
    """The time that all files get, in seconds since 1970: ``SOURCE_DATE_EPOCH``, or that of the last commit.

    :raises SystemExit: there is neither.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    try:
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise SystemExit("this is no clone: set SOURCE_DATE_EPOCH to the time of the release") from None


def build(what: Literal["wheel", "sdist"], source: Path, folder: Path) -> Path:
    """Build in a copy of a source tree, as setuptools leaves files in the one in which it works.

    :param folder: where the file that is built comes.
    :returns: that file.
    :raises SystemExit: setuptools has failed.
    """
    with tempfile.TemporaryDirectory() as place:
        copy, built = Path(place, "source"), Path(place, "built")
        left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
        shutil.copytree(source, copy, symlinks=True, ignore=left_out)
        command = [sys.executable, "-c", _HOOK.format(what), str(built)]
        built.mkdir()
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"setuptools has failed:\n{done.stderr}")
        (file,) = built.iterdir()
        (_pack_zip if what == "wheel" else _pack_tar)(file, folder / file.name)
        return folder / file.name


def zip_entry(name: str) -> zipfile.ZipInfo:
    """A compressed file of a zip file, with the time of :func:`epoch`."""
    entry = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix: the modes count
    entry.external_attr = (0o100000 | _FILE) << 16
    return entry


def _pack_zip(built: Path, to: Path) -> None:
    """Files in order; those about the wheel last, as readers of wheels like it, and RECORD behind them."""
    with zipfile.ZipFile(built) as file, zipfile.ZipFile(to, "w") as packed:
        for name in sorted(
            file.namelist(), key=lambda name: (".dist-info/" in name, "/RECORD" in name, name)
        ):
            packed.writestr(zip_entry(name), file.read(name), compresslevel=9)


def _pack_tar(built: Path, to: Path) -> None:
    written = io.BytesIO()
    with (
        tarfile.open(built) as file,
        tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for member in sorted(file.getmembers(), key=lambda member: member.name):
            member.pax_headers = {}
            add(packed, member, file.extractfile(member) if member.isfile() else None)
    compress(written.getvalue(), to)


def add(packed: tarfile.TarFile, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
    """Add a file to a tar file, without what only the machine knows that made it."""
    member.mtime, member.uid, member.gid, member.uname, member.gname = epoch(), 0, 0, "", ""
    member.mode = _FOLDER if member.isdir() else _PROGRAM if member.mode & 0o100 else _FILE
    packed.addfile(member, content)


def compress(content: bytes, to: Path) -> None:
    """Write a ``.gz`` file that has neither a name nor a time of its own."""
    with to.open("wb") as file, gzip.GzipFile("", "wb", 9, file, epoch()) as compressed:
        compressed.write(content)


def command(head: str | None) -> argparse.ArgumentParser:
    """The parser of a module's command, which the first line of the module describes."""
    usage, _, what = (head or "").partition("\n")[0].partition(": ")
    return argparse.ArgumentParser(prog=" ".join(usage.strip("`").split()[:3]), description=what)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m release.build", description=(__doc__ or "").split(": ")[1]
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the files come")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for what in ("sdist", "wheel"):
        print(build(what, ROOT, folder))


if __name__ == "__main__":
    main()
