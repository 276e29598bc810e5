"""Jute encodings (wire.md section 2): every record survives a round trip, bad bytes raise JuteError alone."""

from __future__ import annotations

import struct
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyzk.protocol import jute
from pyzk.protocol import records as r
from pyzk.protocol.jute import (
    MALFORMED,
    Boolean,
    Buffer,
    Int,
    JuteError,
    Long,
    Record,
    UString,
    Vector,
    encode_text,
    fields_of,
    fields_reader,
    generated,
    record,
)

RECORDS: list[type[Record]] = sorted(
    (
        value
        for value in vars(r).values()
        if isinstance(value, type) and issubclass(value, Record) and value is not Record
    ),
    key=lambda cls: cls.__name__,
)

# What UTF-8 and CESU-8 agree on; the characters above are shown one by one below.
_text = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=8)
_FIXED: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "buffer": st.none() | st.binary(max_size=8),
    "ustring": st.none() | _text,
    "text": _text,
}


def values(kind: str, argument: Any) -> st.SearchStrategy[Any]:
    """Every value of a declared type."""
    if kind == "record":
        return instances(argument)
    if kind == "vector":
        hint = argument[0]
        element = instances(hint) if isinstance(hint, type) else values(hint.__metadata__[0], None)
        return st.none() | st.lists(element, max_size=3).map(tuple)
    return _FIXED[kind]


def instances(cls: Any) -> st.SearchStrategy[Any]:
    return st.builds(cls, *(values(kind, argument) for _, kind, argument in fields_of(cls)))


