"""Parts of the tree: one znode, a page of children, the results of a search."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ....protocol.records import Stat
from ....protocol.text import session_text
from ...core.znode import Znode
from ...net.http import Response, Send
from ...testing.tree_io import kind_of, walk
from ..routes import ApiError, Ask, Field, Route
from .common import (
    AFTER,
    LIMIT,
    PATH,
    TEXT,
    limit_of,
    masked,
    session_label,
    text_filter,
    znode_at,
    zxid_form,
)
from .turns import Turns, first_names

if TYPE_CHECKING:
    from ..control import Control

_PIECE: Final = 64 * 1024
"""The default number of bytes of data in one answer."""
_LONGEST: Final = 2**20
"""The largest number of bytes of data in one answer. An answer of this size takes 5 ms."""
LINES: Final = {"content-type": "application/x-ndjson", "cache-control": "no-store"}
"""The headers of an answer that is sent line by line."""
_ZXIDS: Final = ("czxid", "mzxid", "pzxid")
_NUMBERS: Final = (
    "ctime",
    "mtime",
    "version",
    "cversion",
    "aversion",
    "dataLength",
    "numChildren",
)


def row(control: Control, name: str, node: Znode) -> dict[str, Any]:
    """A znode in a list."""
    return {
        "name": name,
        "kind": kind_of(node),
        "owner": session_label(control, node.ephemeral_owner),
        "children": len(node.children or ()),
        "bytes": len(node.data or b""),
        "version": node.version,
        "ctime": node.ctime,
        "mtime": node.mtime,
    }


async def _children(control: Control, ask: Ask) -> Any:
    path, limit = ask.values.get("path", "/"), limit_of(ask.values)
    node = znode_at(control, path)
    children = node.children
    turns = Turns()
    names, more = await first_names(
        [list(children or ())],
        text_filter(ask.values),
        limit,
        turns,
        after=ask.values.get("after", ""),
    )
    found = ((name, children.get(name)) for name in names) if children else ()
    return {
        "path": path,
        "count": len(children or ()),
        "children": [row(control, name, child) for name, child in found if child is not None],
        "more": more,
    }


def _znode(control: Control, ask: Ask) -> Any:
    path = ask.values.get("path", "/")
    node = znode_at(control, path)
    offset, length = ask.values.get("offset", 0), ask.values.get("length", _PIECE)
    if offset < 0 or not 0 <= length <= _LONGEST:
        raise ApiError(400, f"offset is at least 0, and length from 0 to {_LONGEST:,} bytes")
    data = node.data
    return {
        "path": path,
        "kind": kind_of(node),
        "owner": session_label(control, node.ephemeral_owner),
        "ttl_ms": node.ttl,
        "stat": stat_form(node.stat()),
        "acl": [
            {
                "scheme": each.id.scheme,
                "id": masked(each.id.scheme, each.id.id),
                "perms": each.perms,
            }
            for each in node.acl
        ],
        "bytes": len(data or b""),
        "offset": offset,
        "base64": None if data is None else base64.b64encode(data[offset : offset + length]).decode(),
        "watchers": control.controls.running.engine.watches.count_at(path),
    }


def stat_form(stat: Stat) -> dict[str, Any]:
    """Return the form of a Stat: times in ms since the epoch; zxids and the session as text."""
    owner = stat.ephemeralOwner
    return {
        **{name: zxid_form(getattr(stat, name)) for name in _ZXIDS},
        **{name: getattr(stat, name) for name in _NUMBERS},
        "ephemeralOwner": session_text(owner) if owner else None,
    }


def _search(control: Control, ask: Ask) -> Response:
    values = ask.values
    znode_at(control, values.get("path", "/"))
    limit = limit_of(values)
    if not values["text"]:
        raise ApiError(400, "text is empty: give a part of a name, of a path or of data")
    return Response(200, headers=LINES, stream=partial(_found, control, values, limit))


async def _found(control: Control, values: Any, limit: int, send: Send) -> None:
    """Send a line for each found znode. The last line says how many znodes were searched."""
    in_names, in_data = values.get("in") != "data", values.get("in") in ("data", "both")
    text = values["text"].lower()
    raw, whole_path = values["text"].encode(), "/" in text
    turns, looked_at, found = Turns(), 0, 0
    await send(b"")
    for path, node in walk(control.controls.running.engine.tree, values.get("path", "/")):
        looked_at += 1
        name = path[path.rindex("/") + 1 :]
        hit = in_names and text in (path if whole_path else name).lower()
        if hit or (in_data and node.data and raw in node.data):
            found += 1
            if found > limit:
                break
            await send(line({"path": path, **row(control, name, node)}))
        await turns.pause()
    await send(
        line({"done": True, "looked_at": looked_at, "found": min(found, limit), "more": found > limit})
    )


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


ROUTES: Final = (
    Route(
        "GET",
        "/children",
        _children,
        "The children of a znode, in pages and in the order of their names.",
        {"path": PATH, "after": AFTER, "text": TEXT, "limit": LIMIT},
        answer="The children, the number of all children, and whether there are more children after these.",
        needs_history=False,
    ),
    Route(
        "GET",
        "/znode",
        _znode,
        "One znode: its Stat, its ACL without digests, and a piece of its data.",
        {
            "path": PATH,
            "offset": Field("integer", "the first byte of the data (default: 0)"),
            "length": Field(
                "integer",
                f"the number of bytes of the data, at most {_LONGEST:,} (default: {_PIECE:,})",
            ),
        },
        answer="The znode; times are in ms since the epoch.",
        needs_history=False,
    ),
    Route(
        "GET",
        "/search",
        _search,
        "Search at and below a path: a line of JSON for each znode, in no order.",
        {
            "text": Field(
                "string",
                "a part of a name or of data; if the text has a slash, a part of a path",
                required=True,
            ),
            "path": PATH,
            "in": Field("string", "where to search (default: name)", choices=("name", "data", "both")),
            "limit": LIMIT,
        },
        answer="Lines; the last line has `done`, and says whether there are more results.",
        needs_history=False,
    ),
)
