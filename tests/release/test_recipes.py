"""The Homebrew formula and the conda-forge recipe that a script makes of the lock file."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from release.locked import locked
from release.recipes import recipes

ROOT = Path(__file__).parents[2]
URL = "https://index.example/{letter}/{name}/{file}"


@pytest.fixture
def made(tmp_path: Path) -> dict[str, str]:
    sdist = tmp_path / "pyzk_server-0.1.0.tar.gz"
    sdist.write_bytes(b"as released")
    return recipes(sdist, URL, "https://home.example", "somebody")


def test_the_formula(made: dict[str, str], tmp_path: Path) -> None:
    text = made["pyzk-server.rb"]
    hashes = re.findall(r'sha256 "(\w{64})"', text)
    assert hashes == [hashlib.sha256(b"as released").hexdigest(), *(each.sdist for each in locked())]
    assert re.findall(r'resource "(.*)"', text) == [each.name for each in locked()]
    assert "https://index.example/t/trio/trio-" in text
    assert "https://index.example/p/pyzk-server/pyzk_server-0.1.0.tar.gz" in text
    assert text.count(" do\n") + text.count("def ") + text.count("class ") == len(
        re.findall(r"^ *end$", text, re.M)
    )
    if shutil.which("ruby"):
        (tmp_path / "formula.rb").write_text(text)
        subprocess.run(["ruby", "-c", tmp_path / "formula.rb"], check=True, stdout=subprocess.DEVNULL)


def test_the_recipe(made: dict[str, str]) -> None:
    found = YAML(typ="safe").load(made["recipe.yaml"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert found["context"]["version"] == "0.1.0"
    assert found["source"]["sha256"] == hashlib.sha256(b"as released").hexdigest()
    needs = [need.replace(" ", "") for need in found["requirements"]["run"][1:]]
    assert needs == project["dependencies"]
    points = dict(line.split(" = ") for line in found["build"]["python"]["entry_points"])
    assert points == project["scripts"]
    assert found["build"]["noarch"] == "python"
    assert found["tests"][0]["python"]["pip_check"]
    assert found["tests"][1]["script"] == [f"{name} --version" for name in project["scripts"]]
    assert found["about"]["license_file"] == "LICENSE"
