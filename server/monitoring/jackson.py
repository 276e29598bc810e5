"""JSON as the admin server's printer lays it out (operator-surface.md section 2.3), bit by bit.

The printer is Jackson's default one: objects have a line for each entry, lists stand in one line, and blanks
are where it puts them. A long value is an iterator, so that other clients are served while it is printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import attrs

from .metrics import java_double


@attrs.frozen
class Rows:
    """A JSON object, row by row. A row whose name is None is left out: it only ends a step of the work."""

    rows: Iterator[tuple[object, Any]]


_SCALARS: Final = (str, int, float, type(None))
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
"""As json.dumps(), which makes an encoder for each call."""


def pieces(value: Any, indent: str = "") -> Iterator[str]:
    """Yield the text of a value in pieces. A dict or :class:`Rows` is an object, a list or an iterator a
    list."""
    if isinstance(value, dict):
        value = Rows(iter(value.items()))
    if isinstance(value, Rows):
        inner = f"{indent}  "
        before = "{\n"
        for key, item in value.rows:
            if key is None:
                yield ""
                continue
            head = f"{before}{inner}{_quoted(str(key))} : "
            if isinstance(item, _SCALARS):
                yield head + _scalar(item)
            else:
                yield head
                yield from pieces(item, inner)
            before = ",\n"
        yield f"\n{indent}}}" if before == ",\n" else "{ }"
    elif isinstance(value, list | Iterator):
        before = "[ "
        for item in value:
            if isinstance(item, _SCALARS):
                yield before + _scalar(item)
            else:
                yield before
                yield from pieces(item, indent)
            before = ", "
        yield " ]" if before == ", " else "[ ]"
    else:
        yield _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return java_double(value) if value == value else '"NaN"'
    return _quoted(value)
