"""What publishes a release, and the papers of it: the workflow, the lock file, the bill of materials."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion

from release.locked import FILE, locked
from release.sbom import sbom

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").iterdir())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_hash(path: Path) -> None:
    used = re.findall(r"^\s*-? *uses: (.*)$", path.read_text(), re.MULTILINE)
    assert used
    for line in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


def test_publishing_needs_no_password() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    assert "id-token: write" in text
    assert "secrets." not in text
    assert "password" not in text.replace("no password exists", "")


def test_the_lock_names_all_that_is_needed_and_nothing_else() -> None:
    """No versions: the tests run with the newest ones."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [*project["dependencies"]]
    while waiting:
        need = waiting.pop()
        name = re.split(r"[^\w.-]", need)[0]
        if "extra ==" in need or "os_name ==" in need or "python_version <" in need or name in found:
            continue
        found.add(name)
        waiting += distribution(name).requires or []
    assert {each.name for each in locked()} == found
    assert len(locked()) == FILE.read_text().count("==")


def test_the_bill_of_materials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = sbom()
    from cyclonedx.validation.json import JsonStrictValidator  # it parses 38 grammars, for 2 s

    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(found))
    assert wrong is None
    assert found == sbom()  # no time of day, no random number
    assert {each["name"] for each in found["components"]} == {each.name for each in locked()}
    trio = next(each for each in found["dependencies"] if "/trio@" in each["ref"])
    assert {need.partition("@")[0].rpartition("/")[2] for need in trio["dependsOn"]} == {
        "attrs",
        "idna",
        "outcome",
        "sniffio",
        "sortedcontainers",
    }
