"""``--load`` and ``--save``: the tree of the command in a file, in the form of :mod:`pyzk.protocol.dump`.
``--load`` also takes a snapshot or a data directory of a server.

* A file is loaded before the server listens, as a whole or not at all. Ephemerals are left out: their
  sessions are gone.
* A tree is saved once the server has stopped, into a file beside the old one that then takes its place: a
  crash leaves the old one. Only the owner may read it, as digests stand in ACLs.
* The server's own znodes, below ``/zookeeper``, are not saved; neither is the ACL of ``/``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ..protocol.dump import Node, fields_of, node_of
from ..protocol.errors import UnimplementedError, ZooKeeperError
from ..protocol.files.streams import begins_snapshot
from ..protocol.records import OPEN_ACL
from .core.engine import Engine
from .core.tree import DataTree
from .logger import logger
from .testing import contents


class DumpError(ValueError):
    """A file that cannot be loaded or saved: one line that says why."""


def read(path: str) -> list[Node]:
    """The znodes of a file.

    :raises DumpError: if it cannot be read, or a line of it is no znode.
    """
    if os.path.isdir(path) or _is_snapshot(path):
        return _stored(path)
    try:
        with open(path, encoding="utf-8") as file:
            return list(_nodes(file, path))
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DumpError(f"{path} is not text in UTF-8; pyzk dump shows the form") from None


def _is_snapshot(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return begins_snapshot(file.read(4))
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from None


def _stored(path: str) -> list[Node]:
    """The znodes of a snapshot, or of a data directory."""
    from ..protocol.files.nodes import nodes_of
    from ..protocol.files.restoring import Damaged, Restorer, read_image
    from ..protocol.files.streams import FileError
    from .storage.directory import DataDirectory

    try:
        if os.path.isdir(path):
            directory = DataDirectory(path)
            tell = partial(logger.warning, "%s: %s", path)
            image = Restorer(os.listdir(directory.folder), directory.read, tell=tell).restore().image
        else:
            with open(path, "rb") as file:
                image, _ = read_image(file, -1)
    except (FileError, Damaged) as error:
        raise DumpError(f"{path}: {error}") from None
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from None
    return list(nodes_of(image))


def _nodes(lines: Iterator[str], path: str) -> Iterator[Node]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield node_of(line)
            except ValueError as error:
                raise DumpError(f"{path}, line {number}: {error}; pyzk dump shows the form") from None


def load(engine: Engine, nodes: list[Node], path: str) -> None:
    """Create znodes that :func:`read` has returned.

    :raises DumpError: if one cannot be created; then none is.
    """
    wanted: contents.Flat = {
        node.path: contents.Node(
            data=node.data,
            acl=OPEN_ACL if node.acl is None else node.acl,
            kind=node.kind,  # type: ignore[arg-type] # read() has looked
            ttl=round((node.ttl or 0) * 1000),
        )
        for node in nodes
        if node.kind != "ephemeral"
    }
    left_out = len(nodes) - len(wanted)
    if left_out:
        logger.info("%s: %d ephemeral znodes are left out: their sessions are gone", path, left_out)
    try:
        contents.load(engine, wanted, engine.started)
    except UnimplementedError as error:
        raise DumpError(
            f"cannot load {path}: TTL znodes need extendedTypesEnabled=true: {error.path}"
        ) from None
    except (ZooKeeperError, ValueError) as error:
        raise DumpError(f"cannot load {path}: {error}") from None


def save(tree: DataTree, path: str) -> None:
    """Write a tree.

    :raises DumpError: if that is impossible.
    """
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            for at, node in contents.read(tree).items():
                ttl = node.ttl / 1000 if node.kind == "ttl" else None
                line = fields_of(Node(at, node.data, node.acl, node.kind, ttl, node.owner))
                file.write(f"{json.dumps(line, ensure_ascii=False)}\n")
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise DumpError(f"cannot write {path}: {error.strerror}") from None
