"""Jute, ZooKeeper's record encoding (wire.md section 2), compiled from declarations.

A record is a class whose annotations are the jute types below. ``@record`` turns it into an attrs class and
compiles one encoder and one decoder for it at their first use, as attrs itself builds methods: nested records
are flattened, and every run of fixed-width fields becomes a single :class:`struct.Struct`. What a boolean,
a null or a malformed string means is written once, here.

    @record
    class ExistsRequest(Record):
        path: UString
        watch: Boolean

Decoding malformed input raises :class:`JuteError` and nothing else. Bytes behind the last field are ignored.
"""

from __future__ import annotations

import re
import struct
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import attrs

T = TypeVar("T")

Boolean = Annotated[bool, "boolean"]
Int = Annotated[int, "int"]
Long = Annotated[int, "long"]
Buffer = Annotated[bytes | None, "buffer"]
"""Bytes; None (null) and b"" are different values and both survive a round trip."""
UString = Annotated[str | None, "ustring"]
"""A string that may be null."""
Text = Annotated[str, "text"]
"""A ustring whose sender promises not to send null; null is malformed."""
Vector = Annotated[Sequence[T] | None, "vector"]
"""A count, then the elements; may be null. A decoded vector is a tuple.

``Annotated[Vector[T], value]`` names a value so common that it is recognised by its bytes, and decoded to
that very object.
"""


class JuteError(ValueError):
    """The bytes are not a record of the wanted type."""


_NULL = "null where a string belongs"
_OVERRUN = "a length runs past the end of the message"
_NEGATIVE = "a length is negative"

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def encode_text(text: str) -> bytes:
    """UTF-8 as the Java writer has it: a character above U+FFFF becomes two 3-byte sequences (CESU-8)."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    if len(data) > len(text) + 2:  # a character above U+FFFF takes three bytes more than one
        return _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    return data


class Record:
    """Base of every record; the methods are filled in by :func:`record`."""

    __slots__ = ()

    # One for all: to make these for each would be a tenth of a server's start.

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in attrs.fields_dict(type(self))]  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def encode(self) -> bytes:
        """The record's bytes."""
        raise NotImplementedError

    @classmethod
    def read(cls, data: bytes, pos: int = 0) -> tuple[Self, int]:
        """Decode one record at ``pos``; returns it and the position behind it. Raises :class:`JuteError`."""
        raise NotImplementedError

    @classmethod
    def decode(cls, data: bytes, pos: int = 0) -> Self:
        """Decode one record at ``pos``. Raises :class:`JuteError`."""
        return cls.read(data, pos)[0]


R = TypeVar("R", bound=type[Record])
R1 = TypeVar("R1", bound=Record)


@dataclass_transform(field_specifiers=(attrs.field,))
def record(cls: R) -> R:
    """Declare a record: an attrs class with a compiled encoder and decoder."""
    return _compile(attrs.define(cls, repr=False, eq=False))


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def frozen_record(cls: R) -> R:
    """A record that is immutable and hashable: one that users hold in their hands."""
    return _compile(attrs.frozen(cls, repr=False))


# --- the compiler ---------------------------------------------------------------------------------------

_FIXED = {"boolean": "B", "int": "i", "long": "q"}


def _kind(hint: Any) -> tuple[str, Any]:
    """What :func:`fields_of` tells of an annotation."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return "record", hint
    kind = hint.__metadata__[0]
    if kind == "vector":
        sequence = typing.get_args(hint.__origin__)[0]
        common = hint.__metadata__[1] if len(hint.__metadata__) > 1 else None
        return kind, (typing.get_args(sequence)[0], common)
    return kind, None


class _Code:
    """Source lines of a function under construction, and the names they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"encode_text": encode_text, "JuteError": JuteError}
        self._count = 0

    def fresh(self, prefix: str, value: Any = None) -> str:
        self._count += 1
        name = f"{prefix}{self._count}"
        if value is not None:
            self.names[name] = value
        return name

    def function(self, name: str, head: str) -> Callable[..., Any]:
        source = head + "\n" + "\n".join(f"    {line}" for line in self.lines)
        namespace = dict(self.names)
        exec(compile(source, f"<jute {name}>", "exec"), namespace)
        return typing.cast(Callable[..., Any], namespace[head.split()[1].split("(")[0]])


def fields_of(cls: type[Record]) -> list[tuple[str, str, Any]]:
    """Name and jute type of each field, in the order on the wire, and what belongs to it: for a vector the
    element's type and the common value if one is declared, for a nested record its class."""
    if "jute_fields" not in vars(cls):
        hints = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]), include_extras=True)
        fields = [(name, *_kind(hints[name])) for name in attrs.fields_dict(cls)]  # type: ignore[arg-type]
        setattr(cls, "jute_fields", fields)  # noqa: B010
    return typing.cast(list[tuple[str, str, Any]], vars(cls)["jute_fields"])


