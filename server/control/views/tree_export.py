"""The export of a subtree to a file, and the import of such a file. The format is the format that ``pyzk
dump`` writes and ``pyzk load`` reads.

* Export: the znodes at and below a path, parents first. Each znode is a line of JSON. The line contains the
  ACL with its digests. The znodes are counted before they are sent: at most 100,000 znodes with 32 MiB of
  data. The export counts and sends the znodes in short steps, between which other requests are served. If the
  tree changes meanwhile, the export may be a tree that never existed.
* Import: a request has as many lines of such a file as fit into it. All lines are read before a znode is
  written. Then each turn writes 50 znodes as one transaction. ACLs are not checked.
* If a znode of the file exists with the same data, nothing is written. If the znode exists with other data,
  the import ends, or it replaces the data if the request says so. If the import ends, the znodes that were
  written before remain. The ACL of an existing znode is never changed.
* Ephemerals are left out because they belong to sessions. ``/zookeeper`` is left out because each server has
  its own ``/zookeeper``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ....protocol import dump
from ....protocol.errors import NodeExistsError
from ....protocol.paths import validate_path
from ...core.tree import DataTree
from ...net.http import Response, Send
from ...testing import tree_io
from ...testing.tree_io import walk
from ..routes import ApiError, Ask, Field, Route
from .common import PATH, znode_at
from .tree import LINES, line
from .turns import Turns

if TYPE_CHECKING:
    from ..control import Control

_MOST: Final = 100_000
"""The largest number of znodes of an export. So many znodes make about 10 MB of lines, which a browser keeps
in memory."""
_LARGEST: Final = 32 * 2**20
"""The largest number of bytes of data of an export."""
_STEP: Final = 50
"""The number of znodes that are written in one transaction. This takes 1 ms."""


async def _export(control: Control, ask: Ask) -> Response:
    path = ask.values.get("path", "/")
    znode_at(control, path)
    tree, turns, count, size = control.controls.running.engine.tree, Turns(), 0, 0
    for _, node in _below(tree, path):
        count, size = count + 1, size + len(node.data or b"")
        if count > _MOST or size > _LARGEST:
            most = f"{_MOST:,} znodes or {_LARGEST // 2**20} MiB of data"
            raise ApiError(
                409,
                f"the export of {path} would have more than {most}; export a part of it, or use pyzk dump",
            )
        await turns.pause()
    return Response(200, headers=LINES, stream=partial(_lines, tree, path))


async def _lines(tree: DataTree, top: str, send: Send) -> None:
    turns = Turns()
    await send(b"")
    for path, node in _below(tree, top):
        seconds = node.ttl / 1000 if node.ttl else None
        at = path.removeprefix(top.rstrip("/")) or "/"
        kind = tree_io.kind_of(node)
        fields = dump.fields_of(dump.Node(at, node.data, node.acl, kind, seconds, node.ephemeral_owner))
        await send(line(fields))
        await turns.pause()


def _below(tree: DataTree, top: str) -> Iterator[Any]:
    for path, node in walk(tree, top):
        if not f"{path}/".startswith(f"{tree_io.RESERVED}/"):
            yield path, node


# --- import ------------------------------------------------------------------------------------------------


async def _import(control: Control, ask: Ask) -> Any:
    top, overwrite = ask.values["path"], ask.values.get("overwrite", False)
    validate_path(top)
    turns, left_out = Turns(), 0
    nodes: dict[str, tree_io.Node] = {}
    for number, text in enumerate(ask.values["lines"], 1):
        try:
            path, node = _read(text, top)
        except ValueError as error:
            raise ApiError(400, f"line {number}: {error}") from None
        if node.kind == "ephemeral" or f"{path}/".startswith(f"{tree_io.RESERVED}/"):
            left_out += 1
        else:
            nodes[path] = node
        await turns.pause()
    written = 0
    waiting = iter(nodes.items())
    while some := dict(islice(waiting, _STEP)):
        written += _write(control, some, overwrite)
        await turns.pause()
    return {"written": written, "same": len(nodes) - written, "left_out": left_out}


def _read(text: str, top: str) -> tuple[str, tree_io.Node]:
    """Return the znode that a line describes, with its whole path.

    :raises ValueError: the line is not a znode.
    """
    node = dump.node_of(text)
    path = top if node.path == "/" else top.rstrip("/") + node.path
    given: dict[str, Any] = {"data": node.data, "kind": node.kind}
    if node.acl is not None:
        given["acl"] = node.acl
    if node.ttl is not None:
        given["ttl"] = round(1000 * node.ttl)
    return path, tree_io.Node(**given)


def _write(control: Control, nodes: dict[str, tree_io.Node], overwrite: bool) -> int:
    """Create znodes with their parents, or replace their data. Return the number of znodes that were written.

    :raises NodeExistsError: a znode has other data and ``overwrite`` is not set.
    """
    running = control.controls.running
    running.server.receive()
    writer = control.controls.writer()
    there = {path: node for path in nodes if (node := writer.tree.find(path)) is not None}
    missing = {
        path: node for path, node in nodes.items() if path not in there or there[path].data != node.data
    }
    if not overwrite and (others := missing.keys() & there):
        raise NodeExistsError(min(others), "it holds other data; replace the data, or choose another place")
    if missing:
        running.enter(f"import {len(missing)} znodes")
        try:
            tree_io.load(writer, tree_io.flatten(missing), running.service.at(running.clock.now()))
        finally:
            running.server.flush()
    return len(missing)


ROUTES: Final = (
    Route(
        "GET",
        "/export",
        _export,
        "The znodes at and below a path, as pyzk dump writes them.",
        {"path": PATH},
        answer="A line of JSON for each znode, parents first. The status is 409 for too many znodes.",
        needs_history=False,
    ),
    Route(
        "POST",
        "/import",
        _import,
        "Create the znodes of a file that pyzk dump or /export has written.",
        {
            "path": Field(
                "string",
                "the path at which the top of the file is created; missing parents are created too",
                required=True,
            ),
            "lines": Field("array", "lines of the file", required=True, items="string"),
            "overwrite": Field("boolean", "whether to replace the data of znodes that exist"),
        },
        answer="The number of znodes that were written, of znodes that had the same data already, and of "
        "znodes that were left out.",
        needs_history=False,
    ),
)
