"""The wheel holds every folder of code."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_file_of_the_page_is_in_the_wheel():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = ROOT / "server" / "control"
    listed = {path for pattern in data["pyzk.server.control"] for path in folder.glob(pattern)}
    assert (folder / "page" / "index.html") in listed
    assert listed == {path for path in (folder / "page").rglob("*") if path.is_file()}


def test_every_folder_of_code_is_a_package():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {
        ".".join(["pyzk", *path.parent.relative_to(ROOT).parts])
        for part in ("protocol", "server", "client", "recipes", "bridge", "blocking", "aio", "cli")
        for path in (ROOT / part).rglob("*.py")
    }
    assert sorted(listed) == sorted(folders)