few = settings(max_examples=settings().max_examples // 5)
"""For what is repeated with each of some fifty records."""


@pytest.mark.parametrize("cls", [r.ExistsRequest, r.GetChildrenResponse])
def test_the_documentation_shows_what_is_generated(cls: type[Record]) -> None:
    source = generated(cls)
    print(source)
    assert textwrap.indent(source, "    ") in (jute.__doc__ or "")


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_what_is_generated_can_be_compiled(cls: type[Record]) -> None:
    compile(generated(cls), cls.__name__, "exec")


# --- what holds of all records -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
@few
@given(data=st.data(), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_round_trip_keeps_every_value(
    cls: type[Record], data: st.DataObject, before: bytes, after: bytes
) -> None:
    # wire.md section 2: extra bytes after the last field are ignored
    value = data.draw(instances(cls))
    encoded = value.encode()
    assert cls.read(before + encoded + after, len(before)) == (value, len(before) + len(encoded))
    assert cls.decode(encoded) == value


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
@few
@given(data=st.data())
def test_a_truncated_record_is_malformed(cls: type[Record], data: st.DataObject) -> None:
    encoded = data.draw(instances(cls)).encode()
    size = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(JuteError):
        cls.decode(encoded[:size])


@given(cls=st.sampled_from(RECORDS), noise=st.binary(max_size=200))
def test_noise_decodes_or_is_malformed(cls: type[Record], noise: bytes) -> None:
    try:
        value, end = cls.read(noise)
    except JuteError:
        return
    assert end <= len(noise)
    assert isinstance(value, cls)


class Plain:
    """Reads one value after the other, by the rules of wire.md section 2 and without any art."""

    def __init__(self, data: bytes, pos: int) -> None:
        self.data = data
        self.pos = pos

    def bytes(self, size: int) -> bytes:
        if size < 0 or self.pos + size > len(self.data):
            raise JuteError
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def number(self, size: int) -> int:
        return int.from_bytes(self.bytes(size), signed=True)

    def value(self, kind: str, argument: Any) -> Any:
        if kind == "record":
            return argument(*self.fields(argument))
        if kind in ("boolean", "int", "long"):
            number = self.number({"boolean": 1, "int": 4, "long": 8}[kind])
            return number != 0 if kind == "boolean" else number
        count = self.number(4)
        if kind == "vector":
            element = argument[0]
            record = isinstance(element, type)
            inner = ("record", element) if record else (element.__metadata__[0], None)
            return None if count == -1 else tuple(self.value(*inner) for _ in range(count))
        if count == -1 and kind != "text":
            return None
        data = self.bytes(count)
        return data if kind == "buffer" else data.decode("utf-8", MALFORMED)

    def fields(self, cls: Any) -> tuple[Any, ...]:
        return tuple(self.value(kind, argument) for _, kind, argument in fields_of(cls))


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
@few
@given(data=st.data())
def test_compiled_readers_read_what_a_plain_one_does(cls: type[Record], data: st.DataObject) -> None:
    """Whatever the bytes: whole, damaged, cut off, with more behind them."""
    encoded = bytearray(data.draw(instances(cls)).encode())
    for _ in range(data.draw(st.integers(0, 2)) if encoded else 0):
        place = data.draw(st.integers(0, len(encoded) - 1))
        encoded[place] = data.draw(st.sampled_from([0, 1, 5, 127, 128, 255]))
    cut = data.draw(st.just(len(encoded)) | st.integers(0, len(encoded)))
    message = b"before" + encoded[:cut] + data.draw(st.just(b"") | st.binary(max_size=30))
    plain = Plain(message, 6)
    try:
        fields = plain.fields(cls)
    except JuteError:
        for read in (cls.read, fields_reader(cls)):
            with pytest.raises(JuteError):
                read(message, 6)
    else:
        assert fields_reader(cls)(message, 6) == fields
        assert cls.read(message, 6) == (cls(*fields), plain.pos)


# --- single types ------------------------------------------------------------------------------------------


@record
class Everything(Record):
    flag: Boolean
    small: Int
    blob: Buffer
    large: Long
    text: UString
    texts: Vector[UString]
    id: r.Id
    acl: Vector[r.ACL]


def test_the_bytes_of_every_type() -> None:
    value = Everything(True, -2, b"\x00\xff", 2**40, "né", ("a", None, ""), r.Id("s", None), None)
    assert value.encode() == bytes.fromhex(
        "01 fffffffe 00000002 00ff 0000010000000000 00000003 6ec3a9"
        "00000003 00000001 61 ffffffff 00000000"
        "00000001 73 ffffffff ffffffff"
    )
    assert Everything.decode(value.encode()) == value


@pytest.mark.parametrize(("byte", "value"), [(0, False), (1, True), (2, True), (255, True)])
def test_any_byte_but_zero_is_true(byte: int, value: bool) -> None:
    # wire.md section 2
    assert r.ReadOnlyFlag.decode(bytes([byte])).readOnly is value


@pytest.mark.parametrize(("value", "encoded"), [(True, b"\x01"), (2, b"\x01"), (False, b"\0"), (0, b"\0")])
def test_booleans_are_written_as_zero_or_one(value: Any, encoded: bytes) -> None:
    assert r.ReadOnlyFlag(value).encode() == encoded


@pytest.mark.parametrize(
    ("data", "encoded"),
    [(None, "ffffffff"), (b"", "00000000"), (b"\0", "00000001 00"), (b"xy", "00000002 7879")],
)
def test_null_and_empty_buffers_differ(data: bytes | None, encoded: str) -> None:
    assert r.GetSASLRequest(data).encode() == bytes.fromhex(encoded)
    assert r.GetSASLRequest.decode(bytes.fromhex(encoded)).token == data


@pytest.mark.parametrize(("text", "encoded"), [(None, "ffffffff"), ("", "00000000"), ("é", "00000002 c3a9")])
def test_null_and_empty_strings_differ(text: str | None, encoded: str) -> None:
    assert r.SyncRequest(text).encode() == bytes.fromhex(encoded)
    assert r.SyncRequest.decode(bytes.fromhex(encoded)).path == text


@pytest.mark.parametrize(
    ("count", "value"), [(-1, None), (0, ()), (-2, ()), (-7, ()), (-(2**31), ())], ids=lambda v: str(v)
)
@pytest.mark.parametrize("cls", [r.GetChildrenResponse, r.WhoAmIResponse], ids=lambda cls: cls.__name__)
def test_vectors_of_negative_count(cls: Any, count: int, value: tuple[()] | None) -> None:
    # wire.md section 2: -1 is null, any other negative count an empty vector
    encoded = struct.pack(">i", count)
    decoded, end = cls.read(encoded + b"rest")
    assert (decoded, end) == (cls(value), 4)


@pytest.mark.parametrize("length", [-2, -(2**31), 1, 2**31 - 1])
@pytest.mark.parametrize(
    "cls", [r.GetSASLRequest, r.SyncRequest, r.CreateResponse], ids=lambda cls: cls.__name__
)
def test_a_length_that_is_negative_or_past_the_end_is_malformed(cls: type[Record], length: int) -> None:
    # wire.md section 15: negative inner length, inner length beyond the frame
    with pytest.raises(JuteError):
        cls.decode(struct.pack(">i", length))


@pytest.mark.parametrize("length", [-2, -(2**31), 2, 2**31 - 1])
@pytest.mark.parametrize("cls", [r.GetEphemeralsResponse, r.WhoAmIResponse], ids=lambda cls: cls.__name__)
def test_such_a_length_inside_a_vector_is_malformed_too(cls: type[Record], length: int) -> None:
    with pytest.raises(JuteError):
        cls.decode(struct.pack(">ii", 1, length) + b"x")


def test_a_huge_count_costs_nothing_before_it_is_found_malformed() -> None:
    with pytest.raises(JuteError):
        r.GetChildrenResponse.decode(struct.pack(">iii", 2**31 - 1, 0, 0))


@pytest.mark.parametrize(
    ("cls", "encoded"),
    [
        (r.CreateResponse, struct.pack(">i", -1)),
        (r.GetChildrenResponse, struct.pack(">ii", 1, -1)),
        (r.GetEphemeralsResponse, struct.pack(">iii", 2, 0, -1)),
    ],
    ids=["field", "only element", "last element"],
)
def test_a_null_where_a_text_belongs_is_malformed(cls: type[Record], encoded: bytes) -> None:
    with pytest.raises(JuteError):
        cls.decode(encoded)


# --- strings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("/😀", "2f eda0bd edb880"),  # verbatim from wire.md section 2
        ("😀", "eda0bd edb880"),
        ("\U00010000", "eda080 edb080"),
        ("\U0010ffff", "edafbf edbfbf"),
        ("aé日😀z", "61 c3a9 e697a5 eda0bd edb880 7a"),
        ("é日", "c3a9 e697a5"),
        ("\uffff", "efbfbf"),
        ("\ud83d", "eda0bd"),
        ("\ud83d😀", "eda0bd eda0bd edb880"),
        ("", ""),
    ],
    ids=ascii,
)
def test_characters_above_the_16_bit_range_are_written_as_cesu_8(text: str, encoded: str) -> None:
    # wire.md section 2: the Java writer encodes each UTF-16 code unit on its own
    assert encode_text(text) == bytes.fromhex(encoded)


