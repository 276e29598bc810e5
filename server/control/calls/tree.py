"""Reads, loads, comparisons and snapshots of the tree."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...core.tree import DataTree
from ...net.http import Response
from ...testing import snapshots, tree_io
from ...testing.controls.tree import differs, expecting, load_steps, restoring
from .. import forms
from ..routes import ApiError, Ask, Field, Route, answer_text, look_up
from ..views.turns import Turns, read

if TYPE_CHECKING:
    from ..control import Control


_MAX_SNAPSHOTS: Final = 64
_MAX_BYTES: Final = 2**30
"""The largest estimated number of bytes that all snapshots together take in memory. A single snapshot can
be larger."""
_NAMED: Final = 5
"""The error that there is no room for another snapshot names this number of snapshots: the largest ones."""
_MOST_LOADED: Final = 100_000
"""The largest number of znodes of one load, including their parents. A load is one transaction. With this
limit, it takes at most 0.5 s."""
_MAX_DIFFERENCES: Final = 1000
"""Lines of a comparison."""


async def _dump(control: Control, ask: Ask) -> Any:
    path, turns, running = ask.values.get("path", "/"), Turns(), control.controls.running
    running.receive()
    nodes = await read(running.engine.tree, path, turns)
    if ask.values.get("format") == "text":
        return answer_text(tree_io.format_tree(nodes))
    pieces = []
    for at, node in nodes.items():
        pieces.append(json.dumps({at: forms.node_form(node)}, ensure_ascii=False)[1:-1].encode())
        await turns.pause()
    return Response(200, b'{"znodes": {' + b", ".join(pieces) + b"}}\n", {"content-type": "application/json"})


async def _load(control: Control, ask: Ask) -> Any:
    given, turns = ask.values["znodes"], Turns()
    znodes = await turns.finish(_read_znodes(given))
    await turns.finish(load_steps(control.controls, znodes, _MOST_LOADED))
    return {"loaded": len(znodes)}


async def _diff(control: Control, ask: Ask) -> Any:
    path, turns, running = ask.values.get("path", "/"), Turns(), control.controls.running
    expected = await turns.finish(expecting(path, await turns.finish(_read_znodes(ask.values["znodes"]))))
    running.receive()
    actual = await read(running.engine.tree, path, turns)
    lines = await turns.finish(tree_io.differences(expected, actual.items()))
    if not lines:
        return {"equal": True, "message": "", "differences": []}
    if (more := len(lines) - _MAX_DIFFERENCES) > 0:
        lines[_MAX_DIFFERENCES:] = [f".. and {more:,} more"]
    return {"equal": False, "message": differs(path, lines), "differences": lines}


def _read_znodes(given: Mapping[str, Any]) -> Generator[None, None, dict[str, Any]]:
    znodes: dict[str, Any] = {}
    for path, form in given.items():
        if not path.startswith("/"):
            raise ApiError(400, f"znodes are named by their whole path, not {path!r}")
        try:
            # of plain data only the data is compared
            znodes[path] = forms.read_node(form) if _is_object(form) else forms.read_data(form)
        except (ValueError, TypeError) as error:
            raise ApiError(400, f"{path}: {error}") from None
        yield
    return znodes


def _is_object(form: Any) -> bool:
    return isinstance(form, Mapping) and "base64" not in form


async def _new_snapshot(control: Control, ask: Ask) -> Any:
    running = control.controls.running
    running.receive()
    size = snapshots.size_of(running.engine.tree)
    _check_room(control, size)
    number = control.number()
    control.copying[number] = size
    try:
        snapshot = await Turns().finish(snapshots.take(running))
    finally:
        del control.copying[number]
    control.snapshots[number] = snapshot
    return {"snapshot": number, "zxid": f"0x{snapshot.zxid:x}"}


def _check_room(control: Control, size: int) -> None:
    """:raises ApiError: 409: there is no room for a snapshot of this size."""
    sizes = {number: each.bytes for number, each in control.snapshots.items()} | control.copying
    kept = sum(sizes.values())
    if len(sizes) >= _MAX_SNAPSHOTS:
        raise ApiError(409, f"there are {_MAX_SNAPSHOTS} snapshots already; delete some")
    if sizes and kept + size > _MAX_BYTES:
        largest = sorted(control.snapshots, key=lambda number: (-sizes[number], number))[:_NAMED]
        named = ", ".join(f"/snapshots/{number} ({_mib(sizes[number])})" for number in largest)
        raise ApiError(
            409,
            f"the snapshots take {_mib(kept)} and a new one takes {_mib(size)}, but the limit is "
            f"{_mib(_MAX_BYTES)}; "
            f"DELETE {named or 'the snapshots that are being taken'}",
        )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


async def _restore(control: Control, ask: Ask) -> Any:
    number, snapshot = look_up(control.snapshots, ask.values["snapshot"], "snapshot")
    controls, turns = control.controls, Turns()
    running = controls.running
    if controls.ensemble is not None:
        servers = len([*controls.ensemble.running.each()])
        controls.restore(await turns.finish(snapshot.copied(servers)))
        return {"snapshot": number}
    if type(running.engine.tree) is not DataTree:  # it keeps digests
        controls.restore(snapshot)
        return {"snapshot": number}

    def about_to() -> None:
        running.enter(restoring(snapshot))

    running.receive()
    rest = await turns.finish(snapshots.bring_back(running, snapshot, about_to))
    running.server.flush()
    await turns.finish(rest)
    return {"snapshot": number}


async def _delete_snapshot(control: Control, ask: Ask) -> Any:
    number, _ = look_up(control.snapshots, ask.values["snapshot"], "snapshot")
    snapshot = control.snapshots.pop(number)
    if control.controls.ensemble is None:  # the log of an ensemble may need it for a server that comes late
        await Turns().finish(snapshot.forget())
    return {}


_ZNODES: Final = Field("object", 'path: data, or {"data", "acl", "kind", "ttl_ms", "owner"}', required=True)
_PATH: Final = Field("string", "the path of a znode (default: /)")

ROUTES: Final = (
    Route(
        "GET",
        "/tree",
        _dump,
        "The znode at a path and all znodes below it.",
        {
            "path": _PATH,
            "format": Field("string", "the form of the answer (default: json)", choices=("json", "text")),
        },
        serves=("dump", "format_tree"),
    ),
    Route(
        "POST",
        "/tree",
        _load,
        "Create znodes, or replace their data.",
        {"znodes": _ZNODES},
        serves=("load",),
    ),
    Route(
        "POST",
        "/tree/diff",
        _diff,
        "Compare the tree with an expected tree.",
        {"znodes": _ZNODES, "path": _PATH},
        serves=("assert_tree",),
    ),
    Route("POST", "/snapshots", _new_snapshot, "Take a snapshot of the whole tree.", serves=("snapshot",)),
    Route("POST", "/snapshots/{snapshot}/restore", _restore, "Bring a tree back.", serves=("restore",)),
    Route("DELETE", "/snapshots/{snapshot}", _delete_snapshot, "Forget it."),
)
