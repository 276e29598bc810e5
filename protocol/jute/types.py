"""The types of jute that declare the fields of records, and the base of every record."""

from __future__ import annotations

import sys
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Self, TypeVar

from .values import JuteError

T = TypeVar("T")

Boolean = Annotated[bool, "boolean"]
Int = Annotated[int, "int"]
Long = Annotated[int, "long"]
Buffer = Annotated[bytes | None, "buffer"]
"""Bytes. None (null) and b"" are different values, and both are preserved by encoding and decoding."""
UString = Annotated[str | None, "ustring"]
"""A string that may be null."""
Text = Annotated[str, "text"]
"""A ustring that is never null; a null is malformed."""
Vector = Annotated[Sequence[T] | None, "vector"]
"""A count, and then the elements. A vector may be null. A decoded vector is a tuple.

``Annotated[Vector[T], value]`` names a very common value of the vector. The decoder recognises the encoded
bytes of this value, and returns the object ``value`` itself.
"""

__all__ = ["Boolean", "Buffer", "Field", "Int", "JuteError", "Long", "Record", "Text", "UString", "Vector"]


class Record:
    """Base of every record; :func:`.compile.record` fills in the methods."""

    __slots__ = ()
    __match_args__ = ()  # type: tuple[str, ...]
    """The names of the fields, in the order on the wire. This attribute has no annotation, because an
    annotation would make it a field of the record."""

    # All records share these methods: making them for each record would take 10 % of a server's start.

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__match_args__]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def encode(self) -> bytes:
        """Return the record's bytes."""
        raise NotImplementedError

    @classmethod
    def read(cls, data: bytes, pos: int = 0) -> tuple[Self, int]:
        """Decode one record at ``pos``. Returns the record and the position after it.

        :raises JuteError: the bytes are no such record.
        """
        raise NotImplementedError

    @classmethod
    def decode(cls, data: bytes, pos: int = 0) -> Self:
        """Decode one record at ``pos``.

        :raises JuteError: the bytes are no such record.
        """
        return cls.read(data, pos)[0]


Field = tuple[str, str, Any]
"""The name, the jute type and the parameters of a field. A vector has two parameters: the type of its
elements, and its common value or None. The parameter of a nested record is its class."""


def kind_of(hint: Any) -> tuple[str, Any]:
    """Return the jute type and the parameters of an annotation; see :data:`Field`."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return "record", hint
    kind = hint.__metadata__[0]
    if kind == "vector":
        sequence = typing.get_args(hint.__origin__)[0]
        common = hint.__metadata__[1] if len(hint.__metadata__) > 1 else None
        return kind, (typing.get_args(sequence)[0], common)
    return kind, None


def fields_of(cls: type[Record]) -> list[Field]:
    """Return the fields of a record, in the order on the wire."""
    if "jute_fields" not in vars(cls):
        hints = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]), include_extras=True)
        fields = [(name, *kind_of(hints[name])) for name in cls.__match_args__]
        setattr(cls, "jute_fields", fields)  # noqa: B010
    return typing.cast(list[Field], vars(cls)["jute_fields"])