def _compile(cls: R) -> R:
    # Most programs use one direction of each record: nothing is compiled before its first use.
    def encode(self: Record) -> bytes:
        return encoder(cls)(self)

    def read(_: type[Record], data: bytes, pos: int = 0) -> Any:
        return reader(cls)(data, pos)

    setattr(cls, "encode", encode)  # noqa: B010
    setattr(cls, "read", classmethod(read))  # noqa: B010
    return cls


def encoder(cls: type[Record]) -> Callable[[Any], bytes]:
    """The compiled function behind ``encode``: what a loop over many records should call."""
    if "jute_encoder" not in vars(cls):
        compiled = _compile_encode(cls, fields_of(cls))
        setattr(cls, "jute_encoder", staticmethod(compiled))  # noqa: B010
        setattr(cls, "encode", compiled)  # noqa: B010
    return typing.cast(Callable[[Any], bytes], vars(cls)["jute_encoder"].__func__)


def reader(cls: type[R1]) -> Callable[..., tuple[R1, int]]:
    """The compiled function behind ``read``."""
    if "jute_reader" not in vars(cls):
        compiled = _compile_read(cls, "def read(cls, data, pos=0):", "(record({}), pos)")
        setattr(cls, "read", classmethod(compiled))  # noqa: B010
        setattr(cls, "jute_reader", staticmethod(cls.read))  # noqa: B010
    return typing.cast(Callable[..., tuple[R1, int]], vars(cls)["jute_reader"].__func__)


