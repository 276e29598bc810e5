"""A tree as lines of JSON: one znode in each line, parents before children. The top of the tree has the path
``/``::

    {"path": "/", "data": "text"}
    {"path": "/jobs", "data": "", "kind": "container"}
    {"path": "/jobs/1", "hex": "00ff", "acl": [{"scheme": "world", "id": "anyone", "perms": "r"}]}

``kind`` is ``persistent``, ``ephemeral``, ``container`` or ``ttl``. A missing ``kind`` means ``persistent``.
An ephemeral has an ``owner``: the id of the session that owns the ephemeral. An ephemeral may also have a
``timeout``: the timeout of this session in seconds. The kind ``ttl`` has a ``ttl`` in seconds. Data that is
not UTF-8 is written as ``hex``. Null data is null. A znode without ``acl`` is open to everybody.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from .constants import Perms
from .errors import BadArgumentsError
from .paths import validate_path
from .records import ACL, OPEN_ACL, Id
from .text import session_text as session_text

_PERMS = {"c": Perms.CREATE, "d": Perms.DELETE, "r": Perms.READ, "w": Perms.WRITE, "a": Perms.ADMIN}
_MOST_SECONDS = 2**53
"""The largest time in seconds. The same time in ms fits into the 64 bits of a record's field."""