@given(st.text())
def test_text_is_written_one_utf_16_code_unit_at_a_time(text: str) -> None:
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    assert encode_text(text) == b"".join(chr(unit).encode("utf-8", "surrogatepass") for unit in units)


@pytest.mark.parametrize("text", ["😀", "a😀", "日" * 50 + "😀"])
def test_lengths_count_the_bytes_that_are_written(text: str) -> None:
    encoded = r.SyncRequest(text).encode()
    assert struct.unpack_from(">i", encoded)[0] == len(encoded) - 4
    encoded = r.GetEphemeralsResponse((text,)).encode()
    assert struct.unpack_from(">ii", encoded) == (1, len(encoded) - 8)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b"\xff", "\ufffd"),
        (b"a\xc3", "a\ufffd"),
        (b"\xc3(", "\ufffd("),
        ("😀".encode(), "😀"),
        (b"\x80\x80", "\ufffd\ufffd"),
        (b"\xed\xa0\x80a", "\ufffda"),  # a surrogate
        (b"\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd"),
        (b"\xed\xa0(", "\ufffd("),
        (b"\xed\xbf", "\ufffd"),
        (b"\xed", "\ufffd"),
        (b"\xed(", "\ufffd("),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_malformed_utf_8_is_read_with_replacement_characters(encoded: bytes, text: str) -> None:
    # wire.md section 2
    packed = struct.pack(">i", len(encoded)) + encoded
    assert r.SyncRequest.decode(packed).path == text
    assert r.GetEphemeralsResponse.decode(struct.pack(">i", 1) + packed).ephemerals == (text,)


def test_cesu_8_is_read_as_malformed_and_so_never_becomes_a_valid_path() -> None:
    encoded = r.SyncRequest("😀").encode()
    assert set(r.SyncRequest.decode(encoded).path or "") == {"\ufffd"}
