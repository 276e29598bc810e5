"""``python -m release.recipes FOLDER --url URL``: a formula for Homebrew and a recipe for conda-forge.

They are made of ``lock.txt`` and of FOLDER, that of ``release.build``: the hash of the source distribution is
taken from there, and the recipes come beside it. URL is where source distributions are, with ``{name}``,
``{letter}`` (its first one) and ``{file}``: which index is meant is for who publishes to say.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Final

from .build import ROOT, command
from .locked import locked

_PYTHON: Final = "3.13"
_FORMULA: Final = """\
class PyzkServer < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "{homepage}"
  url "{url}"
  sha256 "{sha256}"
  license "{license}"

  depends_on "python@{python}"
{resources}
  def install
    virtualenv_install_with_resources
  end

  test do
    port = free_port
    server = spawn bin/"pyzk-server", "--port", port.to_s
    ENV["PYZK_HOSTS"] = "127.0.0.1:#{{port}}"
    system bin/"pyzk", "health", "--wait", "30s"
    system bin/"pyzk", "create", "/found", "it"
    assert_equal "it", shell_output("#{{bin}}/pyzk get /found").strip
  ensure
    Process.kill "TERM", server
    Process.wait server
  end
end
"""
_RESOURCE: Final = """
  resource "{name}" do
    url "{url}"
    sha256 "{sha256}"
  end
"""
_RECIPE: Final = """\
schema_version: 1

context:
  version: "{version}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: {url}
  sha256: {sha256}

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
{commands}

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
    - {backend}
  run:
    - python >=${{{{ python_min }}}}
{needs}

tests:
  - python:
      imports:
        - pyzk
        - pyzk.server.testing
      pip_check: true
      python_version: ${{{{ python_min }}}}.*
  - script:
{versions}

about:
  homepage: {homepage}
  summary: {description}
  license: {license}
  license_file: LICENSE

extra:
  recipe-maintainers:
    - {maintainer}
"""


def _lines(indent: int, found: list[str]) -> str:
    return "\n".join(f"{' ' * indent}- {each}" for each in found)


def recipes(sdist: Path, url: str, homepage: str, maintainer: str) -> dict[str, str]:
    """Return the texts of both files by their names.

    :param sdist: the source distribution that is released.
    """
    everything = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = everything["project"]
    version = re.sub(r".*-|\.tar\.gz$", "", sdist.name)

    def where(name: str, file: str) -> str:
        return url.format(name=name, letter=name[0], file=file)

    ours = {
        "name": project["name"],
        "version": version,
        "description": project["description"],
        "license": project["license"],
        "homepage": homepage,
        "maintainer": maintainer,
        "url": where(project["name"], sdist.name),
        "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "python": _PYTHON,
    }
    resources = "".join(
        _RESOURCE.format(name=each.name, url=where(each.name, each.file), sha256=each.sdist)
        for each in locked()
    )
    commands = [f"{name} = {target}" for name, target in project["scripts"].items()]
    (backend,) = everything["build-system"]["requires"]
    return {
        "pyzk-server.rb": _FORMULA.format(**ours, resources=resources),
        "recipe.yaml": _RECIPE.format(
            **ours,
            backend=backend.replace(">=", " >="),
            commands=_lines(6, commands),
            needs=_lines(4, [need.replace(">=", " >=") for need in project["dependencies"]]),
            versions=_lines(6, [f"{name} --version" for name in project["scripts"]]),
        ),
    }


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--url", required=True, help="of a file: https://.../{letter}/{name}/{file}")
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--maintainer", required=True, help="of the conda-forge recipe: a name on GitHub")
    given = parser.parse_args()
    (sdist,) = given.folder.glob("*.tar.gz")
    for name, text in recipes(sdist, given.url, given.homepage, given.maintainer).items():
        (given.folder / name).write_text(text)
        print(given.folder / name)


if __name__ == "__main__":
    main()