@attrs.frozen
class Node:
    """A znode of a tree that is read or written.

    :ivar path: the path below the top of the tree; the top itself has the path ``/``.
    :ivar acl: the ACL, or None if it is not known. Without an ACL a new znode is open to everybody, and an
        existing znode keeps its ACL.
    :ivar ttl: the TTL in seconds, for the kind ``ttl``.
    :ivar owner: the id of the session that owns an ephemeral; 0 for other kinds.
    :ivar timeout: the timeout of the owner's session in seconds; None if it is not known.
    :ivar stat: the Stat in the form of files (:data:`.files.snapshot.STAT`); None if it is not known.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...] | None = None
    kind: str = "persistent"
    ttl: float | None = None
    owner: int = 0
    stat: bytes | None = attrs.field(default=None, eq=False, repr=False)
    timeout: float | None = None


EPHEMERALS = ("omit", "keep", "persist")
"""The ways to copy ephemerals: leave them out, keep them as ephemerals of their sessions, or make them
persistent."""


@attrs.frozen
class Choice:
    """The part of a tree that is copied, and how it is copied.

    :ivar subtree: the path at which the part begins.
    :ivar acl: whether the access control lists are copied.
    :ivar ephemerals: one of :data:`EPHEMERALS`.
    :ivar masks: globs. The data of a znode is hidden if the path of the znode matches a glob. In this path,
        the subtree has the path ``/``.
    """

    subtree: str = "/"
    acl: bool = True
    ephemerals: str = "keep"
    masks: tuple[str, ...] = ()

    def take(self, node: Node) -> Node | None:
        """Return a znode for the copy, after the changes that the options demand; None if the znode is left
        out."""
        if node.kind == "ephemeral" and self.ephemerals != "keep":
            if self.ephemerals == "omit":
                return None
            node = attrs.evolve(node, kind="persistent", owner=0, timeout=None)
        if not self.acl and node.acl is not None:
            node = attrs.evolve(node, acl=None)
        if any(fnmatch.fnmatchcase(node.path, glob) for glob in self.masks):
            node = attrs.evolve(node, data=b"***")
        return node


WHOLE = Choice()


def chosen(nodes: Iterable[Node], choice: Choice) -> Iterator[Node]:
    """Yield the znodes of a copy, after the changes that the options demand. In the paths of ``nodes``, the
    subtree must already have the path ``/``."""
    return (found for node in nodes if (found := choice.take(node)) is not None)


def below(nodes: Iterable[Node], top: str) -> Iterator[Node]:
    """Yield the znodes at and below the path ``top``. In the yielded paths, ``top`` has the path ``/``."""
    base = "" if top == "/" else top
    for node in nodes:
        if node.path == top or node.path.startswith(f"{base}/"):
            yield node if not base else attrs.evolve(node, path=node.path[len(base) :] or "/")


def fields_of(node: Node) -> dict[str, Any]:
    """Return the JSON fields of a znode."""
    fields: dict[str, Any] = {"path": node.path, **data_fields(node.data)}
    if node.acl and node.acl != OPEN_ACL:
        fields["acl"] = acl_fields(node.acl)
    if node.kind != "persistent":
        fields["kind"] = node.kind
    if node.ttl is not None:
        fields["ttl"] = node.ttl
    if node.owner:
        fields["owner"] = session_text(node.owner)
    if node.timeout is not None:
        fields["timeout"] = node.timeout
    return fields


def node_of(line: str) -> Node:
    """Return the znode that a line describes.

    :raises ValueError: the line describes no znode; the message says why.
    """
    try:
        return _node(json.loads(line))
    except KeyError as error:
        raise ValueError(f"no {error}") from None
    except (TypeError, AttributeError, RecursionError, BadArgumentsError) as error:
        raise ValueError(str(error)) from None


def parsed(lines: Iterable[str], first: int = 1) -> Iterator[Node]:
    """Yield the znodes that lines describe. Empty lines are skipped, but empty lines count in the line
    numbers.

    :param first: the number of the first line.
    :raises ValueError: a line describes no znode; the message begins with the number of the line.
    """
    for number, line in enumerate(lines, first):
        if line.strip():
            try:
                yield node_of(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}; pyzk dump shows the form") from None


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
        acl = tuple(_entry(one["perms"], one["scheme"], one["id"]) for one in fields["acl"])
    return Node(
        fields["path"],
        data.encode() if isinstance(data, str) else data,
        acl,
        kind,
        _seconds(fields, "ttl") if kind == "ttl" else None,
        _session(fields["owner"]) if kind == "ephemeral" and "owner" in fields else 0,
        timeout=_seconds(fields, "timeout") if kind == "ephemeral" and "timeout" in fields else None,
    )


def _entry(perms: object, scheme: object, name: object) -> ACL:
    if not (isinstance(scheme, str) and isinstance(name, str) and isinstance(perms, str)):
        raise TypeError(f"scheme, id and perms are text, not {scheme!r:.50}, {name!r:.50}, {perms!r:.50}")
    return ACL(perms_of(perms), Id(scheme, name))


def _session(text: str) -> int:
    value = int(text, 16)
    if not 0 < value < 2**64:
        raise ValueError(f"owner is the id of a session, as in 0x1a2b, not {text!r:.50}")
    return value if value < 2**63 else value - 2**64


def _seconds(fields: dict[str, Any], name: str) -> float:
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_SECONDS:
        raise ValueError(f"{name} is a number of seconds, not {value!r:.50}")
    return float(value)


# --- parts ------------------------------------------------------------------------------------------------


def data_fields(data: bytes | None) -> dict[str, str | None]:
    """Return the JSON field of data: ``data`` if it is UTF-8 or null, else ``hex``."""
    if data is None:
        return {"data": None}
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def acl_fields(acl: Iterable[ACL]) -> list[dict[str, str]]:
    """Return an access control list as JSON objects."""
    return [
        {"scheme": entry.id.scheme or "", "id": entry.id.id or "", "perms": perms_text(entry.perms)}
        for entry in acl
    ]


def perms_text(perms: int) -> str:
    """Return the letters of permissions, out of ``cdrwa``."""
    return "".join(letter for letter, bit in _PERMS.items() if perms & bit)


def perms_of(text: str) -> int:
    """Return the permissions that letters mean.

    :raises ValueError: a letter is not in ``cdrwa``.
    """
    if not set(text) <= set(_PERMS):
        raise ValueError(f"{text!r} are no permissions: give letters of cdrwa")
    return sum(_PERMS[letter] for letter in set(text))
