"""What CI systems read: of the published schemas; what of it is a script runs, where pip installs nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples/ci"
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("github-actions", [ROOT / "action.yml"]),
        ("github-workflows", [*(ROOT / ".github/workflows").iterdir(), *CI.glob("github-*.yml")]),
        ("gitlab-ci", [CI / "gitlab-ci.yml"]),
        ("compose-spec", [*(Path(__file__).parent / "compose").iterdir()]),
    ],
)
def test_the_published_schema(schema: str, paths: list[Path]) -> None:
    from check_jsonschema import main as check_jsonschema  # it parses 38 grammars: 2 s of each worker

    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", *map(str, paths)])
    assert done.exit_code == 0, done.output


def test_the_action_pins_what_it_uses() -> None:
    used = re.findall(r"^ .*uses: (.*)$", (ROOT / "action.yml").read_text(), re.MULTILINE)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line) for line in used)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python whose environments have our commands at once, and whose pip has nothing to do."""
    path = tmp_path / "stand-ins/python3"
    path.parent.mkdir()
    commands = "pyzk pyzk-server"
    path.write_text(f"""#!/bin/sh
test "$1 $2" = "-m venv" && mkdir -p "$3/bin" && ln -s {shutil.which("true")} "$3/bin/pip"
for each in {commands}; do ln -s {BIN}/$each "$3/bin/$each"; done
""")
    path.chmod(0o755)
    return path


def test_what_the_action_runs(python: Path, tmp_path: Path) -> None:
    around = {
        **os.environ,
        "PYTHON": str(python),
        "PORT": "0",
        "ARGUMENTS": "--tick-time 100 --log-level debug",
        "SOURCE": str(ROOT),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_PATH": str(tmp_path / "path"),
    }
    script = ["bash", str(ROOT / "release/action/start.sh")]
    subprocess.run(script, env=around, check=True, stdout=subprocess.DEVNULL)
    outputs = dict(line.split("=") for line in (tmp_path / "output").read_text().splitlines())
    try:
        folder = Path((tmp_path / "path").read_text().strip())
        command = [folder / "pyzk", "--hosts", outputs["hosts"], "ls", "/"]
        assert subprocess.run(command, capture_output=True, text=True).stdout == "zookeeper\n"
        assert outputs["http"].startswith("http://127.0.0.1:")
        assert Path(outputs["log"]).exists()
    finally:
        os.kill(int(outputs["pid"]), signal.SIGTERM)
    around |= {"ARGUMENTS": "--no-such-flag", "RUNNER_TEMP": str(tmp_path / "again")}
    refused = subprocess.run(script, env=around, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "--no-such-flag" in refused.stderr


def test_what_jenkins_runs(python: Path, tmp_path: Path) -> None:
    make = python.with_name("make")
    make.write_text('#!/bin/sh\n.pyzk/bin/pyzk --hosts "$ZK_HOSTS" ls /\n')
    make.chmod(0o755)
    (script,) = re.findall(r"sh '''(.*?)'''", (CI / "Jenkinsfile").read_text(), re.DOTALL)
    around = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-xe", "-c", script], cwd=tmp_path, env=around, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "zookeeper\n"
