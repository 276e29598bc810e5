"""The forms in which the commands print znodes for people and for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..client import ACL, OPEN_ACL, Id, Stat
from ..protocol.dump import perms_of, perms_text, session_text
from ..protocol.text import printable
from .status import Failure, Status
from .units import age, moment, size_text, utc

_WIDEST = 80
"""The number of characters of data on a line that also shows other fields. Znodes may hold a megabyte."""

_WIDEST_NAME = 24
"""The number of characters of a contender's name on a line."""


def decoded(data: bytes | None) -> str | None:
    """Return data as text; None if the data is null or not printable text."""
    try:
        text = (data if data is not None else b"\xff").decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\n\t" for c in text.replace("\r\n", "\n")) else None


def brief(data: bytes | None, widest: int = _WIDEST) -> str:
    """Return data on one line, shortened: text, or hex digits after ``0x``."""
    if not data:
        return "(null)" if data is None else ""
    text = decoded(data)
    shown = printable(text) if text is not None else f"0x{data[:widest].hex()}"
    return shown if len(shown) <= widest else f"{shown[: widest - 1]}… ({size_text(len(data))})"


def hex_lines(data: bytes) -> str:
    """Return data as hex digits, 16 bytes on each line, with the characters beside the digits."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return columns, side by side. A column without values is left out.

    :param rows: the heads of the columns, and then the rows.
    """
    columns = [list(map(printable, column)) for column in zip(*rows, strict=True)]
    columns = [[head, *cells] for head, *cells in columns if any(cells) or not (head and cells)]
    widths = [max(map(len, column)) for column in columns]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns, strict=True))


def ending(name: str) -> str:
    """Return the end of a contender's long name. The number of the contender is part of the end."""
    return name if len(name) <= _WIDEST_NAME else f"…{name[1 - _WIDEST_NAME :]}"


# --- access control lists ----------------------------------------------------------------------------------


def acl_text(acl: Iterable[ACL]) -> str:
    """Return an access control list as ``scheme:id:cdrwa`` entries, separated by commas."""
    return ",".join(f"{entry.id.scheme}:{entry.id.id}:{perms_text(entry.perms)}" for entry in acl)


def parse_perms(text: str) -> int:
    """Return the permissions that letters mean.

    :raises Failure: a letter is not in ``cdrwa``.
    """
    try:
        return perms_of(text)
    except ValueError as error:
        raise Failure(Status.USAGE, str(error)) from None


def parse_acl(text: str) -> list[ACL]:
    """Return the ACL of a text in the form of :func:`acl_text`, or of the text ``open``.

    :raises Failure: the text is malformed.
    """
    if text == "open":
        return list(OPEN_ACL)
    found = []
    for part in text.split(","):
        scheme, _, rest = part.strip().partition(":")
        name, colon, perms = rest.rpartition(":")
        if not (scheme and colon):
            raise Failure(
                Status.USAGE, f"{part!r} must be SCHEME:ID:PERMISSIONS, as in world:anyone:r or auth::cdrwa"
            )
        found.append(ACL(parse_perms(perms), Id(scheme, name)))
    return found


# --- for people --------------------------------------------------------------------------------------------


def kind(stat: Stat) -> str:
    """``ephemeral`` or ``persistent``; the protocol does not show containers and TTL znodes."""
    return "ephemeral" if stat.ephemeralOwner else "persistent"


def stat_lines(path: str, stat: Stat) -> str:
    """The metadata of a znode."""
    now = time.time()

    def when(milliseconds: int) -> str:
        return f"{moment(milliseconds)} ({age(now - milliseconds / 1000)} ago)"

    owner = f" of session {session_text(stat.ephemeralOwner)}" if stat.ephemeralOwner else ""
    rows = [
        ("path", path),
        ("kind", kind(stat) + owner),
        ("data", f"{size_text(stat.dataLength)}, version {stat.version}"),
        ("children", f"{stat.numChildren}, version {stat.cversion}, last changed by zxid 0x{stat.pzxid:x}"),
        ("acl", f"version {stat.aversion}"),
        ("created", f"{when(stat.ctime)} by zxid 0x{stat.czxid:x}"),
        ("changed", f"{when(stat.mtime)} by zxid 0x{stat.mzxid:x}"),
    ]
    return table(rows)


def long_row(name: str, stat: Stat) -> tuple[str, ...]:
    """Return one line of a long listing."""
    owner = session_text(stat.ephemeralOwner) if stat.ephemeralOwner else "-"
    return (
        size_text(stat.dataLength),
        str(stat.version),
        str(stat.numChildren),
        moment(stat.mtime),
        owner,
        name,
    )


# --- for programs ------------------------------------------------------------------------------------------


def as_json(values: Mapping[str, Any]) -> str:
    """Return one object on one line, without control characters and invisible characters."""
    text = json.dumps(values, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def stat_fields(stat: Stat) -> dict[str, Any]:
    """Return a Stat for JSON. Zxids and sessions are text, because many JSON parsers would round such
    numbers."""
    return {
        "owner": session_text(stat.ephemeralOwner) if stat.ephemeralOwner else None,
        "size": stat.dataLength,
        "children": stat.numChildren,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "created": utc(stat.ctime),
        "changed": utc(stat.mtime),
        "czxid": f"0x{stat.czxid:x}",
        "mzxid": f"0x{stat.mzxid:x}",
        "pzxid": f"0x{stat.pzxid:x}",
    }
