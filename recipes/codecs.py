"""Codecs: the ways to write values as the data of a znode (recipe-rules.md B.8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from .errors import RecipeError

T = TypeVar("T")


class MalformedValue(RecipeError):
    """The codec cannot read the data of a znode (recipe-rules.md trap E-39).

    :ivar data: the data of the znode.
    """

    def __init__(self, path: str, data: bytes, codec: str, reason: object) -> None:
        shown = repr(data[:40]) + ("..." if len(data) > 40 else "")
        super().__init__(
            f"{path} holds {shown} ({len(data)} bytes), which is no {codec}: {reason!s:.200};"
            " use the codec of the program that writes it, or delete the znode"
        )
        self.path = path
        self.data = data


@attrs.frozen
class Codec(Generic[T]):
    """A way to write values.

    :ivar name: the name in error messages.
    :ivar encode: a function that converts a value to bytes. It raises TypeError for a value of a wrong type,
        and OverflowError for a value out of range.
    :ivar decode: a function that converts bytes to a value. It raises ValueError for bytes that ``encode``
        does not produce.
    """

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]

    def read(self, path: str, data: bytes) -> T:
        """Return the value that the data of a znode holds.

        :raises MalformedValue: the codec cannot read the data.
        """
        try:
            return self.decode(data)
        except ValueError as error:
            raise MalformedValue(path, data, self.name, error) from None


def check_codec(codec: object) -> None:
    """Check an option that takes a codec.

    :raises TypeError: the option is not a :class:`Codec`.
    """
    if not isinstance(codec, Codec):
        raise TypeError(f"codec must be a Codec, such as INT64, not {codec!r:.100}")


def _binary(bits: int, layout: str) -> Codec[int]:
    width, limit = bits // 8, 1 << (bits - 1)

    def encode(value: int) -> bytes:
        if not isinstance(value, int):
            raise TypeError(f"the value must be an int, not {value!r}")
        if not -limit <= value < limit:
            raise OverflowError(f"{value} is outside the range of {bits} bits")
        return struct.pack(layout, value)

    def decode(data: bytes) -> int:
        if len(data) != width:
            raise ValueError(f"an int{bits} has {width} bytes")
        return int(struct.unpack(layout, data)[0])

    return Codec(f"int{bits}", encode, decode)


def _encode_int(value: int) -> bytes:
    if not isinstance(value, int):
        raise TypeError(f"the value must be an int, not {value!r}")
    return str(int(value)).encode("ascii")


def _encode_float(value: float) -> bytes:
    if not isinstance(value, int | float):
        raise TypeError(f"the value must be a number, not {value!r}")
    return repr(float(value)).encode("ascii")


RAW: Codec[bytes] = Codec("bytes", bytes, bytes)
"""Bytes without a conversion, as Curator's SharedValue writes them."""

INT32 = _binary(32, ">i")
"""A signed integer of 4 bytes, big-endian, as Curator's SharedCount and DistributedAtomicInteger and kazoo's
Counter with ``support_curator=True`` write it."""

INT64 = _binary(64, ">q")
"""A signed integer of 8 bytes, big-endian, as Curator's DistributedAtomicLong writes it."""

ASCII_INT: Codec[int] = Codec("int in ASCII", _encode_int, lambda data: int(data.decode("ascii")))
"""An integer in decimal digits, as kazoo's Counter writes it."""

ASCII_FLOAT: Codec[float] = Codec("float in ASCII", _encode_float, lambda data: float(data.decode("ascii")))
"""A float as Python writes it, and as kazoo's Counter with a float as its default writes it."""
