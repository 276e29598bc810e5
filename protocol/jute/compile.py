"""The compiler, which makes the source of the functions that encode and read a record.

* Neighbouring fields of fixed width are packed or unpacked together, by one :class:`struct.Struct`. So the
  compiler collects fields of fixed width until the next field without a fixed width, or until the end of the
  record.
* The fields of a nested record are treated as fields of the outer record.
* A string or buffer is sliced without a check against the end of the message, because the next unpack fails
  if the slice was too short. If no unpack follows, the position is compared with the end.
* A vector is read by a separate loop (:func:`.values.vector_reader`), because the number of elements is not
  known.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, dataclass_transform

import attrs

from .types import Field, Record, fields_of, kind_of
from .values import (
    INT,
    MALFORMED,
    NEGATIVE,
    NULL,
    OVERRUN,
    JuteError,
    encode_string,
    encode_text,
    read_string,
    read_text,
    vector_reader,
)

R = TypeVar("R", bound=type[Record])
R1 = TypeVar("R1", bound=Record)

_FIXED = {"boolean": "B", "int": "i", "long": "q"}
_ELEMENTS = {"ustring": read_string, "text": read_text}
_TOO_SHORT = IndexError, struct.error
"""The errors of reading beyond the end of the message."""


@dataclass_transform()
def record(cls: R) -> R:
    """Declare a record: a class with slots for its fields, and a compiled initializer, encoder and decoder.

    attrs would compile 44 initializers at each start of a client or server. This takes 7 ms, but most
    programs make few of these records.
    """
    names = tuple(vars(cls).get("__annotations__", ()))
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    body |= {"__slots__": names, "__match_args__": names, "__init__": _initialize}
    return _compile_later(typing.cast(R, type(cls.__name__, cls.__bases__, body)))


def _initialize(self: Record, *values: Any, **named: Any) -> None:
    """Compile the initializer of a record at its first use, and call it."""
    cls = type(self)
    source = Source("__init__", ", ".join(("self", *cls.__match_args__)))
    source.lines = [f"self.{name} = {name}" for name in cls.__match_args__] or ["pass"]
    compiled = source.function()
    setattr(cls, "__init__", compiled)  # noqa: B010
    compiled(self, *values, **named)


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def frozen_record(cls: R) -> R:
    """Declare a record that users see: it is immutable and hashable."""
    return _compile_later(attrs.frozen(cls, repr=False))


def _compile_later(cls: R) -> R:
    # Most programs only encode a record or only read it, so each function is compiled at its first use.
    def encode(self: Record) -> bytes:
        """Return the record's bytes."""
        return encoder(cls)(self)

    def read(_: type[Record], data: bytes, pos: int = 0) -> Any:
        """Decode one record at ``pos``. Returns the record and the position after it.

        :raises JuteError: the bytes are no such record.
        """
        return reader(cls)(data, pos)

    setattr(cls, "encode", encode)  # noqa: B010
    setattr(cls, "read", classmethod(read))  # noqa: B010
    return cls


def encoder(cls: type[Record]) -> Callable[[Any], bytes]:
    """Return the compiled function behind ``encode``, for loops over many records."""
    if "jute_encoder" not in vars(cls):
        compiled = _encode_source(cls).function()
        compiled.__doc__ = cls.encode.__doc__
        setattr(cls, "jute_encoder", staticmethod(compiled))  # noqa: B010
        setattr(cls, "encode", compiled)  # noqa: B010
    return typing.cast(Callable[[Any], bytes], vars(cls)["jute_encoder"].__func__)


def reader(cls: type[R1]) -> Callable[..., tuple[R1, int]]:
    """Return the compiled function behind ``read``."""
    if "_jute_reader" not in vars(cls):
        compiled = _read_source(cls).function()
        compiled.__doc__ = cls.read.__doc__
        setattr(cls, "read", classmethod(compiled))  # noqa: B010
        setattr(cls, "_jute_reader", staticmethod(cls.read))  # noqa: B010
    return typing.cast(Callable[..., tuple[R1, int]], vars(cls)["_jute_reader"].__func__)


