"""A tree as text: JSON, one znode a line, parents before children. Paths begin at the top, which is ``/``::

    {"path": "/", "data": "text"}
    {"path": "/jobs", "data": "", "kind": "container"}
    {"path": "/jobs/1", "hex": "00ff", "acl": [{"scheme": "world", "id": "anyone", "perms": "r"}]}

``kind`` is ``persistent`` where it is missing, else ``ephemeral`` (with ``owner``, a session), ``container``
or ``ttl``, with ``ttl`` in seconds. Data that is not UTF-8 is ``hex``; null is null. Without ``acl`` all is
open to everybody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import attrs

from .constants import Perms
from .errors import BadArgumentsError
from .paths import validate_path
from .records import ACL, OPEN_ACL, Id
from .text import session_text as session_text

_PERMS = {"c": Perms.CREATE, "d": Perms.DELETE, "r": Perms.READ, "w": Perms.WRITE, "a": Perms.ADMIN}


@attrs.frozen
class Node:
    """A znode of a tree that is read or written.

    :ivar path: below the top of the tree, which is ``/``.
    :ivar acl: None if it is not known: open to everybody for a new znode, left as it is for one that exists.
    :ivar ttl: in seconds, of the kind ``ttl``.
    :ivar owner: the session of an ephemeral.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...] | None = None
    kind: str = "persistent"
    ttl: float | None = None
    owner: int = 0


def fields_of(node: Node) -> dict[str, Any]:
    """A znode as JSON has it."""
    fields: dict[str, Any] = {"path": node.path, **data_fields(node.data)}
    if node.acl and node.acl != OPEN_ACL:
        fields["acl"] = acl_fields(node.acl)
    if node.kind != "persistent":
        fields["kind"] = node.kind
    if node.ttl is not None:
        fields["ttl"] = node.ttl
    if node.owner:
        fields["owner"] = session_text(node.owner)
    return fields


def node_of(line: str) -> Node:
    """The znode of a line.

    :raises ValueError: if it is none; the message says why.
    """
    try:
        return _node(json.loads(line))
    except KeyError as error:
        raise ValueError(f"no {error}") from None
    except (TypeError, AttributeError, RecursionError, BadArgumentsError) as error:
        raise ValueError(str(error)) from None


def _node(fields: dict[str, Any]) -> Node:
    validate_path(fields["path"])
    data = bytes.fromhex(fields["hex"]) if "hex" in fields else fields["data"]
    if not isinstance(data, str | bytes | None):
        raise TypeError(f"data is text or null, not {data!r:.50}")
    kind = fields.get("kind", "persistent")
    if kind not in ("persistent", "ephemeral", "container", "ttl"):
        raise ValueError(f"there is no kind {kind!r:.50}")
    acl = None
    if "acl" in fields:
        acl = tuple(ACL(perms_of(one["perms"]), Id(one["scheme"], one["id"])) for one in fields["acl"])
    return Node(
        fields["path"],
        data.encode() if isinstance(data, str) else data,
        acl,
        kind,
        _seconds(fields["ttl"]) if kind == "ttl" else None,
    )


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"ttl is a number of seconds, not {value!r:.50}")
    return float(value)


# --- parts ------------------------------------------------------------------------------------------------


def data_fields(data: bytes | None) -> dict[str, str | None]:
    """Data as JSON has it: ``data`` if it is UTF-8 or null, else ``hex``."""
    if data is None:
        return {"data": None}
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def acl_fields(acl: Iterable[ACL]) -> list[dict[str, str]]:
    """An access control list as JSON has it."""
    return [
        {"scheme": entry.id.scheme or "", "id": entry.id.id or "", "perms": perms_text(entry.perms)}
        for entry in acl
    ]


def perms_text(perms: int) -> str:
    """Permissions as letters, of ``cdrwa``."""
    return "".join(letter for letter, bit in _PERMS.items() if perms & bit)


def perms_of(text: str) -> int:
    """The permissions of letters.

    :raises ValueError: for a letter that is none of ``cdrwa``.
    """
    if not set(text) <= set(_PERMS):
        raise ValueError(f"{text!r} are no permissions: give letters of cdrwa")
    return sum(_PERMS[letter] for letter in set(text))
