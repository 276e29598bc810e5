"""Where the clients of other languages lie on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .needs import need

_NODE_MODULES = Path(__file__).parents[2] / "build" / "node" / "node_modules"
_GO_SOURCES = Path("/usr/share/gocode/src/github.com")
_GO_CLIENTS = ("go-zookeeper/zk", "samuel/go-zookeeper/zk")
"""The client that the examples import, and the one that it was forked from."""


def link_node_modules(project: Path) -> None:
    """Let programs in a folder find node-zookeeper-client. Skips the test where there is none."""
    need(None if shutil.which("node") else "no node on the PATH (Debian: apt-get install nodejs)")
    client = "node-zookeeper-client"
    if not (_NODE_MODULES / client).exists():  # not from Debian, so even .ci/run may be without it
        pytest.skip(
            f"there is no build/node/node_modules/{client} (npm install --prefix build/node {client})"
        )
    (project / "node_modules").symlink_to(_NODE_MODULES)


def go_variables(workspace: Path) -> dict[str, str]:
    """Make a folder a GOPATH with a client, as Debian's packages are made for; with modules, ``go get`` does
    the same. Returns the environment for ``go``."""
    need(None if shutil.which("go") else "no go on the PATH (Debian: apt-get install golang-go)")
    found = [_GO_SOURCES / client for client in _GO_CLIENTS if (_GO_SOURCES / client).exists()]
    package = "golang-github-samuel-go-zookeeper-dev"
    need(None if found else f"no ZooKeeper client in {_GO_SOURCES} (Debian: apt-get install {package})")
    client = workspace / "src" / "github.com" / _GO_CLIENTS[0]
    client.parent.mkdir(parents=True)
    client.symlink_to(found[0])
    return {"GOPATH": str(workspace), "GO111MODULE": "off", "GOFLAGS": ""}
