"""Single values of jute: the functions that compiled code calls, and the error of malformed bytes."""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable
from typing import Any, Final

INT = struct.Struct(">i")


class JuteError(ValueError):
    """The bytes are not a record of the expected type."""


NULL = "null where a string belongs"
OVERRUN = "a length runs past the end of the message"
NEGATIVE = "a length is negative"

MALFORMED: Final = "pyzk.malformed"
"""The name of the error handler for ``decode`` that reads malformed UTF-8 as the real server does."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed bytes with one U+FFFD. For an encoded surrogate (3 bytes), Java writes one U+FFFD,
    but Python's own handler writes one U+FFFD for each byte."""
    assert isinstance(error, UnicodeDecodeError)
    first, second, third = (*error.object[error.start : error.start + 3], 0, 0)[:3]
    if first == 0xED and 0xA0 <= second <= 0xBF:
        return "\ufffd", error.start + (3 if 0x80 <= third <= 0xBF else 2)
    return "\ufffd", error.end


codecs.register_error(MALFORMED, _replace)

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def encode_text(text: str) -> bytes:
    """Encode text as Java's jute does: UTF-8, except that a character above U+FFFF becomes two sequences of 3
    bytes (CESU-8)."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    if len(data) > len(text) + 2:  # a character above U+FFFF has 4 bytes, so 3 more than its one character
        return _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    return data


def encode_string(value: str | None) -> bytes:
    """Encode a string as an element of a vector."""
    if value is None:
        return b"\xff\xff\xff\xff"
    data = encode_text(value)
    return INT.pack(len(data)) + data


def read_string(data: bytes, pos: int) -> tuple[str | None, int]:
    """Read a string that may be null: an element of a vector.

    :returns: the string, and the position after it.
    :raises JuteError: a length is negative, or is larger than the rest of the message.
    """
    (n,) = INT.unpack_from(data, pos)
    pos += 4
    if n < 0:
        if n == -1:
            return None, pos
        raise JuteError(NEGATIVE)
    if pos + n > len(data):
        raise JuteError(OVERRUN)
    return str(data[pos : pos + n], "utf-8", MALFORMED), pos + n


def read_text(data: bytes, pos: int) -> tuple[str, int]:
    """Read a string as :func:`read_string` does, but refuse null.

    :raises JuteError: the string is null or malformed.
    """
    value, pos = read_string(data, pos)
    if value is None:
        raise JuteError(NULL)
    return value, pos


def vector_reader(read_one: Callable[[bytes, int], tuple[Any, int]]) -> Callable[[bytes, int, int], Any]:
    """Make a function that reads the elements of a vector after the number of elements was read."""

    def read_vector(data: bytes, pos: int, count: int) -> tuple[Any, int]:
        if count < 0:  # -1 means null, any other negative count means an empty vector (wire.md section 2)
            return (None if count == -1 else ()), pos
        items = []
        for _ in range(count):
            item, pos = read_one(data, pos)
            items.append(item)
        return tuple(items), pos

    return read_vector
