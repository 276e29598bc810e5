"""The module of the helpers for Java, built by Maven without a network from Debian's packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from ..support.needs import need

ROOT = Path(__file__).parents[2]
DEBIAN: Final = Path("/usr/share/maven-repo")
ARTIFACTS: Final = {
    "resources.version": "org/apache/maven/plugins/maven-resources-plugin",
    "compiler.version": "org/apache/maven/plugins/maven-compiler-plugin",
    "surefire.version": "org/apache/maven/plugins/maven-surefire-plugin",
    "junit.version": "org/junit/jupiter/junit-jupiter-engine",
    "curator.version": "org/apache/curator/curator-test",
}
"""The properties of the module, and the folders with the versions that Debian has."""


def missing() -> str | None:
    if shutil.which("mvn") is None:
        return "no Maven on the PATH"
    absent = (path for path in ARTIFACTS.values() if not (DEBIAN / path).is_dir())
    return next((f"no {path} in {DEBIAN}" for path in absent), None)


def version(path: str) -> str:
    """Return the version that Debian has. Debian's lower versions, and ``debian``, are other names of it."""
    found = (each.name for each in (DEBIAN / path).iterdir() if re.fullmatch(r"[\d.]+", each.name))
    return max(found, key=lambda name: [int(part) for part in name.split(".")])


def test_the_module_is_built_and_tested_without_a_network(tmp_path: Path) -> None:
    need(missing())
    shutil.copytree(ROOT / "examples/java", tmp_path / "java", ignore=shutil.ignore_patterns("target"))
    # Maven writes beside what it reads: links in a folder of the test.
    shutil.copytree(DEBIAN, tmp_path / "repository", copy_function=os.symlink)
    given = {
        **{name: version(path) for name, path in ARTIFACTS.items()},
        "maven.repo.local": str(tmp_path / "repository"),
        "test": "PyzkExtensionTest",
    }
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["mvn", "--offline", "--batch-mode", *(f"-D{name}={value}" for name, value in given.items()), "test"],
        cwd=tmp_path / "java",
        env={**os.environ, "PATH": commands},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$", done.stdout, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > 0
    assert (tmp_path / "java/target/classes/pyzk/PyzkServer.class").exists()
