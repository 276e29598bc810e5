"""``python -m release.locked``: write ``lock.txt`` anew, from the newest versions that pip finds.

``lock.txt`` is a file for ``pip install --require-hashes -r``. It names everything that pyzk-server needs,
directly or not, each with the hash of its wheel and of its source distribution, in this order. Nothing there
is for one platform: all of it is pure Python. On Windows trio needs ``cffi`` besides, which is compiled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final, NamedTuple

from .build import ROOT

FILE: Final = Path(__file__).with_name("lock.txt")
_HEAD: Final = "# Written by python -m release.locked; hashes of the wheel and of the source distribution\n"
_LINE: Final = re.compile(r"(\S+)==(\S+) --hash=sha256:(\w{64}) --hash=sha256:(\w{64})\n")


class Locked(NamedTuple):
    name: str
    version: str
    wheel: str
    """The SHA-256 of the wheel, in hexadecimal digits."""
    sdist: str
    """The SHA-256 of the source distribution."""

    @property
    def file(self) -> str:
        """The name of the source distribution."""
        return f"{self.name}-{self.version}.tar.gz"


def locked() -> list[Locked]:
    """What is in ``lock.txt``."""
    return [Locked(*line) for line in _LINE.findall(FILE.read_text())]


def check_installed() -> None:
    """Check that this interpreter has the versions of ``lock.txt``.

    :raises SystemExit: it has others.
    """
    for each in locked():
        found = distribution(each.name).version
        if found != each.version:
            raise SystemExit(f"{each.name} {found} is installed, and release/lock.txt has {each.version}")


def _found(names: Iterable[str], *flags: str) -> dict[str, tuple[str, str]]:
    """Return version and hash by name, of what pip would install."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--report",
        "-",
    ]
    report: dict[str, Any] = json.loads(
        subprocess.run([*pip, *flags, *names], check=True, capture_output=True).stdout
    )
    return {
        each["metadata"]["name"]: (
            each["metadata"]["version"],
            each["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for each in report["install"]
    }


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wheels = _found(project["dependencies"], "--only-binary", ":all:")
    exact = [f"{name}=={version}" for name, (version, _) in wheels.items()]
    sdists = _found(exact, "--no-deps", "--no-binary", ":all:")
    lines = [
        f"{name}=={version} --hash=sha256:{wheel} --hash=sha256:{sdists[name][1]}\n"
        for name, (version, wheel) in sorted(wheels.items())
    ]
    FILE.write_text(_HEAD + "".join(lines))


if __name__ == "__main__":
    main()
