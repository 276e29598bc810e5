"""``python -m release.sbom FILE``: what a release consists of, as CycloneDX 1.6 in JSON.

Versions and hashes are those of ``lock.txt``; licences are those that the installed packages name themselves.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from .build import ROOT, command, epoch
from .locked import locked

_SPDX: Final = {"Apache 2.0": "Apache-2.0"}
"""Of packages whose metadata are older than the field License-Expression."""
_NAME: Final = re.compile(r"[\w.-]+")


def _licence(name: str) -> dict[str, Any]:
    metadata = distribution(name).metadata.json  # a mapping of the names in small letters
    found = str(metadata.get("license_expression") or metadata["license"])
    spelled = _SPDX.get(found, found)
    return {"expression": spelled} if " " in spelled else {"license": {"id": spelled}}


def _needs(name: str, known: dict[str, str]) -> list[str]:
    """Return the references of what a package needs, of what is locked; extras are not asked for."""
    names = (_NAME.match(need) for need in distribution(name).requires or [] if "extra ==" not in need)
    return sorted({known[found[0]] for found in names if found and found[0] in known})


def sbom() -> dict[str, Any]:
    """Return the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, version = project["name"], distribution(project["name"]).version
    ours = f"pkg:pypi/{name}@{version}"
    known = {each.name: f"pkg:pypi/{each.name}@{each.version}" for each in locked()}
    when = datetime.fromtimestamp(epoch(), UTC)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{ours} {when} {sorted(known.values())}").urn,
        "version": 1,
        "metadata": {
            "timestamp": when.isoformat(),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": name,
                "version": version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": ours,
            },
        },
        "components": [
            {
                "type": "library",
                "bom-ref": known[each.name],
                "name": each.name,
                "version": each.version,
                "hashes": [{"alg": "SHA-256", "content": each.wheel}],
                "licenses": [_licence(each.name)],
                "purl": known[each.name],
            }
            for each in locked()
        ],
        "dependencies": [
            {"ref": ours, "dependsOn": _needs(name, known)},
            *({"ref": ref, "dependsOn": _needs(each, known)} for each, ref in known.items()),
        ],
    }


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="where it is written")
    parser.parse_args().file.write_text(json.dumps(sbom(), indent=2) + "\n")


if __name__ == "__main__":
    main()
