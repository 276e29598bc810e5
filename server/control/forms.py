"""The JSON forms of the objects of the API, and the functions that read these forms.

* The data of a znode is text if it is UTF-8, otherwise ``{"base64": "..."}``. Null data is null.
* A session is ``"0x..."`` with 16 digits, as in the timeline.
* Times are in seconds. Times in fields whose names end in ``_ms`` are in ms.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from ...protocol.records import ACL, OPEN_ACL, Id
from ...protocol.text import session_number, session_text
from ..testing.advisor.finding import Finding
from ..testing.chaos import Injected
from ..testing.faults import Fault
from ..testing.history import Entry
from ..testing.holding import HeldMessage
from ..testing.sessions import SessionInfo
from ..testing.tree_io import Node

JSON: TypeAlias = Any
_NODE_KEYS = frozenset(("data", "base64", "acl", "kind", "ttl_ms", "owner"))


def data_form(data: bytes | None) -> JSON:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def read_data(form: JSON) -> bytes | None:
    """:raises ValueError: the value is not the JSON form of data."""
    match form:
        case None:
            return None
        case str():
            return form.encode()
        case {"base64": str(text)} if len(form) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"base64: {error}") from None
    raise ValueError('data is a string, {"base64": "..."} or null')


def acl_form(acl: tuple[ACL, ...]) -> JSON:
    return [{"scheme": entry.id.scheme, "id": entry.id.id, "perms": entry.perms} for entry in acl]


def read_acl(form: JSON) -> tuple[ACL, ...]:
    """:raises ValueError: the value is not a list of ACL entries."""
    try:
        entries = [(entry["scheme"], entry["id"], entry["perms"]) for entry in form]
    except (TypeError, KeyError):
        entries = []
    if not entries or not all(
        isinstance(scheme, str) and isinstance(name, str) and type(perms) is int
        for scheme, name, perms in entries
    ):
        raise ValueError('acl is a list of {"scheme": "world", "id": "anyone", "perms": 31}')
    for _, _, perms in entries:
        if not -(2**31) <= perms < 2**31:
            raise ValueError(f"perms is a number of 32 bits, such as 31 for everything, not {perms}")
    return tuple(ACL(perms, Id(scheme, name)) for scheme, name, perms in entries)


def node_form(node: Node) -> JSON:
    """Return the data alone if the znode has nothing else to show, otherwise an object."""
    form: dict[str, JSON] = {"data": data_form(node.data)}
    if node.acl != OPEN_ACL:
        form["acl"] = acl_form(node.acl)
    if node.kind != "persistent":
        form["kind"] = node.kind
    if node.owner:
        form["owner"] = session_text(node.owner)
    if node.ttl:
        form["ttl_ms"] = node.ttl
    return form


def read_node(form: JSON) -> Node:
    """:raises ValueError: the value is neither data nor an object that :func:`node_form` makes."""
    if not isinstance(form, Mapping) or "base64" in form:
        return Node(data=read_data(form))
    unknown = form.keys() - _NODE_KEYS
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(unknown))}; a znode has {', '.join(sorted(_NODE_KEYS))}")
    given: dict[str, Any] = {"data": read_data(form.get("data", ""))}
    if "acl" in form:
        given["acl"] = read_acl(form["acl"])
    if "kind" in form:
        given["kind"] = form["kind"]
    if "ttl_ms" in form:
        given["ttl"] = form["ttl_ms"]
    if "owner" in form:
        given["owner"] = read_session_id(form["owner"])
    return Node(**given)


def read_session_id(form: JSON) -> int:
    """:raises ValueError: the value is not the id of a session (a string or an integer)."""
    if type(form) is int:
        return form
    try:
        return session_number(form)
    except (TypeError, ValueError):
        raise ValueError(f"a session id is a number such as 0x100000000000001, not {form!r}") from None


def info_form(info: SessionInfo, name: str | None) -> JSON:
    return {
        "id": session_text(info.id),
        "name": name,
        "timeout_ms": info.timeout_ms,
        "connected": info.connected,
        "peer": None if info.peer is None else address_form(info.peer),
        "server": info.server or None,
        "ephemerals": list(info.ephemerals),
        "watches": list(info.watches),
    }


def address_form(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def entry_form(entry: Entry, name: str | None) -> JSON:
    """:param name: of its session."""
    form = attrs.asdict(entry, filter=attrs.filters.exclude("facts")) | {"name": name}
    form["session"] = session_text(entry.session) if entry.session else None
    form["zxid"] = f"0x{entry.zxid:x}" if entry.zxid else None
    return form


def finding_form(finding: Finding, names: Mapping[int, str]) -> JSON:
    """:param names: of sessions."""
    sessions = [{"id": session_text(each), "name": names.get(each)} for each in finding.sessions]
    return attrs.asdict(finding) | {"sessions": sessions}


def message_form(message: HeldMessage) -> JSON:
    return attrs.asdict(message) | {"session": session_text(message.session) if message.session else None}


def fault_form(number: int, fault: Fault) -> JSON:
    return {
        "fault": number,
        "requests": fault.words,
        "when": fault.injection.when,
        "action": fault.injection.action,
        "seen": fault.seen,
        "fired": fault.fired,
        "text": repr(fault),
        "by": fault.origin,
    }


def injected_form(injected: Injected) -> JSON:
    return attrs.asdict(injected) | {"session": session_text(injected.session) if injected.session else None}
