"""What is built here gets the same time in each run, and is tried where nothing else of the project is."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.name for path in (ROOT / "pyzk").iterdir() if path.is_symlink())
EPOCH = 1_700_000_000


@pytest.fixture(autouse=True, scope="module")
def at_one_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
        yield


def said_by(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(*command: str | Path, cwd: Path) -> Iterator[tuple[str, str]]:
    """A server: its connect string and its URL."""
    with subprocess.Popen(
        [*map(str, command), "--port", "0"], cwd=cwd, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1], process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def page(url: str, name: str = "") -> bytes:
    request = urllib.request.Request(url + name, headers={"accept": "text/html"})
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def files_of_the_code() -> set[str]:
    """What an installation must hold, as paths in a wheel."""
    found = {f"pyzk/{path.name}" for path in (ROOT / "pyzk").iterdir() if path.is_file()}
    for folder in FOLDERS:
        found |= {f"pyzk/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / folder).rglob("*.py*")}
    found |= {
        f"pyzk/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "server/control/page").iterdir()
    }
    java = (ROOT / "examples/java/src/main/java/pyzk").iterdir()
    helpers = [*java, ROOT / "examples/go/pyzktest/pyzktest.go", ROOT / "examples/node/pyzk.mjs"]
    found |= {f"pyzk/{path.relative_to(ROOT).as_posix()}" for path in helpers}
    return {name for name in found if not name.endswith(".pyc")}
