"""``inspect``: the content of a server's files, without a server."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...protocol.dump import Node, acl_fields, data_fields, session_text
from ...protocol.errors import error_for
from ...protocol.files.image import Image
from ...protocol.files.nodes import nodes_of
from ...protocol.files.snapshot import STAT
from ...protocol.files.txnlog import (
    CloseSessionTxn,
    CreateContainerTxn,
    CreateSessionTxn,
    CreateTTLTxn,
    CreateTxn,
    Entry,
    ErrorTxn,
    MultiTxn,
    SetACLTxn,
    SetDataTxn,
)
from ...protocol.operations import OpCode
from ...protocol.text import printable
from ..arguments import wrong
from ..context import Context
from ..files import entries_of, image_of, is_data, is_log
from ..parser import PROG
from ..show import acl_text, brief
from ..status import Status
from ..units import moment, size_text, utc

_DUMP = b'{"path": "/'
"""How a file of ``pyzk dump`` begins."""


async def inspect(context: Context) -> int:
    """Print a snapshot, a log or a data directory."""
    options = context.options
    if options.history is not None:
        return await _history(context)
    if is_log(options.file):
        for entry in entries_of(options.file):
            await context.out(_line(entry), _fields(entry))
        return 0
    if not is_data(options.file):
        message = f"{options.file} is not a snapshot, a log or a data directory; give one of these"
        with suppress(OSError), open(options.file, "rb") as file:
            if file.read(len(_DUMP)) == _DUMP:
                message += (
                    ": it is a file of pyzk dump, a znode on each line; pyzk load puts it into a server"
                )
        raise wrong(PROG, message)
    image = image_of(options.file)
    await _summary(context, image)
    if options.sums is not None:
        await _sums(context, image, options.path, options.sums)
    elif options.largest is not None:
        await _largest(context, image, options.path, options.largest)
    else:
        await _nodes(context, image, options.path)
    return 0


# --- snapshots and directories -----------------------------------------------------------------------------


async def _summary(context: Context, image: Image) -> None:
    size = sum(len(node.data or b"") for node in image.nodes.values())
    digest = image.digest if image.digest is not None else image.count_digest()
    text = (
        f"{len(image.nodes):,} znodes, {size_text(size)} of data, {len(image.sessions)} sessions, "
        f"zxid 0x{image.zxid:x}, digest {digest}"
    )
    fields = {"znodes": len(image.nodes), "size": size, "sessions": len(image.sessions)}
    await context.out(text, {**fields, "zxid": f"0x{image.zxid:x}", "digest": str(digest)})
    for session, timeout in image.sessions.items():
        name = session_text(session)
        await context.out(f"session {name}, timeout {timeout} ms", {"session": name, "timeout": timeout})


async def _nodes(context: Context, image: Image, top: str) -> None:
    base = "" if top == "/" else top
    for node in nodes_of(image, top):
        path = base if node.path == "/" else base + node.path
        stat = STAT.unpack(image.nodes[path].stat)
        czxid, mzxid, ctime, mtime, version, created, aversion, _, pzxid = stat
        words = [printable(path or "/"), brief(node.data), _kind(node), f"v{version}"]
        if node.acl and acl_text(node.acl) != "world:anyone:cdrwa":
            words.append(f"[{printable(acl_text(node.acl))}]")
        words.append(f"changed {moment(mtime)} by 0x{mzxid:x}")
        fields: dict[str, Any] = {
            "path": path or "/",
            **data_fields(node.data),
            "kind": node.kind,
            "acl": acl_fields(node.acl or ()),
            **({"ttl": node.ttl} if node.ttl is not None else {}),
            **({"owner": session_text(node.owner)} if node.owner else {}),
            "version": version,
            "aversion": aversion,
            "children_created": created,
            "created": utc(ctime),
            "changed": utc(mtime),
            "czxid": f"0x{czxid:x}",
            "mzxid": f"0x{mzxid:x}",
            "pzxid": f"0x{pzxid:x}",
        }
        await context.out("  ".join(word for word in words if word), fields)


def _kind(node: Node) -> str:
    if node.kind == "ephemeral":
        return f"ephemeral of {session_text(node.owner)}"
    if node.kind == "ttl":
        return f"TTL {node.ttl:g} s"
    return "" if node.kind == "persistent" else node.kind


async def _sums(context: Context, image: Image, top: str, depth: int) -> None:
    """Print the znodes and bytes of each subtree down to a depth, the largest subtree first."""
    sums: dict[str, list[int]] = {}
    for node in nodes_of(image, top):
        names = node.path.split("/")[1 : depth + 1] if node.path != "/" else []
        for end in range(len(names) + 1):
            found = sums.setdefault("/" + "/".join(names[:end]), [0, 0])
            found[0] += 1
            found[1] += len(node.data or b"")
    for path, (count, size) in sorted(sums.items(), key=lambda item: -item[1][1]):
        whole = _joined(top, path)
        text = f"{size_text(size):>10}  {count:>9,} znodes  {printable(whole)}"
        await context.out(text, {"path": whole, "znodes": count, "size": size})


async def _largest(context: Context, image: Image, top: str, count: int) -> None:
    nodes = heapq.nlargest(count, nodes_of(image, top), key=lambda node: len(node.data or b""))
    for node in nodes:
        size, whole = len(node.data or b""), _joined(top, node.path)
        await context.out(f"{size_text(size):>10}  {printable(whole)}", {"path": whole, "size": size})


def _joined(top: str, path: str) -> str:
    return path if top == "/" else top if path == "/" else top + path


# --- logs --------------------------------------------------------------------------------------------------


async def _history(context: Context) -> int:
    """Print all transactions that concern a path."""
    options = context.options
    found = False
    for entry in entries_of(options.file):
        if any(options.history in _paths(part) for part in _parts(entry)):
            found = True
            await context.out(_line(entry), _fields(entry))
    return 0 if found else Status.NO


def _parts(entry: Entry) -> list[Any]:
    return [part for _, part in entry.txn.parts] if isinstance(entry.txn, MultiTxn) else [entry.txn]


def _paths(txn: Any) -> Iterator[str] | tuple[str, ...]:
    if isinstance(txn, CloseSessionTxn):
        return tuple(txn.paths or ())
    return (txn.path,) if hasattr(txn, "path") else ()


def _line(entry: Entry) -> str:
    what = " + ".join(_words(type_, txn) for type_, txn in _typed(entry)) or "multi without operations"
    if isinstance(entry.txn, MultiTxn):
        failed = any(isinstance(part, ErrorTxn) for _, part in entry.txn.parts)
        what = f"{'failed ' if failed else ''}multi: {what}"
    who = f"  {session_text(entry.session)}" if entry.session else ""
    return f"0x{entry.zxid:x}  {moment(entry.time)}{who}  {what}"


def _typed(entry: Entry) -> list[tuple[int, Any]]:
    return entry.txn.parts if isinstance(entry.txn, MultiTxn) else [(entry.type, entry.txn)]


def _words(type_: int, txn: Any) -> str:
    if isinstance(txn, ErrorTxn):
        return f"failed: {type(error_for(txn.err)).__name__} ({txn.err})" if txn.err else "not done"
    words = [_name(type_), *map(printable, _paths(txn))]
    if isinstance(txn, CreateTxn | CreateContainerTxn | CreateTTLTxn | SetDataTxn):
        words.append(brief(txn.data))
    if isinstance(txn, CreateTxn) and txn.ephemeral:
        words.append("(ephemeral)")
    if isinstance(txn, CreateTTLTxn):
        words.append(f"(TTL {txn.ttl} ms)")
    if isinstance(txn, SetACLTxn):
        words.append(f"[{printable(acl_text(txn.acl or ()))}]")
    if isinstance(txn, SetDataTxn | SetACLTxn):
        words.append(f"v{txn.version}")
    if isinstance(txn, CreateSessionTxn):
        words.append(f"timeout {txn.timeOut} ms")
    return " ".join(word for word in words if word)


def _name(type_: int) -> str:
    try:
        return OpCode(type_).name.lower()
    except ValueError:
        return f"type {type_}"


def _fields(entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "zxid": f"0x{entry.zxid:x}",
        "time": utc(entry.time),
        "session": session_text(entry.session) if entry.session else None,
        "cxid": entry.cxid,
        "op": _name(entry.type),
    }
    if isinstance(entry.txn, MultiTxn):
        fields["parts"] = [{"op": _name(type_), **_txn_fields(txn)} for type_, txn in entry.txn.parts]
    else:
        fields |= _txn_fields(entry.txn)
    if entry.digest is not None:
        fields["digest"] = str(entry.digest)
    return fields


def _txn_fields(txn: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in txn._values():
        if name == "data":
            fields |= data_fields(value)
        elif name == "acl":
            fields["acl"] = acl_fields(value or ())
        elif name == "paths":
            fields["paths"] = list(value or ())
        else:
            fields[name] = value
    return fields