def fields_reader(cls: type[Record]) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Compile a function that reads a record as a plain tuple. The values are in the order in which the
    fields are declared. Loops over many records use this function, because they need neither an object for
    each record nor the position after the record."""
    source = ReaderSource("read_fields", "data, pos")
    values = source.read(fields_of(cls))
    return source.returning(f"({', '.join(values)},)", fields_of(cls)).function()


def generated(cls: type[Record]) -> str:
    """Return the source of both functions of a record."""
    return f"{_encode_source(cls)}\n\n{_read_source(cls)}"


class Source:
    """The source of a function that is being built.

    :ivar lines: the lines of the body.
    """

    def __init__(self, name: str, parameters: str) -> None:
        self.lines: list[str] = []
        self._name = name
        self._head = f"def {name}({parameters}):"
        self._globals: dict[str, Any] = {"encode_text": encode_text, "JuteError": JuteError}
        self._taken = {"self", "cls", "data", "pos", "len", *self._globals}

    def __str__(self) -> str:
        return "\n".join([self._head, *indented(self.lines)])

    def local(self, name: str) -> str:
        """Return an unused name, similar to ``name``, for a local variable."""
        number = 1
        free = name
        while free in self._taken:
            number += 1
            free = f"{name}{number}"
        self._taken.add(free)
        return free

    def constant(self, name: str, value: Any) -> str:
        """Return an unused name, similar to ``name``, for an object that the source uses."""
        if self._globals.get(name) == value:
            return name
        free = self.local(name)
        self._globals[free] = value
        return free

    def function(self) -> Callable[..., Any]:
        """Compile the source, and return the function."""
        namespace = dict(self._globals)
        exec(compile(str(self), f"<jute {self._name}>", "exec"), namespace)
        return typing.cast(Callable[..., Any], namespace[self._name])


@cache
def _struct(letters: str) -> struct.Struct:
    return struct.Struct(">" + letters)


def indented(lines: list[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines]


# --- encoding -------------------------------------------------------------------------------------------


def _encode_source(cls: type[Record]) -> Source:
    source = Source("encode", "self")
    parts: list[str] = []
    waiting: list[tuple[str, str]] = []  # format and value of each field that will be packed

    def pack() -> None:
        if waiting:
            letters = "".join(letter for letter, _ in waiting)
            packer = source.constant(f"pack_{letters}", _struct(letters).pack)
            parts.append(f"{packer}({', '.join(value for _, value in waiting)})")
            waiting.clear()

    def emit(target: str, fields: list[Field]) -> None:
        for name, kind, argument in fields:
            value = f"{target}.{name}"
            if kind in _FIXED:
                waiting.append((_FIXED[kind], f"1 if {value} else 0" if kind == "boolean" else value))
            elif kind == "record":
                emit(value, fields_of(argument))
            else:
                local, encoded, size = (source.local(name + end) for end in ("", "_bytes", "_size"))
                how = {"buffer": local, "vector": ""}.get(kind, f"encode_text({local})")
                if kind == "vector":
                    element = source.constant("encode_element", _element_encoder(argument[0]))
                    how = f"b''.join([{element}(each) for each in {local}])"
                source.lines += [
                    f"{local} = {value}",
                    f"{encoded} = b'' if {local} is None else {how}",
                    f"{size} = -1 if {local} is None else len({local if kind == 'vector' else encoded})",
                ]
                waiting.append(("i", size))
                pack()
                parts.append(encoded)

    emit("self", fields_of(cls))
    pack()
    source.lines.append(f"return b''.join(({', '.join(parts)},))")
    return source


def _element_encoder(hint: Any) -> Callable[[Any], bytes]:
    kind, argument = kind_of(hint)
    return encoder(argument) if kind == "record" else encode_string


# --- reading --------------------------------------------------------------------------------------------


def _read_source(cls: type[Record]) -> Source:
    source = ReaderSource("read", "cls, data, pos=0")
    values = source.read(fields_of(cls))
    made = source.constant(cls.__name__, cls)
    return source.returning(f"({made}({', '.join(values)}), pos)", fields_of(cls))


class ReaderSource(Source):
    """The source of a function that reads ``data`` from ``pos`` on."""

    def __init__(self, name: str, parameters: str) -> None:
        super().__init__(name, parameters)
        self._waiting: list[tuple[str, str]] = []  # format and name of each field that will be unpacked

    def read(self, fields: list[Field]) -> list[str]:
        """Add the reading of some fields. Returns the expressions of the values; use these expressions only
        after :meth:`unpack`."""
        values = []
        for name, kind, argument in fields:
            if kind in _FIXED:
                local = self._fixed(_FIXED[kind], name)
                values.append(f"{local} != 0" if kind == "boolean" else local)
            elif kind == "record":
                nested = self.constant(argument.__name__, argument)
                values.append(f"{nested}({', '.join(self.read(fields_of(argument)))})")
            elif kind == "vector":
                values.append(self._vector(name, *argument))
            else:
                values.append(self._string(name, kind))
        return values

    def read_into(self, names: Sequence[str], fields: list[Field]) -> None:
        """Add the reading of some fields of fixed width into variables with these names. A boolean is read as
        a number."""
        self._waiting += [(_FIXED[kind], name) for name, (_, kind, _) in zip(names, fields, strict=True)]

    def unpack(self) -> None:
        """Add code that unpacks all collected fields of fixed width together."""
        if not self._waiting:
            return
        letters = "".join(letter for letter, _ in self._waiting)
        names = [name for _, name in self._waiting]
        fixed = _struct(letters)
        if letters == "B":  # many requests end with one boolean: an index is faster than a Struct
            read = f"{names[0]} = data[pos]"
        else:
            read = f"{', '.join(names)}, = {self.constant(f'unpack_{letters}', fixed.unpack_from)}(data, pos)"
        self.lines += [read, f"pos += {fixed.size}"]
        self._waiting.clear()

    def returning(self, result: str, fields: list[Field]) -> ReaderSource:
        """Finish the function.

        :param result: the source of the function's result.
        :param fields: the fields that the function reads last.
        """
        self.unpack()
        if _ends_with_string(fields):
            self.lines.append(f"if pos > len(data): raise JuteError({OVERRUN!r})")
        too_short = self.constant("TooShort", _TOO_SHORT)
        self.lines = [
            "try:",
            *indented(self.lines),
            f"    return {result}",
            f"except {too_short}: raise JuteError('the message ends too early') from None",
        ]
        return self

    def _fixed(self, letter: str, name: str) -> str:
        local = self.local(name)
        self._waiting.append((letter, local))
        return local

    def _vector(self, name: str, element: Any, common: Any) -> str:
        value = self.local(name)
        if common:
            self.unpack()
            known = INT.pack(len(common)) + b"".join(map(_element_encoder(element), common))
            self.lines += [
                f"if data.startswith({known!r}, pos):",
                f"    {value} = {self.constant(f'common_{name}', common)}",
                f"    pos += {len(known)}",
                "else:",
            ]
        start = len(self.lines)
        count = self._fixed("i", f"{name}_size")
        self.unpack()
        kind, argument = kind_of(element)
        read = self.constant(
            "read_vector", vector_reader(reader(argument) if kind == "record" else _ELEMENTS[kind])
        )
        self.lines.append(f"{value}, pos = {read}(data, pos, {count})")
        if common:
            self.lines[start:] = indented(self.lines[start:])
        return value

    def _string(self, name: str, kind: str) -> str:
        value, size = self.local(name), self._fixed("i", f"{name}_size")
        self.unpack()
        decode = "" if kind == "buffer" else f".decode('utf-8', {MALFORMED!r})"
        null = f"{value} = None" if kind != "text" else f"raise JuteError({NULL!r})"
        self.lines += [
            f"if {size} >= 0: {value} = data[pos:(pos := pos + {size})]{decode}",
            f"elif {size} == -1: {null}",
            f"else: raise JuteError({NEGATIVE!r})",
        ]
        return value


def _ends_with_string(fields: list[Field]) -> bool:
    """Return whether a slice is the last thing that is read. In this case no later unpack fails if the slice
    is too short."""
    if not fields:
        return False
    _, kind, argument = fields[-1]
    return (
        _ends_with_string(fields_of(argument)) if kind == "record" else kind in ("buffer", "ustring", "text")
    )
