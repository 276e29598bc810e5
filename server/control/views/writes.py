"""Single writes like the writes of a client. A write can require the version that the writer has seen. ACLs
are not checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.multi import MultiOp
from ....protocol.operations import OpCode
from ....protocol.paths import validate_path
from ....protocol.records import DeleteRequest, SetDataRequest
from ....protocol.text import session_text
from ...testing import tree_io
from .. import forms
from ..routes import ApiError, Ask, Field, Route
from .tree import stat_form

if TYPE_CHECKING:
    from ..control import Control

ANY: Final = -1
"""The version that matches every znode."""


def _create(control: Control, ask: Ask) -> Any:
    given = dict(ask.values)
    path, sequential = given.pop("path"), given.pop("sequential", False)
    if "session" in given:
        given["owner"] = session_text(control.find(given.pop("session")).id)
        given.setdefault("kind", "ephemeral")
    node = forms.read_node(given)
    if node.kind == "ephemeral" and not node.owner:
        raise ValueError("an ephemeral znode needs the session that it belongs to: give session")
    result = _commit(control, path, tree_io.creation(path, node, sequential=sequential), node.owner)
    return {"path": result.response.path}


def _set(control: Control, ask: Ask) -> Any:
    path, version = ask.values["path"], _version(ask)
    data = forms.read_data(ask.values["data"])
    result = _commit(control, path, MultiOp(OpCode.SET_DATA, SetDataRequest(path, data, version)))
    return {"path": path, "stat": stat_form(result.response.stat)}


def _delete(control: Control, ask: Ask) -> Any:
    path, version = ask.values["path"], _version(ask)
    _commit(control, path, MultiOp(OpCode.DELETE, DeleteRequest(path, version)))
    return {"path": path}


def _version(ask: Ask) -> int:
    version: int = ask.values.get("version", ANY)
    if not -(2**31) <= version < 2**31:
        raise ApiError(400, f"version is a number of 32 bits, not {version}")
    return version


def _commit(control: Control, path: str, operation: MultiOp, owner: int = 0) -> Any:
    """Execute a write after all requests that clients have sent before it. At the return, the events of the
    write have been sent."""
    validate_path(path)
    running = control.controls.running
    running.server.receive()
    running.enter(f"{OpCode(operation.op).name.lower()} {path}")
    try:
        now = running.service.at(running.clock.now())
        [result] = tree_io.commit(control.controls.writer(), owner, {path: operation}, now)
        return result
    finally:
        running.server.flush()


_PATH: Final = Field("string", "a path", required=True)
_DATA: Final = 'text, {"base64": "..."} or null'
_VERSION: Final = Field("integer", f"the version that the znode must have; {ANY} means any version")

ROUTES: Final = (
    Route(
        "POST",
        "/znode",
        _create,
        "Create a znode. Its parent must exist.",
        {
            "path": _PATH,
            "data": Field("any", _DATA),
            "kind": Field(
                "string",
                "the kind of the znode (default: persistent)",
                choices=("persistent", "ephemeral", "container", "ttl"),
            ),
            "sequential": Field("boolean", "whether the server appends a number"),
            "ttl_ms": Field("integer", "of a TTL znode"),
            "session": Field("string", "whose ephemeral it is"),
            "acl": Field("array", 'such as {"scheme": "world", "id": "anyone", "perms": 31}', items="object"),
        },
        answer="The path of the znode, with the number if the znode is sequential.",
        needs_history=False,
    ),
    Route(
        "PUT",
        "/znode",
        _set,
        "Replace the data of a znode.",
        {"path": _PATH, "data": Field("any", _DATA, required=True), "version": _VERSION},
        answer="Its Stat.",
        needs_history=False,
    ),
    Route(
        "DELETE",
        "/znode",
        _delete,
        "Delete a znode without children.",
        {"path": _PATH, "version": _VERSION},
        needs_history=False,
    ),
)