def fields_reader(cls: type[Record]) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Compile what reads the values of a record as a plain tuple, in the order of their declaration: for who
    reads many a record, and needs neither an object for each nor its end."""
    return _compile_read(cls, "def read(data, pos):", "({},)")


Adjust = Callable[[int, tuple[Any, ...]], tuple[int, tuple[Any, ...]]]


def run_reader(
    header: type[Record], kinds: Mapping[int, tuple[type[Record], Adjust | None]]
) -> Callable[[bytes, int], list[tuple[int, tuple[Any, ...]]]]:
    """Compile what reads a run of records of several kinds, each behind a header that tells its kind in its
    first field, up to a header that is marked as the end in its second.

    It returns each kind with the record's fields as a tuple, or what ``Adjust`` makes of both.
    """
    code = _ReadCode()
    head = fields_of(header)
    kind, done, *_ = code.read(head)
    code.end_run()
    code.lines += [f"kind = {kind}; done = {done}", "items = []", "while not done:"]
    for number, (cls, adjust) in kinds.items():
        before, code.lines = code.lines, []
        fields = ", ".join(code.read(fields_of(cls)))
        kind, done, *_ = code.read(head)  # along with the last fields
        code.end_run()
        item = f"({number}, ({fields},))"
        if adjust is not None:
            item = code.fresh("adjust", adjust) + item
        code.lines += [f"items.append({item})", f"kind = {kind}; done = {done}"]
        code.lines = [*before, f"    if kind == {number}:", *_indented([*code.lines, "continue"], 2)]
    code.lines.append("    raise JuteError(f'a record of the unknown kind {kind}')")
    return code.reader("run", "def read(data, pos):", "items")


def _compile_encode(cls: type[Record], fields: list[tuple[str, str, Any]]) -> Callable[..., Any]:
    code = _Code()
    parts: list[str] = []
    run_format, run_values = "", list[str]()

    def end_run() -> None:
        nonlocal run_format, run_values
        if run_format:
            pack = code.fresh("pack", struct.Struct(">" + run_format).pack)
            parts.append(f"{pack}({', '.join(run_values)})")
            run_format, run_values = "", []

    def emit(target: str, members: list[tuple[str, str, Any]]) -> None:
        nonlocal run_format
        for name, kind, argument in members:
            value = f"{target}.{name}"
            if kind in _FIXED:
                run_format += _FIXED[kind]
                run_values.append(f"1 if {value} else 0" if kind == "boolean" else value)
            elif kind == "record":
                emit(value, fields_of(argument))
            else:
                v, b, n = code.fresh("v"), code.fresh("b"), code.fresh("n")
                code.lines.append(f"{v} = {value}")
                if kind == "vector":
                    element = code.fresh("element", _element_encoder(*_kind(argument[0])))
                    code.lines.append(f"{b} = b'' if {v} is None else b''.join([{element}(e) for e in {v}])")
                else:
                    encoded = v if kind == "buffer" else f"encode_text({v})"
                    code.lines.append(f"{b} = b'' if {v} is None else {encoded}")
                code.lines.append(f"{n} = -1 if {v} is None else len({v if kind == 'vector' else b})")
                run_format += "i"
                run_values.append(n)
                end_run()
                parts.append(b)

    emit("self", fields)
    end_run()
    code.lines.append(f"return b''.join(({', '.join(parts)},))")
    return code.function(cls.__name__, "def encode(self):")


class _ReadCode(_Code):
    """Source of a function that reads ``data`` from ``pos`` on."""

    def __init__(self) -> None:
        super().__init__()
        self.names["TooShort"] = IndexError, struct.error
        self._format, self._values = "", list[str]()
        self._unchecked = (
            False  # whether the last length may run past the end: else the next unpack finds out
        )

    def read(self, fields: list[tuple[str, str, Any]]) -> list[str]:
        """Emit the reading of some fields; returns the expressions of their values, good after the end of
        the run (see :meth:`end_run`)."""
        values = []
        for _, kind, argument in fields:
            if kind in _FIXED:
                name = self._fixed(_FIXED[kind], "f")
                values.append(f"{name} != 0" if kind == "boolean" else name)
            elif kind == "record":
                nested = self.fresh("nested", argument)
                values.append(f"{nested}({', '.join(self.read(fields_of(argument)))})")
            else:
                value = self.fresh("v")
                values.append(value)
                if kind == "vector":
                    self._vector(value, *argument)
                else:
                    self._bytes(value, kind)
        return values

    def _fixed(self, letter: str, prefix: str) -> str:
        name = self.fresh(prefix)
        self._format += letter
        self._values.append(name)
        return name

    def end_run(self) -> None:
        """Read the fixed-width values that wait, all at once."""
        if not self._format:
            return
        fixed = struct.Struct(">" + self._format)
        if self._format == "B":  # what many requests end with: an index is faster
            read = f"{self._values[0]} = data[pos]"
        else:
            read = f"{', '.join(self._values)}, = {self.fresh('unpack', fixed.unpack_from)}(data, pos)"
        self.lines += [read, f"pos += {fixed.size}"]
        self._format, self._values = "", []
        self._unchecked = False

    def _vector(self, value: str, element: Any, common: Any) -> None:
        if common:
            self.end_run()
            known = _INT.pack(len(common)) + b"".join(map(_element_encoder(*_kind(element)), common))
            self.lines += [
                f"if data.startswith({known!r}, pos):",
                f"    {value} = {self.fresh('common', common)}",
                f"    pos += {len(known)}",
                "else:",
            ]
        start = len(self.lines)
        count = self._fixed("i", "n")
        self.end_run()
        vector = self.fresh("vector", _vector_reader(element))
        self.lines.append(f"{value}, pos = {vector}(data, pos, {count})")
        if common:
            self.lines[start:] = _indented(self.lines[start:])

    def _bytes(self, value: str, kind: str) -> None:
        length = self._fixed("i", "n")
        self.end_run()
        decode = "" if kind == "buffer" else ".decode('utf-8', 'replace')"
        null = f"{value} = None" if kind != "text" else f"raise JuteError({_NULL!r})"
        self.lines += [
            f"if {length} >= 0: {value} = data[pos:(pos := pos + {length})]{decode}",
            f"elif {length} == -1: {null}",
            f"else: raise JuteError({_NEGATIVE!r})",
        ]
        self._unchecked = True

    def reader(self, name: str, head: str, result: str) -> Callable[..., Any]:
        """The finished function.

        :param result: what it returns, as source.
        """
        self.end_run()
        if self._unchecked:
            self.lines.append(f"if pos > len(data): raise JuteError({_OVERRUN!r})")
        self.lines = [
            "try:",
            *_indented(self.lines),
            f"    return {result}",
            "except TooShort: raise JuteError('the message ends too early') from None",
        ]
        return self.function(name, head)


def _indented(lines: list[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line for line in lines]


def _compile_read(cls: type[Record], head: str, result: str) -> Callable[..., Any]:
    """:param result: what is made of the values, as source."""
    code = _ReadCode()
    code.names["record"] = cls
    values = code.read(fields_of(cls))
    return code.reader(cls.__name__, head, result.format(", ".join(values)))


_INT = struct.Struct(">i")


def _element_encoder(kind: str, argument: Any) -> Callable[[Any], bytes]:
    if kind == "record":
        return encoder(argument)

    def encode_string(value: str | None) -> bytes:
        if value is None:
            return b"\xff\xff\xff\xff"
        data = encode_text(value)
        return _INT.pack(len(data)) + data

    return encode_string


def _read_string(data: bytes, pos: int) -> tuple[str | None, int]:
    (n,) = _INT.unpack_from(data, pos)
    pos += 4
    if n < 0:
        if n == -1:
            return None, pos
        raise JuteError(_NEGATIVE)
    if pos + n > len(data):
        raise JuteError(_OVERRUN)
    return str(data[pos : pos + n], "utf-8", "replace"), pos + n


def _read_text(data: bytes, pos: int) -> tuple[str, int]:
    value, pos = _read_string(data, pos)
    if value is None:
        raise JuteError(_NULL)
    return value, pos


def _vector_reader(element: Any) -> Callable[[bytes, int, int], tuple[Any, int]]:
    """What reads a vector behind its count."""
    kind, argument = _kind(element)
    read_one = reader(argument) if kind == "record" else _ELEMENTS[kind]

    def read_vector(data: bytes, pos: int, count: int) -> tuple[Any, int]:
        if count < 0:  # -1 is null, any other negative count an empty vector (wire.md section 2)
            return (None if count == -1 else ()), pos
        items = []
        for _ in range(count):
            item, pos = read_one(data, pos)
            items.append(item)
        return tuple(items), pos

    return read_vector


_ELEMENTS = {"ustring": _read_string, "text": _read_text}
