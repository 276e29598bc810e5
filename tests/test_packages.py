"""The wheel holds every folder of code."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_folder_of_code_is_a_package():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {
        ".".join(["pyzk", *path.parent.relative_to(ROOT).parts])
        for part in ("protocol", "server", "client", "recipes", "bridge", "blocking", "aio", "cli")
        for path in (ROOT / part).rglob("*.py")
    }
    assert sorted(listed) == sorted(folders)
