"""``--load`` and ``--save``: the tree of the command in a file, in the form of :mod:`pyzk.protocol.dump`.
``--load`` also takes a snapshot or a data directory of a server.

* A file is loaded before the server listens, as a whole or not at all. Ephemerals become persistent znodes,
  or they are left out because their sessions are over.
* A tree is saved after the server has stopped, into a new file that then replaces the old file. A crash
  therefore leaves the old file. Only the owner can read the file, because ACLs contain digests.
* The server's own znodes, below ``/zookeeper``, are not saved; neither is the ACL of ``/``.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial

from ...protocol.dump import WHOLE, Choice, Node, below, chosen, fields_of, parsed
from ...protocol.errors import UnimplementedError, ZooKeeperError
from ...protocol.records import OPEN_ACL
from ..core.engine import Engine
from ..core.tree import DataTree
from ..logger import logger
from ..testing import tree_io


class DumpError(ValueError):
    """A file cannot be loaded or saved. The message is one line that says why."""


def read(path: str, choice: Choice = WHOLE) -> list[Node]:
    """The znodes of a file.

    :raises DumpError: the file cannot be read, a line is not a znode, or the file has no such subtree.
    """
    from ...protocol.files import places
    from ...protocol.files.nodes import nodes_of

    try:
        if places.is_data(path):
            image = places.image_at(path, partial(logger.warning, "%s: %s", path))
            found = list(chosen(nodes_of(image, choice.subtree), choice))
        else:
            with open(path, encoding="utf-8") as file:
                found = list(chosen(below(parsed(file), choice.subtree), choice))
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DumpError(f"{path} is not text in UTF-8; pyzk dump shows the form") from None
    except ValueError as error:
        raise DumpError(f"{path}, {error}") from None
    if not found and choice.subtree != "/":
        raise DumpError(f"{path} has no {choice.subtree}; pyzk inspect shows what there is")
    return found


def load(engine: Engine, nodes: list[Node], path: str) -> None:
    """Create the znodes from :func:`read`.

    :raises DumpError: a znode cannot be created. Then no znode is created.
    """
    wanted: tree_io.Flat = {
        node.path: tree_io.Node(
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
        logger.info(
            "%s: %d ephemeral znodes are left out: their sessions are over; --load-ephemerals loads them",
            path,
            left_out,
        )
    try:
        tree_io.load(engine, wanted, engine.started)
    except UnimplementedError as error:
        raise DumpError(
            f"cannot load {path}: TTL znodes need extendedTypesEnabled=true: {error.path}"
        ) from None
    except (ZooKeeperError, ValueError) as error:
        raise DumpError(f"cannot load {path}: {error}") from None


def save(tree: DataTree, path: str) -> None:
    """Write a tree.

    :raises DumpError: writing is impossible.
    """
    beside = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            for at, node in tree_io.read(tree).items():
                ttl = node.ttl / 1000 if node.kind == "ttl" else None
                line = fields_of(Node(at, node.data, node.acl, node.kind, ttl, node.owner))
                file.write(f"{json.dumps(line, ensure_ascii=False)}\n")
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise DumpError(f"cannot write {path}: {error.strerror}") from None
